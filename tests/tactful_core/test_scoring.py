"""Scores are whole numbers of fixed range, whatever a scorer returns."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful_core.errors import ContractError
from tactful_core.scoring import (
    GRID,
    PRIVATE_RANGE,
    SCORE_ONE,
    SENSITIVITY,
    Evidence,
    Scores,
    neutral_scores,
    scores_from,
    to_grid,
)
from tactful_core.values import Secret

any_number = st.one_of(st.floats(), st.integers(-5, 5))
inside = st.floats(0, 1)
any_private = st.lists(st.integers(0, PRIVATE_RANGE), min_size=1, max_size=6)


def scored(r: tuple[float, ...], c: tuple[float, ...], s: tuple[float, ...]) -> Scores:
    return scores_from(r, Evidence(Secret(c), Secret(s)))


def test_the_weights_are_those_of_the_paper() -> None:
    """u = 0.4 r + 0.4 c + 0.2 s, so contents move a score by at most 0.6."""
    assert Fraction(SENSITIVITY) == Fraction(3, 5)
    for parts, expected in [((1, 0, 0), "0.4"), ((0, 1, 0), "0.4"), ((0, 0, 1), "0.2")]:
        r, c, s = parts
        scores = scored((r,), (c,), (s,))
        total = scores.public[0] + scores.private.reveal()[0]
        assert Fraction(total, SCORE_ONE) == Fraction(expected)


@given(any_number)
def test_any_number_lands_on_the_grid(component: float) -> None:
    assert to_grid(component) in range(GRID + 1)


@given(inside)
def test_rounding_moves_a_component_by_at_most_half_a_step(component: float) -> None:
    assert abs(Fraction(component) - Fraction(to_grid(component), GRID)) <= Fraction(1, 2 * GRID)


@given(inside, inside)
def test_rounding_keeps_the_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert to_grid(low) <= to_grid(high)


@pytest.mark.parametrize(
    ("component", "expected"),
    [(math.nan, 0), (math.inf, GRID), (-math.inf, 0), (-0.5, 0), (1.5, GRID), (0.5, GRID // 2)],
)
def test_numbers_outside_are_clipped_and_nan_is_nothing(component: float, expected: int) -> None:
    assert to_grid(component) == expected


@given(st.lists(st.tuples(any_number, any_number, any_number), min_size=1, max_size=8))
def test_contents_move_only_the_private_part_and_only_within_its_range(
    parts: list[tuple[float, float, float]],
) -> None:
    r, c, s = (tuple(column) for column in zip(*parts, strict=True))
    scores = scored(r, c, s)
    assert all(0 <= p <= PRIVATE_RANGE for p in scores.private.reveal())
    assert all(0 <= p <= SCORE_ONE - PRIVATE_RANGE for p in scores.public)
    assert scores.public == neutral_scores(r).public


def test_every_private_score_can_be_reached() -> None:
    """So the box of private scores is full, and the worst case is a corner of it."""
    reached = {
        scored((0,), (c / GRID,), (s / GRID,)).private.reveal()[0]
        for c in range(GRID + 1)
        for s in (0, 1, GRID - 1, GRID)
    }
    assert reached == set(range(PRIVATE_RANGE + 1))


def test_neutral_scores_are_those_of_evidence_for_no_view() -> None:
    relevance = (0.25, 1.0, 0.0)
    nothing = (0.0, 0.0, 0.0)
    neutral = neutral_scores(relevance)
    of_nothing = scored(relevance, nothing, nothing)
    assert neutral.public == of_nothing.public
    assert neutral.private.reveal() == of_nothing.private.reveal() == (0, 0, 0)


@pytest.mark.parametrize("lengths", [(2, 3, 3), (3, 2, 3), (3, 3, 2), (0, 1, 1)])
def test_refuses_components_for_different_numbers_of_views(lengths: tuple[int, int, int]) -> None:
    r, c, s = ((0.5,) * length for length in lengths)
    with pytest.raises(ContractError, match="one number for each view"):
        scored(r, c, s)


def test_the_best_view_is_the_first_of_the_highest_totals() -> None:
    assert Scores((0, 512, 0), Secret((512, 0, 512))).best() == 0
    assert Scores((0, 512, 0), Secret((511, 0, 768))).best() == 2


@given(any_private, st.data())
def test_a_group_counts_for_its_best_view_by_contents(
    private: list[int], data: st.DataObject
) -> None:
    """Each view in one group: the parts of different groups move apart as freely as views do."""
    views = range(len(private))
    found = Scores(tuple(range(0, 10 * len(private), 10)), Secret(tuple(private)))
    cuts = sorted(data.draw(st.sets(st.sampled_from(views), min_size=1)) | {0})
    groups = [tuple(views[a:b]) for a, b in pairwise([*cuts, len(private)])]
    grouped = found.of_groups(groups)
    assert grouped.public == tuple(10 * group[0] for group in groups)
    assert grouped.private.reveal() == tuple(max(private[v] for v in g) for g in groups)
    assert all(0 <= p <= PRIVATE_RANGE for p in grouped.private.reveal())


@given(any_private)
def test_of_contents_leaves_out_what_is_public(private: list[int]) -> None:
    found = Scores((512,) * len(private), Secret(tuple(private))).of_contents()
    assert found.public == (0,) * len(private)
    assert found.private.reveal() == tuple(private)


def test_scores_show_nothing_private() -> None:
    scores = scored((0.5,), (0.25,), (1.0,))
    private = scores.private.reveal()[0]
    assert private == 384
    assert str(private) not in repr(scores)
    assert repr(replace(scores, public=(0,))) == "Scores(public=(0,), private=Secret(…))"
