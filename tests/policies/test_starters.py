"""The starter policies: they load, and they promise what their comments say."""

import math
import re

import pytest
from pydantic import BaseModel

from tactful_core.allocation import Online, Standing
from tactful_core.entries import Mechanism
from tactful_core.promises import Promises, Renewal
from tactful_core.values import (
    AppId,
    AttributeName,
    Position,
    SlotName,
    epsilon_of,
    units_from_epsilon,
)
from tactful_policies import STARTERS, starter_text
from tactfuld.policy import document
from tactfuld.policy.document import ALLOCATION_KEYS
from tactfuld.policy.loading import parse_policy

TO_LIVE_WITH = ("everyday", "strict", "health-aware")
PLAIN = (*TO_LIVE_WITH, "demo")
PROTECTED = ["diabetes", "pregnancy", "debt", "job_loss", "mental_health", "separation"]


def promises(name: str) -> Promises:
    return parse_policy(starter_text(name), source=f"{name}.yaml")


@pytest.fixture
def demo() -> Promises:
    return promises("demo")


def draws_right(name: str) -> dict[str, int]:
    """For how many owners in a hundred a topic draws the better of two groups of views."""
    policy = promises(name)
    epsilons = {slot.name: epsilon_of(policy.epsilon(slot)) for slot in policy.layout.slots}
    return {slot: round(100 / (1 + math.exp(-epsilon))) for slot, epsilon in epsilons.items()}


def test_an_unknown_starter_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(
        ValueError, match="no starter policy named none; there are everyday, strict, "
    ):
        starter_text("none")


def test_the_demo_charges_a_third_of_a_cap_by_the_papers_mechanism() -> None:
    assert promises("demo").allocation == Online(3)
    assert promises("demo").mechanism == Mechanism.EXPONENTIAL


@pytest.mark.parametrize("name", TO_LIVE_WITH)
def test_a_policy_to_live_with_draws_once_for_each_topic(name: str) -> None:
    policy = promises(name)
    assert isinstance(policy.allocation, Standing)
    assert (policy.allocation.candidates, policy.allocation.releases) == (2, 1)
    assert policy.mechanism == Mechanism.RANDOMIZED_RESPONSE


@pytest.mark.parametrize("name", PLAIN)
def test_starters_have_the_caps_that_they_say(name: str) -> None:
    cap = "1.0" if name == "strict" else "2.0"
    assert {a.cap for a in promises(name).layout.attributes} == {units_from_epsilon(cap)}


@pytest.mark.parametrize("name", PLAIN)
def test_every_shelf_of_a_starter_is_protected(name: str) -> None:
    layout = promises(name).layout
    assert not any(shelf.unprotected for shelf in layout.shelves)
    assert all(layout.covering(Position(i)) for i in range(1, layout.size + 1))


@pytest.mark.parametrize("name", STARTERS)
def test_every_view_of_a_starter_has_statements_and_questions_to_score_by(name: str) -> None:
    for slot in promises(name).layout.slots:
        for view in slot.vocabulary[1:]:
            assert 2 <= len(view.supports) <= 4, view.name
            assert 2 <= len(view.examples) <= 4, view.name
            assert all(example.endswith("?") for example in view.examples), view.name


@pytest.mark.parametrize("name", STARTERS)
def test_views_tell_how_to_answer_and_state_no_fact(name: str) -> None:
    """Guidance reaches the model and, in its answers, the app: it must not name an attribute."""
    facts = ("diabet", "pregnan", "debt", "depress", "therap", "divorce", "separat", "laid off")
    for slot in promises(name).layout.slots:
        for view in slot.vocabulary:
            assert not [fact for fact in facts if fact in view.guidance.lower()], view.name


def test_the_demo_has_the_positions_of_figure_2(demo: Promises) -> None:
    assert [slot.name for slot in demo.layout.slots] == ["health", "food", "finance"]
    assert [(shelf.name, *shelf.positions) for shelf in demo.layout.shelves] == [
        ("health.condition", 1),
        ("food.diet", 2),
        ("food.groceries", 3),
        ("finance.accounts", 4),
        ("finance.bills", 5),
    ]


def test_the_demo_has_the_index_sets_of_figure_2(demo: Promises) -> None:
    assert demo.layout.attribute(AttributeName("diabetes")).positions == {1, 2, 3}
    assert demo.layout.attribute(AttributeName("debt")).positions == {3, 4, 5}


@pytest.mark.parametrize(
    ("slot", "charged"),
    [("health", {"diabetes"}), ("food", {"diabetes", "debt"}), ("finance", {"debt"})],
)
def test_the_demo_charges_as_in_figure_2(demo: Promises, slot: str, charged: set[str]) -> None:
    read_set = demo.layout.slot(SlotName(slot)).positions
    assert demo.layout.required_charge_set(read_set) == charged


def test_the_demo_lets_meals_ask_about_all_three_slots(demo: Promises) -> None:
    grant = demo.grant(AppId("meals"))
    assert grant is not None
    assert grant.slots == {"health", "food", "finance"}


@pytest.mark.parametrize("name", TO_LIVE_WITH)
def test_a_policy_to_live_with_has_room_for_the_memories_that_it_says(name: str) -> None:
    size = promises(name).layout.size
    assert size >= 500
    assert f"room for {size} memories" in starter_text(name)


@pytest.mark.parametrize("name", TO_LIVE_WITH)
def test_all_policies_to_live_with_protect_the_same_for_everybody(name: str) -> None:
    assert [a.name for a in promises(name).layout.attributes] == PROTECTED


@pytest.mark.parametrize("name", TO_LIVE_WITH)
def test_a_policy_to_live_with_has_four_to_six_views_in_each_of_six_slots(name: str) -> None:
    slots = promises(name).layout.slots
    assert len(slots) == 6
    assert all(4 <= len(slot.vocabulary) <= 6 for slot in slots)


@pytest.mark.parametrize(
    ("name", "granted"),
    [("everyday", {"food", "finance", "health"}), ("health-aware", {"food", "health"})],
)
def test_a_policy_to_live_with_grants_the_example_app_only(name: str, granted: set[str]) -> None:
    (grant,) = promises(name).grants
    assert grant.app == "meals"
    assert grant.slots == granted


def test_every_starter_is_looked_at() -> None:
    assert set(STARTERS) == {*PLAIN, "tutorial"}


def keys_of_the_format() -> set[str]:
    models = [
        m for m in vars(document).values() if isinstance(m, type) and issubclass(m, BaseModel)
    ]
    return {name for model in models for name in model.model_fields}


@pytest.mark.parametrize("key", sorted(keys_of_the_format()))
def test_the_tutorial_shows_every_key(key: str) -> None:
    assert re.search(rf"(^|[ {{]){key}:", starter_text("tutorial"), re.MULTILINE)


@pytest.mark.parametrize("word", [*ALLOCATION_KEYS, *Mechanism, *Renewal])
def test_the_tutorial_names_every_rule_mechanism_and_renewal(word: str) -> None:
    assert word in starter_text("tutorial")


@pytest.mark.parametrize(
    "written",
    ["{mode: online, charges_per_cap: 3}", "{mode: preallocated, planned: 3}"],
)
def test_the_rules_in_comments_of_the_tutorial_can_be_taken_instead(written: str) -> None:
    text = starter_text("tutorial")
    assert f"#   allocation: {written} " in text
    head, _, rest = text.partition("allocation:\n  mode: standing")
    _, _, tail = rest.partition("# ---- what is remembered")
    policy = parse_policy(f"{head}allocation: {written}\n# {tail}", source="tutorial.yaml")
    assert not isinstance(policy.allocation, Standing)


def test_the_tutorial_does_what_its_comments_say() -> None:
    policy = promises("tutorial")
    food, work, radio = policy.layout.slots
    shopping = food.reading(food.reads[0].shelves)
    assert policy.charge_set(shopping) == {"diabetes", "debt", "job_loss"}
    assert policy.charge_set(work) == {"debt", "job_loss"}
    assert policy.layout.is_unprotected(radio.positions)
    assert policy.epochs.renewal == Renewal.MONTHLY


def test_the_strict_policy_grants_nobody_anything_until_its_example_is_taken_out() -> None:
    assert promises("strict").grants == ()
    text = starter_text("strict").replace("\n#  meals:", "\n  meals:")
    (grant,) = parse_policy(text, source="strict.yaml").grants
    assert grant.slots == {"food"}
    assert grant.quota == {"debt": units_from_epsilon("0.25")}


def test_the_strict_policy_covers_every_shelf_with_every_attribute() -> None:
    layout = promises("strict").layout
    assert all(len(attribute.positions) == layout.size for attribute in layout.attributes)


def test_the_strict_policy_remembers_and_answers_as_the_everyday_one_does() -> None:
    strict, everyday = promises("strict").layout, promises("everyday").layout
    assert strict.slots == everyday.slots


def test_topics_draw_right_as_often_as_the_comments_say() -> None:
    assert set(draws_right("everyday").values()) == {58}
    assert "seven owners in twelve" in starter_text("everyday")
    assert set(draws_right("strict").values()) == {54}
    assert "54 of 100" in starter_text("strict")
    of_health = draws_right("health-aware")
    assert list(of_health.values()) == [64, 64, 58, 58, 53, 53]
    assert (
        "for 64 of\n# 100 owners, movement and mind for 58, money and home for 53"
        in starter_text("health-aware")
    )
