"""Memory on disk: every position is one sealed row of the same size, written or not.

Keeps the sealed rows. What is *not* here: where a text goes (`filing`), what the rows are good for
(`tactful_core.interface`), and their sealed form (`tactful_core.sealing`, `SPEC.md` §3, §4).

Invariants:

- all positions of the layout exist from the start; neither the file's size nor anything in it
  tells how many are full, or which were written;
- every write seals all rows anew under the next store version, with one root MAC, in one
  transaction, and empties the write-ahead log, whatever the write is and whatever it found; rows
  that cannot be opened stop it, so that nothing is lost by writing;
- opening the store checks the root MAC over the layout's fingerprint, the version from which the
  key is in use, and all rows;
- a store that is older than its witness (`witness`) is an older copy: it is opened only when the
  owner accepts it, and then written anew above every version that there was;
- a key that has sealed half of what it may is replaced by the write that comes next, and the wrap
  of the old one destroyed; being killed at any moment leaves rows that one of the two keys opens;
- a row that turns out unreadable later counts as empty, and the owner is told its position;
- what is forgotten was sealed under a key that exists no more;
- reading a read set touches its rows only; nothing is cached.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeGuard, TypeVar

import aiosqlite

from tactful.errors import IoFailed, NoPermission, Unusable
from tactful.profile import Profile
from tactful_core.errors import SealError
from tactful_core.layout import Layout
from tactful_core.sealing import Memory, RowSealer, capacity_bytes
from tactful_core.values import Position, Secret, ShelfName
from tactfuld.keys.values import DataKey, Purpose, StoreKeys
from tactfuld.refusals import refusal
from tactfuld.store import filing
from tactfuld.store.connection import (
    DamagedDatabase,
    Schema,
    Writer,
    create,
    empty_log,
    reading,
    transaction,
)
from tactfuld.store.examined import Examined
from tactfuld.store.filing import Memories, listed
from tactfuld.store.witness import WITNESS_FILE, WitnessFile

MEMORY_FILE = "memory.db"

MOST_SEALS = 2**32
"""One key seals no more rows: beyond, random nonces of 96 bits could meet (NIST SP 800-38D).

At half of it the key is replaced, because rows of writes that were rolled back are not counted."""

_SCHEMA = Schema(
    version=1,
    statements=(
        """CREATE TABLE header (
               one INTEGER PRIMARY KEY CHECK (one = 1),
               store BLOB NOT NULL,
               key BLOB NOT NULL,
               layout BLOB NOT NULL,
               version INTEGER NOT NULL,
               since INTEGER NOT NULL,
               root BLOB NOT NULL
           ) STRICT""",
        "CREATE TABLE rows (position INTEGER PRIMARY KEY, sealed BLOB NOT NULL) STRICT",
    ),
)
_ALL = (
    "SELECT store, key, layout, version, since, root, position, sealed FROM header, rows "
    "ORDER BY position"
)
_SOME = (
    "SELECT key, version, position, sealed FROM header, rows "
    "WHERE position IN (SELECT value FROM json_each(?))"
)

_Sealers = Mapping[bytes, RowSealer]
"""By the ids of their keys: one, or two while rows go from one key to the next."""

T = TypeVar("T")

_SEALS = "SELECT (version - since + 1) * (SELECT count(*) FROM rows) FROM header"

_UNTRUSTED = (SealError, DamagedDatabase, sqlite3.Error)

_NO_WITNESS = (
    "The witness of memory's version is missing, damaged, or was made on another machine, so an "
    "older copy of memory.db would not have been noticed. Look through `tactful memory list`; the "
    "next change of memory makes a new witness, and so does `tactful memory accept`."
)
_NOT_WITNESSED = (
    "Memory was written, but its witness in the state folder was not; check the folder's disk. "
    "Until the next change of memory, this version put back later would not be noticed as older."
)


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Where memory and its witness are; two folders, so that one copy does not bring both."""

    database: Path
    witness: Path


def memory_place(profile: Profile) -> MemoryPlace:
    """Where a profile keeps its memory."""
    return MemoryPlace(profile.data / MEMORY_FILE, profile.state / WITNESS_FILE)


@dataclass(frozen=True, slots=True)
class _Image:
    """The whole store in one state: the header, and all rows in order of position.

    Attributes:
        since: the version from which the key is in use.
    """

    version: int
    since: int
    rows: tuple[bytes, ...]
    sealer: RowSealer


class MemoryStore:
    """Sealed memory; implements `tactful_core.interface.MemoryReader`."""

    def __init__(
        self,
        place: MemoryPlace,
        reader: aiosqlite.Connection,
        writer: Writer,
        layout: Layout,
        keys: StoreKeys,
        notices: Callable[[str], None],
    ) -> None:
        self._place = place
        self._path = place.database
        self._reader = reader
        self._writer = writer
        self._layout = layout
        self._store_id = keys.store_id
        self._succession = keys.succession
        key = DataKey(keys.memory_key_id, keys.memory)
        self._sealers: _Sealers = {key.id: _sealer(layout, keys.store_id, key)}
        self._key_id = key.id
        self._witness = WitnessFile(place.witness, keys.store_id)
        self._fingerprint = layout_fingerprint(layout)
        self._notices = notices

    @staticmethod
    async def create(place: MemoryPlace, layout: Layout, keys: StoreKeys) -> None:
        """A new store of this layout, with every position empty, and its witness.

        Raises:
            AlreadyExists: there is such a file.
            IoFailed, NoPermission: the operating system refuses.
        """
        key = DataKey(keys.memory_key_id, keys.memory)
        sealer, fingerprint = _sealer(layout, keys.store_id, key), layout_fingerprint(layout)

        def fill(connection: sqlite3.Connection) -> None:
            rows = _sealed(sealer, [None] * layout.size, version=1)
            root = sealer.root_mac(1, _rooted(fingerprint, 1, rows))
            connection.execute(
                "INSERT INTO header VALUES (1, ?, ?, ?, 1, 1, ?)",
                (keys.store_id, keys.memory_key_id, fingerprint, root),
            )
            connection.executemany("INSERT INTO rows VALUES (?, ?)", enumerate(rows, start=1))

        await asyncio.to_thread(create, place.database, _SCHEMA, fill)
        witness = WitnessFile(place.witness, keys.store_id)
        await asyncio.to_thread(_first_witness, place, witness, sealer)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        place: MemoryPlace,
        layout: Layout,
        keys: StoreKeys,
        notices: Callable[[str], None],
        *,
        accept: bool = False,
    ) -> AsyncIterator[MemoryStore]:
        """The store in a file, after checking that it is whole and of this layout.

        Args:
            notices: takes a sentence for the owner; called in a thread.
            accept: whether the owner takes the store for the newest, whatever its witness says.

        Raises:
            Unusable: it is missing, damaged, of another store, layout, or a newer version; or an
                older copy that the owner has not accepted.
        """
        path = place.database
        if not await asyncio.to_thread(path.exists):
            raise _missing(path)
        async with AsyncExitStack() as stack:
            try:
                writer = await stack.enter_async_context(Writer.open(path, _SCHEMA))
                reader = await stack.enter_async_context(reading(path))
                store = cls(place, reader, writer, layout, keys, notices)
                records = [tuple(row) for row in await reader.execute_fetchall(_ALL)]
                image = await asyncio.to_thread(store._checked, records, store._sealers)
            except _UNTRUSTED as problem:
                raise _unusable(path) from problem
            await store._compare(image, accept=accept)
            yield store

    async def _compare(self, image: _Image, *, accept: bool) -> None:
        """Holds the store against its witness."""
        seen = await asyncio.to_thread(self._witness.read, image.sealer)
        if seen is not None and seen <= image.version:
            return
        if accept:
            await self._writer.run(partial(self._rewrite, _unchanged, above=seen or 0))
        elif seen is None:
            self._notices(_NO_WITNESS)
        else:
            raise Unusable(_older(self._path, image.version, seen))

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        """One text a position, in order; empty and unreadable ones are `""`.

        Never fails: a release must not show what is wrong with memory (C6). The owner is told.
        """
        known = self._sealers
        try:
            records = await self._reader.execute_fetchall(_SOME, (json.dumps(read_set),))
        except sqlite3.Error:
            records = ()
        rows = [(row[0], row[1], row[2], row[3]) for row in records]
        return await asyncio.to_thread(self._texts, read_set, rows, known)

    async def listing(self) -> tuple[tuple[Position, Memory], ...]:
        """All full positions in order; for the owner.

        Raises:
            Unusable: the file is not as it was written last.
        """
        known = self._sealers
        try:
            records = [tuple(row) for row in await self._reader.execute_fetchall(_ALL)]
            image = await asyncio.to_thread(self._checked, records, known)
            memories = await asyncio.to_thread(_memories, image)
        except _UNTRUSTED as problem:
            raise _unusable(self._path) from problem
        return tuple(
            (Position(number), memory)
            for number, memory in enumerate(memories, start=1)
            if memory is not None
        )

    async def examined(self) -> Examined:
        """Opens every row, whatever is wrong with others; for the owner.

        Raises:
            Unusable: it belongs to another store or layout, or cannot be read at all.
        """
        known = self._sealers
        try:
            records = [tuple(row) for row in await self._reader.execute_fetchall(_ALL)]
        except sqlite3.Error as problem:
            raise _unusable(self._path) from problem
        return await asyncio.to_thread(self._examined, records, known)

    async def witnessed(self) -> int | None:
        """The version that the witness has now; `None` where there is none to trust."""
        return await asyncio.to_thread(self._witness.read, self._sealers[self._key_id])

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
            IoFailed, NoPermission: the operating system refuses to write.
        """
        (chosen,) = await self.remember_parts((text,), shelf, position, written_at)
        return chosen

    async def remember_parts(
        self,
        parts: Sequence[str],
        shelf: ShelfName,
        position: Position | None,
        written_at: int,
    ) -> tuple[Position, ...]:
        """Writes the parts of one text to a shelf, all or none: the first as `remember` does, the
        others to its first empty positions.

        Raises:
            TactfulError: as for `remember`.
        """
        target = filing.shelf_named(self._layout, shelf)

        def change(memories: Memories) -> tuple[Position, ...]:
            return filing.put(memories, target, parts, position, written_at)

        return await self._writer.run(partial(self._rewrite, change))

    async def edit(self, position: Position, text: str, written_at: int) -> None:
        """Writes another text over a memory.

        Raises:
            NotFound: there is no memory at this position.
            TactfulError: as for `remember`.
        """

        def change(memories: Memories) -> None:
            filing.replace(memories, self._layout, position, text, written_at)

        await self._writer.run(partial(self._rewrite, change))

    async def move(self, position: Position, shelf: ShelfName) -> Position:
        """Moves a memory to the first empty position of another shelf.

        Raises:
            WouldUncover: attributes that cover it would not cover it there (C7).
            TactfulError: as for `remember`.
        """
        target = filing.shelf_named(self._layout, shelf)

        def change(memories: Memories) -> Position:
            return filing.carry(memories, self._layout, position, target)

        return await self._writer.run(partial(self._rewrite, change))

    async def forget(self, positions: Iterable[Position]) -> int:
        """Empties positions and destroys the key that sealed them; says how many were full.

        The same is done whether any of them was full or not.

        Raises:
            NotFound: there is no such position.
            TactfulError: as for `rotate`.
        """
        wanted = tuple(positions)

        def change(memories: Memories) -> int:
            return filing.drop(memories, self._layout, wanted)

        return await self._writer.run(partial(self._rewrite, change, renew=True))

    async def restore(self, memories: Iterable[tuple[Position, Memory]]) -> None:
        """Replaces everything that is remembered; what was there is forgotten, as `forget` does.

        Raises:
            TactfulError: as for `rotate`.
        """
        wanted = dict(memories)

        def change(now: Memories) -> None:
            now[:] = [wanted.get(Position(number)) for number in range(1, len(now) + 1)]

        await self._writer.run(partial(self._rewrite, change, renew=True))

    async def rotate(self) -> None:
        """Seals all rows under a new key; the old one is destroyed when this returns.

        Cancelled before it begins, it changes nothing; later, it goes on to its end.

        Raises:
            Unusable: the store is not as it was written last; nothing is written over it.
            IoFailed, NoPermission: the operating system refuses to write; the next start finishes
                what was begun.
        """
        await self._writer.run(partial(self._rewrite, _unchanged, renew=True))

    async def rehouse(self, layout: Layout, keys: StoreKeys) -> None:
        """Gives memory other shelves, in one transaction and under a new key; each memory keeps its
        shelf, and its order on it. This store is to be closed afterwards.

        Args:
            keys: those that the store was opened with.

        Raises:
            DoesNotFit: a memory would have no place; nothing was changed.
            TactfulError: as for `rotate`.
        """
        other = MemoryStore(self._place, self._reader, self._writer, layout, keys, self._notices)
        await self._writer.run(partial(self._rehouse, other))

    def _rehouse(self, other: MemoryStore, connection: sqlite3.Connection) -> None:
        with self._named_failures():
            fresh = other._begun()
            try:
                with transaction(connection):
                    image = self._checked(connection.execute(_ALL).fetchall(), self._sealers)
                    memories = filing.rehoused(_memories(image), self._layout, other._layout)
                    connection.execute("DELETE FROM rows")
                    connection.executemany(
                        "INSERT INTO rows VALUES (?, x'')",
                        ((number,) for number in range(1, other._layout.size + 1)),
                    )
                    connection.execute("UPDATE header SET layout = ?", (other._fingerprint,))
                    version = image.version + 1
                    other._replace(connection, memories, image, fresh, version)
                other._bear_witness(fresh, version)
                empty_log(connection)
            finally:
                other._settle(connection, strictly=True)

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        """What goes wrong with the database, as errors that the owner knows."""
        try:
            yield
        except (SealError, DamagedDatabase) as problem:
            raise _unusable(self._path) from problem
        except sqlite3.Error as problem:
            raise refusal(
                problem,
                f"{self._path} could not be written, so nothing was changed; check its disk.",
            ) from problem

    def _rewrite(
        self,
        change: Callable[[Memories], T],
        connection: sqlite3.Connection,
        *,
        renew: bool = False,
        above: int = 0,
    ) -> T:
        """Changes what all positions hold, in one transaction; under a new key where it is time.

        The new version is also greater than `above`.
        """
        with self._named_failures():
            fresh = self._begun() if renew or self._is_due(connection) else None
            try:
                with transaction(connection):
                    image = self._checked(connection.execute(_ALL).fetchall(), self._sealers)
                    memories = _memories(image)
                    result = change(memories)
                    version = max(image.version, above) + 1
                    key_id = fresh or self._key_id
                    self._replace(connection, memories, image, key_id, version)
                self._bear_witness(key_id, version)
                empty_log(connection)
            finally:
                if fresh is not None:
                    self._settle(connection, strictly=renew)
        return result

    def _is_due(self, connection: sqlite3.Connection) -> bool:
        """Whether the next write would seal more than half of what the key may."""
        (writes,) = connection.execute("SELECT version - since + 2 FROM header").fetchone() or (0,)
        return int(writes) * self._layout.size > MOST_SEALS // 2

    def _begun(self) -> bytes:
        """The id of a new key, which rows may be sealed under from now on."""
        fresh = self._succession.begin(Purpose.MEMORY, self._key_id)
        self._sealers = {**self._sealers, fresh.id: _sealer(self._layout, self._store_id, fresh)}
        return fresh.id

    def _settle(self, connection: sqlite3.Connection, *, strictly: bool) -> None:
        """Keeps the key that the database names, whatever became of the transaction."""
        (key_id,) = connection.execute("SELECT key FROM header").fetchone()
        self._key_id, self._sealers = key_id, {key_id: self._sealers[key_id]}
        try:
            self._succession.finish(Purpose.MEMORY, key_id)
        except (IoFailed, NoPermission):
            if strictly:
                raise
            self._notices(
                "The key of memory was replaced, but the old one could not be destroyed; check the "
                "disk of the data folder, and run `tactful key rotate`."
            )

    def _replace(
        self,
        connection: sqlite3.Connection,
        memories: Sequence[Memory | None],
        before: _Image,
        key_id: bytes,
        version: int,
    ) -> None:
        """All rows, sealed anew under a later version."""
        sealer = self._sealers[key_id]
        since = before.since if key_id == self._key_id else version
        rows = _sealed(sealer, memories, version)
        root = sealer.root_mac(version, _rooted(self._fingerprint, since, rows))
        connection.executemany(
            "UPDATE rows SET sealed = ? WHERE position = ?",
            ((row, number) for number, row in enumerate(rows, start=1)),
        )
        connection.execute(
            "UPDATE header SET key = ?, version = ?, since = ?, root = ?",
            (key_id, version, since, root),
        )

    def _bear_witness(self, key_id: bytes, version: int) -> None:
        """Follows a write that is durable."""
        try:
            self._witness.write(version, self._sealers[key_id])
        except OSError:
            self._notices(_NOT_WITNESSED)

    def _checked(self, records: Sequence[tuple[object, ...]], known: _Sealers) -> _Image:
        """The store in one state, after checking that all of it is what was written last.

        Args:
            known: the keys that were in use when the records were asked for.

        Raises:
            Unusable: it belongs to another store or layout.
            SealError, DamagedDatabase: it is damaged.
        """
        if not records:
            raise DamagedDatabase("There is no header, or there are no rows.")
        store, key, layout, version, since, root, _, _ = records[0]
        sealer = self._sealer(key, known)
        if store != self._store_id or sealer is None:
            raise Unusable(
                f"{self._path} belongs to other keys than the keys.json beside it; put back the "
                "data folder's files that belong together."
            )
        if layout != self._fingerprint:
            raise Unusable(
                f"{self._path} was made for other shelves than the policy has now; put the "
                "shelves back as they were (names, order, positions, tokens), or give memory "
                "these shelves with `tactful memory migrate`."
            )
        rows = tuple(row[7] for row in records if isinstance(row[7], bytes))
        numbers = [row[6] for row in records]
        if numbers != list(range(1, self._layout.size + 1)) or len(rows) != len(numbers):
            raise DamagedDatabase("Rows are missing or surplus.")
        if not (_is_version(version) and _is_version(since) and isinstance(root, bytes)):
            raise DamagedDatabase("The header has values that none has.")
        sealer.check_root(version, _rooted(self._fingerprint, since, rows), root)
        return _Image(version, since, rows, sealer)

    def _examined(self, records: Sequence[tuple[object, ...]], known: _Sealers) -> Examined:
        try:
            self._checked(records, known)
            whole = True
        except (SealError, DamagedDatabase):
            whole = False
        sound = {
            position
            for _store, key, _layout, version, _since, _root, position, sealed in records
            if isinstance(position, int)
            and _opened(self._sealer(key, known), sealed, Position(position), version) is not None
        }
        expected = range(1, self._layout.size + 1)
        return Examined(len(records), tuple(p for p in expected if p not in sound), whole)

    def _sealer(self, key_id: object, known: _Sealers) -> RowSealer | None:
        """The key that a header names; a reader may see what was written just before it looked."""
        if not isinstance(key_id, bytes):
            return None
        return known.get(key_id) or self._sealers.get(key_id)

    def _texts(
        self,
        read_set: tuple[Position, ...],
        records: Sequence[tuple[object, object, Position, object]],
        known: _Sealers,
    ) -> Secret[tuple[str, ...]]:
        found: dict[Position, str] = {}
        for key_id, version, position, sealed in records:
            memory = _opened(self._sealer(key_id, known), sealed, position, version)
            if memory is not None:
                content = memory.reveal()
                found[position] = "" if content is None else content.text
        unreadable = [position for position in read_set if position not in found]
        if unreadable:
            self._notices(
                f"Memory at {listed(unreadable)} could not be opened and counts as empty; put "
                "the data folder back from a copy."
            )
        return Secret(tuple(found.get(position, "") for position in read_set))


def _first_witness(place: MemoryPlace, witness: WitnessFile, sealer: RowSealer) -> None:
    try:
        witness.write(1, sealer)
    except OSError as problem:
        raise refusal(
            problem, f"{place.witness} could not be written ({problem.strerror}); check the folder."
        ) from problem


def _opened(
    sealer: RowSealer | None, sealed: object, position: Position, version: object
) -> Secret[Memory | None] | None:
    """A row's content, or `None` where the row is not what was written there."""
    if sealer is None or not isinstance(sealed, bytes) or not _is_version(version):
        return None
    try:
        return sealer.open(sealed, position, version)
    except SealError:
        return None


def _memories(image: _Image) -> Memories:
    """What all positions hold, in order; `SealError` where one does not open."""
    return [
        image.sealer.open(row, Position(number), image.version).reveal()
        for number, row in enumerate(image.rows, start=1)
    ]


def _unchanged(_memories: Memories) -> None:
    """What a rotation does to what is remembered."""


def _is_version(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and value >= 1


def _rooted(fingerprint: bytes, since: int, rows: Iterable[bytes]) -> list[bytes]:
    """What the root is over, beside the version (SPEC §4)."""
    return [fingerprint, since.to_bytes(8, "big"), *rows]


def seals_used(path: Path) -> int | None:
    """How many rows the key in use has sealed, by the header; `None` where it cannot be read."""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            (used,) = connection.execute(_SEALS).fetchone()
    except (sqlite3.Error, TypeError):
        return None
    return int(used)


def made_for(path: Path) -> bytes | None:
    """The fingerprint of the layout that a store was made for, by its header; `None` where it
    cannot be read."""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            (layout,) = connection.execute("SELECT layout FROM header").fetchone()
    except (sqlite3.Error, TypeError):
        return None
    return layout if isinstance(layout, bytes) else None


def layout_fingerprint(layout: Layout) -> bytes:
    """A digest of what rows depend on: the shelves in order, their positions and capacities."""
    shelves = [[shelf.name, shelf.positions, shelf.tokens] for shelf in layout.shelves]
    return hashlib.sha256(json.dumps(shelves, separators=(",", ":")).encode()).digest()


def _sealer(layout: Layout, store_id: bytes, key: DataKey) -> RowSealer:
    capacity = max(capacity_bytes(shelf.tokens) for shelf in layout.shelves)
    return RowSealer(key.key, key.id, store_id, capacity)


def _sealed(sealer: RowSealer, memories: Iterable[Memory | None], version: int) -> list[bytes]:
    return [
        sealer.seal(memory, Position(number), version)
        for number, memory in enumerate(memories, start=1)
    ]


def _older(path: Path, version: int, seen: int) -> str:
    return (
        f"{path} is older than it was: it is version {version}, and this machine has seen version "
        f"{seen}. Put the newest copy back; or, if there is none, take this one with `tactful "
        "memory accept`: then what was changed since is lost, and what was forgotten since is "
        "there again."
    )


def _missing(path: Path) -> Unusable:
    return Unusable(
        f"{path} is missing, though there are keys for it; put it back from a copy of the data "
        "folder, or choose another --profile. Nothing is made in its place."
    )


def _unusable(path: Path) -> Unusable:
    return Unusable(
        f"{path} is not as it was written last; put the data folder back from a copy, "
        "or choose another --profile."
    )
