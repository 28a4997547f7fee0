"""What is in the databases: `integrity`, `ledger`.

Decides what open stores are asked, and what their answers come to. What is *not* here: opening them
(`examination` without a daemon, `lifecycle` with one), and opening rows (`tactfuld.store`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tactful.errors import TactfulError
from tactful.profile import Profile
from tactful_core.entries import UnreadableEntry
from tactfuld.audit import adds_up
from tactfuld.doctor.check import Check, Name, ok, problem, unknown
from tactfuld.doctor.keys import key_facts
from tactfuld.doctor.machine import Moment, check_clock, file_moments
from tactfuld.store.connection import quick_check
from tactfuld.store.examined import Examined
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LEDGER_FILE, LedgerStore
from tactfuld.store.memory import MEMORY_FILE, MemoryStore

DATABASES = (MEMORY_FILE, LEDGER_FILE, HISTORY_FILE)

_MOST_NAMED = 10
_FROM_COPY = "Put the data folder's files that belong together back from a copy."
_AS_IT_SAYS = "Do what it says, and look again."
_NEW_EPOCH = "Opening a new epoch makes a new one: `tactful epoch new`."


@dataclass(frozen=True, slots=True)
class Database:
    """One database.

    Attributes:
        structure: what SQLite finds wrong with it.
        examined: what came of opening every row; `None` where that was not possible.
        refusal: why not, if it was tried.
        witnessed: whether an older copy of it would be noticed; the ledger has its mark for that.
    """

    name: str
    structure: tuple[str, ...] = ()
    examined: Examined | None = None
    refusal: str = ""
    witnessed: bool = True


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """The ledger beside its high-water mark.

    Attributes:
        refusal: why its entries cannot be read from the first to the last; then the rest is empty.
        adds_up: whether the entries give the sums that are worked with.
        marked: how many entries there were by the mark; `None` where there is none to trust.
        lost: whether the mark knows of charges that the entries do not have.
        exhausted: whether nothing is admitted before a new epoch.
    """

    refusal: str = ""
    entries: int = 0
    epoch: int = 0
    adds_up: bool = True
    marked: int | None = None
    lost: bool = False
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """All three databases, opened or not; `ledger` is `None` where nobody tried."""

    databases: tuple[Database, ...]
    ledger: LedgerFacts | None
    moments: tuple[Moment, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenStores:
    """The stores that could be opened, and why others could not, by the names of their files."""

    memory: MemoryStore | None
    ledger: LedgerStore | None
    history: HistoryStore | None
    refusals: tuple[tuple[str, str], ...] = ()


def outer_moments(profile: Profile) -> tuple[Moment, ...]:
    """When things were written, as far as that can be read without a key; blocks for a moment."""
    return (*file_moments(profile), *key_facts(profile).moments)


async def store_facts(profile: Profile, stores: OpenStores) -> StoreFacts:
    """Opens every row of every store."""
    refusals = dict(stores.refusals)
    found: list[Database] = []
    for name in DATABASES:
        structure = await asyncio.to_thread(quick_check, profile.data / name)
        examined, refusal = await _examined(name, stores)
        told = refusal or refusals.get(name, "")
        found.append(Database(name, structure, examined, told, await _witnessed(name, stores)))
    ledger = None if stores.ledger is None else await ledger_facts(stores.ledger)
    if ledger is None and LEDGER_FILE in refusals:
        ledger = LedgerFacts(refusal=refusals[LEDGER_FILE])
    return StoreFacts(tuple(found), ledger, tuple(await _moments(stores)))


def judged(
    facts: StoreFacts, now: int, outer: Iterable[Moment], wanting: str = ""
) -> tuple[Check, ...]:
    """The checks that rest on what was found in the stores; `wanting` as in `check_integrity`.

    Args:
        outer: the `outer_moments`, from before the stores were opened, which writes the mark anew.
    """
    return (
        check_integrity(facts.databases, wanting),
        check_ledger(facts.ledger, wanting),
        check_clock(now, (*outer, *facts.moments)),
    )


async def ledger_facts(store: LedgerStore) -> LedgerFacts:
    """Reads every entry; the mark first, so that a charge meanwhile is no difference."""
    mark = await store.mark()
    try:
        ledger, entries = await store.witnessed()
    except UnreadableEntry as problem:
        return LedgerFacts(refusal=str(problem))
    same = await asyncio.to_thread(adds_up, entries, ledger)
    return LedgerFacts(
        entries=len(entries),
        epoch=ledger.epoch,
        adds_up=same,
        marked=None if mark is None else mark.sequence,
        lost=any(ledger.lost.values()),
        exhausted=ledger.exhausted,
    )


def check_integrity(databases: Sequence[Database], wanting: str) -> Check:
    """Every page is in order, and every row opens as it was written.

    Args:
        wanting: why no row was opened, where that was not even tried.
    """
    wrong = [sentence for database in databases for sentence in _wrong(database)]
    if wrong:
        refused = all(each.refusal for each in databases if _wrong(each))
        return problem(Name.INTEGRITY, " ".join(wrong), _AS_IT_SAYS if refused else _FROM_COPY)
    bare = [database.name for database in databases if not database.witnessed]
    if bare:
        return problem(
            Name.INTEGRITY,
            f"The witness of {_listed(bare)} is missing, damaged, or of another machine, so an "
            "older copy would not be noticed.",
            "Look through `tactful memory list`; if nothing is amiss there, stop the daemon and "
            "run `tactful memory accept`.",
        )
    if wanting:
        return unknown(
            Name.INTEGRITY,
            f"The databases' pages are in order, but no row was opened: {wanting}",
            "Start the daemon, or give the passphrase, and look again.",
        )
    rows = {each.name: each.examined.rows for each in databases if each.examined is not None}
    told = ", ".join(f"{number} of {name}" for name, number in rows.items())
    return ok(Name.INTEGRITY, f"Every row opens as it was written: {told}.")


def check_ledger(found: LedgerFacts | None, wanting: str) -> Check:
    """The chain of entries is whole, gives the sums, and is not older than its mark."""
    if found is None:
        return unknown(
            Name.LEDGER,
            f"The ledger was not opened: {wanting}",
            "Start the daemon, or give the passphrase, and look again.",
        )
    if found.refusal:
        return problem(
            Name.LEDGER,
            f"{found.refusal} Every attribute counts as exhausted.",
            _FROM_COPY,
        )
    if not found.adds_up:
        return problem(
            Name.LEDGER,
            "The entries do not give the sums that the daemon works with.",
            "Restart the daemon and look again; if it stays, please report it.",
        )
    if found.marked is None:
        return problem(
            Name.LEDGER,
            "The high-water mark is missing, damaged, or of another machine, so an older ledger "
            "would not be noticed.",
            _NEW_EPOCH,
        )
    if found.exhausted:
        return problem(
            Name.LEDGER,
            "Every attribute counts as exhausted: the ledger is from before an epoch that this "
            "machine knows of.",
            "Put the newest ledger.db back, or open a new epoch: `tactful epoch new`.",
        )
    if found.lost or found.marked > found.entries:
        return problem(
            Name.LEDGER,
            f"The ledger has {found.entries} entries, and its high-water mark knows more: an older "
            "copy was put back. What the mark knows to be spent counts as spent.",
            "Put the newest ledger.db back, or add what it has: `tactful ledger restore FILE`. It "
            "also ends with the epoch.",
        )
    return ok(
        Name.LEDGER,
        f"The chain is whole up to its newest entry, number {found.entries} in epoch "
        f"{found.epoch}; the high-water mark fits.",
    )


async def _examined(name: str, stores: OpenStores) -> tuple[Examined | None, str]:
    store = {MEMORY_FILE: stores.memory, HISTORY_FILE: stores.history}.get(name)
    try:
        if store is not None:
            return await store.examined(), ""
        if name == LEDGER_FILE and stores.ledger is not None:
            return Examined(len(await stores.ledger.entries()), (), whole=True), ""
    except UnreadableEntry as problem:
        return None, f"{LEDGER_FILE}: {problem}"
    except TactfulError as problem:
        return None, str(problem)
    return None, ""


async def _witnessed(name: str, stores: OpenStores) -> bool:
    if name != MEMORY_FILE or stores.memory is None:
        return True
    return await stores.memory.witnessed() is not None


async def _moments(stores: OpenStores) -> list[Moment]:
    """When the newest things were written, as far as that can be read."""
    found = []
    try:
        if stores.memory is not None:
            written = [memory.written_at for _, memory in await stores.memory.listing()]
            found += [Moment("the newest memory", max(written))] if written else []
        if stores.history is not None:
            turns = await stores.history.listing(None, None, 1)
            found += [Moment("the newest turn", turn.at) for _, turn in turns]
    except TactfulError:
        return found  # `integrity` says what is wrong
    return found


def _wrong(database: Database) -> list[str]:
    told = []
    if database.structure:
        told.append(f"SQLite finds {database.name} damaged: {_listed(database.structure)}.")
    if database.refusal:
        told.append(database.refusal)
    examined = database.examined
    if examined is not None and examined.unreadable:
        numbers = _listed([str(number) for number in examined.unreadable])
        told.append(f"Rows of {database.name} do not open as they were written: {numbers}.")
    elif examined is not None and not examined.whole:
        told.append(f"The rows of {database.name} open, but are not all those written last.")
    return told


def _listed(things: Sequence[str]) -> str:
    named = ", ".join(things[:_MOST_NAMED])
    more = len(things) - _MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named
