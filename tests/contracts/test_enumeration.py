"""The enumeration of transcripts, checked against the mechanism's own probabilities."""

from fractions import Fraction
from itertools import product

from tests.contracts.enumeration import (
    Extremes,
    System,
    Transcript,
    Turn,
    extremes,
    one_turn,
)
from tests.contracts.scenarios import SCENARIOS
from tests.fakes.in_memory_rows import Contents
from tests.fakes.small_policies import FOOD, HEALTH, MEALS, figure_two

from tactful_core.interface import Ports, Release
from tactful_core.layout import Promises
from tactful_core.scoring import Evidence, scores_from
from tactful_core.selection import Exponential
from tactful_core.values import Position, Secret, Units

FOOD_TURN = Turn(MEALS, "budget", (FOOD,))
SPEAKS_FOR_LOW_SUGAR: Contents = {Position(2): "low_sugar"}


def expected_chances(promises: Promises, votes: tuple[float, float, float]) -> list[Fraction]:
    """Eq. 7 for a question about `budget` and rows with these votes, not by enumeration."""
    evidence = Evidence((0.0, 0.0, 1.0), Secret(votes), Secret(votes))
    epsilon = Units(promises.layout.attributes[0].cap // promises.charges_per_cap)
    weights = Exponential(epsilon).weights(scores_from(evidence))
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


def test_probabilities_of_each_length_sum_to_one_under_one_store() -> None:
    for scenario in SCENARIOS:
        tree = extremes(System(), scenario.strategy, ({},), scenario.promises, scenario.turns)
        for length in range(1, scenario.turns + 1):
            of_length = [found for transcript, found in tree.items() if len(transcript) == length]
            assert sum(found.highest for found in of_length) == 1
            assert all(found.highest == found.lowest for found in of_length)


def test_extremes_are_those_of_the_best_write_strategies() -> None:
    """The product of extremes over turns is reached by a strategy, and none goes beyond it."""
    promises = figure_two()
    stores: tuple[Contents, ...] = ({}, SPEAKS_FOR_LOW_SUGAR, {Position(2): "budget generic"})

    def always_food(history: Transcript) -> Turn:
        return FOOD_TURN

    tree = extremes(System(), always_food, stores, promises, 2)
    by_hand: dict[Transcript, list[Fraction]] = {}
    for first, second in product(stores, repeat=2):
        for seen, chance in one_turn(System(), FOOD_TURN, (), promises, first).items():
            after = one_turn(System(), FOOD_TURN, (seen,), promises, second)
            for then, next_chance in after.items():
                by_hand.setdefault((seen, then), []).append(chance * next_chance)
    assert by_hand
    for transcript, chances in by_hand.items():
        assert tree[transcript] == Extremes(max(chances), min(chances))


def test_what_a_turn_raises_is_part_of_what_is_seen() -> None:
    async def fails(
        turn: Turn, history: Transcript, promises: Promises, ports: Ports
    ) -> tuple[Release, ...]:
        raise ValueError("row 2 holds low_sugar")

    (seen,) = one_turn(System(run_turn=fails), FOOD_TURN, (), figure_two(), {})
    assert seen.failure == "ValueError: row 2 holds low_sugar"
