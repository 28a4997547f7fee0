"""The score of a view, on a grid: `u = 0.4 r + 0.4 c + 0.2 s` (DP-MemView §4, GUARANTEE §2).

Decides how three components in `[0, 1]` become whole numbers. What is *not* here: where the
components come from (`Scorer` in `interface`, implemented in `tactfuld`), and what is drawn from
them (`selection`).

Invariants:

- each component is clipped to `[0, 1]` and rounded to the grid *before* it is weighted, so a score
  is a whole number of `1 / SCORE_ONE` and the private part fills exactly `[0, PRIVATE_RANGE]`:
  the sensitivity is `Δu = 0.6` exactly and needs no added grid step;
- `r` (relevance) is public, `c` (compatibility) and `s` (specificity) are private;
- total: NaN and infinities are clipped as well, nothing here fails on a number (C2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tactful_core.errors import ContractError
from tactful_core.values import Secret

GRID = 256
"""Grid steps of one component."""

RELEVANCE_WEIGHT, COMPATIBILITY_WEIGHT, SPECIFICITY_WEIGHT = 2, 2, 1
"""0.4, 0.4 and 0.2 in fifths."""

SCORE_ONE = (RELEVANCE_WEIGHT + COMPATIBILITY_WEIGHT + SPECIFICITY_WEIGHT) * GRID
"""The whole number that stands for a score of 1."""

PRIVATE_RANGE = (COMPATIBILITY_WEIGHT + SPECIFICITY_WEIGHT) * GRID
"""The most that arbitrary contents can move one score, in steps of `1 / SCORE_ONE`."""

SENSITIVITY = Fraction(PRIVATE_RANGE, SCORE_ONE)
"""`Δu = 3/5`."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a scorer found for each view of a slot, each in `[0, 1]`, one number a view.

    Both are functions of the public vocabulary and of the read set's contents.
    """

    compatibility: Secret[tuple[float, ...]]
    specificity: Secret[tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of one slot's views in steps of `1 / SCORE_ONE`.

    Attributes:
        public: the relevance part, in `[0, SCORE_ONE - PRIVATE_RANGE]`.
        private: the part that depends on contents, in `[0, PRIVATE_RANGE]`.
    """

    public: tuple[int, ...]
    private: Secret[tuple[int, ...]]

    def of_contents(self) -> Scores:
        """The same without the public part."""
        return Scores(public=(0,) * len(self.public), private=self.private)

    def of_groups(self, groups: Sequence[Sequence[int]]) -> Scores:
        """The scores of groups of views, each that of its best one by contents.

        The public part is that of a group's first view; the private part stays within its range.
        """
        private = self.private.reveal()
        return Scores(
            public=tuple(self.public[group[0]] for group in groups),
            private=Secret(tuple(max(private[view] for view in group) for group in groups)),
        )

    def best(self) -> int:
        """The index of the highest score, the earliest of equals; not private by itself."""
        totals = [r + p for r, p in zip(self.public, self.private.reveal(), strict=True)]
        return totals.index(max(totals))


def to_grid(component: float) -> int:
    """A component clipped to `[0, 1]` and rounded to the grid; NaN counts as 0."""
    if math.isnan(component):
        return 0
    return round(min(1.0, max(0.0, component)) * GRID)


def scores_from(relevance: Sequence[float], evidence: Evidence) -> Scores:
    """Weighs public relevance and private evidence.

    Raises:
        ContractError: the three parts do not speak of the same number of views.
    """
    compatibility = evidence.compatibility.reveal()
    specificity = evidence.specificity.reveal()
    if not len(relevance) == len(compatibility) == len(specificity):
        raise ContractError("Each component needs exactly one number for each view.")
    return Scores(
        public=_public_part(relevance),
        private=Secret(
            tuple(
                COMPATIBILITY_WEIGHT * to_grid(c) + SPECIFICITY_WEIGHT * to_grid(s)
                for c, s in zip(compatibility, specificity, strict=True)
            )
        ),
    )


def neutral_scores(relevance: Sequence[float]) -> Scores:
    """Scores that no content speaks for: what a read set counts as where scoring it failed."""
    return Scores(public=_public_part(relevance), private=Secret((0,) * len(relevance)))


def _public_part(relevance: Sequence[float]) -> tuple[int, ...]:
    return tuple(RELEVANCE_WEIGHT * to_grid(r) for r in relevance)
