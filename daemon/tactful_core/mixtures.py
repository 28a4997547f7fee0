"""Integer mixtures of a public and private distributions, and how far memory may pull them.

Decides the arithmetic of one fused draw: distributions as integer weights, the largest weight
`λ_i` of a cell under the moment condition of GUARANTEE §5, Theorem 2, the mixture, the draw. What
is *not* here: what a draw costs and which `α`, `L`, `c` are in force (`fusion`), where masses
come from (the daemon), temperature and penalties (they act on all rows before they come here).

Invariants:

- a row is rounded to whole weights of one `TOTAL` first, by itself, and all that follows is about
  these; the public row has none below 1. Every function of a private row is total: masses that are
  no distribution count as the public row;
- `λ_i` is a whole number of `1 / STEPS`, a function of its own cell's row and the public row alone,
  and satisfies the condition as it is after rounding: every sum is of non-negative terms, so its
  relative error is below `2^-32` for `WIDEST_VOCABULARY` tokens, and it counts as `1 + 2^-30` times
  what was found;
- weights of a mixture are `Σ steps_i · w_i ≤ STEPS · TOTAL = 2^62`, and so are all their partial
  sums: `int64` holds them. They are exact, and so is the draw from them;
- no BLAS: its threads would be busy beside the model's.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from tactful_core.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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


def public_weights(masses: NDArray[np.float64]) -> NDArray[np.int64]:
    """The public row in whole weights, each at least 1, that sum to `TOTAL`.

    Args:
        masses: shape (|V|,), not negative, not necessarily normalised.

    Raises:
        ContractError: they are no distribution, or there are more than `WIDEST_VOCABULARY`.
    """
    if not 1 <= masses.size <= WIDEST_VOCABULARY:
        raise ContractError(f"A vocabulary has 1 to {WIDEST_VOCABULARY} tokens.")
    weights = _weights(masses, 1)
    if weights is None:
        raise ContractError("The public row of a fused draw is no distribution.")
    return weights


def private_weights(masses: NDArray[np.float64], public: NDArray[np.int64]) -> NDArray[np.int64]:
    """A cell's row in whole weights that sum to `TOTAL`; the public row where it is none.

    Args:
        masses: shape (|V|,), not necessarily normalised.
        public: what `public_weights` made.
    """
    weights = _weights(masses, 0)
    return public if weights is None else weights


def _weights(masses: NDArray[np.float64], floor: int) -> NDArray[np.int64] | None:
    """What is rounded away goes to the likeliest token; `_DOWN` keeps that from being negative."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.add.reduce(masses))
    if not (_LEAST < total < _MOST and float(masses.min()) >= 0):
        return None
    scaled = masses * ((TOTAL - floor * masses.size) * _DOWN / total)
    weights = scaled.astype(np.int64)
    if floor:
        weights += floor
    weights[int(masses.argmax())] += TOTAL - int(np.add.reduce(weights))
    return weights


def entropy(public: NDArray[np.int64]) -> float:
    """Shannon's entropy of a public row in nats."""
    weights = public.astype(np.float64)
    terms = np.log(weights)
    terms *= weights
    return float(np.log(TOTAL) - np.add.reduce(terms) / TOTAL)


def moments(
    public: NDArray[np.float64], private: NDArray[np.float64], order: int
) -> tuple[float, ...]:
    """`E_q |p/q − 1|^j` for `j = 2..order`, rounded up.

    Args:
        public: shape (|V|,), positive. Both rows in one unit, such that they sum to the same.
        private: shape (|V|,), not negative.
    """
    difference = private - public
    with np.errstate(over="ignore"):
        ratio = difference / public
    np.abs(ratio, out=ratio)
    np.abs(difference, out=difference)
    total = float(np.add.reduce(public))
    found = []
    for _ in range(2, order + 1):
        with np.errstate(over="ignore"):
            difference *= ratio
        found.append(float(np.add.reduce(difference)) / total * _UP)
    return tuple(found)


class Condition:
    """The left side of Theorem 2's condition on `λ`, as a polynomial (GUARANTEE §5).

    Attributes:
        coefficients: of `λ^j E_q|p/q − 1|^j` for `j = 2..α`:
            `C(α, j) (2k*)^j / (1 − L)^(j−1)`.
    """

    __slots__ = ("_bound", "coefficients")

    def __init__(self, alpha: int, limit: Fraction, bound: Fraction, widest: int) -> None:
        """`alpha` is the order, `limit` is L, `bound` is c, `widest` is k*."""
        rest = 1 - limit
        self.coefficients = tuple(
            float(comb(alpha, j) * Fraction(2 * widest) ** j / rest ** (j - 1))
            for j in range(2, alpha + 1)
        )
        self._bound = float(bound) / _UP

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


def mixture(
    public: NDArray[np.int64], private: Sequence[NDArray[np.int64]], steps: Sequence[int]
) -> NDArray[np.int64]:
    """`(STEPS − Σ steps_i) q + Σ steps_i p_i`: whole weights that sum to `STEPS · TOTAL`.

    Raises:
        ContractError: the public row would have no part.
    """
    rest = STEPS - sum(steps)
    if rest < 1 or min(steps, default=0) < 0:
        raise ContractError("The public row has a part in every fused draw.")
    weights = public * rest
    part = np.empty_like(weights)
    for row, count in zip(private, steps, strict=True):
        np.multiply(row, count, out=part)
        weights += part
    return weights


def draw_from(weights: NDArray[np.int64], randomness: Randomness) -> int:
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
