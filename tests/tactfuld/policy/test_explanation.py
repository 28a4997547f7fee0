"""What `policy explain` says of a slot: who pays what for a read, how often, and how good it is."""

from __future__ import annotations

import pytest
from tests.tactfuld.policy.variants import policy

from tactful_core.promises import Promises
from tactful_core.standing import release_mechanism
from tactful_core.values import AppId, ShelfName, SlotName
from tactful_policies import starter_text
from tactfuld.policy.explanation import Explained, Payer, explained
from tactfuld.policy.loading import parse_policy
from tactfuld.policy.promises import promises_of

MEALS = AppId("meals")


def everyday(old: str = "", new: str = "") -> Promises:
    text = starter_text("everyday")
    assert old in text
    return parse_policy(text.replace(old, new) if old else text, source="")


def about_food(promises: Promises) -> Explained:
    return explained(promises, MEALS, promises.layout.slot(SlotName("food")))


def test_a_draw_of_the_demo_costs_a_third_of_the_smallest_cap_three_times() -> None:
    told = about_food(parse_policy(starter_text("demo"), source=""))
    assert (told.slot, told.positions) == ("food", 2)
    assert told.shelves == ("food.diet", "food.groceries")
    assert told.generic == "Suggest a simple meal such as pasta or soup."
    release = told.release
    assert release is not None
    assert release.payers == (Payer("diabetes", 2.0), Payer("debt", 2.0))
    assert (round(release.epsilon, 3), release.most, release.lasting) == (0.667, 3, False)


def test_standing_draws_once_with_the_odds_of_its_share() -> None:
    promises = everyday()
    release = about_food(promises).release
    assert release is not None
    assert (release.most, release.lasting, release.candidates) == (1, True, 2)
    mechanism = release_mechanism(promises, promises.layout.slot(SlotName("food")))
    odds = mechanism.worst_likelihood_ratio((0, 0))
    assert release.right == pytest.approx(float(odds / (odds + 1)))
    assert release.right > 0.5


def test_a_larger_cap_draws_right_more_often() -> None:
    small, large = about_food(everyday()), about_food(everyday("cap: 2.0", "cap: 6.0"))
    assert small.release is not None
    assert large.release is not None
    assert large.release.right > small.release.right
    assert large.release.epsilon > small.release.epsilon


def test_a_read_rule_narrows_who_pays() -> None:
    promises = parse_policy(starter_text("demo"), source="")
    slot = promises.layout.slot(SlotName("food")).reading({ShelfName("food.diet")})
    told = explained(promises, MEALS, slot)
    assert told.shelves == ("food.diet",)
    assert told.release is not None
    assert [payer.attribute for payer in told.release.payers] == ["diabetes"]


def test_the_quota_of_the_app_limits_how_often() -> None:
    promises = promises_of(policy(meals="meals: {slots: [food], quota: {diabetes: 0.5}}"))
    release = about_food(promises).release
    assert release is not None
    assert 0.25 < release.epsilon <= 0.5
    assert release.most == 1


def test_nothing_is_drawn_where_nothing_is_protected() -> None:
    promises = promises_of(policy(implied="[food]", seen=", unprotected: true"))
    told = explained(promises, MEALS, promises.layout.slot(SlotName("news")))
    assert (told.unprotected, told.release) == (True, None)
