"""The starter policies: they load, and they promise what their comments say."""

import pytest

from tactful_core.allocation import Online, Standing
from tactful_core.entries import Mechanism
from tactful_core.promises import Promises
from tactful_core.values import AppId, AttributeName, Position, SlotName, units_from_epsilon
from tactful_policies import STARTERS, starter_text
from tactfuld.policy.loading import parse_policy


def promises(name: str) -> Promises:
    return parse_policy(starter_text(name), source=f"{name}.yaml")


@pytest.fixture
def demo() -> Promises:
    return promises("demo")


@pytest.fixture
def everyday() -> Promises:
    return promises("everyday")


def test_an_unknown_starter_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="no starter policy named strict; choose everyday or demo"):
        starter_text("strict")


def test_the_demo_charges_a_third_of_a_cap_by_the_papers_mechanism() -> None:
    assert promises("demo").allocation == Online(3)
    assert promises("demo").mechanism == Mechanism.EXPONENTIAL


def test_the_everyday_policy_draws_once_for_each_topic(everyday: Promises) -> None:
    assert everyday.allocation == Standing(candidates=2)
    assert everyday.mechanism == Mechanism.RANDOMIZED_RESPONSE


@pytest.mark.parametrize("name", STARTERS)
def test_starters_have_caps_of_two(name: str) -> None:
    assert {a.cap for a in promises(name).layout.attributes} == {units_from_epsilon("2.0")}


@pytest.mark.parametrize("name", STARTERS)
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


def test_the_everyday_policy_has_room_for_the_memories_that_it_says(everyday: Promises) -> None:
    assert everyday.layout.size == 256
    assert "room for 256 memories" in starter_text("everyday")


def test_the_everyday_policy_protects_what_is_common(everyday: Promises) -> None:
    assert [a.name for a in everyday.layout.attributes] == [
        "diabetes", "pregnancy", "debt", "job_loss", "mental_health", "separation",
    ]  # fmt: skip


def test_the_everyday_policy_has_four_to_six_views_in_each_of_six_slots(everyday: Promises) -> None:
    assert len(everyday.layout.slots) == 6
    assert all(4 <= len(slot.vocabulary) <= 6 for slot in everyday.layout.slots)


def test_the_everyday_policy_grants_the_example_app_only(everyday: Promises) -> None:
    (grant,) = everyday.grants
    assert grant.app == "meals"
    assert grant.slots == {"food", "finance", "health"}
