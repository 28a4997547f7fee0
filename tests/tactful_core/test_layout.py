"""The public shape of memory fits together or is refused; charge sets are what a read meets."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.small_policies import (
    DEBT,
    DIABETES,
    FINANCE,
    FOOD,
    HEALTH,
    attribute,
    figure_two,
    slot,
)

from tactful_core.errors import ContractError
from tactful_core.layout import Attribute, Layout, Shelf, Slot, View
from tactful_core.values import AttributeName, Position, ShelfName, SlotName, ViewName

LAYOUT = figure_two().layout


# ---- charge sets --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [(HEALTH, {DIABETES}), (FOOD, {DIABETES, DEBT}), (FINANCE, {DEBT})],
)
def test_figure_two_charges_what_each_slot_meets(
    name: SlotName, expected: set[AttributeName]
) -> None:
    assert LAYOUT.required_charge_set(LAYOUT.slot(name).positions) == expected


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    size = draw(st.integers(1, 8))
    groups = draw(st.lists(st.sets(st.integers(1, size), min_size=1), min_size=0, max_size=5))
    return Layout(
        (slot("all", range(1, size + 1), ("v",)),),
        tuple(attribute(f"a{i}", group, "1") for i, group in enumerate(groups)),
    )


@given(layouts(), st.data())
def test_a_charge_set_is_the_attributes_that_cover_a_position_read(
    layout: Layout, data: st.DataObject
) -> None:
    """`Γ*(R)` is the union of `A(i)` over the positions of `R`: two ways to the same set."""
    read = data.draw(st.sets(st.sampled_from([Position(p) for p in range(1, layout.size + 1)])))
    covered = frozenset[AttributeName]().union(*(layout.covering(p) for p in read))
    assert layout.required_charge_set(read) == covered


@given(layouts(), st.data())
def test_reading_more_never_charges_fewer(layout: Layout, data: st.DataObject) -> None:
    positions = st.sets(st.sampled_from([Position(p) for p in range(1, layout.size + 1)]))
    less = data.draw(positions)
    more = less | data.draw(positions)
    assert layout.required_charge_set(less) <= layout.required_charge_set(more)


def test_reading_nothing_charges_nobody() -> None:
    assert LAYOUT.required_charge_set(()) == frozenset()


# ---- unprotected shelves ------------------------------------------------------------------------


def test_a_read_is_unprotected_only_where_every_shelf_is() -> None:
    layout = Layout(
        (slot("open", (1,), ("v",), unprotected=True), slot("closed", (2,), ("v",))), ()
    )
    assert layout.is_unprotected([Position(1)])
    assert not layout.is_unprotected([Position(2)])
    assert not layout.is_unprotected([Position(1), Position(2)])


def test_shelves_are_protected_unless_the_owner_says_otherwise() -> None:
    assert not any(shelf.unprotected for shelf in LAYOUT.shelves)


# ---- what does not fit together -----------------------------------------------------------------


def duplicate_view() -> Slot:
    return slot("s", (1,), ("v", "v"))


def no_generic_view() -> Slot:
    return Slot(SlotName("s"), "", (), (View(ViewName("v"), ""),))


def generic_view_second() -> Slot:
    return Slot(SlotName("s"), "", (), (View(ViewName("v"), ""), View(ViewName("generic"), "")))


def no_view() -> Slot:
    return Slot(SlotName("s"), "", (), ())


@pytest.mark.parametrize("make", [duplicate_view, no_generic_view, generic_view_second, no_view])
def test_refuses_a_vocabulary_that(make: Callable[[], Slot]) -> None:
    with pytest.raises(ContractError):
        make()


GOOD_SLOT = slot("s", (1, 2), ("v",))


@pytest.mark.parametrize(
    ("slots", "attributes"),
    [
        pytest.param((slot("s", (1, 3), ("v",)),), (), id="a gap"),
        pytest.param((slot("s", (0, 1), ("v",)),), (), id="position zero"),
        pytest.param((GOOD_SLOT, slot("t", (2, 3), ("v",))), (), id="a position in two slots"),
        pytest.param((slot("s", (1, 1), ("v",)),), (), id="a position twice"),
        pytest.param((GOOD_SLOT, slot("s", (3,), ("v",))), (), id="two slots of one name"),
        pytest.param(
            (GOOD_SLOT,), (attribute("a", (1,), "1"), attribute("a", (2,), "1")), id="two names"
        ),
        pytest.param((GOOD_SLOT,), (attribute("a", (), "1"),), id="an empty index set"),
        pytest.param((GOOD_SLOT,), (attribute("a", (2, 3), "1"),), id="a position that is not"),
    ],
)
def test_refuses_a_layout_with(slots: tuple[Slot, ...], attributes: tuple[Attribute, ...]) -> None:
    with pytest.raises(ContractError):
        Layout(slots, attributes)


def test_positions_follow_shelves_in_order() -> None:
    shelves = (
        Shelf(ShelfName("s.second"), (Position(3), Position(1)), tokens=8),
        Shelf(ShelfName("s.first"), (Position(2),), tokens=8),
    )
    assert Slot(SlotName("s"), "", shelves, GOOD_SLOT.vocabulary).positions == (3, 1, 2)


def test_finds_by_name_and_refuses_unknown_names() -> None:
    assert LAYOUT.slot(FOOD).name == FOOD
    assert LAYOUT.attribute(DEBT).cap == 2 * 720_720_000
    with pytest.raises(ContractError):
        LAYOUT.slot(SlotName("work"))
    with pytest.raises(ContractError):
        LAYOUT.attribute(AttributeName("pregnancy"))


def test_the_size_is_the_number_of_positions() -> None:
    assert LAYOUT.size == 5
