"""Copies of one ledger: a union by id, all or nothing, never less than either (GUARANTEE §3)."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tactfuld.store import samples

from tactful.errors import IoFailed
from tactful_core.entries import (
    Charge,
    Entry,
    EpochOpened,
    UnreadableEntry,
    new_entry_id,
)
from tactful_core.ledger import Admitted, Ledger, UnreadableLedger, replay
from tactfuld.store.ledger import LedgerPlace, LedgerStore

ATTRIBUTES = samples.layout().attributes
DIABETES, DEBT = ATTRIBUTES
THIRD = samples.CAP // 3
SLOTS = (samples.HEALTH, samples.FOOD, samples.FINANCE)


@pytest.fixture
async def place(tmp_path: Path) -> LedgerPlace:
    new = samples.place(tmp_path)
    await LedgerStore.create(new, samples.keys())
    return new


def opened(
    place: LedgerPlace, notices: Callable[[str], None] = print
) -> AbstractAsyncContextManager[LedgerStore]:
    return LedgerStore.open(place, samples.keys(), ATTRIBUTES, notices)


def copied(place: LedgerPlace, folder: Path) -> LedgerPlace:
    """Ledger and mark as they are, in another folder of this machine."""
    folder.mkdir()
    other = samples.place(folder)
    shutil.copy(place.database, other.database)
    shutil.copy(place.mark, other.mark)
    return other


def ledger_of(store: LedgerStore) -> Ledger:
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    return ledger


def spent(store: LedgerStore) -> tuple[int, int]:
    return ledger_of(store).spent(DIABETES), ledger_of(store).spent(DEBT)


async def spend(place: LedgerPlace, units: int, slot: int = 1) -> Charge:
    async with opened(place) as store:
        charge = samples.charge(SLOTS[slot], units=units, epoch=ledger_of(store).epoch)
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)
    return charge


async def all_entries(place: LedgerPlace) -> tuple[Entry, ...]:
    async with opened(place) as store:
        return await store.entries()


# --- entries ------------------------------------------------------------------------------------


async def test_entries_are_all_that_was_written_in_order(place: LedgerPlace) -> None:
    async with opened(place) as store:
        charge, read = samples.charge(), samples.unprotected_read()
        view = samples.released(charge)
        await store.admit(charge, samples.promises())
        await store.record(view)
        await store.record(read)
        first, *others = await store.entries()
        assert others == [charge, view, read]
        assert (type(first), replay([first]).epoch) == (EpochOpened, 1)
        assert await store.witnessed() == (ledger_of(store), (first, charge, view, read))


async def test_a_recorded_view_stands_after_a_restart(place: LedgerPlace) -> None:
    async with opened(place) as store:
        charge = samples.charge()
        view = samples.released(charge)
        await store.admit(charge, samples.promises())
        await store.record(view)
    async with opened(place) as store:
        assert ledger_of(store).released == {samples.FOOD: (view,)}
        assert ledger_of(store).charges == {samples.FOOD: 1}


async def test_witnessed_entries_are_those_of_the_ledger_even_while_others_are_written(
    place: LedgerPlace,
) -> None:
    """An audit beside busy apps must not look like a ledger that does not add up."""
    async with opened(place) as store, asyncio.TaskGroup() as group:

        async def write() -> None:
            for _ in range(40):
                await store.admit(samples.charge(units=1), samples.promises())

        writing = group.create_task(write(), name="charges")
        looks = 0
        while not writing.done():
            ledger, entries = await store.witnessed()
            assert replay(entries) == ledger
            looks += 1
    assert looks > 1


async def test_entries_of_a_file_that_was_damaged_meanwhile_are_not_read(
    place: LedgerPlace,
) -> None:
    await spend(place, 1)
    async with opened(place) as store:
        with closing(sqlite3.connect(place.database, isolation_level=None)) as connection:
            connection.execute("DROP TABLE entries")
        with pytest.raises(UnreadableEntry):
            await store.entries()
        with pytest.raises(UnreadableEntry):
            await store.witnessed()


async def test_entries_that_vanished_meanwhile_are_missed(place: LedgerPlace) -> None:
    async with opened(place) as store:
        await store.record(samples.unprotected_read())
        with closing(sqlite3.connect(place.database, isolation_level=None)) as connection:
            connection.execute("DROP TRIGGER entries_never_vanish")
            connection.execute("DELETE FROM entries WHERE sequence = 2")
        assert len(await store.entries()) == 1
        with pytest.raises(UnreadableEntry, match="gone"):
            await store.witnessed()


async def test_unreadable_ledger_has_no_entries_and_is_united_with_nothing(
    place: LedgerPlace, tmp_path: Path
) -> None:
    other = copied(place, tmp_path / "other")
    await spend(other, 5)
    place.database.write_bytes(b"no database")
    async with opened(place) as store:
        assert isinstance(store.snapshot(), UnreadableLedger)
        for refusing in (store.entries(), store.witnessed(), store.unite(await all_entries(other))):
            with pytest.raises(UnreadableEntry):
                await refusing


# --- union --------------------------------------------------------------------------------------


async def test_union_has_every_entry_of_both_once(place: LedgerPlace, tmp_path: Path) -> None:
    common = await spend(place, 1)
    other = copied(place, tmp_path / "other")
    ours, theirs = await spend(place, 10), await spend(other, 100)
    async with opened(place) as store:
        assert await store.unite(await all_entries(other)) == 1
        assert spent(store) == (111, 111)
        assert [e for e in await store.entries() if isinstance(e, Charge)] == [common, ours, theirs]
        assert await store.unite(await all_entries(other)) == 0
        assert await store.unite(await store.entries()) == 0
        assert spent(store) == (111, 111)
    async with opened(place) as store:
        assert spent(store) == (111, 111)


async def test_union_with_an_older_copy_adds_nothing(place: LedgerPlace, tmp_path: Path) -> None:
    older = copied(place, tmp_path / "older")
    await spend(place, 5)
    async with opened(place) as store:
        assert await store.unite(await all_entries(older)) == 0
        assert spent(store) == (5, 5)


async def test_union_takes_over_the_epoch_of_a_newer_copy(
    place: LedgerPlace, tmp_path: Path
) -> None:
    newer = copied(place, tmp_path / "newer")
    async with opened(newer) as store:
        assert await store.open_next_epoch(20_000) == 2
    await spend(newer, 7)
    await spend(place, 3)
    async with opened(place) as store:
        assert await store.unite(await all_entries(newer)) == 2
        ledger = ledger_of(store)
        assert (ledger.epoch, ledger.period) == (2, 20_000)
        assert (ledger.spent(DEBT), ledger.lifetime_spent(DEBT)) == (7, 10)


async def test_charges_of_an_earlier_epoch_count_for_the_lifetime(
    place: LedgerPlace, tmp_path: Path
) -> None:
    other = copied(place, tmp_path / "other")
    await spend(other, 7)
    async with opened(place) as store:
        await store.open_next_epoch(0)
    await spend(place, 3)
    async with opened(place) as store:
        await store.unite(await all_entries(other))
        ledger = ledger_of(store)
        assert (ledger.spent(DEBT), ledger.lifetime_spent(DEBT)) == (3, 10)


async def test_ledgers_that_opened_other_epochs_are_no_copies(
    place: LedgerPlace, tmp_path: Path
) -> None:
    other = copied(place, tmp_path / "other")
    for each in (place, other):
        async with opened(each) as store:
            await store.open_next_epoch(0)
    await spend(other, 7)
    before = await all_entries(place)
    async with opened(place) as store:
        with pytest.raises(UnreadableEntry, match="different epochs"):
            await store.unite(await all_entries(other))
        assert await store.entries() == before
        assert isinstance(
            await store.admit(samples.charge(epoch=2), samples.promises()), Admitted
        ), "the ledger is as usable as before"


async def test_ledger_of_another_profile_is_no_copy(place: LedgerPlace, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = samples.place(tmp_path / "other")
    await LedgerStore.create(other, samples.keys())
    async with opened(place) as store:
        with pytest.raises(UnreadableEntry):
            await store.unite(await all_entries(other))
        assert len(await store.entries()) == 1


@pytest.mark.parametrize(
    "entry",
    [samples.charge(epoch=7), EpochOpened(new_entry_id(), 9, 0), EpochOpened(new_entry_id(), 1, 0)],
    ids=["epoch that was not opened", "epochs skipped", "first epoch again"],
)
async def test_union_that_no_ledger_could_have_is_refused_whole(
    place: LedgerPlace, entry: Entry
) -> None:
    """The first of the two entries would fit."""
    async with opened(place) as store:
        with pytest.raises(UnreadableEntry):
            await store.unite([samples.charge(units=5), entry])
        assert spent(store) == (0, 0)
        assert len(await store.entries()) == 1
        assert isinstance(await store.admit(samples.charge(), samples.promises()), Admitted)
    async with opened(place) as store:
        assert spent(store) == (THIRD, THIRD)


async def test_union_on_a_full_disk_is_refused_whole(place: LedgerPlace) -> None:
    many = [samples.charge(units=1) for _ in range(200)]
    async with opened(place) as store:
        assert store._writer is not None
        await store._writer.run(lambda connection: connection.execute("PRAGMA max_page_count=8"))
        with pytest.raises(IoFailed, match="check the disk"):
            await store.unite(many)
        assert spent(store) == (0, 0)
        await store._writer.run(lambda connection: connection.execute("PRAGMA max_page_count=9000"))
        assert await store.unite(many) == 200
        assert spent(store) == (200, 200)
        assert replay(await store.entries()) == ledger_of(store)


async def test_two_unions_at_once_add_each_entry_once(place: LedgerPlace, tmp_path: Path) -> None:
    other = copied(place, tmp_path / "other")
    for units in (1, 10, 100):
        await spend(other, units)
    entries = await all_entries(other)
    async with opened(place) as store:
        async with asyncio.TaskGroup() as group:
            unions = [
                group.create_task(store.unite(entries), name=f"union {number}")
                for number in range(3)
            ]
            group.create_task(store.admit(samples.charge(units=5), samples.promises()), name="app")
        assert sorted(union.result() for union in unions) == [0, 0, 3]
        assert spent(store) == (116, 116)


async def test_union_is_never_below_the_mark(place: LedgerPlace, tmp_path: Path) -> None:
    """An old copy put back, then united with a copy that has only some of what was lost."""
    older = copied(place, tmp_path / "older")
    await spend(place, 10)
    between = copied(place, tmp_path / "between")
    await spend(place, 100)
    shutil.copy(older.database, place.database)
    async with opened(place) as store:
        assert spent(store) == (110, 110)
        await store.unite(await all_entries(between))
        assert min(spent(store)) >= 110
    async with opened(place) as store:
        assert min(spent(store)) >= 110


async def test_union_gives_no_trust_to_a_ledger_without_a_mark(
    place: LedgerPlace, tmp_path: Path
) -> None:
    newer = copied(place, tmp_path / "newer")
    await spend(newer, 10)
    place.mark.unlink()
    async with opened(place) as store:
        assert await store.unite(await all_entries(newer)) == 1
        assert ledger_of(store).exhausted
    assert not place.mark.exists()


CHARGES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, THIRD // 4)), max_size=4)


@settings(max_examples=10)
@given(common=CHARGES, ours=CHARGES, theirs=CHARGES, reopened=st.booleans())
def test_union_is_the_same_from_either_side_and_at_least_both(
    common: Sequence[tuple[int, int]],
    ours: Sequence[tuple[int, int]],
    theirs: Sequence[tuple[int, int]],
    reopened: bool,
) -> None:
    async def write(place: LedgerPlace, charges: Sequence[tuple[int, int]]) -> None:
        async with opened(place) as store:
            for slot, units in charges:
                await store.admit(samples.charge(SLOTS[slot], units=units), samples.promises())
            if reopened:
                await store.record(samples.unprotected_read())

    async def play(folder: Path) -> None:
        place = samples.place(folder)
        await LedgerStore.create(place, samples.keys())
        await write(place, common)
        other = copied(place, folder / "other")
        await write(place, ours)
        await write(other, theirs)
        async with opened(place) as here, opened(other) as there:
            before = (spent(here), spent(there))
            both = await here.entries(), await there.entries()
            await here.unite(both[1])
            await there.unite(both[0])
            assert spent(here) == spent(there)
            assert all(now >= max(then) for now, *then in zip(spent(here), *before, strict=True))
            assert {e.id for e in await here.entries()} == {e.id for e in (*both[0], *both[1])}
            assert ledger_of(here).unprotected == ledger_of(there).unprotected

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))
