"""Opening a profile's keys: from what the owner gives to a ring that its databases agree with.

Decides how a rotation that was interrupted ends. What is *not* here: keys themselves
(`keys.ring`), and what is sealed under them (`store`).

Invariant: a key that a database may still be sealed under is never destroyed. Which one that is,
the database says; one that cannot be read, or that names neither, leaves both.
"""

from __future__ import annotations

from collections.abc import Mapping

from tactful.errors import NoPermission
from tactful.profile import Profile
from tactful_core.sealing import ChainSealer
from tactful_core.values import Secret
from tactfuld.keys.attempts import Attempts
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked
from tactfuld.keys.values import DataKey, Purpose
from tactfuld.store.connection import key_in_use
from tactfuld.store.history import HISTORY_FILE
from tactfuld.store.ledger import LEDGER_FILE, ledger_place
from tactfuld.store.mark import reseal_copy, reseal_mark
from tactfuld.store.memory import MEMORY_FILE

_DATABASES: Mapping[Purpose, str] = {
    Purpose.MEMORY: MEMORY_FILE,
    Purpose.LEDGER: LEDGER_FILE,
    Purpose.HISTORY: HISTORY_FILE,
}


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
    if purpose is Purpose.LEDGER:
        for other in candidates.values():
            _reseal_marks(ring, profile, other, in_use)
    ring.finish(purpose, in_use.id)


def _reseal_marks(ring: KeyRing, profile: Profile, old: DataKey, new: DataKey) -> None:
    """The mark follows the ledger before the key that it may still be under is destroyed."""
    before, after = (ChainSealer(key.key, key.id, ring.store_id) for key in (old, new))
    mark = ledger_place(profile).mark
    try:
        reseal_mark(mark, before, after)
    except OSError as problem:
        raise NoPermission(
            f"{mark} could not be written ({problem.strerror}); check the folder and its disk."
        ) from problem
    if (keyring := ring.keyring) is not None:
        reseal_copy(keyring, ring.store_id, before, after)
