"""The statistics by which draws are judged, on counts that are known to fit or not to."""

from fractions import Fraction

import pytest
from tests.fakes.real_numbers import normal_tail
from tests.statistical.fit import LEAST_TAIL, MOST_DEVIATIONS, Fit, binomial, fit, power

QUARTERS = (Fraction(1, 4),) * 4


def test_counts_as_expected_have_no_objection() -> None:
    found = fit([250] * 4, QUARTERS, favoured=250, draws=1000, chance=Fraction(1, 4))
    assert (found.deviations, found.tail) == (0.0, 1.0)
    assert found.objections == []


def test_deviations_are_those_of_the_binomial() -> None:
    """A fair coin thrown 10,000 times: one deviation is 50."""
    halves = (Fraction(1, 2),) * 2
    found = fit([5_350, 4_650], halves, favoured=5_350, draws=10_000, chance=Fraction(1, 2))
    assert found.deviations == pytest.approx(7.0)
    assert len(found.objections) == 2


def test_the_chi_square_sees_what_the_favoured_count_does_not() -> None:
    found = fit([250, 100, 325, 325], QUARTERS, favoured=250, draws=1000, chance=Fraction(1, 4))
    assert found.deviations == 0.0
    assert [each.partition(" tail")[0] for each in found.objections] == ["the chi-square"]


@pytest.mark.parametrize("sign", [1, -1])
def test_thresholds_are_two_sided(sign: int) -> None:
    assert Fit(sign * (MOST_DEVIATIONS + 0.1), 1.0).objections
    assert not Fit(sign * (MOST_DEVIATIONS - 0.1), 1.0).objections
    assert Fit(0.0, LEAST_TAIL / 2).objections


def test_false_alarms_are_rarer_than_one_in_a_billion() -> None:
    assert normal_tail(MOST_DEVIATIONS) + LEAST_TAIL < 1e-9


def test_power_grows_with_the_root_of_the_draws() -> None:
    right, wrong = Fraction(1, 2), Fraction(11, 20)
    assert power(right, wrong, 10_000) == pytest.approx(10.0)
    assert power(right, wrong, 40_000) == pytest.approx(20.0)


def test_binomial_chances_are_exact() -> None:
    assert binomial(2, Fraction(1, 3)) == (Fraction(4, 9), Fraction(4, 9), Fraction(1, 9))
    assert sum(binomial(7, Fraction(3, 11))) == 1
