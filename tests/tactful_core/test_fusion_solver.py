"""The largest part of a cell against 50 digits, and Theorem 2 on the weights that are drawn."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.fakes.real_numbers import fusion_condition, fusion_moments, largest_part

from tactful_core.fusion import FusedDraw, FusionParameters
from tactful_core.mixtures import STEPS, TOTAL, Condition, Mixer, PublicRow
from tactful_core.sampling import SystemRandomness

CLOSE = Fraction(1, 10**6)
"""How far below the true maximum a part may be."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Masses under `q` and under one `p`."""

    name: str
    public: NDArray[np.float64]
    private: NDArray[np.float64]


def _normal(*masses: float) -> NDArray[np.float64]:
    return np.array(masses) / sum(masses)


def _random(tokens: int, spread: float, seed: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.random.default_rng(seed).normal(size=tokens) * spread
    found = np.exp(found)
    found /= found.sum()
    return found


PAIRS = (
    Pair("equal", _normal(5, 3, 2), _normal(5, 3, 2)),
    Pair("nearly_equal", _normal(5, 3, 2), _normal(5, 3, 2 + 1e-9)),
    Pair("tiny_under_q", _normal(1, 1e-300), _normal(1, 1)),
    Pair("tiny_under_p", _normal(1, 1), _normal(1, 1e-300)),
    Pair("disjoint", _normal(1, 1e-12, 1, 1e-12), _normal(0, 1, 0, 1)),
    Pair("one_for_all", _normal(1e-6, 1), _normal(1, 0)),
    Pair("denormal", _normal(1, 5e-324), _normal(1 - 1e-16, 1e-16)),
    Pair("uniform_to_peak", np.full(2000, 1 / 2000), _normal(1, *[0] * 1999)),
    Pair("wide", _random(3000, 6, 1), _random(3000, 6, 2)),
)
WIDEST = (
    Pair("152000_apart", _random(152_000, 4, 3), _random(152_000, 4, 4)),
    Pair("152000_alike", (base := _random(152_000, 3, 5)), base * _random(152_000, 0.1, 6)),
)


def check_part(pair: Pair, alpha: int, limit: Fraction, divergence: Fraction, widest: int) -> int:
    """The part found is within the bound and at most `CLOSE` below the true maximum."""
    most = int(limit * STEPS)
    condition = Condition(alpha, limit, divergence, widest)
    work = np.empty_like(pair.public), np.empty_like(pair.public)
    steps = condition.part(PublicRow.of(pair.public), pair.private, most, work)
    exact = fusion_moments(pair.public.tolist(), pair.private.tolist(), alpha)
    part = Fraction(steps, STEPS)
    assert fusion_condition(part, exact, limit, widest) <= float(divergence)
    true = largest_part(exact, limit, divergence, widest, Fraction(most, STEPS))
    assert part <= true + Fraction(1, 10**15)
    assert true - part <= CLOSE
    return steps


@pytest.mark.parametrize("alpha", [2, 3, 4, 8, 32])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_part_is_the_largest_that_the_condition_allows(pair: Pair, alpha: int) -> None:
    for limit, divergence, widest in (
        (Fraction(1, 2), Fraction(1, 32), 1),
        (Fraction(1, 16), Fraction(3), 3),
        (Fraction(15, 16), Fraction(1, STEPS), 2),
    ):
        check_part(pair, alpha, limit, divergence, widest)


def test_part_is_the_largest_over_a_wide_vocabulary() -> None:
    check_part(WIDEST[0], 2, Fraction(1, 4), Fraction(1, 32), 1)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("alpha", [2, 4, 8, 32])
@pytest.mark.parametrize("pair", WIDEST, ids=lambda pair: pair.name)
def test_part_is_the_largest_over_a_wide_vocabulary_at_every_order(pair: Pair, alpha: int) -> None:
    check_part(pair, alpha, Fraction(1, 4), Fraction(1, 32), 2)


def test_pairs_reach_both_ends_and_the_middle() -> None:
    """So that the tests above are about the condition, and about the limit, and about neither."""
    found = {pair.name: check_part(pair, 2, Fraction(1, 2), Fraction(1, 32), 1) for pair in PAIRS}
    assert found["equal"] == STEPS // 2
    assert found["tiny_under_q"] == 0
    assert 0 < found["wide"] < STEPS // 2


grains = st.lists(st.integers(0, 40), min_size=2, max_size=5).filter(any)


@given(grains, grains, st.sampled_from([2, 3, 5, 8]), st.integers(1, 15), st.integers(1, 3))
def test_the_bound_holds_for_the_rows_as_they_are_rounded(
    public: list[int], private: list[int], alpha: int, sixteenths: int, widest: int
) -> None:
    """Not for the masses that they were made of: those have a `q` of 0 that no bound holds for."""
    size = min(len(public), len(private))
    q, p = np.array([*public[:size], 1.0]), np.array([*private[:size], 1.0])
    limit, divergence = Fraction(sixteenths, 16), Fraction(1, 64)
    mixer = Mixer(size + 1)
    mixer.begin(q)
    alone = (mixer.weights() // STEPS).tolist()
    steps = mixer.add(p, Condition(alpha, limit, divergence, widest), int(limit * STEPS))
    mixed = mixer.weights().tolist()
    if not steps:
        return
    rows = [
        Fraction(weight - (STEPS - steps) * own, steps)
        for weight, own in zip(mixed, alone, strict=True)
    ]
    exact = fusion_moments(alone, [float(weight) for weight in rows], alpha)
    assert fusion_condition(Fraction(steps, STEPS), exact, limit, widest) <= float(divergence)


def moment_of_ratio(weights: list[int], others: list[int], alpha: int) -> Fraction:
    """`E_{P'} (P/P')^α`, exactly."""
    return sum(
        (
            Fraction(p) ** alpha / Fraction(o) ** (alpha - 1)
            for p, o in zip(weights, others, strict=True)
        ),
        Fraction(0),
    ) / (STEPS * TOTAL)


def distributions(tokens: int) -> st.SearchStrategy[list[int]]:
    grain = st.one_of(st.integers(0, 10), st.sampled_from([0, 1, 10**6]))
    return st.lists(grain, min_size=tokens, max_size=tokens).filter(any)


@given(st.data())
def test_divergence_of_one_draw_is_within_its_charge(data: st.DataObject) -> None:
    """Theorem 2 with exact rationals: any cells may be replaced at once, both directions."""
    tokens, cells = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 4))
    public = np.array(data.draw(distributions(tokens)), dtype=np.float64) + 1e-3
    rows, others = (
        np.array(data.draw(st.lists(distributions(tokens), min_size=cells, max_size=cells))) * 1.0
        for _ in range(2)
    )
    touched = data.draw(st.integers(1, cells))
    widest = data.draw(st.integers(touched, cells))
    others[touched:] = rows[touched:]
    alpha, sixteenths = data.draw(st.sampled_from([2, 3, 4, 8])), data.draw(st.integers(1, 15))
    divergence = Fraction(1, data.draw(st.sampled_from([1, 8, 64])))
    parameters = FusionParameters(alpha, Fraction(sixteenths, 16), divergence)
    fused = FusedDraw(parameters, cells=cells, widest=widest, randomness=SystemRandomness())
    these, those = (fused.weigh(public, each)[0].tolist() for each in (rows, others))
    allowed = 1 + divergence * Fraction(touched, widest) ** 2
    assert moment_of_ratio(these, those, alpha) <= allowed
    assert moment_of_ratio(those, these, alpha) <= allowed


@pytest.mark.parametrize("cells", [1, 2, 4])
def test_the_charge_is_not_far_above_what_an_adversary_can_reach(cells: int) -> None:
    """All cells replaced by their opposites at α = 2: a charge 30 % smaller would be too small.

    So no factor of the condition, 2k* above all, can be left out without the test above noticing.
    """
    parameters = FusionParameters(2, Fraction(1, 4), Fraction(1, 1024))
    fused = FusedDraw(parameters, cells=cells, widest=cells, randomness=SystemRandomness())
    public = np.array([1.0, 1.0])
    left, right = (
        fused.weigh(public, np.array([row] * cells))[0].tolist() for row in ((1.0, 0), (0, 1.0))
    )
    excess = moment_of_ratio(left, right, 2) - 1
    assert parameters.divergence * Fraction(7, 10) < excess <= parameters.divergence
