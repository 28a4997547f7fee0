"""Selection mechanisms: how one of a slot's public views is drawn (GUARANTEE §2).

Decides distributions, and states the exact worst likelihood ratio of each as a rational. What is
*not* here: whether the release may happen at all (`ledger`), and its epsilon (`allocation`).

Invariants:

- every distribution is a ratio of whole numbers; no float takes part (`sampling`);
- `charge` is pure ε-differential privacy for replacement: the logarithm of the worst likelihood
  ratio, rounded up to a unit, never exceeds it;
- only a mechanism of bounded range states one, as a type of its own that no ledger accepts: a
  permute-and-flip cannot be charged as if it were an exponential mechanism.

| mechanism | distribution | charge |
| --- | --- | --- |
| `Exponential` | Eq. 7 of DP-MemView, `P(v) ∝ exp(ε u(v) / 2Δ)` | ε |
| `WeightedExponential` | `P(v) ∝ μ(v) exp(x w(v) / Δ)`, public μ, x solved from ε | ≤ ε, exact |
| `PermuteAndFlip` | McKenna and Sheldon 2020, Algorithm 1 | ε |
| `RandomizedResponse` | the best of k candidates with `e^ε / (e^ε + k - 1)` | ≤ ε, exact |
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NewType, Protocol

from tactful_core.errors import ContractError
from tactful_core.sampling import (
    ONE,
    Randomness,
    draw,
    exp_weight,
    inverse_exp_weight,
    log_units_up,
)
from tactful_core.scoring import PRIVATE_RANGE, SCORE_ONE, Scores
from tactful_core.values import UNITS_PER_EPSILON, Units

BoundedRange = NewType("BoundedRange", int)
"""A bound on how far the log-likelihood ratios of two views lie apart, in units (Durfee and Rogers
2019). It is not a charge; `Units` is."""

_EXPONENT_STEPS = 1 << 40
"""The exponent of `WeightedExponential` is a whole number of these steps."""


class SelectionMechanism(Protocol):
    """What every mechanism can do."""

    @property
    def charge(self) -> Units:
        """What a draw costs every attribute of the charge set."""
        ...

    def prepare(self) -> None:
        """Computes what depends on public input alone: a tenth of a second, once."""
        ...

    def select(self, scores: Scores, randomness: Randomness) -> int:
        """The index of the drawn view."""
        ...

    def distribution(self, scores: Scores) -> tuple[Fraction, ...]:
        """The exact probability of each view; as secret as the scores are."""
        ...

    def worst_likelihood_ratio(self, public: tuple[int, ...]) -> Fraction:
        """`max P(v | M) / P(v | M')` over all contents and views, given the public scores."""
        ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """The exponential mechanism as in the paper.

    Attributes:
        epsilon: `ε` in units; also what a draw is charged. The exact loss is smaller.
    """

    epsilon: Units

    @property
    def charge(self) -> Units:
        return self.epsilon

    @property
    def range(self) -> BoundedRange:
        """For any two stores the log-likelihood ratios of all views lie within ε."""
        return BoundedRange(self.epsilon)

    def prepare(self) -> None:
        _weight_table(self.epsilon)

    def weights(self, scores: Scores) -> tuple[int, ...]:
        """One positive integer a view; `P(v) = weights[v] / sum(weights)`, exactly."""
        table = _weight_table(self.epsilon)
        private = scores.private.reveal()
        return tuple(table[r + p] for r, p in zip(scores.public, private, strict=True))

    def select(self, scores: Scores, randomness: Randomness) -> int:
        return draw(self.weights(scores), randomness)

    def distribution(self, scores: Scores) -> tuple[Fraction, ...]:
        return _normalised(self.weights(scores))

    def worst_likelihood_ratio(self, public: tuple[int, ...]) -> Fraction:
        table = _weight_table(self.epsilon)
        low = [table[r] for r in public]
        high = [table[r + PRIVATE_RANGE] for r in public]
        return _worst_corner(low, high)


@dataclass(frozen=True, slots=True)
class WeightedExponential:
    """The exponential mechanism on the private scores, with a public base measure.

    The private scores fill a box of width Δ, so the worst loss is `max_v ℓ_v(x)` with
    `ℓ_v(x) = x + ln[(μ_v + (1 - μ_v) e^x) / (μ_v e^x + 1 - μ_v)]` instead of `2x`; `exponent` is
    the largest `x` whose exact loss is within ε (GUARANTEE §2).

    Attributes:
        epsilon: the most that a draw may cost, in units.
        measure: μ as positive whole numbers, one a view: public input.
    """

    epsilon: Units
    measure: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.measure or min(self.measure) < 1:
            raise ContractError("A base measure needs a positive weight for every view.")

    def prepare(self) -> None:
        _private_table(self.exponent)

    @property
    def exponent(self) -> Fraction:
        """`x`, a multiple of 2^-40."""
        return Fraction(_solved_steps(self.epsilon, self.measure), _EXPONENT_STEPS)

    @property
    def charge(self) -> Units:
        return _loss_up(self.worst_likelihood_ratio(self.measure))

    def weights(self, scores: Scores) -> tuple[int, ...]:
        """One positive integer a view; `P(v) = weights[v] / sum(weights)`, exactly."""
        table = _private_table(self.exponent)
        private = scores.private.reveal()
        return tuple(mu * table[p] for mu, p in zip(self.measure, private, strict=True))

    def select(self, scores: Scores, randomness: Randomness) -> int:
        return draw(self.weights(scores), randomness)

    def distribution(self, scores: Scores) -> tuple[Fraction, ...]:
        return _normalised(self.weights(scores))

    def worst_likelihood_ratio(self, public: tuple[int, ...]) -> Fraction:
        """Depends on the base measure; `public` only says how many views there are."""
        if len(public) != len(self.measure):
            raise ContractError("The base measure speaks of another number of views.")
        return _solved_ratio(self.epsilon, self.measure)


@dataclass(frozen=True, slots=True)
class PermuteAndFlip:
    """Visits the views in random order and takes one with `exp(-ε (u* - u) / 2Δ)`.

    Never worse than `Exponential` at the same ε, but not of bounded range, so it has no `range`.
    """

    epsilon: Units

    @property
    def charge(self) -> Units:
        return self.epsilon

    def prepare(self) -> None:
        _weight_table(self.epsilon)

    def select(self, scores: Scores, randomness: Randomness) -> int:
        accept = self._acceptances(_totals(scores))
        waiting = list(range(len(accept)))
        while True:
            view = waiting.pop(randomness.below(len(waiting)))
            if randomness.below(ONE) < accept[view]:
                return view

    def distribution(self, scores: Scores) -> tuple[Fraction, ...]:
        accept = self._acceptances(_totals(scores))
        return tuple(_flip_probability(accept, view) for view in range(len(accept)))

    def worst_likelihood_ratio(self, public: tuple[int, ...]) -> Fraction:
        worst = Fraction(1)
        for view in range(len(public)):
            favoured = [r + PRIVATE_RANGE * (i == view) for i, r in enumerate(public)]
            opposed = [r + PRIVATE_RANGE * (i != view) for i, r in enumerate(public)]
            most = _flip_probability(self._acceptances(favoured), view)
            least = _flip_probability(self._acceptances(opposed), view)
            worst = max(worst, most / least)
        return worst

    def _acceptances(self, totals: list[int]) -> list[int]:
        """Chances out of `ONE`; a table lookup, because only differences of scores matter."""
        table = _weight_table(self.epsilon)
        best = max(totals)
        return [table[SCORE_ONE - (best - total)] for total in totals]


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """Names the best of `k` public candidates, or another of them, with `e^ε : 1`.

    The caller restricts the scores to the candidates. Any total scorer will do: the ratio does not
    depend on a sensitivity. Ties go to the earliest candidate, a public rule.
    """

    epsilon: Units

    @property
    def charge(self) -> Units:
        return _loss_up(Fraction(_response_weight(self.epsilon), ONE))

    def prepare(self) -> None:
        _response_weight(self.epsilon)

    def weights(self, scores: Scores) -> tuple[int, ...]:
        """One positive integer a candidate; `P(v) = weights[v] / sum(weights)`, exactly."""
        best, much = scores.best(), _response_weight(self.epsilon)
        return tuple(much if view == best else ONE for view in range(len(scores.public)))

    def select(self, scores: Scores, randomness: Randomness) -> int:
        return draw(self.weights(scores), randomness)

    def distribution(self, scores: Scores) -> tuple[Fraction, ...]:
        return _normalised(self.weights(scores))

    def worst_likelihood_ratio(self, public: tuple[int, ...]) -> Fraction:
        if len(public) == 1:
            return Fraction(1)
        return Fraction(_response_weight(self.epsilon), ONE)


def certain_enough(probability: Fraction, epsilon: Units) -> bool:
    """Whether a belief exceeds `e^ε / (1 + e^ε)`, the most that one draw could make of a coin."""
    much = _response_weight(epsilon)
    return probability > Fraction(much, much + ONE)


def _totals(scores: Scores) -> list[int]:
    return [r + p for r, p in zip(scores.public, scores.private.reveal(), strict=True)]


def _normalised(weights: tuple[int, ...]) -> tuple[Fraction, ...]:
    total = sum(weights)
    return tuple(Fraction(weight, total) for weight in weights)


def _worst_corner(low: list[int], high: list[int]) -> Fraction:
    """The worst ratio over a box of weights.

    `P(v | M)` grows with the weight of `v` and falls with the others', so both stores are corners:
    `v` high and the others low against `v` low and the others high.
    """
    return max(
        Fraction(high[v], high[v] + sum(low) - low[v])
        / Fraction(low[v], low[v] + sum(high) - high[v])
        for v in range(len(low))
    )


def _flip_probability(accept: list[int], view: int) -> Fraction:
    """`a_v ∫ ∏_{i≠v} (1 - a_i t) dt` over [0, 1]: the chance that `view` is the first accepted."""
    polynomial = [Fraction(1)]
    for other, chance in enumerate(accept):
        if other != view:
            factor = Fraction(chance, ONE)
            longer = [*polynomial, Fraction(0)]
            polynomial = [
                c - factor * (longer[power - 1] if power else 0) for power, c in enumerate(longer)
            ]
    integral = sum((c / (power + 1) for power, c in enumerate(polynomial)), Fraction(0))
    return Fraction(accept[view], ONE) * integral


@lru_cache(maxsize=64)
def _weight_table(epsilon: Units) -> tuple[int, ...]:
    """The weight of every score, `0..SCORE_ONE`; depends on public input alone."""
    scale = Fraction(epsilon, UNITS_PER_EPSILON) / (2 * PRIVATE_RANGE)
    return tuple(exp_weight(scale * (SCORE_ONE - score)) for score in range(SCORE_ONE + 1))


@lru_cache(maxsize=64)
def _private_table(exponent: Fraction) -> tuple[int, ...]:
    """The weight of every private score, `0..PRIVATE_RANGE`; depends on public input alone."""
    scale = exponent / PRIVATE_RANGE
    return tuple(exp_weight(scale * (PRIVATE_RANGE - score)) for score in range(PRIVATE_RANGE + 1))


def _weighted_ratio(measure: tuple[int, ...], exponent: Fraction) -> Fraction:
    least = exp_weight(exponent)
    return _worst_corner([mu * least for mu in measure], [mu * ONE for mu in measure])


@lru_cache(maxsize=256)
def _solved_ratio(epsilon: Units, measure: tuple[int, ...]) -> Fraction:
    return _weighted_ratio(measure, Fraction(_solved_steps(epsilon, measure), _EXPONENT_STEPS))


@lru_cache(maxsize=256)
def _solved_steps(epsilon: Units, measure: tuple[int, ...]) -> int:
    """The largest exponent, in steps, whose exact loss rounded up to a unit is within ε.

    The bisection keeps a feasible lower end and returns it. `ε/2` is always feasible up to
    rounding, and one view alone has no loss at any exponent, so the search ends at 64 ε.
    """

    def feasible(steps: int) -> bool:
        ratio = _weighted_ratio(measure, Fraction(steps, _EXPONENT_STEPS))
        return log_units_up(ratio) <= epsilon

    low, high = 0, 64 * epsilon * _EXPONENT_STEPS // UNITS_PER_EPSILON
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if feasible(middle) else (low, middle)
    return low


@lru_cache(maxsize=256)
def _loss_up(ratio: Fraction) -> Units:
    return log_units_up(ratio)


@lru_cache(maxsize=256)
def _response_weight(epsilon: Units) -> int:
    """The largest whole number whose ratio to `ONE` is at most `e^ε`."""
    return inverse_exp_weight(Fraction(epsilon, UNITS_PER_EPSILON))
