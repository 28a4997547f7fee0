"""What `policy diff` says: every change, its direction, and the moment from which it holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.tactfuld.policy.variants import BASE, PARTS, policies, policy

from tactful_policies import STARTERS, starter_text
from tactfuld.policy.comparison import Direction, Moment, changes
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import parse_document
from tactfuld.policy.promises import digest_of
from tactfuld.policy.staging import differing

OTHER_WAY = {
    Direction.TIGHTER: Direction.LOOSER,
    Direction.LOOSER: Direction.TIGHTER,
    Direction.OTHER: Direction.OTHER,
}


def is_accepted(parts: dict[str, str]) -> bool:
    try:
        policy(**parts)
    except PolicyError:
        return False
    return True


def told(**parts: str) -> dict[str, tuple[str, str]]:
    """Direction and moment by key, of what these parts change in `BASE`."""
    found = changes(BASE, policy(**parts))
    assert len({each.key for each in found}) == len(found)
    return {each.key: (each.direction.value, each.when.value) for each in found}


@pytest.mark.parametrize("starter", STARTERS)
def test_a_policy_does_not_differ_from_itself(starter: str) -> None:
    text = starter_text(starter)
    assert changes(parse_document(text, source=""), parse_document(text, source="")) == ()


def test_every_written_difference_has_a_line() -> None:
    ways = [{name: way} for name, others in PARTS.items() for way in others[1:]]
    told = [changes(BASE, policy(**parts)) for parts in ways if is_accepted(parts)]
    assert len(told) > 25
    assert all(told)
    assert all(each.sentence.endswith(".") for found in told for each in found)


@given(old=policies(), new=policies())
@settings(max_examples=60, deadline=None)
def test_comparing_the_other_way_turns_every_direction_round(
    old: PolicyDocument, new: PolicyDocument
) -> None:
    there = {(each.key, each.direction) for each in changes(old, new)}
    back = {(each.key, OTHER_WAY[each.direction]) for each in changes(new, old)}
    assert there == back
    assert bool(there) == bool(differing(old, new))
    assert bool(there) == (digest_of(old) != digest_of(new))


@given(old=policies(), new=policies())
@settings(max_examples=60, deadline=None)
def test_only_apps_gain_anything_before_the_next_epoch(
    old: PolicyDocument, new: PolicyDocument
) -> None:
    for each in changes(old, new):
        if each.direction is Direction.LOOSER and each.when is not Moment.EPOCH:
            assert each.key.startswith("apps.") or each.when is Moment.NEVER
        if each.when is Moment.AT_ONCE:
            assert each.direction is Direction.TIGHTER


@pytest.mark.parametrize(
    ("parts", "key", "expected"),
    [
        ({"diabetes": "1.0"}, "attributes.diabetes.cap", ("tighter", "tick")),
        ({"diabetes": "3.0"}, "attributes.diabetes.cap", ("looser", "epoch")),
        ({"debt": ""}, "attributes.debt", ("looser", "epoch")),
        (
            {"debt": "debt: {cap: 1.5, implied_by: [food]}"},
            "attributes.debt.implied_by",
            ("tighter", "tick"),
        ),
        (
            {"implied": "[food]", "seen": ", unprotected: true"},
            "slots.news.shelves.seen.unprotected",
            ("looser", "epoch"),
        ),
        (
            {"implied": "[food.diet, news]"},
            "attributes.diabetes.implied_by",
            ("looser", "epoch"),
        ),
        ({"also": "[debt]"}, "slots.food.charge_also", ("tighter", "tick")),
        ({"renew": "manual"}, "epoch.renew", ("tighter", "tick")),
        ({"tick": "04:30"}, "epoch.tick", ("other", "tick")),
        ({"mechanism": "randomized_response"}, "selection.mechanism", ("other", "epoch")),
        (
            {"allocation": "mode: online, charges_per_cap: 2"},
            "allocation.charges_per_cap",
            ("other", "epoch"),
        ),
        ({"guidance": "Keep it cheap."}, "slots.food.views.cheap.guidance", ("other", "epoch")),
        ({"meals": ""}, "apps.meals", ("tighter", "at_once")),
        ({"guest": "guest: {slots: [food]}"}, "apps.guest", ("looser", "tick")),
        (
            {"meals": "meals: {slots: [food], quota: {diabetes: 0.5}}"},
            "apps.meals.quota.diabetes",
            ("tighter", "at_once"),
        ),
        (
            {"meals": "meals: {slots: [food, news], quota: {diabetes: 1.0}}"},
            "apps.meals.slots",
            ("looser", "tick"),
        ),
        ({"positions": "3"}, "slots.food.shelves.diet.positions", ("other", "other_shelves")),
    ],
)
def test_each_part_changes_in_its_direction_and_at_its_moment(
    parts: dict[str, str], key: str, expected: tuple[str, str]
) -> None:
    assert told(**parts)[key] == expected


def test_what_apps_lose_holds_at_once_even_with_other_shelves() -> None:
    found = told(positions="3", meals="")
    assert found["apps.meals"] == ("tighter", "at_once")
    assert found["slots.food.shelves.diet.positions"] == ("other", "other_shelves")
    assert told(positions="3", diabetes="1.0")["attributes.diabetes.cap"] == (
        "tighter",
        "other_shelves",
    )


def test_a_slot_and_all_of_its_shelves_are_the_same() -> None:
    named = {"implied": "[food.diet, food.groceries, news]"}
    assert changes(policy(**named), BASE) == ()


def test_an_order_that_counts_is_told() -> None:
    text = starter_text("demo")
    shelves = (
        "      diet: {positions: 1, tokens: 48}\n",
        "      groceries: {positions: 1, tokens: 48}\n",
    )
    moved = text.replace("".join(shelves), "".join(reversed(shelves)))
    (change,) = changes(parse_document(text, source=""), parse_document(moved, source=""))
    assert (change.key, change.when) == ("slots.food.shelves", Moment.NEVER)


def test_sentences_say_what_a_cap_means() -> None:
    (change,) = changes(BASE, policy(diabetes="1.0"))
    assert change.sentence == (
        "All apps together may spend ε 1.000 on diabetes in an epoch, not ε 2.000; a guess gains "
        "odds of at most ×2.8, not ×7.4."
    )


def test_what_is_gone_is_one_line_whatever_stood_below_it() -> None:
    (change,) = changes(BASE, policy(debt=""))
    assert change.sentence == "debt is not protected any more: nothing is promised about it."


PRIVACY = "privacy: {delta: 1.0e-5, planned_draws: 2000}"


def test_what_changes_in_fused_text_is_said_with_its_direction_and_moment() -> None:
    plain = policy(documents=PRIVACY)
    some = policy(documents=PRIVACY, diabetes="2.0, fusion: {epsilon: 4.0}")
    more = policy(documents=PRIVACY, diabetes="2.0, fusion: {epsilon: 8.0}")
    cases = [
        (
            plain,
            some,
            "looser",
            "epoch",
            "Text may be fused from what implies diabetes, at a price",
        ),
        (some, plain, "tighter", "tick", "No text is fused from what implies diabetes any more."),
        (some, more, "looser", "epoch", "Fused text may cost diabetes ε 8.000 in an epoch"),
        (more, some, "tighter", "tick", "Fused text may cost diabetes ε 4.000 in an epoch"),
    ]
    for old, new, direction, moment, sentence in cases:
        (change,) = changes(old, new)
        assert (change.direction.value, change.when.value) == (direction, moment)
        assert change.sentence.startswith(sentence)
