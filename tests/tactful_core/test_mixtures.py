"""Rows as whole weights, the moment condition on `λ`, the mixture and the exact draw."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tactful_core.errors import ContractError
from tactful_core.fusion import Drawn, FusedDraw, FusionParameters, certain, draw
from tactful_core.mixtures import (
    STEPS,
    TOTAL,
    Condition,
    Mixer,
    draw_from,
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


def rounded(public: list[float], private: list[float]) -> list[list[int]]:
    """The whole weights of both rows, read out of mixtures with known parts."""
    mixer = Mixer(len(public))
    mixer.begin(row(*public))
    alone = mixer.weights() // STEPS
    most = mixer.add(row(*private), Allowing(2, Fraction(1, 2), Fraction(1), 1), STEPS // 2)
    with_cell = mixer.weights() - alone * (STEPS - most)
    return [alone.tolist(), (with_cell // most).tolist()]


class Allowing(Condition):
    """No condition at all, so that any part can be asked for."""

    def holds(self, steps: int, of: tuple[float, ...]) -> bool:
        return True

    def largest(self, most: int, of: tuple[float, ...]) -> int:
        return most


def off(weights: list[int], given: list[float]) -> float:
    """How far whole weights are from the real ones, the likeliest token's left out."""
    likeliest = given.index(max(given))
    return max(
        (
            abs(weight - mass / sum(given) * TOTAL)
            for token, (weight, mass) in enumerate(zip(weights, given, strict=True))
            if token != likeliest
        ),
        default=0.0,
    )


@given(st.data())
def test_rows_become_whole_weights_of_one_total(data: st.DataObject) -> None:
    public, private = data.draw(masses), data.draw(masses)
    size = min(len(public), len(private))
    public, private = [*public[: size - 1], 1.0], [*private[: size - 1], 1.0]
    of_public, of_private = rounded(public, private)
    assert sum(of_public) == sum(of_private) == TOTAL
    assert min(*of_public, *of_private) >= 1
    assert max(off(of_public, public), off(of_private, private)) <= size + 1


@given(masses)
def test_equal_rows_have_equal_weights(values: list[float]) -> None:
    """So a cell with nothing in it, whose row is the public one, changes nothing at all."""
    of_public, of_private = rounded(values, values)
    assert of_private == of_public


@pytest.mark.parametrize(
    "values",
    [(0.0, 0.0), (1.0, -0.25), (np.nan, 1.0), (np.inf, 1.0), (1e308, 1e308), (1e-300, 0.0)],
)
def test_what_is_no_distribution_counts_as_the_public_row(values: tuple[float, ...]) -> None:
    of_public, of_private = rounded([3, 1], list(values))
    assert of_private == of_public
    with pytest.raises(ContractError):
        Mixer(2).begin(row(*values))


@pytest.mark.parametrize("size", [0, (1 << 20) + 1])
def test_vocabularies_that_the_error_bound_does_not_hold_for_are_refused(size: int) -> None:
    with pytest.raises(ContractError):
        Mixer(size)


@pytest.mark.parametrize("steps", [0, STEPS - 1, STEPS // 2])
def test_largest_vocabulary_and_parts_stay_within_int64(steps: int) -> None:
    """The extremes of the argument in the module's docstring: all partial sums below 2^63."""
    size = 1 << 20
    mixer = Mixer(size)
    mixer.begin(np.ones(size))
    mixer.add(np.eye(1, size).ravel(), Allowing(2, Fraction(1, 2), Fraction(1), 1), steps)
    weights = mixer.weights()
    assert weights.min() >= 0
    assert sum(weights.tolist()) == STEPS * TOTAL


def test_a_mixture_without_the_public_row_is_refused() -> None:
    mixer = Mixer(2)
    mixer.begin(row(1, 1))
    allowing = Allowing(2, Fraction(1, 2), Fraction(1), 1)
    mixer.add(row(1, 0), allowing, STEPS // 2)
    with pytest.raises(ContractError):
        mixer.add(row(1, 0), allowing, STEPS // 2)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60).filter(any))
@example([1] * 700)
@example([0] * 300 + [2] * 300)
def test_each_ticket_draws_the_index_that_its_weight_covers(values: list[int]) -> None:
    weights = np.array(values, dtype=np.int64)
    drawn = [draw_from(weights, Fixed(ticket)) for ticket in range(sum(values))]
    assert drawn == [index for index, weight in enumerate(values) for _ in range(weight)]


@pytest.mark.parametrize("ticket", [-1, 4])
def test_a_ticket_out_of_range_is_noticed(ticket: int) -> None:
    with pytest.raises(ContractError):
        draw_from(np.array([1, 3], dtype=np.int64), Fixed(ticket))


@given(masses, st.floats(-0.5, 5))
def test_entropy_is_in_nats(values: list[float], threshold: float) -> None:
    mixer = Mixer(len(values))
    mixer.begin(row(*values))
    parts = [weight / TOTAL for weight in (mixer.weights() // STEPS).tolist()]
    found = -sum(part * math.log(part) for part in parts)
    assume(abs(found - threshold) > 1e-9)
    assert mixer.entropy_below(threshold) == (found < threshold)


def test_a_draw_is_from_the_weights_of_the_mixture() -> None:
    """Both ends of every token's tickets, so the distribution is the mixture and nothing else."""
    public, private = row(5, 3, 2), row(1, 0, 9)
    fused = FusedDraw(HALF, cells=1, widest=1, randomness=Fixed(0))
    weights = fused.weigh(public, private[None])[0].tolist()
    assert sum(weights) == STEPS * TOTAL
    start = 0
    for token, weight in enumerate(weights):
        for ticket in (start, start + weight - 1):
            source = Fixed(ticket)
            assert draw(public, private[None], HALF, 1, source) == token
            assert source.limit == STEPS * TOTAL
        start += weight


@pytest.mark.parametrize("cells", [1, 2, 3, 7])
def test_all_cells_together_are_at_most_the_limit(cells: int) -> None:
    """Theorem 2 needs `P ≥ (1 − L) q` also where the condition allows more."""
    rule = Allowing(2, HALF.limit, HALF.divergence, 1)
    fused = FusedDraw(HALF, cells=cells, widest=1, randomness=Fixed(0), rule=rule)
    public, private = row(1, 0), np.array([(0.0, 1.0)] * cells)
    weights, _ = fused.weigh(public, private)
    assert HALF.limit - Fraction(1, 10**6) < Fraction(int(weights[1]), STEPS * TOTAL)
    assert Fraction(int(weights[1]), STEPS * TOTAL) <= HALF.limit + Fraction(1, TOTAL)


def test_skipped_draws_are_public_and_free() -> None:
    public = row(999, 1)
    fused = FusedDraw(HALF, cells=1, widest=1, randomness=Fixed(STEPS * TOTAL - 1), skip_below=0.1)
    assert certain(public, 0.1)
    assert fused.draw(public, row(0, 1)[None]) == Drawn(token=1, charged=False)
    assert not certain(row(1, 1), 0.1)
    assert fused.draw(row(1, 1), row(0, 1)[None]).charged


def test_without_cells_every_draw_is_public_and_free() -> None:
    source = Fixed(0)
    fused = FusedDraw(HALF, cells=0, widest=0, randomness=source)
    assert fused.draw(row(1, 1), np.empty((0, 2))) == Drawn(token=0, charged=False)
    assert source.limit == STEPS * TOTAL


@pytest.mark.parametrize(("cells", "widest"), [(1, 0), (1, 2), (0, 1)])
def test_counts_of_cells_that_cannot_be_are_refused(cells: int, widest: int) -> None:
    with pytest.raises(ContractError):
        FusedDraw(HALF, cells=cells, widest=widest, randomness=Fixed(0))


@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (0, 2), (2,)])
def test_rows_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    fused = FusedDraw(HALF, cells=1, widest=1, randomness=Fixed(0))
    with pytest.raises(ContractError):
        fused.draw(row(1, 1), np.ones(shape))
