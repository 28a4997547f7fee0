"""The mixture of the DP-Fusion paper, with charges that hold: an option, and a yardstick.

Decides `λ_i` by the paper's rule and what such a draw costs. What is *not* here: the paper's own
formula for that, which is too small beyond α = 4 and which nothing here charges (the evaluation
shows it beside the others), and the rule that fused answers are drawn by (`fusion`).

Each cell is mixed with the public row by itself, `x_i = q + λ_i (p_i − q)`, and a token is drawn
from their mean, `P = (1/m) Σ x_i`. With `1 + c = e^{(α−1)αβ}`, the paper's bound αβ on both
divergences of `x_i` and `q` reads `Σ x_i^α q^(1−α) ≤ 1 + c` and `Σ q^α x_i^(1−α) ≤ 1 + c`.

Invariants:

- both bounds hold for the whole weights that are drawn from, `λ_i` rounded down: the search ends
  at the part for which they were found to hold;
- `masking_loss_units` is about stores of which one has nothing where an attribute is; two stores
  with different contents there are two such steps apart (`replacement_epsilon`).

Source: GUARANTEE §5. By convexity, `D_α(P‖P')` of a draw from which `k_a` of `m` cells are masked
is at most `ln((m − k_a)/m + (k_a/m)(1 + c))/(α − 1)`, both ways; for m = 1 it is attained.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import inf, nextafter

import numpy as np

from tactful_core.errors import ContractError
from tactful_core.fusion import FusionParameters, Number
from tactful_core.mixtures import STEPS, PublicRow, Row, Weights, Work
from tactful_core.sampling import log_units_up
from tactful_core.values import UNITS_PER_EPSILON, Units

_UP = Context(prec=50, rounding=ROUND_CEILING)


def masking_loss_units(parameters: FusionParameters, touching: int, cells: int) -> Units:
    """What one draw costs an attribute under masking: `ln(1 + c k_a/m)/(α−1)` in units, rounded up.

    Args:
        touching: `k_a`.
        cells: `m`.

    Raises:
        ContractError: not `0 ≤ touching ≤ cells`, or no cell.
    """
    if not 0 <= touching <= cells or cells < 1:
        raise ContractError("No attribute is touched by more cells than there are.")
    ratio = 1 + parameters.divergence * Fraction(touching, cells)
    return Units(-(-log_units_up(ratio) // (parameters.alpha - 1)))


def replacement_epsilon(parameters: FusionParameters, rho: Units, delta: Number) -> float:
    """The ε at δ between two stores of which each is `rho` away from the masked one, rounded up.

    Two hops, `(ε_1 + ε_2, δ_1 + e^{ε_1} δ_2)`, with δ split as is best: `δ_1 = δα/(2α − 1)`. Far
    from what `fusion.epsilon_of` says of Theorem 2's draws, above all at α = 2.
    """
    alpha = parameters.alpha
    exact = Fraction(delta)
    if not 0 < exact < 1 or rho < 0:
        raise ContractError("A delta is between 0 and 1, and a loss is not negative.")
    if rho == 0:
        return 0.0
    first = exact * alpha / (2 * alpha - 1)
    spent = _UP.divide(Decimal(rho), Decimal(UNITS_PER_EPSILON))
    base = _UP.add(spent, _log(Fraction(alpha - 1, alpha)))
    one = _UP.add(base, _shared(1 / (first * alpha), alpha))
    two = _UP.add(base, _shared(1 / ((exact - first) * alpha), alpha))
    two = _UP.add(two, _UP.divide(max(one, Decimal(0)), Decimal(alpha - 1)))
    return nextafter(float(_UP.add(max(one, Decimal(0)), max(two, Decimal(0)))), inf)


def _log(value: Fraction) -> Decimal:
    quotient = _UP.divide(Decimal(value.numerator), Decimal(value.denominator))
    return _UP.next_plus(Context(prec=50).ln(quotient))


def _shared(value: Fraction, alpha: int) -> Decimal:
    return _UP.divide(_log(value), Decimal(alpha - 1))


class Mollified:
    """The paper's rule: the largest `λ_i` for which `x_i` and `q` stay as near as `c` says.

    To be given to `fusion.FusedDraw` as its `rule`; charged by `masking_loss_units`.
    """

    __slots__ = ("_alpha", "_bound", "_cells")

    def __init__(self, parameters: FusionParameters, cells: int) -> None:
        """`cells` is `m`; a part of the mean is an m-th of `λ_i`."""
        self._alpha = parameters.alpha
        self._bound = float(1 + parameters.divergence) / (1 + 2.0**-30)
        self._cells = cells

    def part(self, public: PublicRow, private: Row | Weights, most: int, work: Work) -> int:
        """`λ_i / m` in steps, found by 30 bisections, whatever the rows are.

        At α = 2 the forward bound is `1 + λ² χ²`, of which the root is known: it is the upper end.
        """
        ratio, _ = work
        np.multiply(private, public.inverse, out=ratio)
        ratio -= 1
        low, high = 0, most + 1
        if self._alpha == 2:
            high = min(high, self._forward_root(public, work) + 2)
        for _ in range(STEPS.bit_length()):
            middle = (low + high) // 2
            low, high = (middle, high) if self._holds(middle, public, work) else (low, middle)
        return low

    def _forward_root(self, public: PublicRow, work: Work) -> int:
        ratio, terms = work
        np.multiply(ratio, ratio, out=terms)
        terms *= public.masses
        squared = float(np.add.reduce(terms)) / public.total
        root = ((self._bound - 1) / max(squared, 2.0**-100)) ** 0.5
        return int(min(root, 1.0) * STEPS / self._cells)

    def _holds(self, steps: int, public: PublicRow, work: Work) -> bool:
        """Both bounds, from `x/q = 1 + λ (p/q − 1)`; sums of non-negative terms."""
        ratio, terms = work
        most = public.total * self._bound
        weight, sums = steps * self._cells / STEPS, []
        for power in (self._alpha, 1 - self._alpha):
            np.multiply(ratio, weight, out=terms)
            terms += 1
            with np.errstate(over="ignore"):
                np.power(terms, power, out=terms)
                terms *= public.masses
                sums.append(float(np.add.reduce(terms)))
        return max(sums) <= most
