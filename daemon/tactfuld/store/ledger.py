"""The ledger on disk: append-only, sealed, chained, and durable before anything is drawn (C5).

Decides nothing about budgets: `tactful_core.ledger.refusal` does, inside the transaction that this
module keeps. What is *not* here: what an entry means (`tactful_core.entries`, `ledger`), and its
sealed form (`tactful_core.sealing`, `SPEC.md` §5).

Invariants:

- reading the head, checking and inserting are one `BEGIN IMMEDIATE` transaction; `Admitted` exists
  only after its commit, and the sums in memory change only then; charges that wait at the same time
  are decided one after the other in one transaction, so that they share one write to the disk;
- a refusal writes nothing; nothing is ever changed or deleted, and nothing refunded;
- a row that does not open, decode or follow the one before it, or a head that went back, leaves an
  `UnreadableLedger`: everything is refused until the store is opened anew;
- a ledger older than its high-water mark counts what the mark knows; one whose mark is gone, or was
  made on another machine, is exhausted until the next epoch (GUARANTEE §3);
- no exception for what is on disk: a ledger that cannot be read or written refuses, and the owner
  is told;
- nothing is written that could not be read back;
- the one time that rows change is when all of them are sealed under a new key: the same entries in
  the same order, in one transaction; the mark follows before the old key is destroyed.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tactful.errors import IoFailed, Unusable
from tactful.profile import Profile
from tactful_core.entries import (
    Charge,
    Entry,
    EntryId,
    EpochOpened,
    FusedReserved,
    FusedSettled,
    UnprotectedRead,
    UnreadableEntry,
    ViewReleased,
    decode,
    encode,
    new_entry_id,
)
from tactful_core.errors import ContractError, SealError
from tactful_core.fusion import FusionParameters
from tactful_core.layout import Attribute
from tactful_core.ledger import (
    Admitted,
    Ledger,
    Mark,
    Refusal,
    Refused,
    UnreadableLedger,
    mark_of,
    refusal,
    replay,
    reservation_refusal,
    settlement_refusal,
    united,
)
from tactful_core.promises import Promises
from tactful_core.sealing import ChainSealer
from tactfuld.keys.values import Purpose, StoreKeys
from tactfuld.store.connection import (
    DamagedDatabase,
    Schema,
    Writer,
    create,
    key_in_use,
    reading,
    transaction,
)
from tactfuld.store.mark import MARK_FILE, HighWater, KeyringMark, mark_file, new_mark

LEDGER_FILE = "ledger.db"

_NEVER_CHANGE = """CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries
           BEGIN SELECT RAISE(ABORT, 'entries never change'); END"""
_SCHEMA = Schema(
    version=1,
    statements=(
        """CREATE TABLE header (
               one INTEGER PRIMARY KEY CHECK (one = 1),
               store BLOB NOT NULL,
               key BLOB NOT NULL
           ) STRICT""",
        "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, sealed BLOB NOT NULL) STRICT",
        _NEVER_CHANGE,
        """CREATE TRIGGER entries_never_vanish BEFORE DELETE ON entries
           BEGIN SELECT RAISE(ABORT, 'entries never vanish'); END""",
    ),
)
_INSERT = "INSERT INTO entries (sequence, sealed) VALUES (?, ?)"
_ALL = "SELECT sequence, sealed FROM entries ORDER BY sequence"
_ALL_WITH_KEY = "SELECT key, sequence, sealed FROM header, entries ORDER BY sequence"
_SOME = "SELECT sequence, sealed FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?"
_FROM = "SELECT sequence, sealed FROM entries WHERE sequence >= ? ORDER BY sequence"
_RESEAL = "UPDATE entries SET sealed = ? WHERE sequence = ?"
_ROWS_AT_ONCE = 512
_KEYRING_SECONDS = 10.0

_FOREIGN = (
    f"{LEDGER_FILE} belongs to other keys than the keys.json beside it, so every attribute counts "
    "as exhausted and apps get generic answers; put back the data folder's files that belong "
    "together."
)
_UNROTATABLE = (
    f"{LEDGER_FILE} cannot be read as it was written, so it was not sealed under a new key; put "
    "the data folder back from a copy, or make a new profile."
)

_Row = tuple[object, object]
_Sealers = Mapping[bytes, ChainSealer]
"""By the ids of their keys: one, or two while entries go from one key to the next."""
_Refuses = Callable[[Ledger | UnreadableLedger], Refusal | None]
_UNTRUSTED = (SealError, UnreadableEntry, DamagedDatabase, sqlite3.Error)


@dataclass(frozen=True, slots=True)
class _Head:
    """The newest entry: its number, its link, and what all entries so far add up to."""

    sequence: int
    link: bytes
    ledger: Ledger


@dataclass(slots=True, eq=False)
class _Request:
    """An entry that waits to be written; refused until it is known to be durable.

    Attributes:
        withdrawn: its caller was cancelled; set on the loop, read in the store's thread.
    """

    entry: Entry
    data: bytes
    refuses: _Refuses
    outcome: int | Refusal | ContractError = Refusal.UNREADABLE
    withdrawn: bool = False

    def refused(self, now: Ledger) -> Refusal | ContractError | None:
        """Why it may not be written; what one caller did wrong must not fail the others."""
        try:
            return self.refuses(now)
        except ContractError as problem:
            return problem


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
    """The durable ledger; implements `tactful_core.interface.ReservationStore`."""

    def __init__(
        self,
        writer: Writer | None,
        keys: StoreKeys,
        sealer: ChainSealer,
        head: _Head | None,
        water: HighWater,
        notices: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._store_id = keys.store_id
        self._succession = keys.succession
        self._key_id = keys.ledger_key_id
        self._sealers: _Sealers = {keys.ledger_key_id: sealer}
        self._head = head
        self._water = water
        self._notices = notices
        self._waiting: deque[_Request] = deque()
        self._reserved_here: set[EntryId] = set()

    @staticmethod
    async def create(
        place: LedgerPlace, keys: StoreKeys, fusion: FusionParameters | None = None
    ) -> None:
        """A new ledger whose first epoch is open, and its mark.

        Args:
            fusion: what text is fused with in that epoch (`Promises.calibrated`).

        Raises:
            AlreadyExists: there is such a file.
            NoPermission: the operating system refuses.
        """
        opened = EpochOpened(new_entry_id(), 1, 0, fusion)
        sealed = _sealer(keys).seal(encode(opened), 1, ChainSealer.FIRST)

        def fill(connection: sqlite3.Connection) -> None:
            names = (keys.store_id, keys.ledger_key_id)
            connection.execute("INSERT INTO header VALUES (1, ?, ?)", names)
            connection.execute(_INSERT, (1, sealed))

        await asyncio.to_thread(create, place.database, _SCHEMA, fill)
        mark = mark_of(replay([opened]), 1, ())
        await asyncio.to_thread(new_mark, place.mark, _sealer(keys), keys.store_id, mark)

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
        sealer = _sealer(keys)
        file = await asyncio.to_thread(mark_file, place.mark, sealer, keys.store_id)
        copy = await asyncio.to_thread(_keyring_mark, keys, sealer)
        water = HighWater(file, attributes, notices, copy)
        async with AsyncExitStack() as stack:
            writer, head = None, None
            try:
                writer = await stack.enter_async_context(Writer.open(place.database, _SCHEMA))
                head = await _replayed(place.database, {keys.ledger_key_id: sealer}.get)
            except _UNTRUSTED:
                found = await asyncio.to_thread(key_in_use, place.database)
                foreign = found not in (None, keys.ledger_key_id)
                notices(_FOREIGN if foreign else _unreadable(place.database))
            if head is not None:
                known = await asyncio.to_thread(water.applied, head.ledger, head.sequence)
                head = replace(head, ledger=known)
            store = cls(writer, keys, sealer, head, water, notices)
            try:
                yield store
            finally:
                await store._keep_copy()

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

    async def reserve(self, reservation: FusedReserved, promises: Promises) -> Admitted | Refused:
        """Checks all fused budgets and writes the reservation, in one durable transaction.

        As with a charge, what was begun is finished, and stays spent whole until it is settled.

        Raises:
            ContractError: the cells are not charged as they must be, or an entry like this could
                not be read back.
        """
        admitted = await self._appended(
            reservation, lambda now: reservation_refusal(now, reservation, promises)
        )
        if not isinstance(admitted, int):
            return Refused(admitted)
        self._reserved_here.add(reservation.id)
        return Admitted(reservation, admitted)

    async def settle(self, reservation: FusedReserved, draws: int) -> bool:
        """Says durably how many draws were made, after the last one; the others are free again.

        `False` where it cannot be said, because the epoch is over or the ledger cannot be written:
        then the reservation stays spent whole, as one does that an earlier run made. A caller that
        is cancelled has still said it.

        Raises:
            ContractError: it was settled before, was not made in this run, or is of fewer draws.
        """
        if reservation.id not in self._reserved_here:
            raise ContractError("Only the run that made a reservation knows what was drawn of it.")
        entry = FusedSettled(new_entry_id(), reservation.epoch, reservation.id, draws)
        written = await self._appended(
            entry, lambda now: settlement_refusal(now, entry), may_be_withdrawn=False
        )
        return isinstance(written, int)

    async def record(self, entry: UnprotectedRead | ViewReleased) -> bool:
        """Writes the entry durably; `False` where the ledger is unreadable and nothing may.

        Raises:
            ContractError: an entry like this could not be read back.
        """
        written = await self._appended(entry, lambda now: _out_of_epoch(now, entry.epoch))
        return isinstance(written, int)

    async def open_next_epoch(
        self, period: int, after: int | None = None, fusion: FusionParameters | None = None
    ) -> int | None:
        """Opens an epoch for a calendar period, and returns its number.

        `None` where the ledger is unreadable, where the period is not a later one (0 is for an
        epoch that the owner opens), or where the open epoch is not `after`: neither a clock that
        steps back nor a wish that was sent twice opens two.
        """
        ledger = self.snapshot()
        if isinstance(ledger, UnreadableLedger) or 0 < period <= ledger.period:
            return None
        if after not in (None, ledger.epoch):
            return None
        entry = EpochOpened(new_entry_id(), ledger.epoch + 1, max(period, ledger.period), fusion)
        written = await self._appended(entry, lambda now: _out_of_epoch(now, ledger.epoch))
        if not isinstance(written, int):
            return None
        await self._keep_copy()
        return entry.epoch

    async def regroup(self, attributes: Sequence[Attribute]) -> None:
        """Counts every entry for the attributes that the policy has from now on.

        A group that grew, and an attribute that appears, have what was read there in this epoch
        charged to them; nothing counts for less than before (GUARANTEE §3).
        """
        if self._writer is not None and self._head is not None:
            await self._writer.run(partial(self._regroup, tuple(attributes)))

    def _regroup(self, attributes: tuple[Attribute, ...], _connection: sqlite3.Connection) -> None:
        head = self._head
        if head is not None:
            known = self._water.regrouped(head.ledger, head.sequence, attributes)
            self._head = replace(head, ledger=known)

    async def exhaust(self) -> None:
        """Admits nothing before the next epoch."""
        if self._writer is not None and self._head is not None:
            await self._writer.run(self._exhaust)

    def _exhaust(self, _connection: sqlite3.Connection) -> None:
        if self._head is not None:
            self._head = replace(self._head, ledger=self._head.ledger.until_next_epoch())

    async def _keep_copy(self) -> None:
        """The mark's copy in a keyring, off the loop; a keyring that hangs is not waited for."""
        head = self._head
        if head is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_KEYRING_SECONDS):
                    await asyncio.to_thread(self._water.keep_copy, head.ledger, head.sequence)

    async def unite(self, entries: Sequence[Entry]) -> int:
        """Appends the entries of another copy of this ledger that are missing here; how many.

        All of them or none; the sums are those of the union, and never less than what was known
        before (`HighWater.united`).

        Raises:
            UnreadableEntry: the other one is no copy of this ledger, or this one is unreadable.
            IoFailed: it could not be written.
        """
        if self._writer is None or self._head is None:
            raise UnreadableEntry("A ledger that cannot be read is united with no other.")
        return await self._writer.run(partial(self._unite, tuple(entries)))

    async def entries(self) -> tuple[Entry, ...]:
        """All durable entries, oldest first, read anew from the file.

        Raises:
            UnreadableEntry: the file cannot be trusted.
        """
        found: list[Entry] = []
        if self._writer is None:
            raise UnreadableEntry("There is no ledger that could be read.")
        known = self._sealers
        try:
            await _replayed(
                self._writer.path,
                lambda key: known.get(key) or self._sealers.get(key),
                found.append,
            )
        except _UNTRUSTED as problem:
            raise UnreadableEntry("The ledger cannot be read as it was written.") from problem
        return tuple(found)

    async def witnessed(self) -> tuple[Ledger, tuple[Entry, ...]]:
        """The ledger, and the entries that it is made of, read anew from the file.

        Raises:
            UnreadableEntry: the file cannot be trusted, or could not be when it was opened.
        """
        head = self._head
        if head is None:
            raise UnreadableEntry("The ledger has been found unreadable before.")
        entries = await self.entries()
        if len(entries) < head.sequence:
            raise UnreadableEntry("The newest entries of the ledger are gone.")
        return head.ledger, entries[: head.sequence]

    async def mark(self) -> Mark | None:
        """The high-water mark as it is on the disk now; `None` where there is none to trust."""
        return await asyncio.to_thread(self._water.on_disk)

    async def rotate(self) -> None:
        """Seals all entries and the mark under a new key; the old one is destroyed afterwards.

        Copies of the ledger from before can no longer be united with it.

        Raises:
            Unusable: the ledger is unreadable.
            IoFailed, NoPermission: something could not be written; the next start finishes what was
                begun.
        """
        if self._writer is None or self._head is None:
            raise Unusable(_UNROTATABLE)
        before = await self._writer.run(self._rotate)
        with suppress(TimeoutError):
            async with asyncio.timeout(_KEYRING_SECONDS):
                await asyncio.to_thread(self._water.reseal_copy, before, self._sealer)
        await asyncio.to_thread(self._succession.finish, Purpose.LEDGER, self._key_id)

    def _rotate(self, connection: sqlite3.Connection) -> ChainSealer:
        """Goes over to a new key, the database first and then the mark; the sealer before."""
        before = self._sealer
        try:
            self._water.reseal(before)
            fresh = self._succession.begin(Purpose.LEDGER, self._key_id)
            sealer = ChainSealer(fresh.key, fresh.id, self._store_id)
            self._sealers = {**self._sealers, fresh.id: sealer}
            with transaction(connection):
                head = self._newest(connection)
                link = _resealed(connection, before, sealer)
                connection.execute("UPDATE header SET key = ?", (fresh.id,))
            self._head, self._key_id = replace(head, link=link), fresh.id
            self._water.reseal(sealer)
        except (SealError, UnreadableEntry) as problem:
            self._head = None
            raise Unusable(_UNROTATABLE) from problem
        except (sqlite3.Error, OSError) as problem:
            raise IoFailed(
                "The ledger could not be sealed under a new key; check the disk, and start "
                "tactfuld anew."
            ) from problem
        finally:
            self._sealers = {self._key_id: self._sealers[self._key_id]}
        return before

    async def _appended(
        self, entry: Entry, refuses: _Refuses, *, may_be_withdrawn: bool = True
    ) -> int | Refusal:
        """The number of the new entry, or why there is none.

        Args:
            may_be_withdrawn: whether a caller that is cancelled before it was begun takes it back;
                otherwise it is written with whatever is written next.
        """
        if self._writer is None or self._head is None:
            return refuses(UnreadableLedger()) or Refusal.UNREADABLE
        request = _Request(entry, _readable(entry), refuses)
        self._waiting.append(request)
        try:
            await self._writer.run(self._append_waiting)
        except asyncio.CancelledError:
            request.withdrawn = may_be_withdrawn  # if it was begun already, it stays charged
            raise
        if isinstance(request.outcome, ContractError):
            raise request.outcome
        return request.outcome

    def _append_waiting(self, connection: sqlite3.Connection) -> None:
        """Decides and writes everything that waits, in order, in one durable transaction.

        Each caller asks for it once, so one that finds nothing was served by an earlier one's.
        """
        requests = [each for each in _taken(self._waiting) if not each.withdrawn]
        if not requests:
            return
        try:
            with transaction(connection):
                self._head = head = self._newest(connection)
                outcomes: list[int | Refusal | ContractError] = []
                for request in requests:
                    reason = request.refused(head.ledger)
                    if reason is None:
                        head = self._inserted(head, request.entry, request.data, connection)
                    outcomes.append(head.sequence if reason is None else reason)
            grew, self._head = head is not self._head, head
        except (SealError, UnreadableEntry):
            self._head = None
            self._notices(_unreadable(Path(LEDGER_FILE)))
            return
        except sqlite3.Error:
            self._look_again(connection)
            return
        if grew:
            self._water.keep(head.ledger, head.sequence)
        for request, outcome in zip(requests, outcomes, strict=True):
            request.outcome = outcome

    def _unite(self, entries: tuple[Entry, ...], connection: sqlite3.Connection) -> int:
        ours: list[Entry] = []
        try:
            with transaction(connection):
                before = self._newest(connection)
                rows = connection.execute(_ALL)
                head = _extended(_BEFORE_FIRST, rows, self._sealer, ours.append)
                missing = united(ours, entries)
                for entry in missing:
                    head = self._inserted(head, entry, _readable(entry), connection)
                ledger = self._water.united(head.ledger, head.sequence, before.ledger)
            self._head = head = replace(head, ledger=ledger)
        except SealError as problem:
            raise UnreadableEntry("The ledger cannot be read as it was written.") from problem
        except sqlite3.Error as problem:
            self._look_again(connection)
            if self._head is not None:
                self._water.keep(self._head.ledger, self._head.sequence)
            raise IoFailed(
                "ledger.db could not be written, so nothing was united; check the disk."
            ) from problem
        self._water.keep(head.ledger, head.sequence)
        return len(missing)

    def _inserted(
        self, head: _Head, entry: Entry, data: bytes, connection: sqlite3.Connection
    ) -> _Head:
        """The head after one more entry, which is in the open transaction; `data` are its bytes."""
        sequence = head.sequence + 1
        sealed = self._sealer.seal(data, sequence, head.link)
        grown = _Head(sequence, self._sealer.link(sealed), head.ledger.after(entry))
        connection.execute(_INSERT, (sequence, sealed))
        return grown

    @property
    def _sealer(self) -> ChainSealer:
        return self._sealers[self._key_id]

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


def _taken(waiting: deque[_Request]) -> Iterator[_Request]:
    """Everything that waits now; another thread may add to it meanwhile."""
    with suppress(IndexError):
        while True:
            yield waiting.popleft()


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
    path: Path,
    sealer_of: Callable[[bytes], ChainSealer | None],
    each: Callable[[Entry], None] = lambda _entry: None,
) -> _Head:
    """The head of the whole ledger, read on a connection of its own; `each` is given the entries.

    Raises:
        SealError, UnreadableEntry, DamagedDatabase, sqlite3.Error: it cannot be trusted.
    """
    head = _BEFORE_FIRST
    async with reading(path) as connection, connection.execute(_ALL_WITH_KEY) as cursor:
        while rows := [tuple(row) for row in await cursor.fetchmany(_ROWS_AT_ONCE)]:
            sealer = sealer_of(_blob(rows[0][0]))
            if sealer is None:
                raise UnreadableEntry("The ledger is sealed under another key.")
            head = await asyncio.to_thread(
                _extended, head, [(row[1], row[2]) for row in rows], sealer, each
            )
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


def _resealed(connection: sqlite3.Connection, old: ChainSealer, new: ChainSealer) -> bytes:
    """Seals every entry anew in the open transaction; the link of the last one.

    Raises:
        SealError, UnreadableEntry: an entry is not as it was written.
    """
    connection.execute("DROP TRIGGER IF EXISTS entries_never_change")
    number, old_link, new_link = 0, ChainSealer.FIRST, ChainSealer.FIRST
    while rows := connection.execute(_SOME, (number, _ROWS_AT_ONCE)).fetchall():
        for number, sealed in rows:
            record = old.open(_blob(sealed), number, old_link)
            renewed = new.seal(record, number, new_link)
            connection.execute(
                "UPDATE entries SET sealed = ? WHERE sequence = ?", (renewed, number)
            )
            old_link, new_link = old.link(sealed), new.link(renewed)
    connection.execute(_NEVER_CHANGE)
    return new_link


def _blob(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise UnreadableEntry("A row of the ledger does not hold bytes.")
    return value


def _sealer(keys: StoreKeys) -> ChainSealer:
    return ChainSealer(keys.ledger, keys.ledger_key_id, keys.store_id)


def _keyring_mark(keys: StoreKeys, sealer: ChainSealer) -> KeyringMark | None:
    return None if keys.keyring is None else KeyringMark(keys.keyring, keys.store_id, sealer)


def _unreadable(path: Path) -> str:
    return (
        f"{path.name} cannot be read as it was written, so every attribute counts as exhausted and "
        "apps get generic answers; put the data folder back from a copy, or make a new profile."
    )
