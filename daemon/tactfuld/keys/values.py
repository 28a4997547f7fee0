"""The data keys of a store, as the stores that seal with them see them.

Decides nothing. What is *not* here: how keys are kept and opened (`ring`, `key_file`), and what
they seal (`tactfuld.store`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from keyring.backend import KeyringBackend

from tactful_core.sealing import Key, new_id, new_key


class Purpose(StrEnum):
    """What a data key seals; one key, one purpose."""

    MEMORY = "memory"
    LEDGER = "ledger"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class DataKey:
    """A data key and the id that names it."""

    id: bytes
    key: Key


class Succession(Protocol):
    """How a data key is replaced (SPEC §6): `begin`, one transaction of the database, `finish`.

    Whoever is interrupted in between leaves both keys on disk, and the database names the one that
    seals it. Both calls block, and may be made from any thread.
    """

    def begin(self, purpose: Purpose, in_use: bytes) -> DataKey:
        """A fresh key, durable beside the one in use and beside no other.

        Raises:
            IoFailed, NoPermission: it cannot be made durable; nothing has changed.
        """
        ...

    def finish(self, purpose: Purpose, in_use: bytes) -> None:
        """The key in use stays; every other one of this purpose is destroyed.

        Raises:
            IoFailed, NoPermission: the key file cannot be written; the next start finishes it.
        """
        ...


class Ephemeral:
    """The succession of keys that nothing keeps, for stores that do not outlive their process."""

    def begin(self, purpose: Purpose, in_use: bytes) -> DataKey:
        return DataKey(new_id(), new_key())

    def finish(self, purpose: Purpose, in_use: bytes) -> None:
        """There is nothing to destroy."""


@dataclass(frozen=True, slots=True)
class StoreKeys:
    """What opens one store.

    Attributes:
        source_description: where the KEK comes from, for the owner's eyes.
        succession: how the data keys are replaced.
        keyring: the keyring that keeps the KEK, if one does.
    """

    store_id: bytes
    memory: Key
    memory_key_id: bytes
    ledger: Key
    ledger_key_id: bytes
    history: Key
    history_key_id: bytes
    source_description: str
    succession: Succession
    keyring: KeyringBackend | None = None
