"""The paper's mixture: its search against 50 digits, and charges that hold, exactly."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.fakes.real_numbers import largest_mollified_part, ln_enclosure, mollified_moment

from tactful_core.errors import ContractError
from tactful_core.fusion import FusedDraw, FusionParameters
from tactful_core.mixtures import STEPS, TOTAL, PublicRow
from tactful_core.mollification import Mollified, masking_loss_units, replacement_epsilon
from tactful_core.sampling import SystemRandomness
from tactful_core.values import UNITS_PER_EPSILON, Units

LIMIT = Fraction(15, 16)


def mollifying(alpha: int, divergence: Fraction, cells: int) -> FusedDraw:
    parameters = FusionParameters(alpha, LIMIT, divergence)
    return FusedDraw(
        parameters,
        cells=cells,
        widest=cells,
        randomness=SystemRandomness(),
        rule=Mollified(parameters, cells),
    )


def moment_of_ratio(weights: list[int], others: list[int], alpha: int) -> Fraction:
    """`E_{P'} (P/P')^α`, exactly."""
    pairs = zip(weights, others, strict=True)
    found = sum((Fraction(p) ** alpha / Fraction(o) ** (alpha - 1) for p, o in pairs), Fraction(0))
    return found / (STEPS * TOTAL)


def distributions(tokens: int) -> st.SearchStrategy[list[int]]:
    grain = st.one_of(st.integers(0, 10), st.sampled_from([0, 1, 10**6]))
    return st.lists(grain, min_size=tokens, max_size=tokens).filter(any)


@given(st.data())
def test_divergence_of_one_draw_is_within_its_masking_charge(data: st.DataObject) -> None:
    """With exact rationals: any cells may be masked, both directions."""
    tokens, cells = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    public = np.array(data.draw(distributions(tokens)), dtype=np.float64) + 1e-3
    rows = (
        np.array(data.draw(st.lists(distributions(tokens), min_size=cells, max_size=cells))) * 1.0
    )
    masked = rows.copy()
    touched = data.draw(st.integers(1, cells))
    masked[:touched] = public
    alpha = data.draw(st.sampled_from([2, 3, 4, 8]))
    divergence = Fraction(1, data.draw(st.sampled_from([1, 8, 64])))
    fused = mollifying(alpha, divergence, cells)
    these, those = (fused.weigh(public, each)[0].tolist() for each in (rows, masked))
    allowed = 1 + divergence * Fraction(touched, cells)
    assert moment_of_ratio(these, those, alpha) <= allowed
    assert moment_of_ratio(those, these, alpha) <= allowed


@pytest.mark.parametrize("alpha", [2, 3, 4, 8])
def test_the_masking_charge_of_one_cell_is_attained(alpha: int) -> None:
    """So nothing smaller would do, whatever formula it came from."""
    public, private = np.array([1.0, 9]), np.array([[9.0, 1]])
    fused = mollifying(alpha, Fraction(1, 16), 1)
    these, those = (fused.weigh(public, each)[0].tolist() for each in (private, public[None]))
    worst = max(moment_of_ratio(these, those, alpha), moment_of_ratio(those, these, alpha))
    assert 1 + Fraction(1, 16) - Fraction(1, 10**6) < worst <= 1 + Fraction(1, 16)


ROWS = (
    ("equal", (5, 3, 2), (5, 3, 2)),
    ("apart", (1, 9, 90), (90, 9, 1)),
    ("nothing_where_q_is", (1, 1, 2), (0, 1, 0)),
    ("rare_under_q", (1e-9, 1, 1), (1, 1, 1)),
)


@pytest.mark.parametrize("alpha", [2, 3, 8, 32])
@pytest.mark.parametrize(("public", "private"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_part_is_the_largest_for_which_both_bounds_hold(
    public: tuple[float, ...], private: tuple[float, ...], alpha: int
) -> None:
    q, p = (np.array(row) / sum(row) for row in (public, private))
    most, divergence = int(LIMIT * STEPS), Fraction(1, 16)
    rule = Mollified(FusionParameters(alpha, LIMIT, divergence), 1)
    work: NDArray[np.float64] = np.empty((2, q.size))
    part = Fraction(rule.part(PublicRow.of(q), p, most, (work[0], work[1])), STEPS)
    exact = q.tolist(), p.tolist()
    assert mollified_moment(*exact, part, alpha) <= 1 + float(divergence)
    true = largest_mollified_part(*exact, alpha, divergence, Fraction(most, STEPS))
    assert part <= true + Fraction(1, 10**12)
    assert true - part <= Fraction(1, 10**6)


@given(st.integers(2, 32), st.integers(1, 4 * STEPS), st.integers(1, 5), st.data())
def test_a_draw_costs_its_masking_divergence_rounded_up(
    alpha: int, divergence: int, cells: int, data: st.DataObject
) -> None:
    touching = data.draw(st.integers(0, cells))
    parameters = FusionParameters.in_steps(alpha, 1, divergence)
    ratio = 1 + parameters.divergence * Fraction(touching, cells)
    low, high = (loss * UNITS_PER_EPSILON / (alpha - 1) for loss in ln_enclosure(ratio, digits=40))
    assert high - Fraction(1, 10**20) <= masking_loss_units(parameters, touching, cells) < low + 2


@pytest.mark.parametrize(("touching", "cells"), [(-1, 1), (2, 1), (0, 0)])
def test_counts_of_cells_that_cannot_be_are_refused(touching: int, cells: int) -> None:
    with pytest.raises(ContractError):
        masking_loss_units(FusionParameters.in_steps(2, 1, 1), touching, cells)


@pytest.mark.parametrize("alpha", [3, 4, 8])
def test_replacement_takes_the_best_split_of_delta(alpha: int) -> None:
    """Against a search over splits of δ, from the formula of two hops."""
    parameters, rho, delta = FusionParameters.in_steps(alpha, 1, 1), 2.0, 1e-5
    found = replacement_epsilon(parameters, Units(int(rho * UNITS_PER_EPSILON)), delta)

    def hop(given: float) -> float:
        return rho + math.log(1 - 1 / alpha) - math.log(given * alpha) / (alpha - 1)

    best = min(
        hop(delta * split) + hop(delta * (1 - split) * math.exp(-hop(delta * split)))
        for split in np.linspace(0.001, 0.999, 999)
    )
    assert best - 1e-4 < found <= best + 1e-9


def test_nothing_drawn_is_no_epsilon_and_delta_is_a_probability() -> None:
    parameters = FusionParameters.in_steps(3, 1, 1)
    assert replacement_epsilon(parameters, Units(0), 1e-5) == 0
    with pytest.raises(ContractError):
        replacement_epsilon(parameters, Units(1), 1)
    with pytest.raises(ContractError):
        replacement_epsilon(parameters, Units(-1), 1e-5)
