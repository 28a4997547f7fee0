"""Text from a public and private distributions at once: parameters, charges and the draw.

Decides what one fused draw costs each attribute, what an epoch of them amounts to, and from which
distribution a token is drawn: direct replacement fusion, GUARANTEE §5, Theorem 2. What is *not*
here: the arithmetic on rows (`mixtures`), reservations and settlements (`ledger`), prompts, models
and cells (the daemon).

Words: `q` is the distribution of the next token under the public prompt, `p_i` the one that also
reveals cell `i` of memory; `k_a` is the number of cells that touch attribute `a`, `k*` the largest
`k_a` of the draw; `m` is the number of cells. All but the `p_i` is public.

Invariants:

- `α`, `L` and `c` are fixed for the epoch and public; a charge is a function of them, `k_a` and
  `k*`, never of a distribution. `D_α` of one draw, both ways, is at most what `loss_units` says;
- losses at one `α` add up, in whole units, rounded up, and become an epsilon once, rounded up;
- a draw that is skipped is from `q` alone: whether it is follows from `q`, and it costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import inf, nextafter

import numpy as np
from numpy.typing import NDArray

from tactful_core.errors import ContractError, CoreError
from tactful_core.mixtures import STEPS, Condition, Mixer, Row, Rule, Weights, draw_from
from tactful_core.sampling import Randomness, log_units_up
from tactful_core.values import UNITS_PER_EPSILON, AttributeName, Units

HIGHEST_ALPHA = 32

Number = Fraction | Decimal | float | int
"""An epsilon or a delta; taken exactly as it is."""

_EXACT = Context(prec=50)
_UP = Context(prec=50, rounding=ROUND_CEILING)
_DOWN = Context(prec=50, rounding=ROUND_FLOOR)


@dataclass(frozen=True, slots=True)
class FusionParameters:
    """What is fixed for all fused draws of an epoch.

    Attributes:
        alpha: the order of the Rényi divergence that charges are counted in, 2 to 32.
        limit: `L`, how much of a mixture all cells together may be; between 0 and 1.
        divergence: `c`, what one draw may add to the `α`-th moment of the likelihood ratio.

    `limit` and `divergence` are whole numbers of `1 / STEPS` (`in_steps`, `steps`).
    """

    alpha: int
    limit: Fraction
    divergence: Fraction

    def __post_init__(self) -> None:
        """Refuses what Theorem 2 does not hold for.

        Raises:
            ContractError: a value outside its range.
        """
        if not 2 <= self.alpha <= HIGHEST_ALPHA:
            raise ContractError(f"The order of fusion is a whole number, 2 to {HIGHEST_ALPHA}.")
        if not 0 < self.limit < 1 or self.divergence <= 0:
            raise ContractError("Fusion needs a limit between 0 and 1 and a positive divergence.")
        if any((part * STEPS).denominator != 1 for part in (self.limit, self.divergence)):
            raise ContractError(f"Limit and divergence are whole numbers of 1/{STEPS}.")

    @classmethod
    def in_steps(cls, alpha: int, limit: int, divergence: int) -> FusionParameters:
        """The parameters whose `limit` and `divergence` are so many `1 / STEPS`."""
        return cls(alpha, Fraction(limit, STEPS), Fraction(divergence, STEPS))

    @property
    def steps(self) -> tuple[int, int, int]:
        """`alpha`, and `limit` and `divergence` in `1 / STEPS`: what `in_steps` takes."""
        return self.alpha, int(self.limit * STEPS), int(self.divergence * STEPS)


class Unreachable(CoreError):
    """No order up to 32 gives so small an epsilon at this delta for so many draws.

    Attributes:
        attribute: whose epsilon it is.
        smallest: an epsilon that can be reached, rounded up to three decimals.
    """

    def __init__(self, attribute: AttributeName, smallest: float) -> None:
        super().__init__(
            f"No fused text can be promised for attribute '{attribute}' at this epsilon, delta and "
            f"number of planned draws; the smallest epsilon that can be is {smallest:.3f}. "
            "Raise its epsilon, raise delta, or plan fewer draws."
        )
        self.attribute = attribute
        self.smallest = smallest


def loss_units(parameters: FusionParameters, touching: int, widest: int) -> Units:
    """What one draw costs an attribute: `ln(1 + c (k_a/k*)²) / (α−1)` in units, rounded up.

    Args:
        touching: `k_a`; without a cell that touches it, an attribute pays nothing.
        widest: `k*`.

    Raises:
        ContractError: not `0 ≤ touching ≤ widest`, or `widest` is 0.
    """
    if not 0 <= touching <= widest or widest < 1:
        raise ContractError("No attribute is touched by more cells than the one touched most.")
    ratio = 1 + parameters.divergence * Fraction(touching, widest) ** 2
    return Units(-(-log_units_up(ratio) // (parameters.alpha - 1)))


def epsilon_of(parameters: FusionParameters, rho: Units, delta: Number) -> float:
    """The `ε_a` of `(ε_a, δ)` that losses of `rho` amount to, rounded up (Theorem 2).

    `ρ + ln(1 − 1/α) − ln(δα)/(α − 1)`, and 0 where nothing was drawn.

    Raises:
        ContractError: `rho` is negative or `delta` is not between 0 and 1.
    """
    if rho < 0:
        raise ContractError("A loss must not be negative.")
    if rho == 0:
        return 0.0
    spent = _UP.divide(Decimal(rho), Decimal(UNITS_PER_EPSILON))
    exact = _UP.add(spent, _constant(parameters.alpha, delta, _UP))
    return nextafter(max(0.0, float(exact)), inf)


def rho_cap(parameters: FusionParameters, epsilon: Number, delta: Number) -> Units:
    """How much loss an epsilon allows at a delta, in units, rounded down; 0 where it allows none.

    Raises:
        ContractError: `delta` is not between 0 and 1.
    """
    return _rho_cap(parameters.alpha, epsilon, delta)


def _rho_cap(alpha: int, epsilon: Number, delta: Number) -> Units:
    exact = Fraction(epsilon)
    given = _DOWN.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    rho = _DOWN.subtract(given, _constant(alpha, delta, _UP))
    units = _DOWN.multiply(rho, Decimal(UNITS_PER_EPSILON))
    return Units(max(0, int(units.to_integral_value(rounding=ROUND_FLOOR))))


def _constant(alpha: int, delta: Number, up: Context) -> Decimal:
    """`ln(1 − 1/α) − ln(δα)/(α − 1)`, rounded up (Canonne, Kamath, Steinke 2020, Prop. 12)."""
    exact = Fraction(delta)
    if not 0 < exact < 1:
        raise ContractError("A delta is between 0 and 1.")
    inverse = up.divide(Decimal(exact.denominator), Decimal(exact.numerator * alpha))
    share = up.divide(_ln_up(inverse, up), Decimal(alpha - 1))
    return up.add(_ln_up(up.divide(Decimal(alpha - 1), Decimal(alpha)), up), share)


def _ln_up(value: Decimal, up: Context) -> Decimal:
    """`Decimal.ln` is correctly rounded to the nearest; the next number above is never below."""
    return up.next_plus(_EXACT.ln(value))


def calibrate(
    epsilons: Mapping[AttributeName, float], delta: float, planned_draws: int
) -> FusionParameters:
    """`α`, `L` and `c` for an epoch, such that every attribute affords the planned draws.

    For each order, `c` is the largest for which `planned_draws` draws at `k_a = k*` fit the
    smallest epsilon. Among the orders and limits, the one is taken whose mixtures are on average
    likeliest to say what memory says, over `REFERENCE_PAIRS`: a public rule. It decides what text
    is worth, never what it costs.

    Raises:
        Unreachable: the smallest epsilon is too small for every order.
        ContractError: no epsilon, or a number out of range.
    """
    if not epsilons or planned_draws < 1:
        raise ContractError("Calibrating needs an epsilon and at least one planned draw.")
    attribute = min(epsilons, key=lambda name: (epsilons[name], name))
    found = _likeliest(epsilons[attribute], delta, planned_draws)
    if found is None:
        raise Unreachable(attribute, smallest_epsilon(delta, planned_draws))
    return found


@lru_cache(maxsize=64)
def _likeliest(epsilon: float, delta: float, planned_draws: int) -> FusionParameters | None:
    """Of all orders and limits, those of the greatest gain; `None` where no order reaches."""
    best: tuple[float, FusionParameters] | None = None
    for alpha in range(2, HIGHEST_ALPHA + 1):
        divergence = _divergence(alpha, epsilon, delta, planned_draws)
        for limit in _LIMITS if divergence else ():
            found = FusionParameters(alpha, limit, divergence)
            gain = reference_gain(found)
            if best is None or gain > best[0]:
                best = gain, found
    return best[1] if best else None


def smallest_epsilon(delta: float, planned_draws: int) -> float:
    """The smallest epsilon that `calibrate` can reach, rounded up to three decimals."""
    found = min(
        epsilon_of(each, Units(planned_draws * loss_units(each, 1, 1)), delta)
        for each in (
            FusionParameters.in_steps(alpha, 1, 1) for alpha in range(2, HIGHEST_ALPHA + 1)
        )
    )
    return float(Decimal(found).quantize(Decimal("0.001"), ROUND_CEILING))


def _divergence(alpha: int, epsilon: float, delta: float, planned_draws: int) -> Fraction:
    """The largest `c` on the grid for which so many draws fit; 0 where none does."""
    each = _rho_cap(alpha, epsilon, delta) // planned_draws
    low, high = 0, 64 * STEPS
    while high - low > 1:
        middle = (low + high) // 2
        fits = -(-log_units_up(1 + Fraction(middle, STEPS)) // (alpha - 1)) <= each
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low, STEPS)


_LIMITS = tuple(Fraction(part, 16) for part in range(1, 16))

REFERENCE_PAIRS = tuple(
    (2.0**-rarity, share) for rarity in (1, 3, 5, 7, 10, 14) for share in (0.05, 0.3, 0.6, 0.95)
)
"""Probabilities of a token under `q` and under `p`, as they are where memory makes a difference."""


def reference_gain(parameters: FusionParameters) -> float:
    """How much likelier the mixture makes what memory says, in nats, on average over the pairs."""
    q, p = np.array(REFERENCE_PAIRS).T
    q, p = np.stack((q, 1 - q)), np.stack((p, 1 - p))
    ratio = p / q - 1
    condition = Condition(parameters.alpha, parameters.limit, parameters.divergence, 1)
    of = np.array([(q * np.abs(ratio) ** j).sum(0) for j in range(2, parameters.alpha + 1)])
    terms = of * np.array(condition.coefficients)[:, None]
    low, high = np.zeros(q.shape[1]), np.full(q.shape[1], float(parameters.limit))
    powers = np.arange(2, parameters.alpha + 1)[:, None]
    for _ in range(24):
        middle = (low + high) / 2
        fits = (terms * middle**powers).sum(0) <= float(parameters.divergence)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return float((p * np.log1p(low * ratio)).sum(0).mean())


@dataclass(frozen=True, slots=True)
class Drawn:
    """One token, and whether memory could have had a part in it: then the draw is charged."""

    token: int
    charged: bool


class FusedDraw:
    """All draws of one reply: from `P = q + Σ λ_i (p_i − q)`, each `λ_i` the largest allowed."""

    __slots__ = ("_cells", "_mixer", "_most", "_randomness", "_rule", "_skip_below")

    def __init__(
        self,
        parameters: FusionParameters,
        *,
        cells: int,
        widest: int,
        randomness: Randomness,
        skip_below: float = 0.0,
        rule: Rule | None = None,
    ) -> None:
        """All of it is public.

        Args:
            cells: `m`; without any, every draw is from `q` and none is charged.
            widest: `k*`, at most m.
            skip_below: entropy of `q` in nats below which memory has no part in a draw.
            rule: what allows a `λ_i`; without one the condition of Theorem 2, which is the only
                one that `loss_units` is the charge of.

        Raises:
            ContractError: `widest` does not fit `cells`.
        """
        if not min(cells, 1) <= widest <= cells:
            raise ContractError("Each attribute is touched by at most all cells of a draw.")
        self._cells = cells
        self._rule = rule or Condition(
            parameters.alpha, parameters.limit, parameters.divergence, max(1, widest)
        )
        self._most = int(parameters.limit * STEPS / max(1, cells))
        self._randomness = randomness
        self._skip_below = skip_below
        self._mixer: Mixer | None = None

    def draw(self, public: Row, private: NDArray[np.float64]) -> Drawn:
        """One token.

        Args:
            public: shape (|V|,): masses under `q`, all controls (temperature, penalties) applied;
                not necessarily normalised.
            private: shape (m, |V|): likewise under each `p_i`. A row that is no distribution (not
                finite, negative, without mass) counts as the public one.

        Raises:
            ContractError: shapes that do not fit, or a public row that is no distribution.
        """
        weights, charged = self.weigh(public, private)
        return Drawn(draw_from(weights, self._randomness), charged)

    def weigh(self, public: Row, private: NDArray[np.float64]) -> tuple[Weights, bool]:
        """The whole weights that a draw is from, secret, and whether it is charged.

        They sum to `STEPS · TOTAL` and are overwritten by the next draw.

        Raises:
            ContractError: as for `draw`.
        """
        if self._mixer is None:
            self._mixer = Mixer(public.size)
        self._mixer.begin(public)
        charged = self._cells > 0 and not self._mixer.entropy_below(self._skip_below)
        if charged:
            self._add(self._mixer, private)
        return self._mixer.weights(), charged

    def _add(self, mixer: Mixer, private: NDArray[np.float64]) -> None:
        if len(private) != self._cells:
            raise ContractError("A fused draw has one private row for each of its cells.")
        for row in private:
            mixer.add(row, self._rule, self._most)


def certain(public: Row, threshold: float) -> bool:
    """Whether the entropy of `q` is below a public threshold, in nats: a function of `q` alone.

    Raises:
        ContractError: the row is no distribution.
    """
    mixer = Mixer(public.size)
    mixer.begin(public)
    return mixer.entropy_below(threshold)


def draw(
    public: Row,
    private: NDArray[np.float64],
    parameters: FusionParameters,
    widest: int,
    randomness: Randomness,
) -> int:
    """One token, never skipped: `FusedDraw.draw` for a reply of one draw."""
    once = FusedDraw(parameters, cells=len(private), widest=widest, randomness=randomness)
    return once.draw(public, private).token
