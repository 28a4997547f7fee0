"""Positions are named as people name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful.cli.positions import in_short, resolved, uncovered
from tactful.errors import NotFound
from tactful.owner_wire import ShelfInfo

SIZE = 40


def shelf(name: str, *positions: int, covered: bool = True) -> ShelfInfo:
    by = ("debt",) if covered else ()
    return ShelfInfo(shelf=name, positions=positions, full=0, tokens=48, covered_by=by)


@given(st.sets(st.integers(1, SIZE), min_size=1))
def test_what_is_said_in_short_names_the_same_positions(positions: set[int]) -> None:
    words = in_short(sorted(positions)).split(", ")
    assert resolved(words, SIZE, ()) == tuple(sorted(positions))
    assert len(words) <= len(positions)


def test_a_shelf_stands_for_its_positions() -> None:
    shelves = [shelf("food.diet", 2, 3), shelf("food.groceries", 4)]
    assert resolved(["food.diet", "3-4"], SIZE, shelves) == (2, 3, 4)
    with pytest.raises(NotFound, match="memory list"):
        resolved(["food.cellar"], SIZE, shelves)


def test_only_what_no_attribute_covers_is_uncovered() -> None:
    shelves = [shelf("food.diet", 2, 3), shelf("hobbies.music", 4, 5, covered=False)]
    assert uncovered((3, 4), shelves) == (4,)
