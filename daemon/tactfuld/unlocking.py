"""Opening a profile's keys: from what the owner gives to a ring that its databases agree with.

Decides how a rotation that was interrupted ends. What is *not* here: keys themselves
(`keys.ring`), and what is sealed under them (`store`).

Invariant: a key that a database may still be sealed under is never destroyed. Which one that is,
the database says; one that cannot be read, or that names neither, leaves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld.keys.attempts import Attempts
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.sources import Asked
from tactfuld.keys.values import Purpose
from tactfuld.store.connection import key_in_use
from tactfuld.store.memory import MEMORY_FILE

_DATABASES: Mapping[Purpose, str] = {Purpose.MEMORY: MEMORY_FILE}


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
        _settle(ring, purpose, profile.data / name)
    return ring


def _settle(ring: KeyRing, purpose: Purpose, database: Path) -> None:
    candidates = {key.id for key in ring.keys(purpose)}
    if len(candidates) > 1 and (in_use := key_in_use(database)) in candidates:
        ring.finish(purpose, in_use)
