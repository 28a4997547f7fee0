"""The ledger on disk: append-only, sealed, chained, and durable before anything is drawn (C5).

Decides nothing about budgets: `tactful_core.ledger.refusal` does, inside the transaction that this
module keeps. What is *not* here: what an entry means (`tactful_core.entries`, `ledger`), and its
sealed form (`tactful_core.sealing`, `SPEC.md` §5).

Invariants:

- reading the head, checking and inserting are one `BEGIN IMMEDIATE` transaction; `Admitted` exists
  only after its commit, and the sums in memory change only then;
- a refusal writes nothing; nothing is ever changed or deleted, and nothing refunded;
- a row that does not open, decode or follow the one before it, or a head that went back, leaves an
  `UnreadableLedger`: everything is refused until the store is opened anew;
- a ledger older than its high-water mark counts what the mark knows; one whose mark is gone, or was
  made on another machine, is exhausted until the next epoch (GUARANTEE §3);
- no exception for what is on disk: a ledger that cannot be read or written refuses, and the owner
  is told;
- nothing is written that could not be read back.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tactful.profile import Profile
from tactful_core.entries import (
    Charge,
    Entry,
    EpochOpened,
    UnprotectedRead,
    UnreadableEntry,
    ViewReleased,
    decode,
    encode,
    new_entry_id,
)
from tactful_core.errors import ContractError, SealError
from tactful_core.layout import Attribute
from tactful_core.ledger import (
    Admitted,
    Ledger,
    Refusal,
    Refused,
    UnreadableLedger,
    mark_of,
    refusal,
    replay,
    united,
)
from tactful_core.promises import Promises
from tactful_core.sealing import ChainSealer
from tactfuld.keys import StoreKeys
from tactfuld.store.connection import (
    DamagedDatabase,
    Schema,
    Writer,
    create,
    reading,
    transaction,
)
from tactfuld.store.mark import MARK_FILE, MarkFile, machine_name

LEDGER_FILE = "ledger.db"

_SCHEMA = Schema(
    version=1,
    statements=(
        "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, sealed BLOB NOT NULL) STRICT",
        """CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries
           BEGIN SELECT RAISE(ABORT, 'entries never change'); END""",
        """CREATE TRIGGER entries_never_vanish BEFORE DELETE ON entries
           BEGIN SELECT RAISE(ABORT, 'entries never vanish'); END""",
    ),
)
_INSERT = "INSERT INTO entries (sequence, sealed) VALUES (?, ?)"
_ALL = "SELECT sequence, sealed FROM entries ORDER BY sequence"
_FROM = "SELECT sequence, sealed FROM entries WHERE sequence >= ? ORDER BY sequence"
_ROWS_AT_ONCE = 512

_Row = tuple[object, object]
_Refuses = Callable[[Ledger | UnreadableLedger], Refusal | None]
_UNTRUSTED = (SealError, UnreadableEntry, DamagedDatabase, sqlite3.Error)


@dataclass(frozen=True, slots=True)
class _Head:
    """The newest entry: its number, its link, and what all entries so far add up to."""

    sequence: int
    link: bytes
    ledger: Ledger


_BEFORE_FIRST = _Head(0, ChainSealer.FIRST, Ledger())


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where a ledger and its mark are; two folders, so that one copy does not bring both."""

    database: Path
    mark: Path


def ledger_place(profile: Profile) -> LedgerPlace:
    """Where a profile keeps its ledger."""
    return LedgerPlace(profile.data / LEDGER_FILE, profile.state / MARK_FILE)


class LedgerStore:
    """The durable ledger; implements `tactful_core.interface.ChargeStore`."""

    def __init__(
        self,
        writer: Writer | None,
        sealer: ChainSealer,
        head: _Head | None,
        marks: MarkFile,
        attributes: Sequence[Attribute],
        notices: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._sealer = sealer
        self._head = head
        self._marks = marks
        self._attributes = tuple(attributes)
        self._notices = notices

    @staticmethod
    async def create(place: LedgerPlace, keys: StoreKeys) -> None:
        """A new ledger whose first epoch is open, and its mark.

        Raises:
            AlreadyExists: there is such a file.
            NoPermission: the operating system refuses.
        """
        opened = EpochOpened(new_entry_id(), 1, 0)
        sealed = _sealer(keys).seal(encode(opened), 1, ChainSealer.FIRST)

        def fill(connection: sqlite3.Connection) -> None:
            connection.execute(_INSERT, (1, sealed))

        await asyncio.to_thread(create, place.database, _SCHEMA, fill)
        mark = mark_of(replay([opened]), 1, ())
        await asyncio.to_thread(_marks(place, keys).write, mark)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        place: LedgerPlace,
        keys: StoreKeys,
        attributes: Sequence[Attribute],
        notices: Callable[[str], None],
    ) -> AsyncIterator[LedgerStore]:
        """The ledger in a file, replayed; unreadable where it cannot be trusted.

        Args:
            attributes: whose sums the mark keeps: all that the policy has.
            notices: takes a sentence for the owner; called on the loop or in the store's thread.

        Raises:
            Unusable: the database is of a newer version.
        """
        sealer, marks = _sealer(keys), _marks(place, keys)
        async with AsyncExitStack() as stack:
            writer, head = None, None
            try:
                writer = await stack.enter_async_context(Writer.open(place.database, _SCHEMA))
                head = await _replayed(place.database, sealer)
            except _UNTRUSTED:
                notices(_unreadable(place.database))
            store = cls(writer, sealer, head, marks, attributes, notices)
            await asyncio.to_thread(store._look_at_mark)
            yield store

    def snapshot(self) -> Ledger | UnreadableLedger:
        """What all durable entries add up to."""
        head = self._head
        return UnreadableLedger() if head is None else head.ledger

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        """Checks all caps and quotas and writes the charge, in one durable transaction.

        A charge that was begun is finished even if the caller is cancelled, and stays charged.

        Raises:
            ContractError: the charge set is smaller than `Γ*(R)`, or an entry like this could not
                be read back.
        """
        admitted = await self._appended(charge, lambda now: refusal(now, charge, promises))
        return Admitted(charge, admitted) if isinstance(admitted, int) else Refused(admitted)

    async def record(self, entry: UnprotectedRead | ViewReleased) -> bool:
        """Writes the entry durably; `False` where the ledger is unreadable and nothing may.

        Raises:
            ContractError: an entry like this could not be read back.
        """
        written = await self._appended(entry, lambda now: _out_of_epoch(now, entry.epoch))
        return isinstance(written, int)

    async def open_next_epoch(self, period: int) -> int | None:
        """Opens an epoch for a calendar period, and returns its number.

        `None` where the ledger is unreadable, or where the period is not a later one (0 is for an
        epoch that the owner opens): a clock that steps back opens nothing twice.
        """
        ledger = self.snapshot()
        if isinstance(ledger, UnreadableLedger) or 0 < period <= ledger.period:
            return None
        later = max(period, ledger.period)
        entry = EpochOpened(new_entry_id(), ledger.epoch + 1, later)
        written = await self._appended(entry, lambda now: _out_of_epoch(now, entry.epoch - 1))
        return entry.epoch if isinstance(written, int) else None

    async def unite(self, entries: Sequence[Entry]) -> int:
        """Appends the entries of another copy of this ledger that are missing here; how many.

        Raises:
            UnreadableEntry: the other one is no copy of this ledger.
        """
        missing = united(await self.entries(), entries)
        for entry in missing:
            await self._appended(entry, lambda _now: None)
        return len(missing)

    async def entries(self) -> tuple[Entry, ...]:
        """All durable entries, oldest first, read anew from the file.

        Raises:
            SealError, UnreadableEntry: the file cannot be trusted.
        """
        found: list[Entry] = []
        if self._writer is not None:
            await _replayed(self._writer.path, self._sealer, found.append)
        return tuple(found)

    async def _appended(self, entry: Entry, refuses: _Refuses) -> int | Refusal:
        """The number of the new entry, or why there is none."""
        if self._writer is None or self._head is None:
            return refuses(UnreadableLedger()) or Refusal.UNREADABLE
        return await self._writer.run(partial(self._append, entry, refuses))

    def _append(
        self, entry: Entry, refuses: _Refuses, connection: sqlite3.Connection
    ) -> int | Refusal:
        data = _readable(entry)
        try:
            with transaction(connection):
                self._head = head = self._newest(connection)
                reason = refuses(head.ledger)
                if reason is not None:
                    return reason
                sealed = self._sealer.seal(data, head.sequence + 1, head.link)
                grown = _extended(head, [(head.sequence + 1, sealed)], self._sealer)
                connection.execute(_INSERT, (grown.sequence, sealed))
            self._head = grown
        except (SealError, UnreadableEntry):
            self._head = None
            self._notices(_unreadable(Path(LEDGER_FILE)))
            return Refusal.UNREADABLE
        except sqlite3.Error:
            self._look_again(connection)
            return Refusal.UNREADABLE
        self._write_mark(grown)
        return grown.sequence

    def _look_at_mark(self) -> None:
        """Applies what the mark knows; a ledger without one is exhausted until the next epoch."""
        head = self._head
        if head is None:
            return
        mark = self._marks.read()
        if mark is None:
            self._notices(_NO_MARK)
            self._head = replace(head, ledger=head.ledger.until_next_epoch())
            return
        if mark.sequence > head.sequence:
            self._notices(_ROLLED_BACK)
        self._head = replace(head, ledger=head.ledger.not_below(mark, self._attributes))

    def _write_mark(self, head: _Head) -> None:
        """Keeps the mark, but never over one that says more than the entries can show."""
        if head.ledger.exhausted:
            return
        try:
            self._marks.write(mark_of(head.ledger, head.sequence, self._attributes))
        except OSError:
            self._notices(
                "The ledger's high-water mark could not be written; check the disk of the state "
                "folder. Until it can, an older ledger put back would not be noticed."
            )

    def _newest(self, connection: sqlite3.Connection) -> _Head:
        """The head in the database: the known one, and what may have been appended since."""
        known = self._head
        if known is None:
            raise UnreadableEntry("The ledger has been found unreadable before.")
        rows = connection.execute(_FROM, (known.sequence,)).fetchall()
        if not rows or self._sealer.link(_blob(rows[0][1])) != known.link:
            raise UnreadableEntry("The newest entry of the ledger is gone or another one.")
        return _extended(known, rows[1:], self._sealer)

    def _look_again(self, connection: sqlite3.Connection) -> None:
        """After an error of SQLite: whether the entry became durable is for the database to say."""
        try:
            self._head = self._newest(connection)
            self._notices("The ledger could not be written, so nothing was drawn; check the disk.")
        except _UNTRUSTED:
            self._head = None
            self._notices(_unreadable(Path(LEDGER_FILE)))


def _out_of_epoch(now: Ledger | UnreadableLedger, epoch: int) -> Refusal | None:
    readable = isinstance(now, Ledger) and epoch == now.epoch
    return None if readable else Refusal.UNREADABLE


def _readable(entry: Entry) -> bytes:
    """The entry's bytes, after reading them back: an unreadable one would close the ledger."""
    data = encode(entry)
    try:
        same = decode(data) == entry
    except UnreadableEntry as problem:
        raise ContractError("A ledger entry has values that could not be read back.") from problem
    if not same:
        raise ContractError("A ledger entry would be read back as another one.")
    return data


async def _replayed(
    path: Path, sealer: ChainSealer, each: Callable[[Entry], None] = lambda _entry: None
) -> _Head:
    """The head of the whole ledger, read on a connection of its own; `each` is given the entries.

    Raises:
        SealError, UnreadableEntry, DamagedDatabase, sqlite3.Error: it cannot be trusted.
    """
    head = _BEFORE_FIRST
    async with reading(path) as connection, connection.execute(_ALL) as cursor:
        while rows := [(row[0], row[1]) for row in await cursor.fetchmany(_ROWS_AT_ONCE)]:
            head = await asyncio.to_thread(_extended, head, rows, sealer, each)
    if head.ledger.epoch < 1:
        raise UnreadableEntry("The ledger has no epoch.")
    return head


def _extended(
    head: _Head,
    rows: Iterable[_Row],
    sealer: ChainSealer,
    each: Callable[[Entry], None] = lambda _entry: None,
) -> _Head:
    """The head after more rows, each opened, decoded and added.

    Raises:
        SealError: a row does not stand where it was written, or one before it is missing.
        UnreadableEntry: a row is no entry, or one that cannot follow.
    """
    for number, sealed in rows:
        sequence = head.sequence + 1
        if number != sequence:
            raise UnreadableEntry("The entries of the ledger are not numbered without gaps.")
        entry = decode(sealer.open(_blob(sealed), sequence, head.link))
        head = _Head(sequence, sealer.link(_blob(sealed)), head.ledger.after(entry))
        each(entry)
    return head


def _blob(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise UnreadableEntry("A row of the ledger does not hold bytes.")
    return value


def _sealer(keys: StoreKeys) -> ChainSealer:
    return ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)


def _marks(place: LedgerPlace, keys: StoreKeys) -> MarkFile:
    return MarkFile(place.mark, _sealer(keys), machine_name(keys.store_id))


_NO_MARK = (
    "The ledger's high-water mark is missing, damaged, or was made on another machine, so what was "
    "spent is not known and every attribute counts as exhausted until a new epoch "
    "(`tactful epoch new`)."
)
_ROLLED_BACK = (
    "ledger.db is older than its high-water mark; somebody put an old copy back. What the mark "
    "knows to have been spent counts as spent."
)


def _unreadable(path: Path) -> str:
    return (
        f"{path.name} cannot be read as it was written, so every attribute counts as exhausted and "
        "apps get generic answers; put the data folder back from a copy, or make a new profile."
    )
