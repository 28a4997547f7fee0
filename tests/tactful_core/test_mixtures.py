"""Rows as whole weights, the moment condition on `λ`, the mixture and the exact draw."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tactful_core.errors import ContractError
from tactful_core.fusion import Drawn, FusedDraw, FusionParameters, certain, draw
from tactful_core.mixtures import (
    STEPS,
    TOTAL,
    draw_from,
    entropy,
    mixture,
    private_weights,
    public_weights,
)

HALF = FusionParameters(2, Fraction(1, 2), Fraction(1, 8))


class Fixed:
    """A source of randomness that says the same number always, and remembers the last limit."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.limit = 0

    def below(self, limit: int) -> int:
        self.limit = limit
        return self._number


masses = st.lists(
    st.floats(0, 1e6) | st.sampled_from([0.0, 1e-300, 1e-30, 1.0]), min_size=1
).filter(lambda row: sum(row) > 1e-200)


def row(*values: float) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


@given(masses)
def test_a_public_row_has_whole_weights_of_one_total_all_positive(values: list[float]) -> None:
    weights = public_weights(row(*values))
    assert int(weights.sum()) == TOTAL
    assert weights.min() >= 1
    given = np.array(values) / sum(values) * TOTAL
    others = np.delete(np.arange(len(values)), int(np.argmax(values)))
    assert np.all(np.abs(weights - given)[others] <= 1 + given[others] * len(values) / TOTAL)


@given(masses)
def test_a_private_row_has_whole_weights_of_one_total(values: list[float]) -> None:
    weights = private_weights(row(*values), np.zeros(1, dtype=np.int64))
    assert int(weights.sum()) == TOTAL
    assert weights.min() >= 0


@pytest.mark.parametrize(
    "values",
    [(0.0, 0.0), (1.0, -0.25), (np.nan, 1.0), (np.inf, 1.0), (1e308, 1e308), (1e-300, 0.0)],
)
def test_what_is_no_distribution_counts_as_the_public_row(values: tuple[float, ...]) -> None:
    public = public_weights(row(3, 1))
    assert private_weights(row(*values), public) is public
    with pytest.raises(ContractError):
        public_weights(row(*values))


@pytest.mark.parametrize("size", [0, (1 << 20) + 1])
def test_vocabularies_that_the_error_bound_does_not_hold_for_are_refused(size: int) -> None:
    with pytest.raises(ContractError):
        public_weights(np.ones(size))


def test_largest_vocabulary_and_parts_stay_within_int64() -> None:
    """The extremes of the argument in the module's docstring: all partial sums below 2^63."""
    size = 1 << 20
    flat = public_weights(np.ones(size))
    peak = private_weights(np.eye(1, size).ravel(), flat)
    for steps in ((0, 0), (STEPS - 1, 0), (STEPS // 2, STEPS // 2 - 1)):
        weights = mixture(flat, (peak, peak), steps)
        assert weights.min() >= 0
        assert sum(weights.tolist()) == STEPS * TOTAL


@pytest.mark.parametrize("steps", [(STEPS,), (-1,), (STEPS // 2, STEPS // 2)])
def test_a_mixture_without_the_public_row_is_refused(steps: tuple[int, ...]) -> None:
    public = public_weights(row(3, 1))
    with pytest.raises(ContractError):
        mixture(public, [public] * len(steps), steps)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=600).filter(any))
def test_each_ticket_draws_the_index_that_its_weight_covers(values: list[int]) -> None:
    weights = np.array(values, dtype=np.int64)
    drawn = [draw_from(weights, Fixed(ticket)) for ticket in range(sum(values))]
    assert drawn == [index for index, weight in enumerate(values) for _ in range(weight)]


@pytest.mark.parametrize("ticket", [-1, 4])
def test_a_ticket_out_of_range_is_noticed(ticket: int) -> None:
    with pytest.raises(ContractError):
        draw_from(np.array([1, 3], dtype=np.int64), Fixed(ticket))


def test_entropy_is_in_nats() -> None:
    assert entropy(public_weights(np.ones(8))) == pytest.approx(np.log(8))


def test_a_draw_is_from_the_weights_of_the_mixture() -> None:
    """Both ends of every token's tickets, so the distribution is the mixture and nothing else."""
    public, private = row(5, 3, 2), row(1, 0, 9)
    fused = FusedDraw(HALF, cells=1, widest=1, randomness=Fixed(0))
    weights = fused.weights(public_weights(public), private[None]).tolist()
    assert sum(weights) == STEPS * TOTAL
    start = 0
    for token, weight in enumerate(weights):
        for ticket in (start, start + weight - 1):
            source = Fixed(ticket)
            assert draw(public, private[None], HALF, 1, source) == token
            assert source.limit == STEPS * TOTAL
        start += weight


def test_skipped_draws_are_public_and_free() -> None:
    public = row(999, 1)
    fused = FusedDraw(HALF, cells=1, widest=1, randomness=Fixed(TOTAL - 1), skip_below=0.1)
    assert certain(public, 0.1)
    assert fused.draw(public, row(0, 1)[None]) == Drawn(token=1, charged=False)
    assert not certain(row(1, 1), 0.1)
    assert fused.draw(row(1, 1), row(0, 1)[None]).charged


def test_without_cells_every_draw_is_public_and_free() -> None:
    source = Fixed(0)
    fused = FusedDraw(HALF, cells=0, widest=0, randomness=source)
    assert fused.draw(row(1, 1), np.empty((0, 2))) == Drawn(token=0, charged=False)
    assert source.limit == TOTAL


@pytest.mark.parametrize(("cells", "widest"), [(1, 0), (1, 2), (0, 1)])
def test_counts_of_cells_that_cannot_be_are_refused(cells: int, widest: int) -> None:
    with pytest.raises(ContractError):
        FusedDraw(HALF, cells=cells, widest=widest, randomness=Fixed(0))


@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (2,)])
def test_rows_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    fused = FusedDraw(HALF, cells=1, widest=1, randomness=Fixed(0))
    with pytest.raises(ContractError):
        fused.draw(row(1, 1), np.ones(shape))
