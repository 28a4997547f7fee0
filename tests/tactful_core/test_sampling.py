"""Weights are the real numbers rounded up; a draw has exactly the probabilities of its weights."""

from decimal import ROUND_FLOOR, Context, Inexact, Rounded, localcontext
from fractions import Fraction
from math import floor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.contracts.branching import distribution_of
from tests.fakes.fixed_randomness import ChosenTickets
from tests.fakes.real_numbers import exp_enclosure, ln_enclosure

from tactful_core.errors import ContractError
from tactful_core.sampling import (
    ONE,
    SystemRandomness,
    draw,
    exp_weight,
    inverse_exp_weight,
    log_units_up,
)
from tactful_core.values import UNITS_PER_EPSILON

exponents = st.fractions(min_value=0, max_value=40, max_denominator=10**12)
NEARLY_WHOLE = Fraction(1, 10**15)
weight_lists = st.lists(st.integers(1, 1 << 140), min_size=1, max_size=8)


# ---- exp(-x) as a whole number ------------------------------------------------------------------


@given(exponents)
@example(Fraction(1, 10**70))
@example(Fraction(1, UNITS_PER_EPSILON))
@example(Fraction(40, 3))
@example(Fraction(88))
def test_a_weight_is_never_below_the_real_number_and_off_by_at_most_one(
    exponent: Fraction,
) -> None:
    low, high = exp_enclosure(-exponent, digits=80)
    weight = exp_weight(exponent)
    assert weight >= low * ONE
    assert weight - 1 <= high * ONE + NEARLY_WHOLE


@given(exponents)
def test_a_weight_is_the_least_whole_number_that_is_not_below(exponent: Fraction) -> None:
    """Except where the real number lies within `NEARLY_WHOLE` below a whole one."""
    low, _ = exp_enclosure(-exponent, digits=80)
    real = low * ONE
    near = -real % 1 < NEARLY_WHOLE
    assert near or exp_weight(exponent) - 1 < real


@given(st.integers(2, ONE - 1))
@example(120873781317331301519047178303857581089)
@example(3880195160403669421771536121717399627)
def test_a_weight_just_above_a_whole_number_is_not_rounded_down_to_it(whole: int) -> None:
    """The exponents for which rounding in between could do harm, to the last of 55 decimals."""
    low, _ = ln_enclosure(Fraction(ONE, whole), digits=80)
    exponent = Fraction(floor(low * 10**55), 10**55)
    real, _ = exp_enclosure(-exponent, digits=100)
    assert exp_weight(exponent) >= real * ONE > whole


@given(exponents)
def test_a_weight_does_not_depend_on_the_decimal_context_of_the_caller(exponent: Fraction) -> None:
    with localcontext(Context(prec=2, rounding=ROUND_FLOOR, traps=[Inexact, Rounded])):
        weight = exp_weight(exponent)
    assert weight == exp_weight(exponent)


@given(exponents, exponents)
def test_a_larger_exponent_never_weighs_more_by_more_than_rounding(
    one: Fraction, other: Fraction
) -> None:
    small, large = sorted((one, other))
    assert exp_weight(large) <= exp_weight(small) + 1


@pytest.mark.parametrize("exponent", [Fraction(89), Fraction(10**4), Fraction(10**9)])
def test_a_weight_is_never_zero(exponent: Fraction) -> None:
    assert exp_weight(exponent) == 1


def test_no_exponent_weighs_one() -> None:
    assert exp_weight(Fraction(0)) == inverse_exp_weight(Fraction(0)) == ONE


@pytest.mark.parametrize("function", [exp_weight, inverse_exp_weight])
def test_refuses_a_negative_exponent(function: object) -> None:
    assert callable(function)
    with pytest.raises(ContractError):
        function(Fraction(-1, 10**9))


# ---- exp(x) rounded down ------------------------------------------------------------------------


@given(exponents)
@example(Fraction(1, UNITS_PER_EPSILON))
@example(Fraction(16))
def test_an_inverse_weight_is_never_above_the_real_number_and_close(exponent: Fraction) -> None:
    low, high = exp_enclosure(exponent, digits=80)
    weight = inverse_exp_weight(exponent)
    assert weight <= high * ONE
    assert weight >= low * ONE * (1 - Fraction(1, 10**36)) - 1


# ---- ln in units, rounded up --------------------------------------------------------------------


@given(st.fractions(min_value=1, max_value=10**12, max_denominator=10**12))
@example(Fraction(1))
@example(Fraction(ONE + 1, ONE))
def test_a_loss_in_units_is_never_below_the_real_logarithm_and_off_by_at_most_one(
    ratio: Fraction,
) -> None:
    low, high = ln_enclosure(ratio, digits=60)
    units = log_units_up(ratio)
    assert units >= low * UNITS_PER_EPSILON
    assert units - 1 <= high * UNITS_PER_EPSILON


def test_no_loss_is_no_unit_and_the_least_loss_is_one() -> None:
    assert log_units_up(Fraction(1)) == 0
    assert log_units_up(Fraction(10**60 + 1, 10**60)) == 1


def test_refuses_the_logarithm_of_less_than_one() -> None:
    with pytest.raises(ContractError):
        log_units_up(Fraction(ONE - 1, ONE))


# ---- drawing ------------------------------------------------------------------------------------


@given(weight_lists)
def test_a_draw_has_exactly_the_probabilities_of_its_weights(weights: list[int]) -> None:
    total = sum(weights)
    expected = {index: Fraction(weight, total) for index, weight in enumerate(weights)}
    assert distribution_of(lambda randomness: draw(weights, randomness)) == expected


@given(weight_lists, st.data())
def test_a_ticket_belongs_to_the_weight_it_falls_into(
    weights: list[int], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(weights) - 1))
    first = sum(weights[:index])
    last = first + weights[index] - 1
    tickets = ChosenTickets([first, last])
    assert [draw(weights, tickets), draw(weights, tickets)] == [index, index]
    assert tickets.limits == [sum(weights)] * 2


@pytest.mark.parametrize("weights", [[], [0], [1, 0], [3, -1]])
def test_refuses_weights_that_are_not_positive_before_it_draws(weights: list[int]) -> None:
    tickets = ChosenTickets([])
    with pytest.raises(ContractError):
        draw(weights, tickets)
    assert tickets.limits == []


@pytest.mark.parametrize("ticket", [-1, 7, 1 << 200])
def test_refuses_a_ticket_that_is_out_of_range(ticket: int) -> None:
    with pytest.raises(ContractError, match="out of range"):
        draw([3, 4], ChosenTickets([ticket]))


@given(st.integers(1, 1 << 200))
def test_the_system_draws_below_the_limit(limit: int) -> None:
    assert 0 <= SystemRandomness().below(limit) < limit


def test_the_system_draws_every_small_number() -> None:
    randomness = SystemRandomness()
    assert {randomness.below(3) for _ in range(400)} == {0, 1, 2}
