"""Somebody who can write to the data folder, without a key: whatever they change is found.

What is found is told in a sentence; nobody ever gets a text that was not filed there. Key files
have a test of their own in `test_keys`, turns in `test_history`, the mark in `test_mark` and the
witness in `test_witness`; rows, entries and whole files are here.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from itertools import combinations
from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.tactfuld.store import samples

from tactful.errors import KeyUnavailable, TactfulError, Unusable
from tactful_core.entries import Entry, UnreadableEntry
from tactful_core.ledger import Admitted, UnreadableLedger
from tactful_core.sealing import Memory, PassphraseParameters
from tactful_core.values import Position, Secret, ShelfName
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.sources import PassphraseSource
from tactfuld.store.ledger import LedgerPlace, LedgerStore
from tactfuld.store.memory import MemoryStore
from tactfuld.unlocking import unlock

TEXTS = {2: "I eat no nuts.", 4: "I owe 900.", 6: "I play the oboe."}
SHELVES = {2: samples.DIET, 4: ShelfName("finance.accounts"), 6: ShelfName("hobbies.music")}
ALL = samples.positions(1, 2, 3, 4, 5, 6)
COLUMNS = {"store": 16, "key": 16, "layout": 32, "root": 32}
CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)
STEP = 61
"""Every so many bytes of a whole file, where every one would take minutes."""


# --- memory -------------------------------------------------------------------------------------


async def fill(store: MemoryStore) -> None:
    for position, text in TEXTS.items():
        await store.remember(text, SHELVES[position], Position(position), 1)


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[tuple[MemoryStore, Path]]:
    place = samples.memory_place(folder)
    await MemoryStore.create(place, samples.layout(), samples.keys())
    async with opened(folder) as store:
        await fill(store)
        yield store, place.database


def opened(folder: Path) -> AbstractAsyncContextManager[MemoryStore]:
    place = samples.memory_place(folder)
    return MemoryStore.open(place, samples.layout(), samples.keys(), _unheard)


def _unheard(_notice: str) -> None:
    """What is found is looked at where it is asked for."""


@contextmanager
def writing(database: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        yield connection


def rows_of(database: Path, table: str = "rows", number: str = "position") -> dict[int, bytes]:
    with writing(database) as connection:
        return dict(connection.execute(f"SELECT {number}, sealed FROM {table}").fetchall())  # noqa: S608


def put(connection: sqlite3.Connection, position: int, row: bytes) -> None:
    connection.execute("UPDATE rows SET sealed = ? WHERE position = ?", (row, position))


async def only_these_are_lost(store: MemoryStore, lost: set[int]) -> None:
    """Those positions count as empty, all others are as they were, and the whole is refused."""
    texts = (await store.open_rows(ALL)).reveal()
    expected = tuple("" if p in lost else TEXTS.get(p, "") for p in ALL)
    assert texts == expected
    found = await store.examined()
    assert (set(found.unreadable), found.whole) == (lost, False)
    with pytest.raises(Unusable) as refused:
        await store.listing()
    assert not any(text in str(refused.value) for text in TEXTS.values())


async def test_no_byte_of_any_row_can_be_flipped(tmp_path: Path) -> None:
    async with memory(tmp_path) as (store, database):
        with writing(database) as thief:
            for position, row in rows_of(database).items():
                for index in range(len(row)):
                    flipped = bytearray(row)
                    flipped[index] ^= 1 << index % 8
                    put(thief, position, bytes(flipped))
                    await only_these_are_lost(store, {position})
                put(thief, position, row)
        assert len(await store.listing()) == len(TEXTS)


async def test_no_row_can_be_cut_at_any_length(tmp_path: Path) -> None:
    async with memory(tmp_path) as (store, database):
        rows = rows_of(database)
        with writing(database) as thief:
            for length in range(len(rows[2])):
                put(thief, 2, rows[2][:length])
                await only_these_are_lost(store, {2})
            put(thief, 2, rows[2] + b"\0")
            await only_these_are_lost(store, {2})


async def test_no_two_rows_can_be_exchanged_and_none_put_over_another(tmp_path: Path) -> None:
    async with memory(tmp_path) as (store, database):
        rows = rows_of(database)
        with writing(database) as thief:
            for first, second in combinations(rows, 2):
                put(thief, first, rows[second])
                await only_these_are_lost(store, {first})
                put(thief, second, rows[first])
                await only_these_are_lost(store, {first, second})
                put(thief, first, rows[first])
                put(thief, second, rows[second])


async def test_no_row_of_an_older_copy_can_be_put_back(tmp_path: Path) -> None:
    async with memory(tmp_path) as (store, database):
        older = rows_of(database)
        await store.remember("I like rice.", samples.DIET, Position(3), 2)
        newer = rows_of(database)
        with writing(database) as thief:
            for position in older:
                put(thief, position, older[position])
                texts = (await store.open_rows(ALL)).reveal()
                assert texts[position - 1] == ""
                assert (await store.examined()).unreadable == (position,)
                put(thief, position, newer[position])


async def test_no_byte_of_the_header_can_be_flipped(tmp_path: Path) -> None:
    async with memory(tmp_path) as (store, database):
        with writing(database) as thief:
            for column, size in COLUMNS.items():
                (good,) = thief.execute(f"SELECT {column} FROM header").fetchone()  # noqa: S608
                assert len(good) == size
                for index in range(size):
                    flipped = bytearray(good)
                    flipped[index] ^= 1 << index % 8
                    thief.execute(f"UPDATE header SET {column} = ?", (bytes(flipped),))  # noqa: S608
                    with pytest.raises(Unusable):
                        await store.listing()
                thief.execute(f"UPDATE header SET {column} = ?", (good,))  # noqa: S608
            for column in ("version", "since"):
                (good,) = thief.execute(f"SELECT {column} FROM header").fetchone()  # noqa: S608
                for bit in range(63):
                    thief.execute(f"UPDATE header SET {column} = ?", (good ^ (1 << bit),))  # noqa: S608
                    with pytest.raises(Unusable):
                        await store.listing()
                thief.execute(f"UPDATE header SET {column} = ?", (good,))  # noqa: S608
        assert len(await store.listing()) == len(TEXTS)


# --- the ledger ---------------------------------------------------------------------------------


@asynccontextmanager
async def ledger(folder: Path) -> AsyncIterator[tuple[LedgerStore, LedgerPlace]]:
    """An epoch, a charge, and the view that it bought."""
    place = samples.place(folder)
    await LedgerStore.create(place, samples.keys())
    async with opened_ledger(place) as store:
        charge = samples.charge()
        assert isinstance(await store.admit(charge, samples.promises()), Admitted)
        assert await store.record(samples.released(charge))
        with writing(place.database) as connection:
            connection.execute("DROP TRIGGER entries_never_change")
            connection.execute("DROP TRIGGER entries_never_vanish")
        yield store, place


def opened_ledger(
    place: LedgerPlace, notices: Callable[[str], None] = _unheard
) -> AbstractAsyncContextManager[LedgerStore]:
    attributes = samples.layout().attributes
    return LedgerStore.open(place, samples.keys(), attributes, notices)


def enter(connection: sqlite3.Connection, number: int, row: bytes) -> None:
    connection.execute("UPDATE entries SET sealed = ? WHERE sequence = ?", (row, number))


async def test_no_byte_of_any_entry_can_be_flipped(tmp_path: Path) -> None:
    async with ledger(tmp_path) as (store, place):
        rows = rows_of(place.database, "entries", "sequence")
        with writing(place.database) as thief:
            for number, row in rows.items():
                for index in range(len(row)):
                    flipped = bytearray(row)
                    flipped[index] ^= 1 << index % 8
                    enter(thief, number, bytes(flipped))
                    with pytest.raises(UnreadableEntry):
                        await store.entries()
                enter(thief, number, row)
        assert len(await store.entries()) == len(rows)


async def test_no_two_entries_can_be_exchanged_and_none_dropped_but_the_newest(
    tmp_path: Path,
) -> None:
    async with ledger(tmp_path) as (store, place):
        rows = rows_of(place.database, "entries", "sequence")
        with writing(place.database) as thief:
            for first, second in combinations(rows, 2):
                enter(thief, first, rows[second])
                enter(thief, second, rows[first])
                with pytest.raises(UnreadableEntry):
                    await store.entries()
                enter(thief, first, rows[first])
                enter(thief, second, rows[second])
            for number in list(rows)[:-1]:
                thief.execute("DELETE FROM entries WHERE sequence = ?", (number,))
                with pytest.raises(UnreadableEntry):
                    await store.entries()
                thief.execute("INSERT INTO entries VALUES (?, ?)", (number, rows[number]))
            thief.execute("DELETE FROM entries WHERE sequence = ?", (len(rows),))
            with pytest.raises(UnreadableEntry):
                await store.witnessed()


async def test_no_entry_of_another_copy_can_take_the_place_of_one(tmp_path: Path) -> None:
    """It is sealed by the same key under the same number, and only the link tells that it is not
    what the next one was written after.
    """
    async with ledger(tmp_path / "one") as (store, place):
        rows = rows_of(place.database, "entries", "sequence")
        copied = samples.place(tmp_path / "other")
        shutil.copyfile(place.database, copied.database)
        shutil.copyfile(place.mark, copied.mark)
        with writing(copied.database) as thief:
            thief.execute("DELETE FROM entries WHERE sequence > 1")
        async with opened_ledger(copied) as other:
            cheaper = samples.charge(units=1)
            assert isinstance(await other.admit(cheaper, samples.promises()), Admitted)
        foreign = rows_of(copied.database, "entries", "sequence")[2]
        assert foreign != rows[2]
        with writing(place.database) as thief:
            enter(thief, 2, foreign)
            with pytest.raises(UnreadableEntry):
                await store.entries()


async def test_newest_entries_that_are_gone_at_the_start_are_told_and_stay_charged(
    tmp_path: Path,
) -> None:
    async with ledger(tmp_path) as (store, place):
        before = store.snapshot()
        assert not isinstance(before, UnreadableLedger)
    with writing(place.database) as thief:
        thief.execute("DELETE FROM entries WHERE sequence > 1")
    notices: list[str] = []
    async with opened_ledger(place, notices.append) as store:
        after = store.snapshot()
        assert not isinstance(after, UnreadableLedger)
        for attribute in samples.layout().attributes:
            assert after.spent(attribute) >= before.spent(attribute)
    assert ["less than its high-water mark" in notice for notice in notices] == [True]


# --- whole files --------------------------------------------------------------------------------


@pytest.fixture
async def stopped(tmp_path: Path) -> Path:
    """A folder with memory and ledger, closed."""
    async with memory(tmp_path), ledger(tmp_path):
        pass
    return tmp_path


async def memories_in(folder: Path) -> tuple[tuple[Position, Memory], ...]:
    async with opened(folder) as store:
        listed = await store.listing()
        texts = (await store.open_rows(ALL)).reveal()
        assert texts == tuple(dict(listed).get(p, Memory("", 0)).text for p in ALL)
        return listed


async def entries_in(folder: Path) -> tuple[Entry, ...]:
    async with opened_ledger(samples.place(folder)) as store:
        entries = await store.entries()
        assert not isinstance(store.snapshot(), UnreadableLedger)
        return entries


Reading = Callable[[Path], Awaitable[object]]
FILES: dict[str, tuple[Callable[[Path], Path], Reading]] = {
    "memory": (lambda folder: samples.memory_place(folder).database, memories_in),
    "ledger": (lambda folder: samples.place(folder).database, entries_in),
}


async def told(reading: Reading, folder: Path) -> object:
    """What is in a file, or why nobody is told."""
    try:
        return await reading(folder)
    except (TactfulError, UnreadableEntry) as refused:
        return str(refused)


async def nothing_but_the_truth(folder: Path, name: str, step: int, first: int) -> None:
    """Flips bytes of a whole file: what opens is as it was filed, and all else is a sentence.

    Not every byte of a database means something: what was deleted, and the rest of a page.
    """
    where, reading = FILES[name]
    file, truth = where(folder), await reading(folder)
    good = file.read_bytes()
    for index in range(first, len(good), step):
        flipped = bytearray(good)
        flipped[index] ^= 0xFF
        file.write_bytes(flipped)
        found = await told(reading, folder)
        assert found == truth or isinstance(found, str)
        assert not any(text in str(found) for text in TEXTS.values() if isinstance(found, str))
        for end in ("-wal", "-shm"):
            file.with_name(file.name + end).unlink(missing_ok=True)
    file.write_bytes(good)
    assert await reading(folder) == truth


@pytest.mark.parametrize("name", FILES)
async def test_a_flipped_byte_of_a_file_never_opens_as_something_else(
    stopped: Path, name: str
) -> None:
    await nothing_but_the_truth(stopped, name, STEP, 0)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FILES)
async def test_no_flipped_byte_of_a_file_opens_as_something_else(stopped: Path, name: str) -> None:
    await nothing_but_the_truth(stopped, name, 1, 0)


@pytest.mark.parametrize("name", FILES)
async def test_a_file_that_is_cut_anywhere_is_refused(stopped: Path, name: str) -> None:
    where, reading = FILES[name]
    file = where(stopped)
    good = file.read_bytes()
    for length in (*range(0, 200, 20), *range(0, len(good), 512), len(good) - 1):
        file.write_bytes(good[:length])
        with pytest.raises((Unusable, UnreadableEntry)):
            await reading(stopped)
        for end in ("-wal", "-shm"):
            file.with_name(file.name + end).unlink(missing_ok=True)


async def test_an_older_file_of_memory_is_refused(stopped: Path) -> None:
    database = samples.memory_place(stopped).database
    older = database.read_bytes()
    async with opened(stopped) as store:
        await store.remember("I like rice.", samples.DIET, Position(3), 2)
    database.write_bytes(older)
    with pytest.raises(Unusable, match="is older than it was"):
        await memories_in(stopped)


def test_an_older_key_file_does_not_open_under_the_present_passphrase(tmp_path: Path) -> None:
    profile = make_profile(tmp_path / "p")
    older = (profile.data / KEY_FILE).read_bytes()
    ring = unlock(profile, Secret(PASSPHRASE))
    ring.change_source(PassphraseSource(Secret("another passphrase"), CHEAP))
    (profile.data / KEY_FILE).write_bytes(older)
    with pytest.raises(KeyUnavailable):
        unlock(profile, Secret("another passphrase"))
