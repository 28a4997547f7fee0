"""Restoring: what another copy of this profile's ledger knows is added to the one in use.

Decides which files count as copies, and what the owner is told. What is *not* here: which entries
are missing (`tactful_core.ledger.united`), how they are appended (`store.ledger`), what a
high-water mark adds (`store.mark`), and restoring from a backup (`backup.restoring`).

Invariants (GUARANTEE §3):

- the result is the union of both by id: nothing that is here is changed or lost, and no sum gets
  less;
- a file that this profile's key does not open, that is damaged, or that went its own way is
  refused, and nothing is changed; the file itself is only read.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tactful.errors import NotFound, Unusable
from tactful.profile import Profile
from tactful_core.entries import Entry, UnreadableEntry
from tactful_core.layout import Attribute
from tactful_core.ledger import UnreadableLedger
from tactful_core.values import Secret, epsilon_of
from tactfuld.keys.values import StoreKeys
from tactfuld.locking import hold
from tactfuld.policy.loading import load_policy
from tactfuld.store.ledger import LEDGER_FILE, LedgerPlace, LedgerStore, ledger_place
from tactfuld.unlocking import unlock

_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Ours:
    """The ledger in use."""

    place: LedgerPlace
    keys: StoreKeys
    attributes: tuple[Attribute, ...]


def restore_ledger(
    profile: Profile, passphrase: Secret[str] | None, file: Path
) -> dict[str, object]:
    """Appends the entries of `file` that are missing in the profile's ledger; what came of it.

    Raises:
        AlreadyRunning: a daemon uses the profile.
        NotFound, Unusable: there is no such file, or it is no copy of this ledger.
        TactfulError: the profile cannot be opened.
    """
    with hold(profile.data), tempfile.TemporaryDirectory(prefix="tactful-") as folder:
        promises = load_policy(profile.policy_file)
        keys = unlock(profile, passphrase).store_keys()
        ours = Ours(ledger_place(profile), keys, promises.layout.attributes)
        return asyncio.run(_united(ours, _copied(file, Path(folder)), file))


async def _united(ours: Ours, copy: LedgerPlace, file: Path) -> dict[str, object]:
    appended = await added(ours, await _entries_of(copy, ours.keys, file), file)
    return {"file": str(file), "appended": appended, **await sums(ours)}


async def added(ours: Ours, theirs: Sequence[Entry], file: Path) -> int:
    """Appends what another copy has and this one lacks; how many entries.

    Args:
        file: where the copy comes from, for errors.

    Raises:
        Unusable: the ledger cannot be read, or the two are no copies of one; nothing was changed.
        IoFailed: it could not be written.
    """
    async with LedgerStore.open(ours.place, ours.keys, ours.attributes, _unheard) as store:
        if isinstance(store.snapshot(), UnreadableLedger):
            raise Unusable(
                "The ledger of this profile cannot be read, so nothing can be added to it. Put the "
                "whole data folder back from a copy, then restore newer copies of the ledger."
            )
        try:
            return await store.unite(theirs)
        except UnreadableEntry as problem:
            raise Unusable(
                f"{file} and the ledger of this profile went separate ways: they opened different "
                "epochs under the same number, so they are not copies of one ledger any more. "
                "Nothing was changed."
            ) from problem


async def sums(ours: Ours) -> dict[str, object]:
    """What the ledger comes to when it is opened the next time."""
    notices: list[str] = []
    async with LedgerStore.open(ours.place, ours.keys, ours.attributes, notices.append) as store:
        ledger, entries = await store.witnessed()
    return {
        "entries": len(entries),
        "epoch": ledger.epoch,
        "exhausted": ledger.exhausted,
        "notices": notices,
        "lines": [
            {
                "attribute": attribute.name,
                "spent": epsilon_of(ledger.spent(attribute)),
                "cap": epsilon_of(attribute.cap),
                "lifetime": epsilon_of(ledger.lifetime_spent(attribute)),
            }
            for attribute in ours.attributes
        ],
    }


async def _entries_of(copy: LedgerPlace, keys: StoreKeys, file: Path) -> Sequence[Entry]:
    try:
        async with LedgerStore.open(copy, keys, (), _unheard) as store:
            return await store.entries()
    except UnreadableEntry as problem:
        raise Unusable(
            f"{file} is no copy of this profile's ledger, or it is damaged, or the key was "
            "replaced since: this profile's key does not open it from its first entry to its last. "
            "Nothing was changed."
        ) from problem
    except Unusable as problem:
        raise Unusable(
            f"{file} was written by a newer version of tactful; update tactful. "
            "Nothing was changed."
        ) from problem


def _copied(file: Path, folder: Path) -> LedgerPlace:
    """A copy of the database with its write-ahead log: SQLite may write where it reads.

    Raises:
        NotFound, Unusable: there is no such file, or it is no database.
    """
    if not file.exists():
        raise NotFound(f"There is no file {file}. Name the {LEDGER_FILE} of another copy.")
    if not file.is_file():
        raise Unusable(f"{file} is not a file. Name the {LEDGER_FILE} in a copy of a data folder.")
    with file.open("rb") as stream:
        if stream.read(len(_SQLITE)) != _SQLITE:
            raise Unusable(f"{file} is no ledger: it is not a database. Nothing was changed.")
    place = LedgerPlace(folder / LEDGER_FILE, folder / "no.mark")
    shutil.copyfile(file, place.database)
    log = file.with_name(f"{file.name}-wal")
    if log.is_file():
        shutil.copyfile(log, place.database.with_name(f"{LEDGER_FILE}-wal"))
    return place


def _unheard(_notice: str) -> None:
    """What is to be said about a ledger is said about the one that comes out."""
