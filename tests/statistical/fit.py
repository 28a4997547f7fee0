"""How well counts fit exact probabilities, and how surely a wrong ε would be noticed.

Two statistics for counts over cells with known chances:

- the number of favoured draws, in deviations of the exact binomial: normal to within N^-1/2;
- the chi-square statistic of all cells.

Counts are rejected beyond `MOST_DEVIATIONS` or beyond the quantile for `LEAST_TAIL`. Right counts
fail with probability below 10^-9, so a failure is no accident. Before any draw, `power` says by how
many deviations the mean would be off if ε were wrong: it has to be 9 more than the threshold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, sqrt

from tests.fakes.real_numbers import chi_square_tail

MOST_DEVIATIONS = 6.5
LEAST_TAIL = 1e-10
LEAST_POWER = 9


@dataclass(frozen=True, slots=True)
class Fit:
    """What counts have to say for or against exact probabilities."""

    deviations: float
    tail: float

    @property
    def objections(self) -> list[str]:
        """Empty where the counts fit."""
        off = abs(self.deviations) > MOST_DEVIATIONS
        far = self.tail < LEAST_TAIL
        return [
            *([f"the favoured view is {self.deviations:+.1f} deviations off"] if off else []),
            *([f"the chi-square tail is {self.tail:.2g}"] if far else []),
        ]

    def __str__(self) -> str:
        return f"found {self.deviations:+.2f} sigma, chi-square tail {self.tail:.2g}"


def fit(
    cells: Sequence[int], chances: Sequence[Fraction], favoured: int, draws: int, chance: Fraction
) -> Fit:
    """Compares counts over cells with their chances, and the favoured draws with theirs.

    Args:
        favoured, draws, chance: so many of so many draws were favoured, each with this chance.
    """
    total = sum(cells)
    statistic = sum(
        float((count - total * part) ** 2 / (total * part))
        for count, part in zip(cells, chances, strict=True)
    )
    return Fit(
        deviations=_deviations(Fraction(favoured, draws), chance, draws),
        tail=chi_square_tail(statistic, freedom=len(cells) - 1),
    )


def power(right: Fraction, wrong: Fraction, draws: int) -> float:
    """By how many deviations the mean is off if the chance is `wrong` instead of `right`."""
    return abs(_deviations(wrong, right, draws))


def binomial(count: int, chance: Fraction) -> tuple[Fraction, ...]:
    """The exact chances of 0 to `count` successes."""
    return tuple(comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(count + 1))


def _deviations(share: Fraction, chance: Fraction, draws: int) -> float:
    return float(share - chance) * sqrt(draws / float(chance * (1 - chance)))
