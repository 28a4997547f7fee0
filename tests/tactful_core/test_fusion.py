"""What a fused draw costs, how losses become an epsilon, and what parameters an epoch gets."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.real_numbers import ln_enclosure

from tactful_core.errors import ContractError
from tactful_core.fusion import (
    HIGHEST_ALPHA,
    FusionParameters,
    Unreachable,
    calibrate,
    epsilon_of,
    loss_units,
    rho_cap,
    smallest_epsilon,
)
from tactful_core.mixtures import STEPS
from tactful_core.values import UNITS_PER_EPSILON, AttributeName, Units

HEALTH, MONEY = AttributeName("health"), AttributeName("money")

parameters = st.builds(
    FusionParameters.in_steps,
    st.integers(2, HIGHEST_ALPHA),
    st.integers(1, STEPS - 1),
    st.integers(1, 4 * STEPS),
)


@given(parameters, st.integers(1, 6), st.data())
def test_a_draw_costs_the_divergence_of_theorem_2_rounded_up(
    given: FusionParameters, widest: int, data: st.DataObject
) -> None:
    touching = data.draw(st.integers(0, widest))
    ratio = 1 + given.divergence * Fraction(touching, widest) ** 2
    low, high = (
        loss * UNITS_PER_EPSILON / (given.alpha - 1) for loss in ln_enclosure(ratio, digits=40)
    )
    assert high - Fraction(1, 10**20) <= loss_units(given, touching, widest) < low + 2


def test_what_no_cell_touches_pays_nothing() -> None:
    assert loss_units(FusionParameters.in_steps(2, 1, STEPS), 0, 3) == 0


@pytest.mark.parametrize(("touching", "widest"), [(-1, 1), (2, 1), (0, 0)])
def test_counts_of_cells_that_cannot_be_are_refused(touching: int, widest: int) -> None:
    with pytest.raises(ContractError):
        loss_units(FusionParameters.in_steps(2, 1, 1), touching, widest)


@pytest.mark.parametrize(
    ("alpha", "limit", "divergence"),
    [
        (1, Fraction(1, 2), Fraction(1)),
        (HIGHEST_ALPHA + 1, Fraction(1, 2), Fraction(1)),
        (2, Fraction(0), Fraction(1)),
        (2, Fraction(1), Fraction(1)),
        (2, Fraction(1, 2), Fraction(0)),
        (2, Fraction(1, 3), Fraction(1)),
        (2, Fraction(1, 2), Fraction(1, 3)),
    ],
)
def test_parameters_that_theorem_2_does_not_hold_for_are_refused(
    alpha: int, limit: Fraction, divergence: Fraction
) -> None:
    with pytest.raises(ContractError):
        FusionParameters(alpha, limit, divergence)


@given(parameters)
def test_parameters_survive_as_whole_numbers(given: FusionParameters) -> None:
    assert FusionParameters.in_steps(*given.steps) == given


def test_the_constant_of_the_conversion_is_the_one_that_the_guarantee_states() -> None:
    """GUARANTEE §5: 10.1 at α = 2 and δ = 1e-5."""
    least = epsilon_of(FusionParameters.in_steps(2, 1, 1), Units(1), 1e-5)
    assert round(least, 1) == 10.1


@given(parameters, st.integers(1, 60 * UNITS_PER_EPSILON), st.sampled_from([1e-3, 1e-5, 1e-9]))
def test_conversion_is_never_below_the_real_number(
    given: FusionParameters, rho: int, delta: float
) -> None:
    alpha = given.alpha
    spent = Fraction(rho, UNITS_PER_EPSILON)
    low, high = ln_enclosure(Fraction(alpha - 1, alpha), digits=40)
    least_share, most_share = ln_enclosure(Fraction(delta) * alpha, digits=40)
    least = spent + low - most_share / (alpha - 1)
    most = spent + high - least_share / (alpha - 1)
    found = Fraction(epsilon_of(given, Units(rho), delta))
    assert most - Fraction(1, 10**30) <= found <= max(least, Fraction(0)) + Fraction(1, 10**12)


def test_nothing_drawn_is_no_epsilon() -> None:
    assert epsilon_of(FusionParameters.in_steps(2, 1, 1), Units(0), 1e-5) == 0


@given(
    parameters,
    st.floats(0.01, 60, allow_nan=False),
    st.sampled_from([1e-3, 1e-5, Fraction(1, 10**9)]),
)
def test_a_cap_of_losses_stays_within_its_epsilon(
    given: FusionParameters, epsilon: float, delta: float
) -> None:
    cap = rho_cap(given, epsilon, delta)
    if cap:
        assert epsilon_of(given, cap, delta) <= math.nextafter(epsilon, math.inf)
    assert epsilon_of(given, Units(cap + 2), delta) > epsilon


@pytest.mark.parametrize("delta", [0, 1, 2, -1e-5])
def test_delta_is_a_probability(delta: float) -> None:
    with pytest.raises(ContractError):
        epsilon_of(FusionParameters.in_steps(2, 1, 1), Units(1), delta)
    with pytest.raises(ContractError):
        rho_cap(FusionParameters.in_steps(2, 1, 1), 8, delta)


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 8.0, 16.0])
@pytest.mark.parametrize("draws", [20, 200, 5000])
def test_every_attribute_affords_the_planned_draws(epsilon: float, draws: int) -> None:
    found = calibrate({HEALTH: epsilon, MONEY: 2 * epsilon}, 1e-5, draws)
    each = loss_units(found, 1, 1)
    assert draws * each <= rho_cap(found, epsilon, 1e-5) < draws * (each + 2)
    assert epsilon_of(found, Units(draws * each), 1e-5) <= epsilon


def test_an_epsilon_of_8_at_delta_1e_5_needs_an_order_of_3_at_least() -> None:
    assert calibrate({HEALTH: 8.0}, 1e-5, 200).alpha >= 3


@pytest.mark.parametrize(("delta", "draws"), [(1e-5, 200), (1e-9, 1), (1e-3, 100_000)])
def test_smallest_epsilon_is_the_first_that_can_be_reached(delta: float, draws: int) -> None:
    least = smallest_epsilon(delta, draws)
    calibrate({HEALTH: least}, delta, draws)
    with pytest.raises(Unreachable) as refused:
        calibrate({MONEY: 3.0, HEALTH: least - 0.001}, delta, draws)
    assert refused.value.attribute == HEALTH
    assert refused.value.smallest == least
    assert "'health'" in str(refused.value)


def test_the_smallest_epsilon_decides() -> None:
    """Whichever attribute's it is, and whatever it is called."""
    alone = calibrate({HEALTH: 4.0}, 1e-5, 100)
    assert calibrate({HEALTH: 4.0, MONEY: 9.0}, 1e-5, 100) == alone
    assert calibrate({HEALTH: 9.0, MONEY: 4.0}, 1e-5, 100) == alone


def test_calibrating_needs_something_to_calibrate_for() -> None:
    with pytest.raises(ContractError):
        calibrate({}, 1e-5, 200)
    with pytest.raises(ContractError):
        calibrate({HEALTH: 8.0}, 1e-5, 0)
