"""Perplexity of documents under fused draws, at equal replacement guarantees, on recorded rows.

Decides which parameters are compared, how they are chosen, and the intervals. What is *not* here:
kernels and charges (`tactful_core.fusion`, `tactful_core.mollification`), rows (`recorded_rows`).

- `direct`: Theorem 2's draws, with the parameters that the daemon calibrates for (ε, δ, draws);
- `mollified`: the paper's draws. For replacement what GUARANTEE §5 leaves them is the way over the
  masked store, in two hops: of the orders for which that reaches ε, the one with the lowest
  perplexity on the documents for choosing, and the largest bound that it affords;
- `public` and `private`: nothing of memory, and all of it without protection.

Invariants:

- parameters are fixed before the measured documents are looked at, on others or on none;
- every mixture is that of the core's own whole weights, from which a token would be drawn;
- intervals are percentiles of resampled documents, the same ones for all kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tactful_core.fusion import FusedDraw, FusionParameters, calibrate, epsilon_of, loss_units
from tactful_core.mixtures import STEPS, TOTAL
from tactful_core.mollification import Mollified, masking_loss_units, replacement_epsilon
from tactful_core.sampling import SystemRandomness
from tactful_core.values import AttributeName, Units
from tactful_eval.recorded_rows import Recorded

DELTA: Final = 1e-5
DRAWS: Final = 200
EPSILONS: Final = (4.0, 8.0, 16.0)
ORDERS: Final = (3, 4, 6, 8, 12, 16, 24)
"""Orders that are tried for the paper's draws; two hops reach nothing at 2."""

CHOOSING_TOKENS: Final = 40
"""How many tokens of each document for choosing are looked at: each order takes its time."""

RESAMPLES: Final = 10_000
SEED: Final = 20261130

Losses = npt.NDArray[np.float64]
"""Negative log-likelihoods of tokens."""


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Attributes:
    value, low, high: perplexity and its 95 % interval.
    over_public, over_private: perplexity in parts of the ends', with intervals.
    """

    value: float
    low: float
    high: float
    over_public: tuple[float, float, float]
    over_private: tuple[float, float, float]

    @property
    def between_the_ends(self) -> bool:
        """Whether the intervals exclude both ends."""
        return self.over_public[2] < 1 < self.over_private[1]


@dataclass(frozen=True, slots=True)
class Measured:
    """One kernel at one guarantee; `parameters` is None where no order reaches `epsilon`."""

    kernel: str
    epsilon: float
    certified: float
    parameters: FusionParameters | None
    perplexity: Perplexity | None


def measured(choosing: Sequence[Recorded], measuring: Sequence[Recorded]) -> tuple[Measured, ...]:
    """Both kernels at each epsilon, and the ends."""
    ends = [[_surprise(each.public, each), _surprise(each.private, each)] for each in measuring]
    public, private = ([pair[end] for pair in ends] for end in (0, 1))

    def row(
        kernel: str,
        epsilon: float,
        certified: float,
        parameters: FusionParameters | None,
        losses: Sequence[Losses],
    ) -> Measured:
        return Measured(kernel, epsilon, certified, parameters, perplexity(losses, public, private))

    found = [row("public", 0.0, 0.0, None, public)]
    for epsilon in EPSILONS:
        direct = calibrate({AttributeName("document"): epsilon}, DELTA, DRAWS)
        losses = [fused(each, direct) for each in measuring]
        found.append(row("direct", epsilon, certified(direct), direct, losses))
        mollified = _mollified_parameters(epsilon, choosing)
        if mollified is None:
            found.append(Measured("mollified", epsilon, float("inf"), None, None))
            continue
        losses = [fused(each, mollified, mollify=True) for each in measuring]
        found.append(row("mollified", epsilon, mollified_certified(mollified), mollified, losses))
    return (*found, row("private", float("inf"), float("inf"), None, private))


def fused(document: Recorded, parameters: FusionParameters, *, mollify: bool = False) -> Losses:
    """Each token's negative log-likelihood under the mixture that it would be drawn from."""
    rule = Mollified(parameters, 1) if mollify else None
    draw = FusedDraw(parameters, cells=1, widest=1, randomness=SystemRandomness(), rule=rule)
    weights = [
        int(draw.weigh(public, private[None])[0][token])
        for public, private, token in zip(
            document.public, document.private, document.tokens, strict=True
        )
    ]
    return np.asarray(-np.log(np.array(weights, np.float64) / (STEPS * TOTAL)))


def certified(parameters: FusionParameters) -> float:
    """The replacement ε of `DRAWS` direct draws."""
    return epsilon_of(parameters, Units(DRAWS * loss_units(parameters, 1, 1)), DELTA)


def mollified_certified(parameters: FusionParameters) -> float:
    """The replacement ε of as many of the paper's, over the masked store."""
    rho = Units(DRAWS * masking_loss_units(parameters, 1, 1))
    return replacement_epsilon(parameters, rho, DELTA)


def perplexity(
    losses: Sequence[Losses], public: Sequence[Losses], private: Sequence[Losses]
) -> Perplexity:
    """Of all tokens of all documents, with intervals over documents."""
    sums = np.array([[each.sum() for each in kind] for kind in (losses, public, private)])
    sizes = np.array([each.size for each in losses])
    chosen = np.random.default_rng(SEED).integers(len(sizes), size=(RESAMPLES, len(sizes)))
    means = sums[:, chosen].sum(axis=2) / sizes[chosen].sum(axis=1)
    mean = sums.sum(axis=1) / sizes.sum()

    def interval(value: float, sample: npt.NDArray[np.float64]) -> tuple[float, float, float]:
        low, high = np.quantile(np.exp(sample), (0.025, 0.975))
        return float(np.exp(value)), float(low), float(high)

    return Perplexity(
        *interval(mean[0], means[0]),
        over_public=interval(mean[0] - mean[1], means[0] - means[1]),
        over_private=interval(mean[0] - mean[2], means[0] - means[2]),
    )


def _mollified_parameters(epsilon: float, choosing: Sequence[Recorded]) -> FusionParameters | None:
    candidates = [each for alpha in ORDERS if (each := mollified_within(epsilon, alpha))]
    if len(candidates) < 2:
        return candidates[0] if candidates else None

    short = [each.beginning(CHOOSING_TOKENS) for each in choosing]

    def loss(parameters: FusionParameters) -> float:
        return sum(float(fused(each, parameters, mollify=True).sum()) for each in short)

    return min(candidates, key=loss)


def mollified_within(epsilon: float, alpha: int) -> FusionParameters | None:
    """The largest bound of the paper's draws at this order whose `DRAWS` stay within `epsilon`."""
    low, high = 0, 4 * STEPS
    while high - low > 1:
        middle = (low + high) // 2
        fits = mollified_certified(_with_bound(alpha, middle)) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return _with_bound(alpha, low) if low else None


def _with_bound(alpha: int, divergence: int) -> FusionParameters:
    """The paper's draws have no limit on λ of their own."""
    return FusionParameters.in_steps(alpha, STEPS - 1, divergence)


def _surprise(rows: npt.NDArray[np.float64], document: Recorded) -> Losses:
    chosen = rows[np.arange(len(document.tokens)), document.tokens]
    return np.asarray(-np.log(np.maximum(chosen, np.finfo(np.float64).tiny)))
