"""Integer mixtures of a public and private distributions, and how far memory may pull them.

Decides the arithmetic of one fused draw: distributions as integer weights, the largest weight
`λ_i` of a cell under the moment condition of GUARANTEE §5, Theorem 2, the mixture, the draw. What
is *not* here: what a draw costs and which `α`, `L`, `c` are in force (`fusion`), where masses
come from (the daemon), temperature and penalties (they act on all rows before they come here).

Invariants:

- a row is rounded to whole weights of one `TOTAL` first, by itself, none of them below 1, and all
  that follows is about these: equal rows have equal weights. Every function of a private row is
  total: masses that are no distribution count as the public row;
- `λ_i` is a whole number of `1 / STEPS`, a function of its own cell's row and the public row alone,
  and satisfies the condition as it is after rounding: every sum is of non-negative terms, so its
  relative error is below `2^-32` for `WIDEST_VOCABULARY` tokens, and it counts as `1 + 2^-30` times
  what was found;
- weights of a mixture are `Σ steps_i · w_i ≤ STEPS · TOTAL = 2^62`, and so are all their partial
  sums: `int64` holds them. They are exact, and so is the draw from them;
- no BLAS: its threads would be busy beside the model's.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tactful_core.errors import ContractError
from tactful_core.sampling import Randomness

TOTAL = 1 << 32
"""What the weights of each row sum to."""

STEPS = 1 << 30
"""`λ`, `L` and `c` are whole numbers of `1 / STEPS`."""

WIDEST_VOCABULARY = 1 << 20

_UP = 1 + 2.0**-30
_DOWN = 1 - 2.0**-40
_LEAST, _MOST = 1e-280, 1e300
_BLOCK = 256


Row = NDArray[np.float64]
"""Shape (|V|,): masses of tokens, not negative, not necessarily normalised."""

Weights = NDArray[np.int64]
"""Shape (|V|,): whole weights of tokens."""


@dataclass(frozen=True, slots=True)
class PublicRow:
    """The public row of a draw as rules see it, and `1/q`, so that nobody divides twice."""

    masses: Row
    inverse: Row
    total: float

    @classmethod
    def of(cls, masses: Row) -> PublicRow:
        """All masses must be positive."""
        with np.errstate(over="ignore"):
            return cls(masses, 1 / masses, float(np.add.reduce(masses)))


Work = tuple[Row, Row]
"""Two rows that may be overwritten."""


def moments(public: PublicRow, private: Row | Weights, order: int, work: Work) -> tuple[float, ...]:
    """`E_q |p/q − 1|^j` for `j = 2..order`, at most `2^-32` of themselves below the real numbers.

    Args:
        private: in the unit of the public row: both sum to the same.
    """
    terms, ratio = work
    found = []
    with np.errstate(over="ignore"):
        np.copyto(terms, private)
        terms -= public.masses
        np.multiply(terms, public.inverse, out=ratio)
        terms *= ratio
        found.append(float(np.add.reduce(terms)) / public.total)
        if order > 2:
            np.abs(ratio, out=ratio)
        for _ in range(3, order + 1):
            terms *= ratio
            found.append(float(np.add.reduce(terms)) / public.total)
    return tuple(found)


class Rule(Protocol):
    """What decides how much of a cell goes into a mixture."""

    def part(self, public: PublicRow, private: Row | Weights, most: int, work: Work) -> int:
        """`λ_i` in steps, up to `most`: a function of these two rows in whole weights."""
        ...


class Condition:
    """The left side of Theorem 2's condition on `λ`, as a polynomial (GUARANTEE §5).

    Attributes:
        order: α.
        coefficients: of `λ^j E_q|p/q − 1|^j` for `j = 2..α`:
            `C(α, j) (2k*)^j / (1 − L)^(j−1)`.
    """

    __slots__ = ("_bound", "coefficients", "order")

    def __init__(self, alpha: int, limit: Fraction, bound: Fraction, widest: int) -> None:
        """`alpha` is the order, `limit` is L, `bound` is c, `widest` is k*."""
        self.order = alpha
        rest = 1 - limit
        self.coefficients = tuple(
            float(comb(alpha, j) * Fraction(2 * widest) ** j / rest ** (j - 1))
            for j in range(2, alpha + 1)
        )
        self._bound = float(bound) / _UP

    def part(self, public: PublicRow, private: Row | Weights, most: int, work: Work) -> int:
        return self.largest(most, moments(public, private, self.order, work))

    def holds(self, steps: int, of: tuple[float, ...]) -> bool:
        """Whether `λ = steps / STEPS` satisfies it for a row with these moments."""
        weight = steps / STEPS
        value = 0.0
        for coefficient, moment in zip(reversed(self.coefficients), reversed(of), strict=True):
            value = (value + coefficient * moment) * weight
        return value * weight <= self._bound

    def largest(self, most: int, of: tuple[float, ...]) -> int:
        """The largest number of steps up to `most` that satisfies it.

        For α = 2 the root is known; otherwise 30 bisections, whatever the moments are.
        """
        if len(of) == 1:
            ratio = self._bound / max(self.coefficients[0] * of[0], 2.0**-100)
            steps = min(most, int(ratio**0.5 * STEPS) + 1)
            while steps and not self.holds(steps, of):
                steps -= 1
            return steps
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.holds(middle, of) else (low, middle)
        return low


class Mixer:
    """Makes the weights of one draw after another for rows of one length; not for two threads."""

    __slots__ = ("_mixed", "_private", "_public", "_rest", "_row", "_work")

    def __init__(self, tokens: int) -> None:
        """`tokens` is |V|.

        Raises:
            ContractError: there are none, or more than `WIDEST_VOCABULARY`.
        """
        if not 1 <= tokens <= WIDEST_VOCABULARY:
            raise ContractError(f"A vocabulary has 1 to {WIDEST_VOCABULARY} tokens.")
        self._public, self._private, self._mixed = np.zeros((3, tokens), dtype=np.int64)
        floats, inverse, *work = np.zeros((4, tokens))
        self._row = PublicRow(floats, inverse, float(TOTAL))
        self._work = work[0], work[1]
        self._rest = STEPS

    def begin(self, masses: Row) -> None:
        """Begins a draw with the public row.

        Raises:
            ContractError: it is no distribution, or of another length.
        """
        if masses.shape != self._public.shape or not self._round(masses, self._public):
            raise ContractError(
                "The public row of a fused draw is no distribution over its tokens."
            )
        np.copyto(self._row.masses, self._public)
        np.divide(1, self._row.masses, out=self._row.inverse)
        self._mixed.fill(0)
        self._rest = STEPS

    def add(self, masses: Row, rule: Rule, most: int) -> int:
        """Adds a cell with the largest part that the rule allows, up to `most` steps.

        A row that is no distribution counts as the public one. Which part it is depends on this
        row and the public one alone.

        Returns:
            `λ_i · STEPS`. Secret.

        Raises:
            ContractError: the row is of another length, or the public one would have no part.
        """
        if masses.shape != self._public.shape:
            raise ContractError("All rows of a fused draw are of one length.")
        if not self._round(masses, self._private):
            np.copyto(self._private, self._public)
        steps = rule.part(self._row, self._private, most, self._work)
        self._rest -= steps
        if self._rest < 1:
            raise ContractError("The public row has a part in every fused draw.")
        self._private *= steps
        self._mixed += self._private
        return steps

    def weights(self) -> Weights:
        """The mixture, all cells added: they sum to `STEPS · TOTAL`. Secret; gone with `begin`."""
        np.multiply(self._public, self._rest, out=self._private)
        self._private += self._mixed
        return self._private

    def entropy_below(self, threshold: float) -> bool:
        """Whether the entropy of the public row is below so many nats; a function of it alone.

        Entropy is never below `−ln max q`, which mostly settles it.
        """
        if threshold <= -np.log(float(self._public.max()) / TOTAL):
            return False
        terms = np.log(self._row.masses, out=self._work[0])
        terms *= self._row.masses
        return bool(np.log(TOTAL) - np.add.reduce(terms) / TOTAL < threshold)

    def _round(self, masses: Row, out: Weights) -> bool:
        """Whole weights from 1 up that sum to `TOTAL`; False if it is no distribution.

        What is rounded away goes to the likeliest token; `_DOWN` keeps that from being negative.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(np.add.reduce(masses))
        if not (_LEAST < total < _MOST and float(masses.min()) >= 0):
            return False
        scale = (TOTAL - masses.size) * _DOWN / total
        np.copyto(out, np.multiply(masses, scale, out=self._work[0]), casting="unsafe")
        out += 1
        out[int(masses.argmax())] += TOTAL - int(np.add.reduce(out))
        return True


def draw_from(weights: Weights, randomness: Randomness) -> int:
    """An index with probability `weights[i] / Σ weights`, exactly.

    Args:
        weights: shape (|V|,), not negative; their sum is below `2^63`.

    Raises:
        ContractError: the source of randomness returned a number that is out of range.
    """
    sums = np.add.reduceat(weights, np.arange(0, weights.size, _BLOCK)).cumsum()
    total = int(sums[-1])
    ticket = randomness.below(total)
    if not 0 <= ticket < total:
        raise ContractError("The source of randomness returned a number that is out of range.")
    block = int(np.searchsorted(sums, ticket, side="right"))
    if block:
        ticket -= int(sums[block - 1])
    start = block * _BLOCK
    within = weights[start : start + _BLOCK].cumsum()
    return start + int(np.searchsorted(within, ticket, side="right"))
