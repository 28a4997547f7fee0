"""Opening a profile's keys: from what the owner gives to a ring that its databases agree with.

Decides how a rotation that was interrupted ends. What is *not* here: keys themselves
(`keys.ring`), and what is sealed under them (`store`).

Invariant: a key that a database may still be sealed under is never destroyed. Which one that is,
the database says; one that cannot be read, or that names neither, leaves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tactful.errors import NoPermission
from tactful.profile import Profile
from tactful_core.sealing import ChainSealer, RowSealer
from tactful_core.values import Secret
from tactfuld.keys.attempts import Attempts
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked
from tactfuld.keys.values import DataKey, Purpose
from tactfuld.store.connection import key_in_use
from tactfuld.store.history import HISTORY_FILE
from tactfuld.store.ledger import LEDGER_FILE, ledger_place
from tactfuld.store.mark import reseal_copy, reseal_mark
from tactfuld.store.memory import MEMORY_FILE, memory_place
from tactfuld.store.witness import WitnessFile

_DATABASES: Mapping[Purpose, str] = {
    Purpose.MEMORY: MEMORY_FILE,
    Purpose.LEDGER: LEDGER_FILE,
    Purpose.HISTORY: HISTORY_FILE,
}


_NO_ROWS = 0
"""The capacity of sealers that seal no rows."""


def unlock(profile: Profile, passphrase: Secret[str] | None) -> KeyRing:
    """The profile's keys, one of each kind. Blocks; the data folder must be held.

    Raises:
        PassphraseNeeded: the KEK follows from a passphrase and none was given.
        KeyUnavailable: the passphrase is wrong, or the keyring does not have the key.
        TryLater: there were too many wrong ones.
        Unusable: there is no key file, it is damaged, or it is of another version.
        NoPermission: what a rotation has left cannot be put in order.
    """
    asked = Asked(passphrase, attempts=Attempts(profile.state))
    ring = KeyRing.open(profile.data, asked)
    for purpose, name in _DATABASES.items():
        _settle(ring, purpose, profile, name)
    return ring


def _settle(ring: KeyRing, purpose: Purpose, profile: Profile, database: str) -> None:
    candidates = {key.id: key for key in ring.keys(purpose)}
    if len(candidates) == 1:
        return
    in_use = candidates.pop(key_in_use(profile.data / database) or b"", None)
    if in_use is None:
        return
    for other in candidates.values():
        if purpose is Purpose.LEDGER:
            _reseal_marks(ring, profile, other, in_use)
        elif purpose is Purpose.MEMORY:
            _reseal_witness(ring, profile, other, in_use)
    ring.finish(purpose, in_use.id)


def _reseal_marks(ring: KeyRing, profile: Profile, old: DataKey, new: DataKey) -> None:
    """The mark follows the ledger before the key that it may still be under is destroyed."""
    before, after = (ChainSealer(key.key, key.id, ring.store_id) for key in (old, new))
    mark = ledger_place(profile).mark
    try:
        reseal_mark(mark, before, after)
    except OSError as problem:
        raise _not_written(mark, problem) from problem
    if (keyring := ring.keyring) is not None:
        reseal_copy(keyring, ring.store_id, before, after)


def _reseal_witness(ring: KeyRing, profile: Profile, old: DataKey, new: DataKey) -> None:
    """The witness follows memory, likewise."""
    path = memory_place(profile).witness
    before, after = (RowSealer(key.key, key.id, ring.store_id, _NO_ROWS) for key in (old, new))
    try:
        WitnessFile(path, ring.store_id).reseal(before, after)
    except OSError as problem:
        raise _not_written(path, problem) from problem


def _not_written(path: Path, problem: OSError) -> NoPermission:
    return NoPermission(
        f"{path} could not be written ({problem.strerror}); check the folder and its disk."
    )
