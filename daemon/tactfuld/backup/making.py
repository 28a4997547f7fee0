"""`backup`: a profile's memory, ledger, history, policy and settings in one sealed file.

Decides what is taken, in which order, and when a file counts as written. What is *not* here: the
file's form (`container`, `contents`).

It only reads the profile, so it works while a daemon runs and without one. Each database is taken
as one transaction left it; memory first and the ledger last, so that the ledger knows of every
charge behind a turn that was taken before it.

Invariants:

- a file that is there is not written over unless the owner says so, and then whole or not at all;
- what was taken is opened again, all of it, before the file is put in its place.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tactful.errors import AlreadyExists, PassphraseNeeded, Unusable, from_system
from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld.backup.container import (
    CHUNK_BYTES,
    Lock,
    Locking,
    OpenedBackup,
    passphrase_locking,
    read_header,
    sealed_backup,
)
from tactfuld.backup.contents import Contents, FileName, packed, unpacked
from tactfuld.backup.examining import Examined, examined
from tactfuld.keys.attempts import Attempts
from tactfuld.keys.recovery import phrase_of
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked, fresh_parameters
from tactfuld.keys.values import DataKey, Purpose
from tactfuld.store.connection import DamagedDatabase, snapshot

Report = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and how much there is."""

_TRIES = 5
"""A key may be replaced while the databases are read; then everything is read again."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the owner wants of a backup."""

    file: Path
    history: bool
    force: bool


def make_backup(
    profile: Profile,
    passphrase: Secret[str] | None,
    own: Secret[str] | None,
    wishes: Wishes,
    report: Report,
) -> dict[str, object]:
    """Writes a backup; what the owner is told.

    Args:
        passphrase: opens the profile, where it needs one.
        own: the backup's passphrase; None for the profile's recovery phrase.

    Raises:
        AlreadyExists: the file is there.
        PassphraseNeeded: there is no recovery phrase, and no passphrase was given.
        TactfulError: the profile cannot be opened or the file not written; nothing was left.
    """
    _refuse_existing(wishes)
    ring = KeyRing.read(profile.data, Asked(passphrase, attempts=Attempts(profile.state)))
    locking = _locking(ring, own)
    contents = _taken(profile, ring, history=wishes.history)
    found = examined(contents, ring.store_id, "this profile")
    _write(wishes, ring.store_id, locking, contents, report)
    return {
        "file": str(wishes.file),
        "size": wishes.file.stat().st_size,
        "lock": locking.lock.name.lower(),
        "made": contents.made,
        **found.counts,
    }


def opened_backup(
    file: Path, secret: Secret[str], report: Report
) -> tuple[bytes, Contents, Examined]:
    """The store's id, the contents and what is in them, after reading all of it.

    Raises:
        KeyUnavailable: the passphrase or phrase is another one.
        NotFound, Unusable: it is no backup, damaged, cut off, or of a newer version.
    """
    backup = OpenedBackup.open(file, secret)

    def tell(done: int, total: int) -> None:
        report("reading the backup", done, total)

    contents = unpacked(file, backup.content(tell))
    return backup.header.store_id, contents, examined(contents, backup.header.store_id, str(file))


def typed_secret(file: Path, typed: Secret[str]) -> Secret[str]:
    """What the owner typed for a backup: a recovery phrase in the one form that phrases have.

    Raises:
        KeyUnavailable: a phrase opens it, and this is none.
        NotFound, Unusable: as for `opened_backup`.
    """
    return phrase_of(typed) if read_header(file).lock is Lock.RECOVERY else typed


def verify_backup(file: Path, secret: Secret[str], report: Report) -> dict[str, object]:
    """Reads a backup to its end and opens everything in it; what the owner is told."""
    store_id, contents, found = opened_backup(file, secret, report)
    return {
        "file": str(file),
        "size": file.stat().st_size,
        "store": store_id.hex(),
        "made": contents.made,
        "key_source": contents.kek,
        **found.counts,
    }


def _refuse_existing(wishes: Wishes) -> None:
    if wishes.file.exists() and not (wishes.force and wishes.file.is_file()):
        raise AlreadyExists(
            f"{wishes.file} exists already, and nothing was written over it. Name another file, or "
            "give --force to replace it."
        )


def _locking(ring: KeyRing, own: Secret[str] | None) -> Locking:
    if own is not None:
        return passphrase_locking(own, fresh_parameters(), ring.store_id)
    recovery = ring.recovery()
    if recovery is None:
        raise PassphraseNeeded(
            "This profile has no recovery phrase, so a backup needs a passphrase of its own: give "
            "it at the prompt or by --backup-passphrase-file, or make a phrase with `tactful key "
            "recovery`."
        )
    return Locking(Lock.RECOVERY, recovery.parameters, recovery.wrapped, recovery.master)


def _taken(profile: Profile, ring: KeyRing, *, history: bool) -> Contents:
    """The profile's files, and the keys that they are sealed under."""
    for _ in range(_TRIES):
        files: dict[FileName, bytes] = {}
        in_use: dict[Purpose, DataKey | None] = {}
        files["memory.db"], in_use[Purpose.MEMORY] = _database(profile, ring, Purpose.MEMORY)
        kept, in_use[Purpose.HISTORY] = _database(profile, ring, Purpose.HISTORY)
        if history:
            files["history.db"] = kept
        files["ledger.db"], in_use[Purpose.LEDGER] = _database(profile, ring, Purpose.LEDGER)
        keys = {purpose: key for purpose, key in in_use.items() if key is not None}
        if len(keys) == len(Purpose):
            files["policy.yaml"] = profile.policy_file.read_bytes()
            if profile.settings_file.exists():
                files["settings.yaml"] = profile.settings_file.read_bytes()
            kek = ring.store_keys().source_description
            return Contents(int(time.time()), keys, kek, files)
        ring = ring.read_again()
    raise Unusable(
        "The databases belong to other keys than the keys.json beside them, so there is nothing to "
        "back up; put back the data folder's files that belong together."
    )


def _database(profile: Profile, ring: KeyRing, purpose: Purpose) -> tuple[bytes, DataKey | None]:
    path = profile.data / f"{purpose}.db"
    try:
        key_id, data = snapshot(path)
    except DamagedDatabase as problem:
        raise Unusable(
            f"{path} is missing or damaged, so it cannot be backed up; `tactful doctor` says more."
        ) from problem
    known = {key.id: key for key in ring.keys(purpose)}
    return data, known.get(key_id)


def _write(
    wishes: Wishes, store_id: bytes, locking: Locking, contents: Contents, report: Report
) -> None:
    length, plaintext = packed(contents)
    total = -(-length // CHUNK_BYTES)
    try:
        with _beside(wishes.file) as stream:
            for done, piece in enumerate(sealed_backup(store_id, locking, length, plaintext)):
                stream.write(piece)
                report("writing the backup", done, total)
    except OSError as problem:
        raise from_system(problem) from problem


@contextmanager
def _beside(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends, durably, or vanishes."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
