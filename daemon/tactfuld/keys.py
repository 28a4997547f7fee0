"""Where the keys of a store come from.

Decides which key-encryption key (KEK) opens a store, and what `keys.json` looks like
(`tactful_core/SPEC.md` §5). What is *not* here: ciphers (`tactful_core.sealing`), which
keyrings are trusted (`keyrings`), how a passphrase arrives (`passphrases`), and what the data keys
seal (`store`).

Invariants:

- three data keys, for memory, ledger and released history, so that each can change alone; on disk
  they exist only wrapped under the KEK, and the KEK is not on disk at all;
- the KEK is in the operating system's keyring, or follows from a passphrase by Argon2id with
  recorded parameters; a keyring that forgets, or that keeps plain text, is refused;
- every error about a keyring names its backend; no error shows a key or a passphrase;
- nothing that exists is overwritten, and nothing that is missing is silently made anew.

Everything here may take a second or wait for a keyring's dialogue: call it in a thread.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from keyring.backend import KeyringBackend
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful.errors import AlreadyExists, KeyUnavailable, NoPermission, PassphraseNeeded, Unusable
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
from tactfuld import keyrings
from tactfuld.passphrases import PASSPHRASE_VARIABLE

KEY_FILE = "keys.json"

_FORMAT = 1
_MAX_FILE_BYTES = 64 * 1024
_SALT_BYTES = 16


def _fresh_parameters() -> PassphraseParameters:
    return PassphraseParameters(salt=os.urandom(_SALT_BYTES))


@dataclass(frozen=True, slots=True)
class KeyringSource:
    """The KEK is kept by this keyring."""

    backend: KeyringBackend


@dataclass(frozen=True, slots=True)
class PassphraseSource:
    """The KEK follows from a passphrase; `parameters` are recorded beside the wrapped keys."""

    passphrase: Secret[str]
    parameters: PassphraseParameters = field(default_factory=_fresh_parameters)


KeySource = KeyringSource | PassphraseSource


@dataclass(frozen=True, slots=True)
class StoreKeys:
    """What opens one store.

    Attributes:
        source_description: where the KEK comes from, for the owner's eyes.
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
    keyring: KeyringBackend | None = None


# --- choosing -----------------------------------------------------------------------------------


def choose_source(
    wanted: Literal["keyring", "passphrase"] | None,
    passphrase: Secret[str] | None,
    *,
    backend: KeyringBackend | None = None,
) -> KeySource:
    """Where the KEK of a new store shall be.

    What is `wanted` is taken; without a wish, a passphrase that was given is used, else a usable
    keyring.

    Args:
        backend: the keyring to look at; by default the one that `keyring` is configured to use.

    Raises:
        PassphraseNeeded: a passphrase is what it comes to, and none was given.
        KeyUnavailable: a keyring is wanted and the one in use cannot be trusted with a key.
    """
    if wanted == "passphrase" or (wanted is None and passphrase is not None):
        if passphrase is None:
            raise PassphraseNeeded(
                "A passphrase is needed to make this store's keys; give it at the prompt, by "
                f"{PASSPHRASE_VARIABLE}, or by --passphrase-fd."
            )
        return PassphraseSource(passphrase)
    current = backend or keyrings.configured_backend()
    usable = keyrings.usable_backends(current)
    if usable:
        return KeyringSource(usable[0])
    if wanted == "keyring":
        raise KeyUnavailable(
            f"The keyring in use ({keyrings.backend_name(current)}) does not keep secrets safely; "
            "install or unlock one of the operating system's, or use --key passphrase."
        )
    raise PassphraseNeeded(
        f"No usable keyring was found (in use: {keyrings.backend_name(current)}); give a "
        f"passphrase at the prompt, by {PASSPHRASE_VARIABLE}, or by --passphrase-fd."
    )


# --- making and opening -------------------------------------------------------------------------


def create_keys(folder: Path, source: KeySource) -> StoreKeys:
    """New keys for a new store, written to `keys.json` in the data folder.

    Raises:
        AlreadyExists: the folder has keys or databases already.
        KeyUnavailable: the keyring does not take the key.
        NoPermission: the folder cannot be written to.
    """
    path = folder / KEY_FILE
    if path.exists() or any(folder.glob("*.db")):
        raise AlreadyExists(
            f"The data folder {folder} holds a store already; use it, or choose another --profile."
        )
    store_id = new_id()
    kek, record = _new_kek(source, store_id)
    keys = StoreKeys(
        store_id=store_id,
        memory=new_key(),
        memory_key_id=new_id(),
        ledger=new_key(),
        ledger_key_id=new_id(),
        history=new_key(),
        history_key_id=new_id(),
        source_description=record.description,
        keyring=source.backend if isinstance(source, KeyringSource) else None,
    )
    file = _KeyFile(
        format=_FORMAT,
        store_id=store_id.hex(),
        kek=record,
        memory=_wrapped(kek, keys.memory, "memory", store_id, keys.memory_key_id),
        ledger=_wrapped(kek, keys.ledger, "ledger", store_id, keys.ledger_key_id),
        history=_wrapped(kek, keys.history, "history", store_id, keys.history_key_id),
    )
    _write(path, file.model_dump_json(indent=2).encode() + b"\n")
    return keys


def open_keys(
    folder: Path, passphrase: Secret[str] | None, *, backend: KeyringBackend | None = None
) -> StoreKeys:
    """The keys of the store in a data folder.

    Args:
        backend: the keyring to ask; by default the one that `keyring` is configured to use.

    Raises:
        PassphraseNeeded: the KEK follows from a passphrase and none was given.
        KeyUnavailable: the passphrase is wrong, or the keyring does not have the key.
        Unusable: there is no key file, it is damaged, or it is of a newer version.
    """
    file = _read(folder)
    store_id = bytes.fromhex(file.store_id)
    keyring: KeyringBackend | None = None
    if isinstance(file.kek, _PassphraseRecord):
        kek = _kek_from_passphrase(file.kek, passphrase)
        complaint = "The passphrase does not open this store; give the one it was made with."
    else:
        keyring = _keyring_of(file.kek, backend or keyrings.configured_backend())
        kek = _kek_from_keyring(file.kek, store_id, keyring)
        complaint = (
            f"The key in the keyring {file.kek.backend} does not open this store; put back the "
            "keyring's entry, or the keys.json, that belong together."
        )
    memory = _unwrapped(kek, file.memory, "memory", store_id)
    ledger = _unwrapped(kek, file.ledger, "ledger", store_id)
    history = _unwrapped(kek, file.history, "history", store_id)
    if memory is None and ledger is None and history is None:
        raise KeyUnavailable(complaint)
    if memory is None or ledger is None or history is None:
        raise _damaged(folder)
    return StoreKeys(
        store_id=store_id,
        memory=memory,
        memory_key_id=bytes.fromhex(file.memory.id),
        ledger=ledger,
        ledger_key_id=bytes.fromhex(file.ledger.id),
        history=history,
        history_key_id=bytes.fromhex(file.history.id),
        source_description=file.kek.description,
        keyring=keyring,
    )


# --- the key file -------------------------------------------------------------------------------

_Id = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _KeyringRecord(_Record):
    source: Literal["keyring"] = "keyring"
    backend: Annotated[str, Field(min_length=1, max_length=200)]

    @property
    def description(self) -> str:
        return f"keyring {self.backend}"


class _PassphraseRecord(_Record):
    source: Literal["passphrase"] = "passphrase"
    kdf: Literal["argon2id"] = "argon2id"
    salt: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){8,64}$")]
    iterations: Annotated[int, Field(ge=1, le=64)]
    lanes: Annotated[int, Field(ge=1, le=64)]
    memory_kib: Annotated[int, Field(ge=8, le=1024 * 1024)]

    @property
    def description(self) -> str:
        return "passphrase"


class _WrappedKey(_Record):
    id: _Id
    wrapped: Annotated[str, Field(pattern=r"^[0-9a-f]{120}$")]


class _KeyFile(_Record):
    format: Annotated[int, Field(ge=_FORMAT, le=_FORMAT)]
    store_id: _Id
    kek: Annotated[_KeyringRecord | _PassphraseRecord, Field(discriminator="source")]
    memory: _WrappedKey
    ledger: _WrappedKey
    history: _WrappedKey


def _wrapped(kek: Key, key: Key, purpose: str, store_id: bytes, key_id: bytes) -> _WrappedKey:
    sealed = wrap_key(kek, key, _context(purpose, store_id, key_id))
    return _WrappedKey(id=key_id.hex(), wrapped=sealed.hex())


def _unwrapped(kek: Key, record: _WrappedKey, purpose: str, store_id: bytes) -> Key | None:
    context = _context(purpose, store_id, bytes.fromhex(record.id))
    try:
        return unwrap_key(kek, bytes.fromhex(record.wrapped), context)
    except SealError:
        return None


def _context(purpose: str, store_id: bytes, key_id: bytes) -> bytes:
    return b"tactful/1 wrap " + purpose.encode() + store_id + key_id


def _read(folder: Path) -> _KeyFile:
    path = folder / KEY_FILE
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_FILE_BYTES)
    except FileNotFoundError as problem:
        raise _missing(folder) from problem
    except OSError as problem:
        raise NoPermission(
            f"{path} could not be read ({problem.strerror}); check that it belongs to you."
        ) from problem
    try:
        written = json.loads(data)
        numbered = isinstance(written, dict) and isinstance(written.get("format"), int)
        if numbered and written["format"] > _FORMAT:
            raise Unusable(f"{path} was written by a newer version of tactful; update tactful.")
        if numbered and {"memory", "ledger"} <= written.keys() and "history" not in written:
            raise Unusable(
                f"{path} has no key for released history: it was written before tactful kept one. "
                "Make a new profile with `tactful init`, and choose it with --profile."
            )
        return _KeyFile.model_validate_json(data)
    except (ValueError, RecursionError, ValidationError) as problem:
        raise _damaged(folder) from problem


def _missing(folder: Path) -> Unusable:
    if any(folder.glob("*.db")):
        return Unusable(
            f"{folder} holds databases but no {KEY_FILE}, without which nothing can open them; "
            f"put {KEY_FILE} back from a copy of the folder, or choose another --profile."
        )
    return Unusable(f"There is no store in {folder}; make one with `tactful init`.")


def _damaged(folder: Path) -> Unusable:
    return Unusable(f"{folder / KEY_FILE} is damaged; put it back from a copy of the data folder.")


def _write(path: Path, data: bytes) -> None:
    """The whole file or none of it, durable, readable by its owner only."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "wb") as stream:  # noqa: PTH123 - a descriptor has no Path
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as problem:
        raise NoPermission(
            f"{path} could not be written ({problem.strerror}); check the folder and its disk."
        ) from problem


# --- key-encryption keys ------------------------------------------------------------------------


def _new_kek(source: KeySource, store_id: bytes) -> tuple[Key, _KeyringRecord | _PassphraseRecord]:
    if isinstance(source, KeyringSource):
        kek = new_key()
        keyrings.put(source.backend, store_id, kek)
        return kek, _KeyringRecord(backend=keyrings.backend_name(source.backend))
    parameters = source.parameters
    record = _PassphraseRecord(
        salt=parameters.salt.hex(),
        iterations=parameters.iterations,
        lanes=parameters.lanes,
        memory_kib=parameters.memory_kib,
    )
    return key_from_passphrase(source.passphrase, parameters), record


def _kek_from_passphrase(record: _PassphraseRecord, passphrase: Secret[str] | None) -> Key:
    if passphrase is None:
        raise PassphraseNeeded(
            "This store is locked by a passphrase; give it at the prompt, by "
            f"{PASSPHRASE_VARIABLE}, or by --passphrase-fd."
        )
    parameters = PassphraseParameters(
        salt=bytes.fromhex(record.salt),
        iterations=record.iterations,
        lanes=record.lanes,
        memory_kib=record.memory_kib,
    )
    try:
        return key_from_passphrase(passphrase, parameters)
    except ValueError as problem:
        raise Unusable(
            f"{KEY_FILE} records parameters that Argon2id does not have; put it back from a copy "
            "of the data folder."
        ) from problem


def _keyring_of(record: _KeyringRecord, current: KeyringBackend) -> KeyringBackend:
    """The recorded keyring if it is in use, else the first that is to be trusted."""
    usable = {keyrings.backend_name(each): each for each in keyrings.usable_backends(current)}
    if not usable:
        raise KeyUnavailable(
            f"This store's key is in the keyring {record.backend}, but the keyring in use is "
            f"{keyrings.backend_name(current)}, which does not keep secrets safely; unlock or "
            f"install {record.backend}."
        )
    return usable.get(record.backend) or next(iter(usable.values()))


def _kek_from_keyring(record: _KeyringRecord, store_id: bytes, keyring: KeyringBackend) -> Key:
    kek = keyrings.get(keyring, store_id)
    if kek is None:
        place = f"(service {keyrings.SERVICE}, name {store_id.hex()})"
        raise KeyUnavailable(
            f"The keyring {keyrings.backend_name(keyring)} has no key for this store {place}; "
            f"it was put into {record.backend}: unlock or restore that keyring."
        )
    return kek
