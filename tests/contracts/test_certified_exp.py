"""The rational bounds on `e^x` against 80 digits of mpmath."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.contracts.certified_exp import exp_at_least, exp_at_most
from tests.fakes.real_numbers import exp_enclosure

exponents = st.fractions(min_value=0, max_value=24, max_denominator=10**9)


@given(exponents)
@example(Fraction(0))
@example(Fraction(24))
def test_bounds_enclose_the_real_number(exponent: Fraction) -> None:
    low, high = exp_enclosure(exponent, digits=80)
    assert exp_at_least(exponent) <= high
    assert exp_at_most(exponent) >= low


@given(exponents)
def test_bounds_are_close(exponent: Fraction) -> None:
    low, high = exp_at_least(exponent), exp_at_most(exponent)
    assert 0 <= high - low <= low / 2**64


def test_no_loss_is_exactly_one() -> None:
    assert exp_at_least(Fraction(0)) == exp_at_most(Fraction(0)) == 1


@pytest.mark.parametrize("exponent", [Fraction(-1, 10**9), Fraction(25)])
def test_refuses_exponents_that_are_not_certified(exponent: Fraction) -> None:
    with pytest.raises(ValueError, match="certified"):
        exp_at_least(exponent)
