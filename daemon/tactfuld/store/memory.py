"""Memory on disk: every position is one sealed row of the same size, written or not.

Decides where a text goes and keeps the sealed rows. What is *not* here: what the rows are good for
(`tactful_core.interface`), and their sealed form (`tactful_core.sealing`, `SPEC.md` §3, §4).

Invariants:

- all positions of the layout exist from the start; neither the file's size nor anything in it
  tells how many are full, or which were written;
- every write seals all rows anew under the next store version, with one root MAC, in one
  transaction; rows that cannot be opened stop it, so that nothing is lost by writing;
- opening the store checks the root MAC over the layout's fingerprint and all rows;
- a row that turns out unreadable later counts as empty, and the owner is told its position;
- reading a read set touches its rows only; nothing is cached;
- a text is stored as it was given or refused; nothing is cut off or stripped.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiosqlite

from tactful.errors import DoesNotFit, InvalidParams, NoPermission, NotFound, Unusable
from tactful_core.errors import SealError
from tactful_core.layout import Layout, Shelf
from tactful_core.sealing import Memory, RowSealer, capacity_bytes
from tactful_core.values import Position, Secret, ShelfName
from tactfuld.keys import StoreKeys
from tactfuld.store.connection import (
    DamagedDatabase,
    Schema,
    Writer,
    create,
    reading,
    transaction,
)

MEMORY_FILE = "memory.db"

MOST_SEALS = 2**32
"""One key seals no more rows: beyond, random nonces of 96 bits could meet (NIST SP 800-38D)."""

_SCHEMA = Schema(
    version=1,
    statements=(
        """CREATE TABLE header (
               one INTEGER PRIMARY KEY CHECK (one = 1),
               store BLOB NOT NULL,
               key BLOB NOT NULL,
               layout BLOB NOT NULL,
               version INTEGER NOT NULL,
               root BLOB NOT NULL
           ) STRICT""",
        "CREATE TABLE rows (position INTEGER PRIMARY KEY, sealed BLOB NOT NULL) STRICT",
    ),
)
_ALL = (
    "SELECT store, key, layout, version, root, position, sealed FROM header, rows ORDER BY position"
)
_SOME = (
    "SELECT version, position, sealed FROM header, rows "
    "WHERE position IN (SELECT value FROM json_each(?))"
)

_UNTRUSTED = (SealError, DamagedDatabase, sqlite3.Error)


@dataclass(frozen=True, slots=True)
class _Image:
    """The whole store in one state: the header, and all rows in order of position."""

    version: int
    rows: tuple[bytes, ...]


class MemoryStore:
    """Sealed memory; implements `tactful_core.interface.MemoryReader`."""

    def __init__(
        self,
        path: Path,
        reader: aiosqlite.Connection,
        writer: Writer,
        layout: Layout,
        keys: StoreKeys,
        notices: Callable[[str], None],
    ) -> None:
        self._path = path
        self._reader = reader
        self._writer = writer
        self._layout = layout
        self._keys = keys
        self._sealer = _sealer(layout, keys)
        self._fingerprint = layout_fingerprint(layout)
        self._notices = notices

    @staticmethod
    async def create(path: Path, layout: Layout, keys: StoreKeys) -> None:
        """A new store of this layout, with every position empty.

        Raises:
            AlreadyExists: there is such a file.
            NoPermission: the operating system refuses.
        """
        sealer = _sealer(layout, keys)
        fingerprint = layout_fingerprint(layout)

        def fill(connection: sqlite3.Connection) -> None:
            rows = _sealed(sealer, [None] * layout.size, version=1)
            root = sealer.root_mac(1, [fingerprint, *rows])
            connection.execute(
                "INSERT INTO header VALUES (1, ?, ?, ?, 1, ?)",
                (keys.store_id, keys.memory_key_id, fingerprint, root),
            )
            connection.executemany("INSERT INTO rows VALUES (?, ?)", enumerate(rows, start=1))

        await asyncio.to_thread(create, path, _SCHEMA, fill)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, layout: Layout, keys: StoreKeys, notices: Callable[[str], None]
    ) -> AsyncIterator[MemoryStore]:
        """The store in a file, after checking that it is whole and of this layout.

        Args:
            notices: takes a sentence for the owner; called in a thread.

        Raises:
            Unusable: it is missing, damaged, of another store, layout, or a newer version.
        """
        async with AsyncExitStack() as stack:
            try:
                writer = await stack.enter_async_context(Writer.open(path, _SCHEMA))
                reader = await stack.enter_async_context(reading(path))
                store = cls(path, reader, writer, layout, keys, notices)
                records = [tuple(row) for row in await reader.execute_fetchall(_ALL)]
                await asyncio.to_thread(store._checked, records)
            except _UNTRUSTED as problem:
                raise _unusable(path) from problem
            yield store

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        """One text a position, in order; empty and unreadable ones are `""`.

        Never fails: a release must not show what is wrong with memory (C6). The owner is told.
        """
        try:
            records = await self._reader.execute_fetchall(_SOME, (json.dumps(read_set),))
        except sqlite3.Error:
            records = ()
        rows = [(row[0], row[1], row[2]) for row in records]
        return await asyncio.to_thread(self._texts, read_set, rows)

    async def listing(self) -> tuple[tuple[Position, Memory], ...]:
        """All full positions in order; for the owner.

        Raises:
            Unusable: the file is not as it was written last.
        """
        try:
            records = [tuple(row) for row in await self._reader.execute_fetchall(_ALL)]
            image = await asyncio.to_thread(self._checked, records)
            memories = await asyncio.to_thread(self._memories, image)
        except _UNTRUSTED as problem:
            raise _unusable(self._path) from problem
        return tuple(
            (Position(number), memory)
            for number, memory in enumerate(memories, start=1)
            if memory is not None
        )

    async def remember(
        self, text: str, shelf: ShelfName, position: Position | None, written_at: int
    ) -> Position:
        """Writes a text to a position of a shelf, by default to the first empty one.

        Args:
            written_at: seconds since 1970.

        Raises:
            InvalidParams: the text is empty, or has characters that no model should be given.
            NotFound: no such shelf, or the shelf has no such position.
            DoesNotFit: the text is longer than a position, the position is taken, the shelf full.
            Unusable: the store is not as it was written last; nothing is written over it.
            NoPermission: the operating system refuses to write.
        """
        target = next((each for each in self._layout.shelves if each.name == shelf), None)
        if target is None:
            raise NotFound(f"There is no shelf named {shelf}; name one of the policy's.")
        memory = Memory(_accepted(text, target), written_at)
        return await self._writer.run(partial(self._write, memory, target, position))

    def _write(
        self,
        memory: Memory,
        shelf: Shelf,
        wanted: Position | None,
        connection: sqlite3.Connection,
    ) -> Position:
        try:
            with transaction(connection):
                image = self._checked(connection.execute(_ALL).fetchall())
                memories = self._memories(image)
                position = _free(shelf, wanted, memories)
                memories[position - 1] = memory
                self._replace(connection, memories, image.version + 1)
        except (SealError, DamagedDatabase) as problem:
            raise _unusable(self._path) from problem
        except sqlite3.Error as problem:
            raise NoPermission(
                f"{self._path} could not be written, so nothing was remembered; check its disk."
            ) from problem
        return position

    def _replace(
        self, connection: sqlite3.Connection, memories: Sequence[Memory | None], version: int
    ) -> None:
        """All rows, sealed anew under the next version."""
        if version * self._layout.size > MOST_SEALS:
            raise Unusable(
                "This store's key has sealed as many rows as it safely may; make a new profile "
                "and remember your memories there."
            )
        rows = _sealed(self._sealer, memories, version)
        root = self._sealer.root_mac(version, [self._fingerprint, *rows])
        connection.executemany(
            "UPDATE rows SET sealed = ? WHERE position = ?",
            ((row, number) for number, row in enumerate(rows, start=1)),
        )
        connection.execute("UPDATE header SET version = ?, root = ?", (version, root))

    def _checked(self, records: Sequence[tuple[object, ...]]) -> _Image:
        """The store in one state, after checking that all of it is what was written last.

        Raises:
            Unusable: it belongs to another store or layout.
            SealError, DamagedDatabase: it is damaged.
        """
        if not records:
            raise DamagedDatabase("There is no header, or there are no rows.")
        store, key, layout, version, root, _, _ = records[0]
        if (store, key) != (self._keys.store_id, self._keys.memory_key_id):
            raise Unusable(
                f"{self._path} belongs to other keys than the keys.json beside it; put back the "
                "data folder's files that belong together."
            )
        if layout != self._fingerprint:
            raise Unusable(
                f"{self._path} was made for other shelves than the policy has now; put the "
                "shelves back as they were (names, order, positions, tokens), or make a new "
                "profile and remember your memories there."
            )
        rows = tuple(row[6] for row in records if isinstance(row[6], bytes))
        numbers = [row[5] for row in records]
        if numbers != list(range(1, self._layout.size + 1)) or len(rows) != len(numbers):
            raise DamagedDatabase("Rows are missing or surplus.")
        if not isinstance(version, int) or version < 1 or not isinstance(root, bytes):
            raise DamagedDatabase("The header has values that none has.")
        self._sealer.check_root(version, [self._fingerprint, *rows], root)
        return _Image(version, rows)

    def _memories(self, image: _Image) -> list[Memory | None]:
        """What all positions hold, in order; `SealError` where one does not open."""
        return [
            self._sealer.open(row, Position(number), image.version).reveal()
            for number, row in enumerate(image.rows, start=1)
        ]

    def _texts(
        self, read_set: tuple[Position, ...], records: Sequence[tuple[object, Position, object]]
    ) -> Secret[tuple[str, ...]]:
        found: dict[Position, str] = {}
        for version, position, sealed in records:
            memory = self._opened(sealed, position, version)
            if memory is not None:
                content = memory.reveal()
                found[position] = "" if content is None else content.text
        unreadable = [position for position in read_set if position not in found]
        if unreadable:
            self._notices(
                f"Memory at {_listed(unreadable)} could not be opened and counts as empty; put "
                "the data folder back from a copy."
            )
        return Secret(tuple(found.get(position, "") for position in read_set))

    def _opened(
        self, sealed: object, position: Position, version: object
    ) -> Secret[Memory | None] | None:
        """A row's content, or `None` where the row is not what was written there."""
        if not isinstance(sealed, bytes) or not isinstance(version, int) or version < 1:
            return None
        try:
            return self._sealer.open(sealed, position, version)
        except SealError:
            return None


def layout_fingerprint(layout: Layout) -> bytes:
    """A digest of what rows depend on: the shelves in order, their positions and capacities."""
    shelves = [[shelf.name, shelf.positions, shelf.tokens] for shelf in layout.shelves]
    return hashlib.sha256(json.dumps(shelves, separators=(",", ":")).encode()).digest()


def _sealer(layout: Layout, keys: StoreKeys) -> RowSealer:
    capacity = max(capacity_bytes(shelf.tokens) for shelf in layout.shelves)
    return RowSealer(keys.memory, keys.memory_key_id, keys.store_id, capacity)


def _sealed(sealer: RowSealer, memories: Iterable[Memory | None], version: int) -> list[bytes]:
    return [
        sealer.seal(memory, Position(number), version)
        for number, memory in enumerate(memories, start=1)
    ]


def _accepted(text: str, shelf: Shelf) -> str:
    """The text, if it may stand on this shelf."""
    if not text.strip() or "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidParams(
            "A memory must be a text that is not blank, without NUL characters and lone "
            "surrogates; nothing was remembered."
        )
    size, limit = len(text.encode()), capacity_bytes(shelf.tokens)
    if size > limit:
        raise DoesNotFit(
            f"The text has {size} bytes in UTF-8, a position of the shelf {shelf.name} holds at "
            f"most {limit}; shorten it, or split it over several positions."
        )
    return text


def _free(shelf: Shelf, wanted: Position | None, memories: Sequence[Memory | None]) -> Position:
    """The position to write to."""
    if wanted is None:
        empty = next((p for p in shelf.positions if memories[p - 1] is None), None)
        if empty is None:
            raise DoesNotFit(
                f"All {len(shelf.positions)} positions of the shelf {shelf.name} are full; choose "
                "another shelf."
            )
        return empty
    if wanted not in shelf.positions:
        raise NotFound(
            f"The shelf {shelf.name} has no position {wanted}; it has {_listed(shelf.positions)}."
        )
    if memories[wanted - 1] is not None:
        raise DoesNotFit(f"Position {wanted} is full; choose an empty one, or none in particular.")
    return wanted


def _listed(positions: Sequence[Position]) -> str:
    word = "position" if len(positions) == 1 else "positions"
    return f"{word} {', '.join(str(position) for position in positions)}"


def _unusable(path: Path) -> Unusable:
    return Unusable(
        f"{path} is missing, or not as it was written last; put the data folder back from a copy, "
        "or choose another --profile."
    )
