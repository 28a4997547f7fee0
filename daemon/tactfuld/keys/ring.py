"""The key ring of a store: its master key, and the data keys under it (`tactful_core/SPEC.md` §6).

Decides which keys open a store and how they are replaced. What is *not* here: ciphers
(`tactful_core.sealing`), the form of the file (`key_file`), where the key-encryption key comes from
(`sources`), and what the data keys seal (`store`).

Invariants:

- one data key for each purpose, so that each can change alone; on disk they exist only wrapped
  under the master key, and that only under the KEK, which is not on disk at all;
- the whole file is authenticated by the master key; what was exchanged, edited or put together
  from two files is found when it is opened;
- a key is replaced in steps of one file each (`Succession`), so that being killed after any of them
  leaves a store that opens with the one key or the other;
- nothing that exists is overwritten, and nothing that is missing is silently made anew.

Everything here may take a second or wait for a keyring's dialogue: call it in a thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from keyring.backend import KeyringBackend

from tactful.errors import AlreadyExists, KeyUnavailable, Unusable
from tactful_core.errors import SealError
from tactful_core.sealing import (
    Key,
    PassphraseParameters,
    key_from_passphrase,
    new_id,
    new_key,
    unwrap_key,
    wrap_key,
)
from tactful_core.values import Secret
from tactfuld.keys.attempts import Attempts
from tactfuld.keys.key_file import (
    FORMAT,
    KEY_FILE,
    Contents,
    PassphraseRecord,
    RecoveryRecord,
    SealedContents,
    WrappedKey,
    damaged,
    discard_unfinished,
    read_key_file,
    write_key_file,
)
from tactfuld.keys.recovery import new_phrase, recovery_parameters
from tactfuld.keys.sources import (
    Asked,
    Kek,
    KeySource,
    complaint,
    derived_key,
    discard_kek,
    kek_of,
    new_kek,
    recorded,
    recorded_parameters,
)
from tactfuld.keys.values import DataKey, Purpose, StoreKeys

_NOTHING: Secret[bytes] = Secret(b"")

KnownKeys = tuple[bytes, Mapping[Purpose, DataKey]]
"""A store's id, and its data keys."""


def create_keys(folder: Path, source: KeySource) -> StoreKeys:
    """New keys for a new store, written to `keys.json` in the data folder.

    Raises:
        AlreadyExists: the folder has keys or databases already.
        KeyUnavailable: the keyring does not take the key.
        IoFailed, NoPermission: the folder cannot be written to.
    """
    return KeyRing.create(folder, source).store_keys()


@dataclass(frozen=True, slots=True)
class Recovery:
    """The master key, as the recovery phrase wraps it, and itself."""

    parameters: PassphraseParameters
    wrapped: bytes
    master: Key


class KeyRing:
    """The opened key file of one store; implements `Succession`."""

    def __init__(self, folder: Path, contents: Contents, master: Key, kek: Kek) -> None:
        self._folder = folder
        self._contents = contents
        self._master = master
        self._kek = kek
        self._changing = threading.Lock()

    @classmethod
    def create(cls, folder: Path, source: KeySource, known: KnownKeys | None = None) -> KeyRing:
        """A new ring on disk, of a new store or of one that is known; raises as `create_keys`."""
        if (folder / KEY_FILE).exists() or any(folder.glob("*.db")):
            raise AlreadyExists(
                f"The data folder {folder} holds a store already; use it, or choose another "
                "--profile."
            )
        master, now = new_key(), int(time.time())
        store_id, keys = (new_id(), {each: _new() for each in Purpose}) if known is None else known
        kek, record = new_kek(source, store_id)
        contents = Contents(
            format=FORMAT,
            store_id=store_id.hex(),
            kek=record,
            kek_since=now,
            master=_wrapped_master(kek.key, master, store_id),
            recovery=None,
            memory=(_wrapped(master, Purpose.MEMORY, store_id, keys[Purpose.MEMORY], now),),
            ledger=(_wrapped(master, Purpose.LEDGER, store_id, keys[Purpose.LEDGER], now),),
            history=(_wrapped(master, Purpose.HISTORY, store_id, keys[Purpose.HISTORY], now),),
        )
        try:
            write_key_file(folder, _sealed(master, contents))
        except BaseException:
            discard_kek(record, store_id, kek.keyring)
            raise
        return cls(folder, contents, master, kek)

    @classmethod
    def open(cls, folder: Path, asked: Asked) -> KeyRing:
        """The ring on disk.

        Raises:
            PassphraseNeeded: the KEK follows from a passphrase and none was given.
            KeyUnavailable: the passphrase is wrong, or the keyring does not have the key.
            TryLater: there were too many wrong ones.
            Unusable: there is no key file, it is damaged, or it is of another version.
            IoFailed, NoPermission: the operating system refuses.
        """
        ring = cls.read(folder, asked)
        discard_unfinished(folder)
        return ring

    @classmethod
    def read(cls, folder: Path, asked: Asked) -> KeyRing:
        """The ring on disk, also while another process changes it; raises as `open` does."""
        file = read_key_file(folder)
        store_id = bytes.fromhex(file.store_id)
        guesses = isinstance(file.kek, PassphraseRecord) and asked.passphrase is not None
        with asked.trying() if guesses else nullcontext():
            kek = kek_of(file.kek, store_id, asked)
            try:
                master = unwrap_key(kek.key, bytes.fromhex(file.master), _master_context(store_id))
            except SealError as problem:
                raise KeyUnavailable(complaint(file.kek)) from problem
        _check(folder, file, master)
        return cls(folder, file.contents, master, kek)

    def read_again(self) -> KeyRing:
        """The ring as it is on disk now.

        Raises:
            Unusable: the file is damaged, or its master key was replaced meanwhile.
            NoPermission: the operating system refuses.
        """
        file = read_key_file(self._folder)
        _check(self._folder, file, self._master)
        return KeyRing(self._folder, file.contents, self._master, self._kek)

    @classmethod
    def recover(
        cls, folder: Path, phrase: Secret[str], source: KeySource, attempts: Attempts
    ) -> KeyRing:
        """Opens the ring with its recovery phrase, and puts it under a KEK of another source.

        Raises:
            KeyUnavailable: the store has no recovery phrase, this is not it, or the keyring does
                not take the new key.
            TryLater: there were too many wrong ones.
            Unusable: there is no key file, it is damaged, or it is of another version.
            NoPermission: the operating system refuses.
        """
        file = read_key_file(folder)
        store_id, record = bytes.fromhex(file.store_id), file.recovery
        if record is None:
            raise KeyUnavailable(
                "This store was made without a recovery phrase; only what it was made with opens "
                "it."
            )
        with attempts.trying():
            key = derived_key(record, phrase)
            try:
                master = unwrap_key(key, bytes.fromhex(record.wrapped), _recovery_context(store_id))
            except SealError as problem:
                raise KeyUnavailable(
                    "The recovery phrase does not open this store; it belongs to another one, or a "
                    f"newer phrase was made since. If it is the right one, {KEY_FILE} is damaged."
                ) from problem
        _check(folder, file, master)
        discard_unfinished(folder)
        ring = cls(folder, file.contents, master, Kek(new_key()))
        ring.change_source(source)
        return ring

    def store_keys(self) -> StoreKeys:
        """The keys that are in use, the older one where one is being replaced.

        Raises:
            Unusable: the file is damaged.
        """
        memory, ledger, history = (self.keys(purpose)[0] for purpose in Purpose)
        return StoreKeys(
            store_id=self.store_id,
            memory=memory.key,
            memory_key_id=memory.id,
            ledger=ledger.key,
            ledger_key_id=ledger.id,
            history=history.key,
            history_key_id=history.id,
            source_description=self._contents.kek.description,
            succession=self,
            keyring=self._kek.keyring,
        )

    @property
    def store_id(self) -> bytes:
        """Names the store."""
        return bytes.fromhex(self._contents.store_id)

    @property
    def keyring(self) -> KeyringBackend | None:
        """The keyring that keeps the KEK, if one does."""
        return self._kek.keyring

    def keys(self, purpose: Purpose) -> tuple[DataKey, ...]:
        """One key, or the one in use and the one that takes its place, in either order.

        Raises:
            Unusable: the file is damaged.
        """
        try:
            return tuple(
                _unwrapped(self._master, purpose, self.store_id, wrapped)
                for wrapped in _succeeding(self._contents, purpose)
            )
        except SealError as problem:
            raise damaged(self._folder) from problem

    def recovery(self) -> Recovery | None:
        """What the recovery phrase locks; `None` where there is no phrase."""
        record = self._contents.recovery
        if record is None:
            return None
        wrapped = bytes.fromhex(record.wrapped)
        return Recovery(recorded_parameters(record), wrapped, self._master)

    def begin(self, purpose: Purpose, in_use: bytes) -> DataKey:
        fresh = _new()
        wrapped = _wrapped(self._master, purpose, self.store_id, fresh, int(time.time()))
        with self._changing:
            self._replace({purpose.value: (self._kept(purpose, in_use), wrapped)})
        return fresh

    def finish(self, purpose: Purpose, in_use: bytes) -> None:
        with self._changing:
            kept = self._kept(purpose, in_use)
            if _succeeding(self._contents, purpose) != (kept,):
                self._replace({purpose.value: (kept,)})

    def change_source(self, source: KeySource) -> None:
        """Puts the master key under the KEK of another source; the old wrap is destroyed.

        The data keys stay, and the recovery phrase opens the store as before.

        Raises:
            KeyUnavailable: the keyring does not take the key.
            NoPermission: the key file cannot be written; nothing has changed.
        """
        before, kek_before = self._contents.kek, self._kek
        kek, record = new_kek(source, self.store_id)
        try:
            with self._changing:
                wrapped = _wrapped_master(kek.key, self._master, self.store_id)
                self._replace({"kek": record, "kek_since": int(time.time()), "master": wrapped})
        except BaseException:
            discard_kek(record, self.store_id, kek.keyring)
            raise
        self._kek = kek
        discard_kek(before, self.store_id, kek_before.keyring)

    def renew_recovery(self) -> Secret[str]:
        """A new recovery phrase, and with it a new master key: the old phrase opens nothing more.

        Raises:
            NoPermission: the key file cannot be written; nothing has changed.
        """
        phrase, parameters = new_phrase(), recovery_parameters()
        key, master, now = key_from_passphrase(phrase, parameters), new_key(), int(time.time())
        wrapped = wrap_key(key, master, _recovery_context(self.store_id)).hex()
        recovery = RecoveryRecord.model_validate(
            {**recorded(parameters), "since": now, "wrapped": wrapped}
        )
        with self._changing:
            self._replace(
                {
                    **self._under(master),
                    "master": _wrapped_master(self._kek.key, master, self.store_id),
                    "recovery": recovery,
                },
                master,
            )
        return phrase

    def destroy(self) -> None:
        """Takes back what `create` did: the key file, and the entry in a keyring."""
        (self._folder / KEY_FILE).unlink(missing_ok=True)
        discard_kek(self._contents.kek, self.store_id, self._kek.keyring)

    def _under(self, master: Key) -> dict[str, object]:
        """All data keys, wrapped under another master key."""
        return {
            purpose.value: tuple(
                _wrapped(master, purpose, self.store_id, key, old.since)
                for key, old in zip(
                    self.keys(purpose), _succeeding(self._contents, purpose), strict=True
                )
            )
            for purpose in Purpose
        }

    def _kept(self, purpose: Purpose, in_use: bytes) -> WrappedKey:
        for wrapped in _succeeding(self._contents, purpose):
            if wrapped.id == in_use.hex():
                return wrapped
        raise Unusable(
            f"{purpose}.db in {self._folder} is sealed under another key than {KEY_FILE} holds; "
            "put back the data folder's files that belong together."
        )

    def _replace(self, changes: Mapping[str, object], master: Key | None = None) -> None:
        contents = Contents.model_validate({**dict(self._contents), **changes})
        sealing = self._master if master is None else master
        write_key_file(self._folder, _sealed(sealing, contents))
        self._contents, self._master = contents, sealing


def _new() -> DataKey:
    return DataKey(new_id(), new_key())


def _succeeding(contents: Contents, purpose: Purpose) -> tuple[WrappedKey, ...]:
    match purpose:
        case Purpose.MEMORY:
            return contents.memory
        case Purpose.LEDGER:
            return contents.ledger
        case Purpose.HISTORY:
            return contents.history


# --- wraps and the seal of the file -------------------------------------------------------------


def _wrapped_master(kek: Key, master: Key, store_id: bytes) -> str:
    return wrap_key(kek, master, _master_context(store_id)).hex()


def _master_context(store_id: bytes) -> bytes:
    return b"tactful/1 wrap master" + store_id


def _recovery_context(store_id: bytes) -> bytes:
    return b"tactful/1 wrap recovery" + store_id


def _wrapped(
    master: Key, purpose: Purpose, store_id: bytes, data_key: DataKey, now: int
) -> WrappedKey:
    sealed = wrap_key(master, data_key.key, _context(purpose, store_id, data_key.id))
    return WrappedKey(id=data_key.id.hex(), since=now, wrapped=sealed.hex())


def _unwrapped(master: Key, purpose: Purpose, store_id: bytes, wrapped: WrappedKey) -> DataKey:
    key_id = bytes.fromhex(wrapped.id)
    context = _context(purpose, store_id, key_id)
    return DataKey(key_id, unwrap_key(master, bytes.fromhex(wrapped.wrapped), context))


def _context(purpose: Purpose, store_id: bytes, key_id: bytes) -> bytes:
    return b"tactful/1 wrap " + purpose.encode() + store_id + key_id


def _sealed(master: Key, contents: Contents) -> SealedContents:
    return contents.sealed(wrap_key(master, _NOTHING, _file_context(contents)))


def _check(folder: Path, file: SealedContents, master: Key) -> None:
    try:
        unwrap_key(master, bytes.fromhex(file.seal), _file_context(file.contents))
    except SealError as problem:
        raise damaged(folder) from problem


def _file_context(contents: Contents) -> bytes:
    return b"tactful/1 key file " + contents.body
