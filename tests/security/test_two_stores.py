"""Two stores of the same layout, one empty and one full: after the same operations nothing tells.

An operation is a write of memory, whatever it changes, or a start. What a thief sees after each of
them is compared: names, sizes, blocks and modes of files, which of them were touched, SQLite's own
bookkeeping, and which pages its write-ahead log holds.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import pytest
from tests.tactfuld.store import samples

from tactful_core.sealing import capacity_bytes
from tactful_core.values import Position
from tactfuld.store import memory as memory_module
from tactfuld.store.memory import MemoryPlace, MemoryStore

LONGEST = capacity_bytes(samples.TOKENS)
SHELVES = tuple(shelf.name for shelf in samples.layout().shelves)
PRAGMAS = ("page_count", "freelist_count", "page_size", "schema_version", "auto_vacuum")

_FRAME = struct.Struct(">II")
_HEADER = "SELECT version, since, length(root), length(layout) FROM header"

Seen = list[object]
Write = Callable[[MemoryStore, int], Awaitable[object]]


async def nothing(store: MemoryStore, _number: int) -> None:
    """A write that leaves every position empty."""
    await store._writer.run(partial(store._rewrite, memory_module._unchanged))


async def longest(store: MemoryStore, number: int) -> None:
    """The longest texts that there are, until every position is full."""
    shelf = [SHELVES[0], SHELVES[1], SHELVES[1], SHELVES[2], SHELVES[2], SHELVES[3]][number]
    await store.remember("x" * LONGEST, shelf, None, 2_000_000_000 + number)


async def shortest_backwards(store: MemoryStore, number: int) -> None:
    """Short texts, from the last position to the first."""
    position = samples.positions(6, 5, 4, 3, 2, 1)[number]
    shelf = next(s.name for s in samples.layout().shelves if position in s.positions)
    await store.remember("é", shelf, position, number)


async def forgotten(store: MemoryStore, number: int) -> None:
    """Five memories, all of which are forgotten in the end."""
    if number < 5:
        await longest(store, number)
    else:
        await store.forget(samples.positions(1, 2, 3, 4, 5))


async def nothing_forgotten(store: MemoryStore, number: int) -> None:
    """Five memories, and then the position that holds none is forgotten."""
    if number < 5:
        await longest(store, number)
    else:
        await store.forget(samples.positions(6))


async def edited_and_moved(store: MemoryStore, number: int) -> None:
    """A memory that is written anew and moved to a shelf that is covered as well."""
    if number == 0:
        await store.remember("é", SHELVES[3], None, number)
    elif number < 5:
        await store.edit(Position(6), "x" * LONGEST, number)
    else:
        await store.move(Position(6), SHELVES[1])


@asynccontextmanager
async def opened(place: MemoryPlace) -> AsyncIterator[MemoryStore]:
    async with MemoryStore.open(place, samples.layout(), samples.keys(), print) as store:
        yield store


async def watched(folder: Path, write: Write) -> tuple[Seen, int]:
    """What is seen after init, and after every start, write and stop: six writes, two starts.

    With it, how many memories there are in the end.
    """
    folder.mkdir()
    place, seen, memories = samples.memory_place(folder), Seen(), 0
    await MemoryStore.create(place, samples.layout(), samples.keys())
    seen.append(look(folder))
    for numbers in (range(3), range(3, 6)):
        async with opened(place) as store:
            seen.append(look(folder))
            for number in numbers:
                await write(store, number)
                seen.append((look(folder), pages_of_log(place.database)))
            memories = len(await store.listing())
        seen.append((look(folder), bookkeeping(place.database)))
    return seen, memories


def look(folder: Path) -> dict[str, object]:
    """All files, and whether they were touched since the last look."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if path.name.endswith("-shm"):
            continue  # how often somebody else looked at the database shows there
        status = path.stat()
        size = 0 if path.is_dir() else status.st_size
        found[str(path.relative_to(folder))] = (size, status.st_mode, status.st_mtime_ns != 0)
        os.utime(path, ns=(0, 0))
    return found


def bookkeeping(database: Path) -> Sequence[object]:
    with closing(sqlite3.connect(database)) as connection:
        kept = connection.execute(_HEADER).fetchone()
        return [kept, *(connection.execute(f"PRAGMA {name}").fetchone() for name in PRAGMAS)]


def pages_of_log(database: Path) -> list[tuple[int, int]]:
    """The numbers of the pages in the write-ahead log, and the sizes after commits."""
    log = database.with_name(f"{database.name}-wal").read_bytes()
    if not log:
        return []
    (size,) = struct.unpack_from(">I", log, 8)
    frames = range(32, len(log), 24 + size)
    return [
        (number, after) for start in frames for number, after in [_FRAME.unpack_from(log, start)]
    ]


PAIRS: list[tuple[Write, Write, int]] = [
    (nothing, longest, 6),
    (nothing, shortest_backwards, 6),
    (forgotten, nothing_forgotten, 5),
    (nothing, edited_and_moved, 1),
]


@pytest.mark.parametrize(("one", "other", "memories"), PAIRS)
async def test_an_empty_and_a_full_store_cannot_be_told_apart(
    tmp_path: Path, one: Write, other: Write, memories: int
) -> None:
    empty, none = await watched(tmp_path / "empty", one)
    full, some = await watched(tmp_path / "full", other)
    assert (none, some) == (0, memories)
    assert len(empty) == len(full) == 11
    for step, (this, that) in enumerate(zip(empty, full, strict=True)):
        assert this == that, f"after step {step}"


async def test_the_watch_would_have_seen_a_write_more(tmp_path: Path) -> None:
    """The control: a store in which one write was two."""

    async def twice(store: MemoryStore, number: int) -> None:
        await nothing(store, number)
        if number == 2:
            await nothing(store, number)

    once = await watched(tmp_path / "once", nothing)
    assert once != await watched(tmp_path / "twice", twice)
    assert once == await watched(tmp_path / "again", nothing)
