"""What the owner is told about pairs of memories is exactly what the mathematics says."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.small_policies import attribute, slot

from tactful_core.entries import (
    Charge,
    Entry,
    EpochOpened,
    Mechanism,
    UnprotectedRead,
    ViewReleased,
    new_entry_id,
)
from tactful_core.layout import Attribute, Layout
from tactful_core.ledger import Ledger, Mark, replay
from tactful_core.values import (
    AppId,
    AttributeName,
    Position,
    SlotName,
    Units,
    ViewName,
    units_from_epsilon,
)
from tactfuld.audit import adds_up, distance, history, promised

SIZE = 6
MEALS = AppId("meals")
LAYOUT_NAMES = ("a", "b", "c", "d", "e", "f")


def layout_of(*groups: tuple[set[int], str]) -> Layout:
    """Positions 1 to 6 on one shelf, and attributes a, b, ... with index sets and caps."""
    named = zip(LAYOUT_NAMES, groups, strict=False)
    attributes = tuple(attribute(name, covered, cap) for name, (covered, cap) in named)
    return Layout((slot("s", range(1, SIZE + 1), ("one",)),), attributes)


def at(*positions: int) -> frozenset[Position]:
    return frozenset(Position(p) for p in positions)


def charge(units: int, positions: frozenset[Position], *names: str, epoch: int = 1) -> Charge:
    return Charge(
        id=new_entry_id(),
        epoch=epoch,
        app=MEALS,
        slot=SlotName("s"),
        mechanism=Mechanism.EXPONENTIAL,
        positions=positions,
        charged=frozenset(AttributeName(name) for name in names),
        units=Units(units),
        policy="small",
    )


def opened(epoch: int = 1, period: int = 0) -> EpochOpened:
    return EpochOpened(new_entry_id(), epoch, period)


def read(positions: frozenset[Position], epoch: int = 1) -> UnprotectedRead:
    return UnprotectedRead(new_entry_id(), epoch, MEALS, SlotName("s"), positions, "small")


def view_of(paid: Charge) -> ViewReleased:
    one, two = ViewName("generic"), ViewName("one")
    return ViewReleased(
        new_entry_id(), paid.epoch, paid.id, paid.slot, paid.mechanism, (one, two), two, paid.units
    )


def ledger_of(*entries: Entry) -> Ledger:
    return replay([opened(), *entries])


# --- beforehand: κ of Corollary 1 ----------------------------------------------------------------


def cheapest_by_trying_all(
    layout: Layout, ledger: Ledger, positions: frozenset[Position]
) -> int | None:
    """κ from its definition: every set of attributes is tried."""
    sets = chain.from_iterable(
        combinations(layout.attributes, n) for n in range(len(layout.attributes) + 1)
    )
    costs = [
        sum(max(a.cap, ledger.spent(a)) for a in chosen)
        for chosen in sets
        if positions <= frozenset[Position]().union(*(a.positions for a in chosen))
    ]
    return min(costs, default=None)


GROUPS = st.lists(
    st.tuples(
        st.sets(st.integers(1, SIZE), min_size=1),
        st.sampled_from(["0.5", "1", "1.5", "2", "3", "4.25"]),
    ),
    max_size=6,
)
POSITIONS = st.frozensets(st.integers(1, SIZE).map(Position))
CHARGES = st.lists(st.tuples(st.integers(1, 5 * units_from_epsilon(1)), POSITIONS), max_size=4)


@settings(max_examples=300)
@given(GROUPS, CHARGES, POSITIONS)
def test_distance_is_that_of_the_cheapest_of_all_covers(
    groups: list[tuple[set[int], str]],
    charges: list[tuple[int, frozenset[Position]]],
    positions: frozenset[Position],
) -> None:
    layout = layout_of(*groups)
    ledger = ledger_of(*(charge(units, read, *"z") for units, read in charges))
    found = distance(layout, ledger, positions)
    assert found.beforehand == cheapest_by_trying_all(layout, ledger, positions)
    if found.beforehand is None:
        assert found.cover == ()
    else:
        cover = [layout.attribute(name) for name in found.cover]
        assert len(set(found.cover)) == len(found.cover)
        assert positions <= frozenset[Position]().union(*(a.positions for a in cover))
        assert found.beforehand == sum(promised(a, ledger) for a in cover)


def test_two_small_covers_beat_a_large_one_and_the_other_way_round() -> None:
    both = at(1, 2)
    cheap = layout_of(({1}, "1"), ({2}, "1"), ({1, 2}, "2.5"))
    assert distance(cheap, ledger_of(), both).cover == ("a", "b")
    dear = layout_of(({1}, "1"), ({2}, "1"), ({1, 2}, "1.5"))
    assert distance(dear, ledger_of(), both).cover == ("c",)
    assert distance(dear, ledger_of(), both).beforehand == units_from_epsilon("1.5")


def test_a_cover_is_not_given_up_because_its_parts_look_dear_one_by_one() -> None:
    """With a: 1 + 2 + 3. With b, which meets two needs, and d, which meets the two others: 5."""
    layout = layout_of(({1}, "1"), ({1, 2}, "2"), ({2}, "2"), ({3, 4}, "3"), ({4}, "9"), ({3}, "9"))
    found = distance(layout, ledger_of(), at(1, 2, 3, 4))
    assert (found.cover, found.beforehand) == (("b", "d"), units_from_epsilon(5))


def test_a_position_that_nothing_covers_is_promised_nothing() -> None:
    layout = layout_of(({1, 2, 3}, "1"))
    assert distance(layout, ledger_of(), at(1, 4)).beforehand is None
    assert distance(layout_of(), ledger_of(), at(1)).beforehand is None
    assert distance(layout, ledger_of(), at(1, 2)).beforehand == units_from_epsilon(1)


def test_memories_that_differ_nowhere_cannot_be_told_apart() -> None:
    for layout in (layout_of(({1}, "1")), layout_of()):
        found = distance(layout, ledger_of(charge(5, at(1), "a")), frozenset())
        assert (found.beforehand, found.cover, found.afterwards) == (0, (), 0)


def test_a_cap_below_what_is_spent_counts_as_what_is_spent() -> None:
    """The owner lowered it: what was released cannot be taken back."""
    layout = layout_of(({1}, "1"), ({1, 2}, "2"))
    three = units_from_epsilon(3)
    lowered = ledger_of(charge(three, at(1), "a"))
    found = distance(layout, lowered, at(1))
    assert found.beforehand == three, "position 1 is in both, so both have spent that"
    assert promised(layout.attribute(AttributeName("a")), lowered) == three
    assert promised(layout.attribute(AttributeName("b")), ledger_of()) == units_from_epsilon(2)


def test_a_cover_of_many_groups_is_found_at_once() -> None:
    """Sixty-four attributes and a hundred shelves: trying every set would never end."""
    attributes = tuple(
        Attribute(
            AttributeName(f"a{i}"),
            frozenset(Position(1 + (7 * i + 13 * j * (i % 5 + 1)) % 100) for j in range(12)),
            units_from_epsilon(1 + i % 4),
        )
        for i in range(64)
    )
    layout = Layout((slot("s", range(1, 101), ("one",)),), attributes)
    covered = frozenset[Position]().union(*(a.positions for a in attributes))
    found = distance(layout, ledger_of(), covered)
    cover = [layout.attribute(name) for name in found.cover]
    assert covered == frozenset[Position]().union(*(a.positions for a in cover))
    assert found.beforehand == sum(a.cap for a in cover)


# --- afterwards: what was really released --------------------------------------------------------


@given(CHARGES, POSITIONS)
def test_afterwards_is_the_sum_of_the_charges_that_read_a_position(
    charges: list[tuple[int, frozenset[Position]]], positions: frozenset[Position]
) -> None:
    ledger = ledger_of(*(charge(units, where, *"z") for units, where in charges))
    expected = sum(units for units, where in charges if where & positions)
    assert distance(layout_of(({1}, "1")), ledger, positions).afterwards == expected


def test_afterwards_counts_this_epoch_only() -> None:
    ledger = ledger_of(charge(5, at(1), "a"), opened(2), charge(7, at(1), "a", epoch=2))
    assert distance(layout_of(({1}, "1")), ledger, at(1)).afterwards == 7


def test_afterwards_is_infinite_where_a_position_was_read_without_protection() -> None:
    ledger = ledger_of(charge(5, at(1), "a"), read(at(2, 3)))
    layout = layout_of(({1}, "1"))
    assert distance(layout, ledger, at(1)).afterwards == 5
    assert distance(layout, ledger, at(1, 3)).afterwards is None


def test_afterwards_does_not_ask_who_paid() -> None:
    """A read set counts by what was read, `charge_also` by nothing."""
    ledger = ledger_of(charge(5, at(1), "a", "b"))
    layout = layout_of(({1}, "1"), ({2}, "1"))
    assert distance(layout, ledger, at(2)).afterwards == 0


# --- history ------------------------------------------------------------------------------------


def test_history_has_every_epoch_with_its_sums_oldest_first() -> None:
    layout = layout_of(({1, 2}, "2"), ({2, 3}, "2"))
    entries: list[Entry] = [
        opened(1),
        charge(5, at(1), "a"),
        charge(7, at(2), "a", "b"),
        opened(2, 20_000),
        opened(3, 20_000),
        charge(11, at(3), "b", epoch=3),
    ]
    assert [(each.epoch, each.spent) for each in history(entries, layout)] == [
        (1, {"a": 12, "b": 7}),
        (2, {"a": 0, "b": 0}),
        (3, {"a": 0, "b": 11}),
    ]


def test_history_counts_by_todays_shelves_and_by_who_was_charged() -> None:
    entries: list[Entry] = [opened(1), charge(5, at(1), "b"), charge(7, at(4), "c")]
    (only,) = history(entries, layout_of(({1, 4}, "2"), ({6}, "2")))
    assert only.spent == {"a": 12, "b": 5}


def test_charge_that_a_copy_added_later_counts_in_its_own_epoch() -> None:
    entries: list[Entry] = [opened(1), opened(2), charge(5, at(1), "a", epoch=1)]
    sums = history(entries, layout_of(({1}, "2")))
    assert [each.spent for each in sums] == [{"a": 5}, {"a": 0}]


@given(st.lists(st.one_of(st.just("epoch"), st.tuples(st.integers(1, 99), POSITIONS)), max_size=8))
def test_history_sums_to_the_lifetime(steps: list[str | tuple[int, frozenset[Position]]]) -> None:
    layout, entries, epoch = layout_of(({1, 2}, "2"), ({3}, "2")), list[Entry]([opened()]), 1
    for step in steps:
        if isinstance(step, tuple):
            entries.append(charge(step[0], step[1], "a", epoch=epoch))
        else:
            epoch += 1
            entries.append(opened(epoch))
    ledger, sums = replay(entries), history(entries, layout)
    for each in layout.attributes:
        assert sum(s.spent[each.name] for s in sums) == ledger.lifetime_spent(each)
        assert sums[-1].spent[each.name] == ledger.spent(each)


# --- whether the ledger adds up -----------------------------------------------------------------

PAID = charge(5, at(1), "a")
WHOLE: tuple[Entry, ...] = (
    opened(1),
    charge(3, at(2), "b"),
    opened(2, 20_000),
    replace(PAID, epoch=2),
    view_of(replace(PAID, epoch=2)),
    read(at(4), epoch=2),
)


def test_entries_that_are_the_ledgers_add_up() -> None:
    assert adds_up(WHOLE, replay(WHOLE))


def test_what_a_mark_added_is_left_out() -> None:
    layout = layout_of(({1}, "2"), ({2}, "2"))
    more = {AttributeName("a"): Units(100)}
    mark = Mark(99, 2, more, more, at(5))
    assert adds_up(WHOLE, replay(WHOLE).not_below(mark, layout.attributes))
    assert adds_up(WHOLE, replay(WHOLE).until_next_epoch())


DIFFERENT: dict[str, tuple[Entry, ...]] = {
    "a charge of an earlier epoch is gone": (*WHOLE[:1], *WHOLE[2:]),
    "a charge is gone": (*WHOLE[:3], *WHOLE[4:]),
    "the view is gone": (*WHOLE[:4], *WHOLE[5:]),
    "a charge more": (*WHOLE, charge(1, at(1), "a", epoch=2)),
    "a read more": (*WHOLE, read(at(6), epoch=2)),
    "another amount": (*WHOLE[:3], replace(PAID, epoch=2, units=Units(4)), *WHOLE[4:]),
    "other positions": (*WHOLE[:3], replace(PAID, epoch=2, positions=at(2)), *WHOLE[4:]),
    "charged to others": (
        *WHOLE[:3], replace(PAID, epoch=2, charged=frozenset()), *WHOLE[4:],
    ),
    "for another app": (*WHOLE[:3], replace(PAID, epoch=2, app=AppId("coach")), *WHOLE[4:]),
    "for another slot": (*WHOLE[:3], replace(PAID, epoch=2, slot=SlotName("t")), *WHOLE[4:]),
    "an epoch more": (*WHOLE, opened(3, 20_000)),
    "another period": (*WHOLE[:2], opened(2, 20_001), *WHOLE[3:]),
    "nothing but the first epoch": WHOLE[:1],
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFERENT)
def test_entries_that_are_not_the_ledgers_do_not_add_up(case: str) -> None:
    assert not adds_up(DIFFERENT[case], replay(WHOLE))
