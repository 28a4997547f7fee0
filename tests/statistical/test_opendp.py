"""OpenDP as an oracle: an implementation by others draws from our exact probabilities.

`make_noisy_max` with Gumbel noise (zero-concentrated divergence) is the exponential mechanism, and
with exponential noise (max-divergence) permute-and-flip; both with scale `2 Δ / ε` on our scores in
steps. Their privacy maps must agree with our charge, and their draws with our distribution.

Skipped where OpenDP is not installed: it is no part of `make setup` (265 MB).
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.contracts.findings import FINDING
from tests.statistical.fit import LEAST_POWER, MOST_DEVIATIONS, fit, power

from tactful_core.scoring import PRIVATE_RANGE, Scores
from tactful_core.selection import Exponential, PermuteAndFlip
from tactful_core.values import Secret, Units, units_from_epsilon

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

DRAWS = 60_000
EPSILON = 4
UNITS = units_from_epsilon(EPSILON)
PUBLIC, PRIVATE = (20, 0, 0, 40), (0, PRIVATE_RANGE, 0, 300)
TOTALS = [r + p for r, p in zip(PUBLIC, PRIVATE, strict=True)]
FAVOURED = 1

Ours = type[Exponential] | type[PermuteAndFlip]
ORACLES = pytest.mark.parametrize(
    ("ours", "measure", "loss"),
    [
        # Bounded range ε is ε²/8 zero-concentrated.
        pytest.param(Exponential, "zero_concentrated_divergence", EPSILON**2 / 8, id="gumbel"),
        pytest.param(PermuteAndFlip, "max_divergence", EPSILON, id="exponential noise"),
    ],
)


@pytest.fixture
def opendp() -> Any:
    library = pytest.importorskip(
        "opendp.prelude", reason="OpenDP is not installed: pip install opendp==0.16.*"
    )
    library.enable_features("contrib")
    return library


def noisy_max(opendp: Any, measure: str) -> Any:
    """OpenDP's mechanism for whole scores of which contents move each by at most the range."""
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.linf_distance(T=int)
    return opendp.m.make_noisy_max(
        *space, getattr(opendp, measure)(), scale=2 * PRIVATE_RANGE / EPSILON
    )


@ORACLES
def test_privacy_maps_agree_with_what_is_charged(
    opendp: Any, ours: Ours, measure: str, loss: float
) -> None:
    assert noisy_max(opendp, measure).map(PRIVATE_RANGE) == pytest.approx(loss)
    assert ours(UNITS).charge == UNITS


@ORACLES
def test_draws_of_opendp_fit_our_exact_probabilities(
    opendp: Any,
    ours: Ours,
    measure: str,
    loss: float,
    record_property: Callable[[str, object], None],
) -> None:
    scores = Scores(PUBLIC, Secret(PRIVATE))
    chances = ours(UNITS).distribution(scores)
    wrong = [ours(Units(UNITS * p // 100)).distribution(scores)[FAVOURED] for p in (90, 110)]
    strength = min(power(chances[FAVOURED], chance, DRAWS) for chance in wrong)
    assert strength >= LEAST_POWER + MOST_DEVIATIONS
    mechanism = noisy_max(opendp, measure)
    counts = Counter(mechanism(TOTALS) for _ in range(DRAWS))
    cells = [counts[view] for view in range(len(TOTALS))]
    found = fit(cells, chances, cells[FAVOURED], DRAWS, chances[FAVOURED])
    record_property(
        FINDING, f"OpenDP, {ours.__name__}: {DRAWS} draws, {strength:.1f} sigma; {found}"
    )
    assert found.objections == []
