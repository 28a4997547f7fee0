"""Released history on disk: every turn of an app is one sealed row.

Decides where turns are kept, and that what is forgotten is gone from the file. What is *not* here:
what is kept of a turn and for how long (`released_turn`), what it is good for (`gate`), who may
read it (`server.history_methods`; no app can), its sealed form (`tactful_core.sealing`, `SPEC.md`
§9).

Invariants:

- nothing in the file can be read without the key but the numbers of rows and their sizes in blocks;
  no number is used twice;
- a turn is kept while it is among the newest `turns` of its app and thread and of the app's newest
  10,000, and not older than `days`; that is applied at every write and when the store is opened;
- a row that does not open, or is no turn, counts as missing, and the owner is told; a file that is
  no history of this store counts as empty, and nothing is written over it;
- recording never fails: what cannot be written is the owner's business, not the app's;
- all rows go from one key to the next in one transaction; one that does not open stays as it is;
- forgetting overwrites the rows and empties the write-ahead log; it touches no ledger.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType

import aiosqlite

from tactful.errors import IoFailed
from tactful_core.errors import SealError
from tactful_core.sealing import TurnSealer
from tactful_core.values import AppId
from tactfuld.keys.values import Purpose, StoreKeys
from tactfuld.store.connection import (
    DamagedDatabase,
    Schema,
    Writer,
    create,
    reading,
    transaction,
)
from tactfuld.store.examined import Examined
from tactfuld.store.released_turn import (
    Index,
    ReleasedTurn,
    Retention,
    TurnKey,
    TurnsGone,
    decode,
    encode,
    expired,
)

HISTORY_FILE = "history.db"

_SCHEMA = Schema(
    version=1,
    statements=(
        """CREATE TABLE header (
               one INTEGER PRIMARY KEY CHECK (one = 1),
               store BLOB NOT NULL,
               key BLOB NOT NULL
           ) STRICT""",
        """CREATE TABLE turns (
               number INTEGER PRIMARY KEY AUTOINCREMENT, sealed BLOB NOT NULL
           ) STRICT""",
    ),
)
_HEADER = "SELECT store, key FROM header"
_INSERT = "INSERT INTO turns (number, sealed) VALUES (?, ?)"
_DELETE = "DELETE FROM turns WHERE number IN (SELECT value FROM json_each(?))"
_ALL = "SELECT number, sealed FROM turns ORDER BY number"
_ALL_WITH_KEY = "SELECT key, number, sealed FROM header, turns ORDER BY number"
_SOME = (
    "SELECT key, number, sealed FROM header, turns "
    "WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number"
)
_RESEAL = "UPDATE turns SET sealed = ? WHERE number = ?"
_NUMBERS = "SELECT number FROM turns ORDER BY number"
_ONE = "SELECT sealed FROM turns WHERE number = ?"
_NEWEST = """
    SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'turns'), 0),
               coalesce((SELECT max(number) FROM turns), 0))
"""
_EMPTY_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"
_ROWS_AT_ONCE = 256

_Row = tuple[object, object]
_Sealers = Mapping[bytes, TurnSealer]
"""By the ids of their keys: one, or two while rows go from one key to the next."""
_Selects = Callable[[int, TurnKey], bool]
_UNTRUSTED = (DamagedDatabase, sqlite3.Error)

_DAMAGED_FILE = (
    f"{HISTORY_FILE} is damaged or another store's, so no turn is kept and threads have no earlier "
    "turns. Stop the daemon and put the file back from a copy, or delete it: a new one is made."
)
_DAMAGED_ROW = (
    f"{HISTORY_FILE} has turns that cannot be opened as they were written; they count as missing. "
    "`tactful history forget --all` removes them together with all others."
)
_MISSING = f"{HISTORY_FILE} was missing, so a new one without any turns was made."
_NOT_WRITTEN = (
    "A turn could not be written to released history; check the disk of the data folder. The app "
    "got its answer, and the ledgers are not affected."
)
_LOG_REMAINS = (
    f"{HISTORY_FILE}-wal could not be emptied after turns were forgotten; what is left of them "
    "there, sealed, goes when the daemon stops."
)


class HistoryStore:
    """The sealed turns of all apps."""

    def __init__(
        self,
        writer: Writer | None,
        reader: aiosqlite.Connection | None,
        keys: StoreKeys,
        retention: Retention,
        notices: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._store_id = keys.store_id
        self._succession = keys.succession
        self._key_id = keys.history_key_id
        sealer = TurnSealer(keys.history, keys.history_key_id, keys.store_id)
        self._sealers: _Sealers = {keys.history_key_id: sealer}
        self._retention = retention
        self._notices = notices
        self._watcher: Callable[[TurnsGone], None] = lambda _gone: None
        # Replaced as a whole, in the writer's thread: other threads see one state of it.
        self._index: Index = MappingProxyType({})

    @staticmethod
    async def create(path: Path, keys: StoreKeys) -> None:
        """A new history without turns.

        Raises:
            AlreadyExists: there is such a file.
            NoPermission: the operating system refuses.
        """

        def fill(connection: sqlite3.Connection) -> None:
            names = (keys.store_id, keys.history_key_id)
            connection.execute("INSERT INTO header VALUES (1, ?, ?)", names)

        await asyncio.to_thread(create, path, _SCHEMA, fill)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        keys: StoreKeys,
        retention: Retention,
        now: int,
        notices: Callable[[str], None],
    ) -> AsyncIterator[HistoryStore]:
        """The history in a file; without turns where it cannot be read.

        Args:
            now: seconds since 1970.
            notices: takes a sentence for the owner; called on the loop or in a thread.

        Raises:
            NoPermission: the file is missing and a new one cannot be made.
            Unusable: the database is of a newer version.
        """
        if not await asyncio.to_thread(path.exists):
            await cls.create(path, keys)
            notices(_MISSING)
        async with AsyncExitStack() as stack:
            try:
                writer = await stack.enter_async_context(Writer.open(path, _SCHEMA))
                reader = await stack.enter_async_context(reading(path))
                store = cls(writer, reader, keys, retention, notices)
                await store._read_index((keys.store_id, keys.history_key_id))
                await writer.run(partial(store._expire, now))
            except _UNTRUSTED:
                notices(_DAMAGED_FILE)
                store = cls(None, None, keys, retention, notices)
            yield store

    def retain(self, retention: Retention) -> None:
        """Keeps turns by this rule from the next write on."""
        self._retention = retention

    def watch(self, watcher: Callable[[TurnsGone], None]) -> None:
        """Tells of turns that are kept no longer, from now on.

        It is called once they are gone from the file, in the writer's thread or on the loop.
        """
        self._watcher = watcher

    async def record(self, turn: ReleasedTurn) -> None:
        """Keeps a turn as the newest; a turn that cannot be written is a notice to the owner.

        Once it has begun it is finished, even if the caller is cancelled.
        """
        if self._writer is None or self._retention.turns == 0:
            self._watcher(TurnsGone(frozenset({(turn.app, turn.thread)}), by_owner=False))
            return
        try:
            await self._writer.run(partial(self._append, turn))
        except _UNTRUSTED:
            self._notices(_NOT_WRITTEN)

    async def thread(self, app: AppId, thread: str) -> tuple[ReleasedTurn, ...]:
        """The turns of one conversation, oldest first."""
        found = await self._opened(
            number for number, key in self._index.items() if (key.app, key.thread) == (app, thread)
        )
        return tuple(turn for _, turn in found)

    async def listing(
        self, app: AppId | None, thread: str | None, limit: int
    ) -> tuple[tuple[int, ReleasedTurn], ...]:
        """The newest turns, newest first, with their numbers; of one app, or of one thread."""
        selects = _selection(app, thread)
        numbers = [number for number, key in self._index.items() if selects(number, key)]
        return tuple(reversed(await self._opened(numbers[-limit:])))

    async def turn(self, number: int) -> ReleasedTurn | None:
        """One turn; `None` where there is no such turn, or it cannot be opened."""
        found = await self._opened([number] if number in self._index else [])
        return found[0][1] if found else None

    async def examined(self) -> Examined:
        """Opens every row, whatever is wrong with others.

        Raises:
            IoFailed: the file is damaged, another store's, or cannot be read.
        """
        if self._reader is None:
            raise IoFailed(_DAMAGED_FILE)
        known, rows, unreadable = self._sealers, 0, list[int]()
        try:
            async with self._reader.execute(_ALL_WITH_KEY) as cursor:
                while found := [tuple(row) for row in await cursor.fetchmany(_ROWS_AT_ONCE)]:
                    sealer = known.get(found[0][0]) or self._sealers.get(found[0][0])
                    rows += len(found)
                    unreadable += await asyncio.to_thread(_unreadable, sealer, found)
        except sqlite3.Error as problem:
            raise IoFailed(_DAMAGED_FILE) from problem
        return Examined(rows, tuple(unreadable), whole=True)

    async def forget(self, numbers: Collection[int]) -> int:
        """Forgets these turns, and returns how many of them there were.

        Raises:
            IoFailed: the file cannot be written; nothing was forgotten.
        """
        wanted = frozenset(numbers)
        return await self._forget(lambda number, _key: number in wanted)

    async def forget_app(self, app: AppId, thread: str | None = None) -> int:
        """Forgets all turns of an app, or those of one of its threads.

        Raises:
            IoFailed: as `forget`.
        """
        return await self._forget(_selection(app, thread))

    async def forget_all(self) -> int:
        """Forgets every turn, also those that cannot be opened.

        Raises:
            IoFailed: as `forget`.
        """
        return await self._forget(None)

    async def rotate(self) -> None:
        """Seals all turns under a new key; the old one is destroyed when this returns.

        Raises:
            IoFailed: the file cannot be read or written; nothing has changed.
            NoPermission: the key file cannot be written; the next start finishes what was begun.
        """
        if self._writer is None:
            raise IoFailed(f"{HISTORY_FILE} cannot be read, so its key was not replaced.")
        try:
            await self._writer.run(self._rotate)
        except _UNTRUSTED as problem:
            raise IoFailed(
                f"{HISTORY_FILE} could not be written, so its key was not replaced; check the disk."
            ) from problem

    async def _opened(self, numbers: Iterable[int]) -> list[tuple[int, ReleasedTurn]]:
        """The turns with these numbers, in order; those that cannot be opened are left out."""
        wanted = list(numbers)
        if self._reader is None or not wanted:
            return []
        known = self._sealers
        try:
            found = await self._reader.execute_fetchall(_SOME, (json.dumps(wanted),))
        except sqlite3.Error:
            self._notices(_DAMAGED_FILE)
            return []
        rows = [tuple(row) for row in found]
        sealer = known.get(rows[0][0]) or self._sealers.get(rows[0][0]) if rows else None
        if sealer is None:
            return []
        return await asyncio.to_thread(self._turns, sealer, [(row[1], row[2]) for row in rows])

    def _turns(self, sealer: TurnSealer, rows: Iterable[_Row]) -> list[tuple[int, ReleasedTurn]]:
        turns = []
        for number, sealed in rows:
            try:
                turns.append((_number(number), decode(_content(sealer, number, sealed))))
            except SealError:
                self._notices(_DAMAGED_ROW)
        return turns

    async def _read_index(self, names: tuple[bytes, bytes]) -> None:
        """What is kept, from a file whose header has the `names` of this store and key."""
        index: dict[int, TurnKey] = {}
        if self._reader is None:
            return
        if [tuple(row) for row in await self._reader.execute_fetchall(_HEADER)] != [names]:
            raise DamagedDatabase(f"{HISTORY_FILE} is sealed by another key.")
        sealer = self._sealers[self._key_id]
        async with self._reader.execute(_ALL) as cursor:
            while rows := [(row[0], row[1]) for row in await cursor.fetchmany(_ROWS_AT_ONCE)]:
                for number, turn in await asyncio.to_thread(self._turns, sealer, rows):
                    index[number] = TurnKey.of(turn)
        self._index = MappingProxyType(index)

    async def _forget(self, selects: _Selects | None) -> int:
        if self._writer is None:
            raise IoFailed(f"{HISTORY_FILE} cannot be read, so nothing of it was forgotten.")
        try:
            return await self._writer.run(partial(self._erase, selects))
        except _UNTRUSTED as problem:
            raise IoFailed(
                f"{HISTORY_FILE} could not be written, so nothing was forgotten; check the disk."
            ) from problem

    # Everything below runs in the writer's thread.

    def _append(self, turn: ReleasedTurn, connection: sqlite3.Connection) -> None:
        with transaction(connection):
            (newest,) = connection.execute(_NEWEST).fetchone()
            number = int(newest) + 1
            sealed = self._sealers[self._key_id].seal(encode(turn), number)
            connection.execute(_INSERT, (number, sealed))
            grown = {**self._index, number: TurnKey.of(turn)}
            gone = expired(grown, self._retention, turn.at)
            connection.execute(_DELETE, (json.dumps([*gone]),))
        self._index = _without(grown, gone)
        self._tell_of(grown, gone, by_owner=False)

    def _rotate(self, connection: sqlite3.Connection) -> None:
        fresh = self._succession.begin(Purpose.HISTORY, self._key_id)
        old, new = self._sealers[self._key_id], TurnSealer(fresh.key, fresh.id, self._store_id)
        self._sealers = {self._key_id: old, fresh.id: new}
        try:
            with transaction(connection):
                numbers = [number for (number,) in connection.execute(_NUMBERS).fetchall()]
                for number in numbers:
                    (sealed,) = connection.execute(_ONE, (number,)).fetchone()
                    with suppress(SealError):
                        renewed = new.seal(_content(old, number, sealed), number)
                        connection.execute(_RESEAL, (renewed, number))
                connection.execute("UPDATE header SET key = ?", (fresh.id,))
        finally:
            (self._key_id,) = connection.execute("SELECT key FROM header").fetchone()
            self._sealers = {self._key_id: self._sealers[self._key_id]}
            self._succession.finish(Purpose.HISTORY, self._key_id)

    def _expire(self, now: int, connection: sqlite3.Connection) -> None:
        gone = expired(self._index, self._retention, now)
        if gone:
            with transaction(connection):
                connection.execute(_DELETE, (json.dumps([*gone]),))
            self._index = _without(self._index, gone)

    def _erase(self, selects: _Selects | None, connection: sqlite3.Connection) -> int:
        """Deletes the selected turns; without a selection every row, whatever is in it."""
        with transaction(connection):
            if selects is None:
                gone = frozenset(self._index)
                forgotten = connection.execute("DELETE FROM turns").rowcount
            else:
                gone = frozenset(n for n, key in self._index.items() if selects(n, key))
                forgotten = connection.execute(_DELETE, (json.dumps([*gone]),)).rowcount
        before, self._index = self._index, _without(self._index, gone)
        if selects is None:
            self._watcher(TurnsGone(None, by_owner=True))
        else:
            self._tell_of(before, gone, by_owner=True)
        (busy, *_) = connection.execute(_EMPTY_LOG).fetchone()
        if busy:
            self._notices(_LOG_REMAINS)
        return int(forgotten)

    def _tell_of(self, index: Index, gone: Collection[int], *, by_owner: bool) -> None:
        threads = frozenset((index[number].app, index[number].thread) for number in gone)
        if threads:
            self._watcher(TurnsGone(threads, by_owner))


def _unreadable(sealer: TurnSealer | None, rows: Iterable[tuple[object, int, object]]) -> list[int]:
    """The numbers of rows that do not open as they were written."""
    found = []
    for _key, number, sealed in rows:
        try:
            if sealer is None:
                raise SealError("The turns of history are sealed under another key.")
            decode(_content(sealer, number, sealed))
        except SealError:
            found.append(number)
    return found


def _content(sealer: TurnSealer, number: object, sealed: object) -> bytes:
    if not isinstance(sealed, bytes):
        raise SealError("A row of history does not hold bytes.")
    return sealer.open(sealed, _number(number))


def _number(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise SealError("A row of history has no proper number.")
    return value


def _without(index: Index, gone: Collection[int]) -> Index:
    return MappingProxyType({n: key for n, key in index.items() if n not in gone})


def _selection(app: AppId | None, thread: str | None) -> _Selects:
    def selects(_number: int, key: TurnKey) -> bool:
        return (app is None or key.app == app) and (thread is None or key.thread == thread)

    return selects
