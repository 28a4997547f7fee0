"""Which positions a fused answer shows follows from public input, and who is charged from cells."""

from __future__ import annotations

import pytest
from tests.tactfuld.fusing.samples import (
    ALL,
    DEBT,
    DIABETES,
    FINANCE,
    FOOD,
    GRIEF,
    attribute,
    promises,
    shelf,
    slot,
)
from tests.tactfuld.fusing.samples import promises as sample

from tactful_core.allocation import Online
from tactful_core.entries import Mechanism
from tactful_core.layout import Layout
from tactful_core.promises import Promises
from tactful_core.values import AttributeName, Position, ShelfName, SlotName
from tactfuld.fusing.cells import MOST_CELLS, CellPlan, plan_cells

PLENTY = 10_000


def plan(
    of: Promises,
    budgeted: frozenset[AttributeName] = ALL,
    *,
    room: int = PLENTY,
    around: int = 2,
    slots: tuple[SlotName, ...] = (FOOD, FINANCE),
) -> CellPlan:
    read = [of.layout.slot(name) for name in slots]
    return plan_cells(read, of, budgeted, room=room, around=around)


def positions(of: CellPlan) -> list[int]:
    return sorted(place.position for place in of.places)


def test_positions_with_the_same_attributes_are_one_cell() -> None:
    found = plan(sample())
    assert found.cells == (
        frozenset({DIABETES}),
        frozenset({DIABETES, DEBT}),
        frozenset({DEBT}),
        frozenset({GRIEF}),
    )
    assert [sorted(found.positions(cell)) for cell in found.cells] == [
        [1, 2, 3],
        [4, 5],
        [9, 10],
        [11],
    ]
    assert [(place.position, place.capacity) for place in found.places if place.charged] == [
        *((number, 8) for number in (1, 2, 3)),
        *((number, 6) for number in (4, 5)),
        *((number, 8) for number in (9, 10, 11)),
    ]


def test_the_widest_attribute_is_that_which_pays_for_most_cells() -> None:
    found = plan(sample())
    assert [found.touching(name) for name in (DIABETES, DEBT, GRIEF)] == [2, 2, 1]
    assert found.widest == 2
    assert plan(sample(), frozenset({GRIEF})).widest == 1
    assert plan(sample(), frozenset()).widest == 0


def test_unprotected_positions_stand_in_every_row_and_uncovered_ones_in_none() -> None:
    found = plan(sample())
    assert found.open_positions == (6, 7)
    assert 8 not in positions(found)


def test_what_every_row_shows_comes_first() -> None:
    """So that it is computed once for all rows."""
    assert [place.position for place in plan(sample()).places][:3] == [6, 7, 1]


def test_a_cell_of_an_attribute_without_a_budget_is_left_out_whole() -> None:
    found = plan(sample(), frozenset({DIABETES, GRIEF}))
    assert positions(found) == [1, 2, 3, 6, 7, 11]
    assert found.cells == (frozenset({DIABETES}), frozenset({GRIEF}))


def test_what_a_slot_is_charged_besides_is_charged_for_its_cells() -> None:
    found = plan(promises({FOOD: frozenset({GRIEF})}))
    assert found.cells[0] == frozenset({DIABETES, GRIEF})
    assert found.touching(GRIEF) == 3
    assert plan(promises({FOOD: frozenset({GRIEF})}), frozenset({DIABETES, DEBT})).cells == (
        frozenset({DEBT}),
    )
    # What nothing covers is not charged to anybody, and so not protected by a charge.
    assert found.open_positions == (6, 7)


def test_every_cell_is_charged_to_all_that_cover_its_positions() -> None:
    of = sample()
    found = plan(of)
    for cell in found.cells:
        assert of.layout.required_charge_set(found.positions(cell)) <= cell


def test_only_shelves_that_are_read_have_places() -> None:
    of = sample()
    read = [of.layout.slot(FOOD).reading([ShelfName("food.groceries")])]
    assert positions(plan_cells(read, of, ALL, room=PLENTY, around=2)) == [4, 5]


def test_first_positions_of_all_shelves_come_before_second_ones() -> None:
    assert positions(plan(sample(), room=10 + 8 + 10)) == [1, 4, 6]
    assert positions(plan(sample(), room=10 + 8 + 10 + 10 + 10)) == [1, 4, 6, 9, 11]
    assert positions(plan(sample(), room=10 + 8 + 10 + 10 + 10 + 10)) == [1, 2, 4, 6, 9, 11]
    assert positions(plan(sample(), room=7)) == []


@pytest.mark.parametrize("room", range(0, 120, 7))
def test_places_never_take_more_than_the_room(room: int) -> None:
    found = plan(sample(), room=room)
    assert sum(place.capacity + 2 for place in found.places) <= room


def test_no_more_cells_than_rows_can_be_computed() -> None:
    many = MOST_CELLS + 3
    names = [AttributeName(f"a{number}") for number in range(many)]
    runs = [shelf(f"food.s{number}", number + 1, number + 1) for number in range(many)]
    layout = Layout(
        (slot(FOOD, *runs),),
        tuple(attribute(name, number + 1) for number, name in enumerate(names)),
    )
    of = Promises(layout, Online(3), Mechanism.EXPONENTIAL, (), "many")
    found = plan(of, frozenset(names), slots=(FOOD,))
    assert positions(found) == list(range(1, MOST_CELLS + 1))
    assert [found.positions(cell) for cell in found.cells] == [
        {Position(number + 1)} for number in range(MOST_CELLS)
    ]
