"""Memory keeps what it was given, where it was put, and says so when it no longer can."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tactfuld.store import samples

from tactful.errors import (
    AlreadyExists,
    DoesNotFit,
    InvalidParams,
    NoPermission,
    NotFound,
    Unusable,
)
from tactful_core.layout import Layout
from tactful_core.sealing import Memory, RowSealer, capacity_bytes
from tactful_core.values import Position, Secret, ShelfName, SlotName
from tactfuld.store import memory as memory_module
from tactfuld.store.memory import MEMORY_FILE, MemoryPlace, MemoryStore
from tactfuld.store.witness import WITNESS_FILE

REPOSITORY = Path(__file__).parents[3]
NOW = 1_767_225_600
LIMIT = capacity_bytes(samples.TOKENS)
ALL = samples.positions(1, 2, 3, 4, 5, 6)

Notices = list[str]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A new, empty store."""
    place = samples.memory_place(tmp_path)
    await MemoryStore.create(place, samples.layout(), samples.keys())
    return place.database


@pytest.fixture
def notices() -> Notices:
    return []


def opened(
    path: Path, notices: Notices | None = None, layout: Layout | None = None
) -> AbstractAsyncContextManager[MemoryStore]:
    tell = print if notices is None else notices.append
    return MemoryStore.open(
        samples.memory_at(path), layout or samples.layout(), samples.keys(), tell
    )


async def texts(store: MemoryStore, *read_set: Position) -> tuple[str, ...]:
    return (await store.open_rows(read_set)).reveal()


def rows(path: Path) -> dict[int, bytes]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT position, sealed FROM rows").fetchall())


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (number,) = connection.execute("SELECT version FROM header").fetchone()
    assert isinstance(number, int)
    return number


@contextmanager
def tampering(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


# --- remembering and reading --------------------------------------------------------------------


async def test_new_store_holds_every_position_and_no_memory(path: Path) -> None:
    async with opened(path) as store:
        assert await store.listing() == ()
        assert await texts(store, *ALL) == ("",) * 6
    sealed = rows(path)
    assert sorted(sealed) == [1, 2, 3, 4, 5, 6]
    assert len({len(row) for row in sealed.values()}) == 1


async def test_memories_go_to_the_first_empty_position_and_come_back(path: Path) -> None:
    async with opened(path) as store:
        assert await store.remember("I eat no nuts.", samples.DIET, None, NOW) == 2
        assert await store.remember("I like rice.", samples.DIET, None, NOW + 1) == 3
    async with opened(path) as store:
        assert await store.listing() == (
            (2, Memory("I eat no nuts.", NOW)),
            (3, Memory("I like rice.", NOW + 1)),
        )
        assert await texts(store, Position(3), Position(1), Position(2)) == (
            "I like rice.",
            "",
            "I eat no nuts.",
        )


async def test_a_chosen_position_is_used(path: Path) -> None:
    async with opened(path) as store:
        assert await store.remember("I like rice.", samples.DIET, Position(3), NOW) == 3
        assert await store.remember("I eat no nuts.", samples.DIET, None, NOW) == 2


async def test_opened_rows_do_not_show_themselves(path: Path) -> None:
    async with opened(path) as store:
        await store.remember("I eat no nuts.", samples.DIET, None, NOW)
        opened_rows = await store.open_rows(ALL)
        assert isinstance(opened_rows, Secret)
        assert "nuts" not in f"{opened_rows!r} {await store.listing()!r}"


@pytest.mark.parametrize(
    "text",
    [
        "  spaces around  ",
        "two\nlines\t",
        "caf\u0065\u0301 \u2615",
        "\ufeffmark",
        "x" * LIMIT,
        "é" * (LIMIT // 2),
    ],
)
async def test_a_text_is_kept_as_it_was_given(path: Path, text: str) -> None:
    async with opened(path) as store:
        await store.remember(text, samples.DIET, None, NOW)
    async with opened(path) as store:
        assert await texts(store, Position(2)) == (text,)


@pytest.mark.parametrize(
    "text",
    ["", " \n", "nul\0inside", "lone \ud800 surrogate"],
    ids=["empty", "blank", "nul", "lone"],
)
async def test_what_is_no_text_is_refused_and_not_repaired(path: Path, text: str) -> None:
    async with opened(path) as store:
        with pytest.raises(InvalidParams) as error:
            await store.remember(text, samples.DIET, None, NOW)
        assert "inside" not in str(error.value)
    assert version(path) == 1


@pytest.mark.parametrize("text", ["x" * (LIMIT + 1), "é" * (LIMIT // 2 + 1)])
async def test_a_longer_text_does_not_fit_and_the_error_does_not_repeat_it(
    path: Path, text: str
) -> None:
    async with opened(path) as store:
        with pytest.raises(DoesNotFit, match=rf"at most {LIMIT}") as error:
            await store.remember(text, samples.DIET, None, NOW)
        assert "xx" not in str(error.value)
    assert version(path) == 1


async def test_the_capacity_is_that_of_the_shelf_and_not_of_the_largest(tmp_path: Path) -> None:
    small = samples.layout()
    shelf = replace(small.slots[0].shelves[0], tokens=4 * samples.TOKENS)
    layout = replace(small, slots=(replace(small.slots[0], shelves=(shelf,)), *small.slots[1:]))
    path = samples.memory_place(tmp_path).database
    await MemoryStore.create(samples.memory_at(path), layout, samples.keys())
    async with opened(path, layout=layout) as store:
        with pytest.raises(DoesNotFit):
            await store.remember("x" * (LIMIT + 1), samples.DIET, None, NOW)
        assert await store.remember("x" * 4 * LIMIT, shelf.name, None, NOW) == 1
    assert len({len(row) for row in rows(path).values()}) == 1


async def test_a_full_shelf_and_a_taken_position_do_not_fit(path: Path) -> None:
    async with opened(path) as store:
        await store.remember("one", samples.DIET, Position(2), NOW)
        with pytest.raises(DoesNotFit, match="Position 2 is full"):
            await store.remember("two", samples.DIET, Position(2), NOW)
        await store.remember("two", samples.DIET, None, NOW)
        with pytest.raises(DoesNotFit, match=r"All 2 positions of the shelf food\.diet are full"):
            await store.remember("three", samples.DIET, None, NOW)
        assert await texts(store, *ALL) == ("", "one", "two", "", "", "")


async def test_a_shelf_that_is_not_there_is_not_found(path: Path) -> None:
    async with opened(path) as store:
        with pytest.raises(NotFound, match=r"food\.snacks"):
            await store.remember("one", ShelfName("food.snacks"), None, NOW)
        for elsewhere in (0, 1, 4, 7, -1):
            with pytest.raises(NotFound, match="it has positions 2, 3"):
                await store.remember("one", samples.DIET, Position(elsewhere), NOW)
    assert version(path) == 1


async def test_store_is_never_made_over_another(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(AlreadyExists):
        await MemoryStore.create(samples.memory_at(path), samples.layout(), samples.keys())
    assert path.read_bytes() == before


async def test_store_cannot_be_made_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    absent = MemoryPlace(tmp_path / "absent" / MEMORY_FILE, tmp_path / WITNESS_FILE)
    with pytest.raises(NoPermission):
        await MemoryStore.create(absent, samples.layout(), samples.keys())


# --- what a write does --------------------------------------------------------------------------


async def test_every_write_seals_every_row_anew_under_the_next_version(path: Path) -> None:
    before = rows(path)
    async with opened(path) as store:
        await store.remember("I eat no nuts.", samples.DIET, None, NOW)
    after = rows(path)
    assert version(path) == 2
    assert not set(before.values()) & set(after.values())
    assert {len(row) for row in after.values()} == {len(row) for row in before.values()}


async def test_concurrent_memories_take_different_positions(path: Path) -> None:
    async with opened(path) as store:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(store.remember(text, samples.DIET, None, NOW), name=text)
                for text in ("one", "two")
            ]
        assert {task.result() for task in tasks} == {2, 3}
        assert sorted(await texts(store, *ALL))[-2:] == ["one", "two"]


async def test_reading_while_writing_sees_one_state_or_the_other(path: Path) -> None:
    async with opened(path) as store, asyncio.TaskGroup() as group:
        writing = group.create_task(store.remember("one", samples.DIET, None, NOW), name="write")
        while not writing.done():
            assert await texts(store, *samples.positions(1, 2)) in {("", ""), ("", "one")}


async def test_cancelled_in_its_transaction_a_write_is_finished(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, release = threading.Event(), threading.Event()
    seal = RowSealer.seal

    def slow_seal(self: RowSealer, memory: Memory | None, position: Position, number: int) -> bytes:
        entered.set()
        release.wait()
        return seal(self, memory, position, number)

    async with opened(path) as store:
        monkeypatch.setattr(RowSealer, "seal", slow_seal)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(store.remember("one", samples.DIET, None, NOW), name="write")
            await asyncio.to_thread(entered.wait)
            task.cancel()
            await asyncio.sleep(0)
            assert task.cancelled()
            release.set()
        assert await store.remember("two", samples.DIET, None, NOW) == 3
        assert await texts(store, *samples.positions(2, 3)) == ("one", "two")


DIE = """
import asyncio, os, signal, sys
from pathlib import Path
from tactfuld.store.memory import MemoryStore
from tests.tactfuld.store import samples

def die(*anything):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    at, place = samples.memory_at(Path(sys.argv[1])), sys.argv[2]
    async with MemoryStore.open(at, samples.layout(), samples.keys(), print) as store:
        if place == "between two rows":
            sql = "CREATE TEMP TRIGGER dying AFTER UPDATE ON rows WHEN NEW.position = 3 "
            sql += "BEGIN SELECT die(); END"
        else:
            sql = "SELECT 1"
        def prepare(connection):
            connection.create_function("die", 0, die)
            connection.execute(sql)
        await store._writer.run(prepare)
        await store.remember("two", samples.DIET, None, 2)
        die()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("place", "second"), [("between two rows", ""), ("after the commit", "two")]
)
async def test_killed_while_writing_the_store_is_before_or_after(
    path: Path, place: str, second: str
) -> None:
    async with opened(path) as store:
        await store.remember("one", samples.DIET, None, NOW)
    command = [sys.executable, "-c", DIE, str(path), place]
    killed = subprocess.run(command, cwd=REPOSITORY, check=False)
    assert killed.returncode == -signal.SIGKILL
    async with opened(path) as store:
        assert await texts(store, *samples.positions(2, 3)) == ("one", second)


async def test_full_disk_remembers_nothing_and_loses_nothing(path: Path) -> None:
    async with opened(path) as store:
        await store.remember("one", samples.DIET, None, NOW)

        def refuse(connection: sqlite3.Connection) -> None:
            connection.execute(
                "CREATE TEMP TRIGGER full AFTER UPDATE ON rows WHEN NEW.position = 3 "
                "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
            )

        await store._writer.run(refuse)
        with pytest.raises(NoPermission, match="nothing was changed"):
            await store.remember("two", samples.DIET, None, NOW)
        assert await texts(store, *samples.positions(2, 3)) == ("one", "")
    async with opened(path) as store:
        assert await store.remember("two", samples.DIET, None, NOW) == 3


# --- what a read does ---------------------------------------------------------------------------


async def test_a_read_opens_the_rows_of_its_read_set_and_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[int] = []
    open_row = RowSealer.open

    def counted(
        self: RowSealer, sealed: bytes, position: Position, number: int
    ) -> Secret[Memory | None]:
        touched.append(position)
        return open_row(self, sealed, position, number)

    async with opened(path) as store:
        monkeypatch.setattr(RowSealer, "open", counted)
        await store.open_rows(samples.positions(4, 5))
    assert sorted(touched) == [4, 5]


async def test_rows_are_looked_up_by_position_and_not_searched_for(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {memory_module._SOME}", ("[2,3]",))
        details = [str(row[3]) for row in plan.fetchall()]
    assert [line for line in details if line.startswith("SEARCH rows USING INTEGER PRIMARY KEY")]
    assert not [line for line in details if line.startswith("SCAN rows")]


# --- damage -------------------------------------------------------------------------------------

Tamper = Callable[[sqlite3.Connection], object]


def execute(*statements: str) -> Tamper:
    def tamper(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return tamper


def put(position: int, source: int) -> Tamper:
    """The row of one position copied over another."""
    return execute(
        f"UPDATE rows SET sealed = (SELECT sealed FROM rows WHERE position = {source}) "  # noqa: S608
        f"WHERE position = {position}"
    )


def flip(position: int, index: int) -> Tamper:
    def tamper(connection: sqlite3.Connection) -> None:
        (sealed,) = connection.execute(
            "SELECT sealed FROM rows WHERE position = ?", (position,)
        ).fetchone()
        changed = bytearray(sealed)
        changed[index] ^= 0x80
        connection.execute(
            "UPDATE rows SET sealed = ? WHERE position = ?", (bytes(changed), position)
        )

    return tamper


def swap(first: int, second: int) -> Tamper:
    def tamper(connection: sqlite3.Connection) -> None:
        sealed = dict(connection.execute("SELECT position, sealed FROM rows").fetchall())
        for target, source in ((first, second), (second, first)):
            connection.execute(
                "UPDATE rows SET sealed = ? WHERE position = ?", (sealed[source], target)
            )

    return tamper


TAMPERED = {
    "a bit of an empty row flipped": flip(1, 0),
    "a bit of a full row flipped": flip(2, 40),
    "a bit of the last tag flipped": flip(6, -1),
    "two rows exchanged": swap(2, 5),
    "two empty rows exchanged": swap(5, 6),
    "a row copied": put(5, 2),
    "a row deleted": execute("DELETE FROM rows WHERE position = 4"),
    "the last row deleted": execute("DELETE FROM rows WHERE position = 6"),
    "all rows deleted": execute("DELETE FROM rows"),
    "a row too many": execute("INSERT INTO rows SELECT 7, sealed FROM rows WHERE position = 6"),
    "a row cut short": execute("UPDATE rows SET sealed = x'00' WHERE position = 4"),
    "a row moved away": execute("UPDATE rows SET position = 9 WHERE position = 4"),
    "the version raised": execute("UPDATE header SET version = version + 1"),
    "the version below zero": execute("UPDATE header SET version = -1"),
    "the root emptied": execute("UPDATE header SET root = x''"),
    "the root zeroed": execute("UPDATE header SET root = zeroblob(32)"),
    "another layout": execute("UPDATE header SET layout = zeroblob(32)"),
    "another store": execute("UPDATE header SET store = zeroblob(16)"),
    "another key": execute("UPDATE header SET key = zeroblob(16)"),
    "no header": execute("DELETE FROM header"),
    "no tables": execute("DROP TABLE rows"),
    "tables of other types": execute(
        "DROP TABLE rows",
        "DROP TABLE header",
        "CREATE TABLE header (store, key, layout, version, root)",
        "CREATE TABLE rows (position, sealed)",
        "INSERT INTO header VALUES ('a', 2, NULL, 'x', 1.5)",
        "INSERT INTO rows VALUES ('one', 'text')",
    ),
    "rows of other types": execute(
        "ALTER TABLE rows RENAME TO old",
        "CREATE TABLE rows (position, sealed)",
        "INSERT INTO rows SELECT position, hex(sealed) FROM old",
    ),
    "no version of the schema": execute("PRAGMA user_version = 0"),
}


@pytest.mark.parametrize("name", TAMPERED)
async def test_tampered_store_is_unusable_with_a_sentence(path: Path, name: str) -> None:
    async with opened(path) as store:
        await store.remember("I eat no nuts.", samples.DIET, None, NOW)
    with tampering(path) as connection:
        TAMPERED[name](connection)
    before = path.read_bytes()
    with pytest.raises(Unusable, match=r"memory\.db .*; put ") as error:
        async with opened(path):
            pass
    assert "nuts" not in str(error.value)
    assert path.read_bytes() == before


async def test_row_of_an_older_version_makes_the_store_unusable(path: Path) -> None:
    old = rows(path)[1]
    async with opened(path) as store:
        await store.remember("I eat no nuts.", samples.DIET, None, NOW)
    with tampering(path) as connection:
        connection.execute("UPDATE rows SET sealed = ? WHERE position = 1", (old,))
    with pytest.raises(Unusable):
        async with opened(path):
            pass


@pytest.mark.parametrize("content", [None, b"", b"hello", b"SQLite format 3\0" + bytes(5000)])
async def test_file_that_is_no_database_is_unusable_and_not_made_anew(
    path: Path, content: bytes | None
) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    told = "is missing, though" if content is None else "is not as it was written"
    with pytest.raises(Unusable, match=rf"memory\.db {told}"):
        async with opened(path):
            pass
    assert path.exists() == (content is not None)


async def test_truncated_file_is_unusable(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(Unusable):
        async with opened(path):
            pass


async def test_store_of_other_keys_is_named_as_such(path: Path) -> None:
    other = MemoryStore.open(samples.memory_at(path), samples.layout(), samples.keys(b"T"), print)
    with pytest.raises(Unusable, match="belongs to other keys"):
        async with other:
            pass


async def test_newer_store_is_refused_with_what_to_do(path: Path) -> None:
    with tampering(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(Unusable, match="newer version of tactful; update"):
        async with opened(path):
            pass


def changed_layouts() -> dict[str, Layout]:
    layout = samples.layout()
    health, food, *rest = layout.slots
    diet = food.shelves[0]
    renamed = replace(diet, name=ShelfName("food.diets"))
    larger = replace(diet, tokens=2 * samples.TOKENS)
    more = samples.slot(SlotName("work"), "jobs", 7)
    shorter = replace(layout, slots=(health, food, *rest[:-1]))
    moved = (
        replace(health, shelves=(replace(health.shelves[0], positions=samples.positions(3)),)),
        replace(food, shelves=(replace(diet, positions=samples.positions(1, 2)),)),
    )
    return {
        "a shelf renamed": replace(
            layout, slots=(health, replace(food, shelves=(renamed,)), *rest)
        ),
        "a shelf larger": replace(layout, slots=(health, replace(food, shelves=(larger,)), *rest)),
        "a slot more": replace(layout, slots=(*layout.slots, more)),
        "a slot fewer": shorter,
        "shelves in another order": replace(layout, slots=(*moved, *rest)),
    }


@pytest.mark.parametrize("change", changed_layouts())
async def test_another_layout_is_refused_with_what_to_do(path: Path, change: str) -> None:
    with pytest.raises(Unusable, match="put the shelves back as they were"):
        async with opened(path, layout=changed_layouts()[change]):
            pass


async def test_views_and_attributes_may_change_under_the_same_shelves(path: Path) -> None:
    layout = samples.layout()
    async with opened(path, layout=replace(layout, attributes=layout.attributes[:1])):
        pass


# --- damage while running -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "tamper",
    [put(3, 2), flip(3, 30), execute("DELETE FROM rows WHERE position = 3"), swap(3, 6)],
    ids=["copied from another position", "changed", "deleted", "exchanged"],
)
async def test_row_that_no_longer_opens_counts_as_empty_and_the_owner_is_told(
    path: Path, notices: Notices, tamper: Tamper
) -> None:
    async with opened(path, notices) as store:
        await store.remember("I eat no nuts.", samples.DIET, None, NOW)
        await store.remember("I like rice.", samples.DIET, None, NOW)
        with tampering(path) as connection:
            tamper(connection)
        assert await texts(store, *samples.positions(2, 3)) == ("I eat no nuts.", "")
    (notice,) = notices
    assert notice.startswith("Memory at position 3 could not be opened")
    assert "rice" not in notice
    assert "nuts" not in notice


async def test_row_of_an_older_version_counts_as_empty(path: Path, notices: Notices) -> None:
    async with opened(path, notices) as store:
        await store.remember("I eat no nuts.", samples.DIET, None, NOW)
        old = rows(path)[2]
        await store.remember("I like rice.", samples.DIET, None, NOW)
        with tampering(path) as connection:
            connection.execute("UPDATE rows SET sealed = ? WHERE position = 2", (old,))
        assert await texts(store, *samples.positions(2, 3)) == ("", "I like rice.")
    assert len(notices) == 1


@pytest.mark.parametrize(
    "tamper",
    [
        execute("DROP TABLE rows"),
        execute("UPDATE header SET version = -1"),
        execute("UPDATE header SET version = version + 1"),
    ],
)
async def test_reading_never_fails(path: Path, notices: Notices, tamper: Tamper) -> None:
    async with opened(path, notices) as store:
        with tampering(path) as connection:
            tamper(connection)
        assert await texts(store, *samples.positions(2, 3)) == ("", "")
    assert [notice for notice in notices if "positions 2, 3" in notice]


async def test_nothing_is_written_over_rows_that_do_not_open(path: Path) -> None:
    async with opened(path) as store:
        await store.remember("I eat no nuts.", samples.DIET, None, NOW)
        with tampering(path) as connection:
            flip(2, 40)(connection)
        before = rows(path)
        with pytest.raises(Unusable):
            await store.remember("I like rice.", samples.DIET, None, NOW)
        with pytest.raises(Unusable):
            await store.listing()
    assert rows(path) == before


# --- the database -------------------------------------------------------------------------------


async def test_files_are_private_and_overwrite_what_they_delete(path: Path) -> None:
    def settings_of(connection: sqlite3.Connection) -> Sequence[object]:
        names = ("journal_mode", "synchronous", "secure_delete")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    async with opened(path) as store:
        await store.remember("I eat no nuts.", samples.DIET, None, NOW)
        assert await store._writer.run(settings_of) == ["wal", 2, 1]
        files = sorted(path.parent.iterdir())
        assert [file.name for file in files] == ["memory.db", "memory.db-shm", "memory.db-wal"]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert [file.name for file in path.parent.iterdir()] == [MEMORY_FILE]


async def test_reading_connection_cannot_write(path: Path) -> None:
    async with opened(path) as store:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await store._reader.execute("UPDATE header SET version = 9")
