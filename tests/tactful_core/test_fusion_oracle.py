"""The conversion of losses to (ε, δ) against Google's dp-accounting, where it is installed.

It needs scipy and is no dependency of ours, not even of the tests: `pip install --target DIR
dp-accounting`, then run with `PYTHONPATH=DIR`.
"""

from fractions import Fraction

import pytest

from tactful_core.fusion import FusionParameters, epsilon_of
from tactful_core.values import UNITS_PER_EPSILON, Units


@pytest.mark.long
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize("alpha", [2, 3, 8, 32])
def test_conversion_agrees_with_dp_accounting(alpha: int, delta: float) -> None:
    oracle = pytest.importorskip(
        "dp_accounting.rdp.rdp_privacy_accountant",
        reason="dp-accounting is an oracle that is installed by hand; see the module's docstring",
    )
    parameters = FusionParameters(alpha, Fraction(1, 2), Fraction(1, 8))
    for rho in (0.01, 0.5, 3.2, 20.0):
        units = Units(int(rho * UNITS_PER_EPSILON))
        theirs, _ = oracle.compute_epsilon([alpha], [units / UNITS_PER_EPSILON], delta)
        assert epsilon_of(parameters, units, delta) == pytest.approx(theirs, abs=1e-9)
