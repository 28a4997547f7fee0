"""The enumeration of transcripts, checked against the mechanism's own probabilities."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from tests.contracts.charge_store import charge_for, view_for
from tests.contracts.enumeration import (
    Course,
    Extremes,
    OwnerAct,
    System,
    Transcript,
    Turn,
    extremes,
    one_turn,
    renumbered,
)
from tests.contracts.scenarios import MATRIX, SCENARIOS, Scenario
from tests.fakes.in_memory_charges import FIRST_EPOCH, numbered_id
from tests.fakes.in_memory_rows import Contents
from tests.fakes.small_policies import FOOD, HEALTH, MEALS, figure_two

from tactful_core.allocation import Online
from tactful_core.entries import Charge, EpochOpened, ViewReleased
from tactful_core.interface import Ports, Release
from tactful_core.promises import Promises
from tactful_core.scoring import Evidence, scores_from
from tactful_core.selection import Exponential
from tactful_core.values import Position, Secret, Units

FOOD_TURN = Turn(MEALS, "budget", (FOOD,))
SPEAKS_FOR_LOW_SUGAR: Contents = {Position(2): "low_sugar"}


def always_food(history: Transcript) -> Turn:
    return FOOD_TURN


def expected_chances(promises: Promises, votes: tuple[float, float, float]) -> list[Fraction]:
    """Eq. 7 for a question about `budget` and rows with these votes, not by enumeration."""
    scores = scores_from((0.0, 0.0, 1.0), Evidence(Secret(votes), Secret(votes)))
    epsilon = Units(promises.layout.attributes[0].cap // 3)
    weights = Exponential(epsilon).weights(scores)
    return [Fraction(weight, sum(weights)) for weight in weights]


def test_one_turn_has_the_probabilities_of_the_mechanism() -> None:
    promises = figure_two()
    found = one_turn(System(), FOOD_TURN, (), promises, SPEAKS_FOR_LOW_SUGAR)
    views = [view.name for view in promises.layout.slot(FOOD).vocabulary]
    chances = {seen.releases[0].view.name: chance for seen, chance in found.items()}
    assert [chances[view] for view in views] == expected_chances(promises, (0.0, 1.0, 0.0))


def test_two_slots_a_turn_multiply() -> None:
    promises = figure_two()
    both = one_turn(System(), Turn(MEALS, "budget", (FOOD, HEALTH)), (), promises, {})
    assert len(both) == 9
    assert sum(both.values()) == 1


@pytest.mark.parametrize("scenario", [*SCENARIOS, *MATRIX[::3]], ids=lambda s: s.name)
def test_probabilities_of_each_length_sum_to_one_under_one_store(scenario: Scenario) -> None:
    tree = extremes(System(), scenario.course, ({},))
    for length in range(1, scenario.course.turns + 1):
        of_length = [found for transcript, found in tree.items() if len(transcript) == length]
        assert sum(found.whole.highest for found in of_length) == 1
        assert all(found.whole.highest == found.whole.lowest for found in of_length)


def test_extremes_are_those_of_the_best_write_strategies() -> None:
    """The product of extremes over turns is reached by a strategy, and none goes beyond it."""
    promises = figure_two()
    stores: tuple[Contents, ...] = ({}, SPEAKS_FOR_LOW_SUGAR, {Position(2): "budget generic"})
    tree = extremes(System(), Course(promises, always_food, turns=2), stores)
    by_hand: dict[Transcript, list[Fraction]] = {}
    for first, second in product(stores, repeat=2):
        for seen, chance in one_turn(System(), FOOD_TURN, (), promises, first).items():
            after = one_turn(System(), FOOD_TURN, (seen,), promises, second)
            for then, next_chance in after.items():
                by_hand.setdefault((seen, then), []).append(chance * next_chance)
    assert by_hand
    for transcript, chances in by_hand.items():
        assert tree[transcript].whole == Extremes(max(chances), min(chances))
        assert tree[transcript].epoch == tree[transcript].whole


def test_equal_ledgers_are_looked_at_once_and_that_changes_nothing() -> None:
    """The short cut for Algorithm 1 against the same turns taken one history at a time."""

    async def same(
        turn: Turn, history: Transcript, promises: Promises, ports: Ports
    ) -> tuple[Release, ...]:
        return await System().run_turn(turn, history, promises, ports)

    course = Course(figure_two(), always_food, turns=3)
    stores: tuple[Contents, ...] = ({}, SPEAKS_FOR_LOW_SUGAR)
    slow = System(run_turn=same)
    assert not slow.knows_history_by_entries
    assert extremes(slow, course, stores) == extremes(System(), course, stores)


def test_a_new_epoch_starts_its_extremes_anew() -> None:
    stores: tuple[Contents, ...] = ({}, SPEAKS_FOR_LOW_SUGAR)
    plain = Course(figure_two(), always_food, turns=2)
    renewed = replace(plain, acts={1: OwnerAct(new_epoch=True)})
    tree = extremes(System(), renewed, stores)
    alone = extremes(System(), replace(plain, turns=1), stores)
    by_view = {t[0].releases[0].view: found.whole for t, found in alone.items()}
    for transcript, found in tree.items():
        last = by_view[transcript[-1].releases[0].view]
        if len(transcript) == 2:
            assert found.epoch == last
            assert found.whole == by_view[transcript[0].releases[0].view].then(last)
            assert EpochOpened(numbered_id(3), 2, 0) in transcript[1].entries


def test_another_policy_holds_from_the_turn_of_the_act_on() -> None:
    dear = figure_two(allocation=Online(1))
    acts = {1: OwnerAct(promises=dear), 3: OwnerAct(new_epoch=True)}
    course = Course(figure_two(), always_food, acts=acts)
    assert [course.promises_at(turn) for turn in range(4)] == [figure_two(), dear, dear, dear]
    assert [course.opens_epoch(turn) for turn in range(4)] == [False, False, False, True]


def test_what_a_turn_raises_is_part_of_what_is_seen() -> None:
    async def fails(
        turn: Turn, history: Transcript, promises: Promises, ports: Ports
    ) -> tuple[Release, ...]:
        raise ValueError("row 2 holds low_sugar")

    (seen,) = one_turn(System(run_turn=fails), FOOD_TURN, (), figure_two(), {})
    assert seen.failure == "ValueError: row 2 holds low_sugar"


def test_ids_become_numbers_and_views_still_name_what_paid_for_them() -> None:
    charge = charge_for(FOOD)
    paid, unpaid = view_for(charge), view_for(charge_for(FOOD))
    _, first, second, third = renumbered((*FIRST_EPOCH, charge, paid, unpaid))
    assert isinstance(first, Charge)
    assert isinstance(second, ViewReleased)
    assert isinstance(third, ViewReleased)
    assert [e.id for e in (first, second, third)] == [numbered_id(n) for n in (2, 3, 4)]
    assert second.charge == first.id
    assert third.charge not in {first.id, second.id, third.id}
    assert replace(first, id=charge.id) == charge
