"""What may go where: whole, on the shelf that was named, and never out of an attribute's sight."""

from __future__ import annotations

import pytest
from tests.tactfuld.store import samples

from tactful.errors import DoesNotFit, InvalidParams, NotFound, WouldUncover
from tactful_core.layout import Layout, Shelf
from tactful_core.sealing import Memory, capacity_bytes
from tactful_core.values import Position, ShelfName
from tactfuld.store.filing import (
    Memories,
    carry,
    drop,
    joining,
    put,
    replace,
    shelf_named,
    uncovering,
)

LAYOUT = samples.layout()
LIMIT = capacity_bytes(samples.TOKENS)
MUSIC, DIET, HEALTH = ShelfName("hobbies.music"), samples.DIET, ShelfName("health.conditions")


def shelf(name: ShelfName, layout: Layout = LAYOUT) -> Shelf:
    return shelf_named(layout, name)


def holding(**texts: str) -> Memories:
    """Memories by position: `at2="..."`."""
    memories: Memories = [None] * LAYOUT.size
    for at, text in texts.items():
        memories[int(at.removeprefix("at")) - 1] = Memory(text, 1)
    return memories


def test_parts_go_to_the_empty_positions_of_one_shelf_in_order() -> None:
    memories = holding()
    assert put(memories, shelf(DIET), ("one", "two"), None, 5) == (2, 3)
    assert memories[1:3] == [Memory("one", 5), Memory("two", 5)]
    assert memories.count(None) == 4


def test_the_first_part_goes_where_it_is_wanted() -> None:
    memories = holding()
    assert put(memories, shelf(DIET), ("one", "two"), Position(3), 5) == (3, 2)


@pytest.mark.parametrize("texts", [("one", "two"), ("one", "x" * (LIMIT + 1)), ("one", " ")])
def test_parts_that_do_not_all_fit_change_nothing(texts: tuple[str, ...]) -> None:
    """Nothing spills to another shelf, which has room (C7)."""
    before = holding(at3="a memory")
    memories = list(before)
    with pytest.raises((DoesNotFit, InvalidParams)):
        put(memories, shelf(DIET), texts, None, 5)
    assert memories == before


def test_a_full_shelf_says_what_the_owner_can_do() -> None:
    memories = holding(at2="one", at3="two")
    with pytest.raises(DoesNotFit, match="another shelf, edit a memory that is there, or forget"):
        put(memories, shelf(DIET), ("three",), None, 5)


def test_another_text_takes_the_place_of_a_memory() -> None:
    memories = holding(at2="one", at3="two")
    replace(memories, LAYOUT, Position(2), "three", 9)
    assert memories == [None, Memory("three", 9), Memory("two", 1), None, None, None]


@pytest.mark.parametrize("position", [1, 0, 7, -1])
def test_only_a_memory_that_is_there_is_replaced_or_moved(position: int) -> None:
    memories = holding(at2="one")
    with pytest.raises(NotFound):
        replace(memories, LAYOUT, Position(position), "three", 9)
    with pytest.raises(NotFound):
        carry(memories, LAYOUT, Position(position), shelf(MUSIC))
    assert memories == holding(at2="one")


def test_a_memory_moves_where_everything_covers_it_that_covers_it_now() -> None:
    memories = holding(at6="I sing.", at1="a condition")
    assert carry(memories, LAYOUT, Position(6), shelf(DIET)) == 2
    assert memories == holding(at2="I sing.", at1="a condition")
    assert carry(memories, LAYOUT, Position(1), shelf(DIET)) == 3
    assert memories == holding(at2="I sing.", at3="a condition")


def test_a_memory_does_not_move_out_of_an_attribute() -> None:
    """A(old) ⊆ A(new), or the owner writes it anew (C7)."""
    memories = holding(at3="I buy cheap sugar-free food.")
    with pytest.raises(WouldUncover) as refused:
        carry(memories, LAYOUT, Position(3), shelf(MUSIC))
    assert "covered by diabetes, debt" in str(refused.value)
    assert "tactful remember --shelf hobbies.music" in str(refused.value)
    with pytest.raises(WouldUncover, match="covered by debt, so"):
        carry(memories, LAYOUT, Position(3), shelf(HEALTH))
    assert memories == holding(at3="I buy cheap sugar-free food.")


def test_a_shelf_counts_as_covered_only_if_all_of_its_positions_are() -> None:
    """Debt covers one position of food.diet, not the other."""
    assert uncovering(LAYOUT, Position(4), shelf(DIET)) == ("debt",)
    assert joining(LAYOUT, Position(6), shelf(DIET)) == ("diabetes", "debt")
    assert joining(LAYOUT, Position(1), shelf(DIET)) == ("debt",)


def test_a_memory_stays_where_it_is_if_it_cannot_be_moved() -> None:
    memories = holding(at6="I sing.", at1="a condition")
    with pytest.raises(DoesNotFit):
        carry(memories, LAYOUT, Position(6), shelf(HEALTH))
    with pytest.raises(InvalidParams, match="already"):
        carry(memories, LAYOUT, Position(1), shelf(HEALTH))
    assert memories == holding(at6="I sing.", at1="a condition")


def test_what_is_dropped_is_gone_and_counted_once() -> None:
    memories = holding(at2="one", at6="I sing.")
    assert drop(memories, LAYOUT, samples.positions(2, 2, 3)) == 1
    assert memories == holding(at6="I sing.")
    with pytest.raises(NotFound, match="positions 1 to 6"):
        drop(memories, LAYOUT, samples.positions(6, 7))
    assert memories == holding(at6="I sing.")


def test_errors_do_not_repeat_texts() -> None:
    memories = holding(at3="zebra")
    for refused in (
        lambda: carry(memories, LAYOUT, Position(3), shelf(MUSIC)),
        lambda: put(memories, shelf(DIET), ("zebra" * 100,), None, 1),
        lambda: put(memories, shelf(DIET), ("zebra", "zebra"), None, 1),
        lambda: replace(memories, LAYOUT, Position(3), "zebra\0", 1),
    ):
        with pytest.raises((WouldUncover, DoesNotFit, InvalidParams)) as error:
            refused()
        assert "zebra" not in str(error.value)
