"""The sampler with the system's randomness, against the exact probabilities: a backstop.

Exact enumeration (`tests.contracts`, `test_selection`) shows that the sampler's distribution is
right for uniform tickets; what it cannot show is that tickets *are* uniform. So this draws.

Power, with N = 300,000 draws from four views at ε = 2, one of them favoured by all contents:

- the number of times that the favoured view is drawn is normal to within N^-1/2, with a deviation
  of 1 where the exact probability is right. If ε were wrong by 10 %, its mean would be off by more
  than 9 deviations (`test_power_is_what_the_docstring_says` computes 26);
- it is rejected beyond 6.5 deviations, the chi-square statistic of all four views beyond its
  quantile for 10^-10. A right sampler fails with probability below 10^-9, so this test does not
  fail by chance; a sampler with ε wrong by 10 % passes with probability below 10^-80.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

import pytest
from tests.fakes.real_numbers import chi_square_tail, normal_tail

from tactful_core.sampling import SystemRandomness
from tactful_core.scoring import PRIVATE_RANGE, Scores
from tactful_core.selection import Exponential
from tactful_core.values import Secret, Units, units_from_epsilon

DRAWS = 300_000
EPSILON = units_from_epsilon(2)
SCORES = Scores(public=(20, 0, 0, 40), private=Secret((0, PRIVATE_RANGE, 0, 0)))
FAVOURED = 1

MOST_DEVIATIONS = 6.5
LEAST_CHI_SQUARE_TAIL = 1e-10


def draw_counts(epsilon: Units) -> list[int]:
    """How often each view was drawn."""
    mechanism, randomness = Exponential(epsilon), SystemRandomness()
    counts = Counter(mechanism.select(SCORES, randomness) for _ in range(DRAWS))
    return [counts[view] for view in range(len(SCORES.public))]


def deviations(observed: Fraction, expected: Fraction) -> float:
    """How far a share of `DRAWS` lies from an exact probability, in standard deviations."""
    return float(observed - expected) * sqrt(DRAWS / float(expected * (1 - expected)))


def objections(counts: Sequence[int], probabilities: Sequence[Fraction]) -> list[str]:
    """What a count of draws has against these probabilities; nothing where they fit."""
    off = deviations(Fraction(counts[FAVOURED], DRAWS), probabilities[FAVOURED])
    statistic = sum(
        float((count - DRAWS * chance) ** 2 / (DRAWS * chance))
        for count, chance in zip(counts, probabilities, strict=True)
    )
    tail = chi_square_tail(statistic, freedom=len(counts) - 1)
    return [
        *([f"the favoured view is {off:.1f} deviations off"] if abs(off) > MOST_DEVIATIONS else []),
        *([f"a chi-square tail of {tail:.2g}"] if tail < LEAST_CHI_SQUARE_TAIL else []),
    ]


def scaled(percent: int) -> Units:
    return Units(EPSILON * percent // 100)


def test_draws_fit_the_exact_probabilities() -> None:
    expected = Exponential(EPSILON).distribution(SCORES)
    assert objections(draw_counts(EPSILON), expected) == []


@pytest.mark.parametrize("percent", [90, 110])
def test_draws_with_a_wrong_epsilon_are_rejected_twice(percent: int) -> None:
    """The control: the same test fails where ε is off by 10 %, by either statistic."""
    expected = Exponential(EPSILON).distribution(SCORES)
    assert len(objections(draw_counts(scaled(percent)), expected)) == 2


@pytest.mark.parametrize(("percent", "least"), [(90, 26), (110, 26)])
def test_power_is_what_the_docstring_says(percent: int, least: int) -> None:
    right = Exponential(EPSILON).distribution(SCORES)[FAVOURED]
    wrong = Exponential(scaled(percent)).distribution(SCORES)[FAVOURED]
    assert abs(deviations(wrong, right)) > least >= 9 + MOST_DEVIATIONS


def test_false_alarms_are_rarer_than_one_in_a_billion() -> None:
    assert normal_tail(MOST_DEVIATIONS) + LEAST_CHI_SQUARE_TAIL < 1e-9
