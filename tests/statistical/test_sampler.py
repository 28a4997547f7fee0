"""Every mechanism with the system's randomness, against its exact probabilities: a backstop.

Exact enumeration (`tests.contracts`, `test_selection`) shows that each distribution is right for
uniform tickets; what it cannot show is that tickets *are* uniform. So this draws: 300,000 times
from four views at ε = 2, one of them favoured by all contents (`fit` says how that is judged).
"""

from collections import Counter
from collections.abc import Callable

import pytest
from tests.contracts.findings import FINDING
from tests.statistical.fit import LEAST_POWER, MOST_DEVIATIONS, Fit, fit, power

from tactful_core.entries import Mechanism
from tactful_core.sampling import SystemRandomness
from tactful_core.scoring import PRIVATE_RANGE, Scores
from tactful_core.selection import SelectionMechanism
from tactful_core.standing import mechanism_of
from tactful_core.values import Secret, Units, units_from_epsilon

DRAWS = 300_000
EPSILON = units_from_epsilon(2)
SCORES = Scores(public=(20, 0, 0, 40), private=Secret((0, PRIVATE_RANGE, 0, 0)))
FAVOURED = 1

Record = Callable[[str, object], None]
every_mechanism = pytest.mark.parametrize("mechanism", Mechanism)


def made(mechanism: Mechanism, percent: int = 100) -> SelectionMechanism:
    """The mechanism with its ε scaled."""
    return mechanism_of(mechanism, Units(EPSILON * percent // 100), len(SCORES.public))


def drawn(selection: SelectionMechanism) -> list[int]:
    """How often each view was drawn."""
    randomness = SystemRandomness()
    counts = Counter(selection.select(SCORES, randomness) for _ in range(DRAWS))
    return [counts[view] for view in range(len(SCORES.public))]


def compared(counts: list[int], selection: SelectionMechanism) -> Fit:
    chances = selection.distribution(SCORES)
    return fit(counts, chances, counts[FAVOURED], sum(counts), chances[FAVOURED])


def least_power(mechanism: Mechanism) -> float:
    """By how many deviations an ε that is 10 % too small or too large would be off."""
    right = made(mechanism).distribution(SCORES)[FAVOURED]
    wrong = [made(mechanism, percent).distribution(SCORES)[FAVOURED] for percent in (90, 110)]
    return min(power(right, chance, DRAWS) for chance in wrong)


@every_mechanism
def test_draws_fit_the_exact_probabilities(mechanism: Mechanism, record_property: Record) -> None:
    strength = least_power(mechanism)
    assert strength >= LEAST_POWER + MOST_DEVIATIONS
    found = compared(drawn(made(mechanism)), made(mechanism))
    record_property(FINDING, f"{mechanism}: {DRAWS} draws, {strength:.1f} sigma; {found}")
    assert found.objections == []


@every_mechanism
@pytest.mark.parametrize("percent", [90, 110])
def test_what_a_wrong_epsilon_draws_on_average_is_rejected_twice(
    mechanism: Mechanism, percent: int
) -> None:
    wrong = made(mechanism, percent).distribution(SCORES)
    counts = [round(DRAWS * chance) for chance in wrong]
    assert len(compared(counts, made(mechanism)).objections) == 2


def test_draws_with_a_wrong_epsilon_are_rejected_twice() -> None:
    """The control with real draws, for the mechanism of the paper."""
    counts = drawn(made(Mechanism.EXPONENTIAL, percent=110))
    assert len(compared(counts, made(Mechanism.EXPONENTIAL)).objections) == 2
