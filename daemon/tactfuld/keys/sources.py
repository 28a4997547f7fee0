"""Where the key-encryption key (KEK) of a store comes from.

Decides which source is used, and asks it. What is *not* here: which keyrings are trusted
(`keyrings`), how a passphrase arrives (`passphrases`), and what the KEK opens (`ring`).

Invariants:

- the KEK is in the operating system's keyring, or a credential of systemd's, or follows from a
  passphrase by Argon2id with recorded parameters; without a wish they are tried in that order;
- a keyring that forgets, or that keeps plain text, is refused;
- every error about a keyring names its backend; no error shows a key or a passphrase.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from keyring.backend import KeyringBackend

from tactful.errors import KeyUnavailable, PassphraseNeeded, Unusable
from tactful_core.sealing import (
    KEY_BYTES,
    Key,
    PassphraseParameters,
    key_from_passphrase,
    new_id,
    new_key,
)
from tactful_core.values import Secret
from tactfuld import keyrings
from tactfuld.keys.attempts import Attempts
from tactfuld.keys.key_file import (
    KEY_FILE,
    Argon2Record,
    CredentialRecord,
    KekRecord,
    KeyringRecord,
    PassphraseRecord,
)
from tactfuld.passphrases import PASSPHRASE_VARIABLE

CREDENTIAL = "tactful-kek"
"""The name of systemd's credential (systemd.exec(5), `LoadCredential=`)."""
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"

_SALT_BYTES = 16
_HEX_KEY = re.compile(rb"[0-9a-f]{64}\n?")

Wish = Literal["keyring", "credential", "passphrase"]


def fresh_parameters() -> PassphraseParameters:
    """Parameters with a salt that nothing else has."""
    return PassphraseParameters(salt=os.urandom(_SALT_BYTES))


@dataclass(frozen=True, slots=True)
class KeyringSource:
    """The KEK is kept by this keyring."""

    backend: KeyringBackend


@dataclass(frozen=True, slots=True)
class CredentialSource:
    """The KEK is this credential of systemd's."""

    kek: Key


@dataclass(frozen=True, slots=True)
class PassphraseSource:
    """The KEK follows from a passphrase; `parameters` are recorded beside the wrapped keys."""

    passphrase: Secret[str]
    parameters: PassphraseParameters = field(default_factory=fresh_parameters)


KeySource = KeyringSource | CredentialSource | PassphraseSource


@dataclass(frozen=True, slots=True)
class Kek:
    """A KEK, and the keyring that keeps it, if one does."""

    key: Key
    keyring: KeyringBackend | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom to ask for a KEK.

    Attributes:
        passphrase: what the owner gave, if anything.
        backend: the keyring to look at; None for the one that `keyring` is configured to use.
        environ: where systemd says where its credentials are.
        attempts: counts wrong passphrases; None where nobody is slowed down.
    """

    passphrase: Secret[str] | None = None
    backend: KeyringBackend | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    attempts: Attempts | None = None

    def trying(self) -> AbstractContextManager[None]:
        """One attempt with what the owner gave."""
        return nullcontext() if self.attempts is None else self.attempts.trying()


def choose_source(wanted: Wish | None, asked: Asked) -> KeySource:
    """Where the KEK of a store shall be.

    What is `wanted` is taken; without a wish, a passphrase that was given is used, else a usable
    keyring, else systemd's credential.

    Raises:
        PassphraseNeeded: a passphrase is what it comes to, and none was given.
        KeyUnavailable: a keyring or a credential is wanted and there is none to be trusted.
    """
    if wanted == "passphrase" or (wanted is None and asked.passphrase is not None):
        if asked.passphrase is None:
            raise PassphraseNeeded(
                "A passphrase is needed to make this store's keys; give it at the prompt, by "
                f"{PASSPHRASE_VARIABLE}, or by --passphrase-fd."
            )
        return PassphraseSource(asked.passphrase)
    if wanted == "credential":
        return CredentialSource(_credential(asked.environ))
    current = asked.backend or keyrings.configured_backend()
    usable = keyrings.usable_backends(current)
    if usable:
        return KeyringSource(usable[0])
    if wanted == "keyring":
        raise KeyUnavailable(
            f"The keyring in use ({keyrings.backend_name(current)}) does not keep secrets safely; "
            "install or unlock one of the operating system's, or use --key passphrase."
        )
    if (path := _credential_path(asked.environ)) is not None and path.exists():
        return CredentialSource(_credential(asked.environ))
    raise PassphraseNeeded(
        f"No usable keyring was found (in use: {keyrings.backend_name(current)}), and no "
        f"credential of systemd's; give a passphrase at the prompt, by {PASSPHRASE_VARIABLE}, or "
        "by --passphrase-fd."
    )


def new_kek(source: KeySource, store_id: bytes) -> tuple[Kek, KekRecord]:
    """The KEK of a source, and what is recorded of it; a keyring has it in a new entry.

    Raises:
        KeyUnavailable: the keyring does not take it.
    """
    match source:
        case KeyringSource(backend):
            kek, entry = new_key(), new_id()
            keyrings.put(backend, keyrings.entry_name(store_id, entry), kek)
            record = KeyringRecord(backend=keyrings.backend_name(backend), entry=entry.hex())
            return Kek(kek, backend), record
        case CredentialSource(kek):
            return Kek(kek), CredentialRecord()
        case PassphraseSource(passphrase, parameters):
            derived = key_from_passphrase(passphrase, parameters)
            return Kek(derived), PassphraseRecord.model_validate(recorded(parameters))


def kek_of(record: KekRecord, store_id: bytes, asked: Asked) -> Kek:
    """The KEK that was recorded.

    Raises:
        PassphraseNeeded: it follows from a passphrase and none was given.
        KeyUnavailable: the keyring or the credential is not there.
        Unusable: the record asks for a derivation that there is not.
    """
    match record:
        case PassphraseRecord():
            if asked.passphrase is None:
                raise PassphraseNeeded(
                    "This store is locked by a passphrase; give it at the prompt, by "
                    f"{PASSPHRASE_VARIABLE}, or by --passphrase-fd."
                )
            return Kek(derived_key(record, asked.passphrase))
        case CredentialRecord():
            return Kek(_credential(asked.environ))
        case KeyringRecord():
            keyring = _keyring_of(record, asked.backend or keyrings.configured_backend())
            return Kek(_kek_from_keyring(record, store_id, keyring), keyring)


def discard_kek(record: KekRecord, store_id: bytes, keyring: KeyringBackend | None) -> None:
    """Takes a KEK that opens nothing any more out of its keyring, as far as the keyring lets it."""
    if isinstance(record, KeyringRecord) and keyring is not None:
        entry = bytes.fromhex(record.entry)
        keyrings.discard(keyring, keyrings.entry_name(store_id, entry))


def complaint(record: KekRecord) -> str:
    """What the owner is told where a KEK does not open the store."""
    match record:
        case PassphraseRecord():
            return (
                "The passphrase does not open this store; give the one it was made with. If it is "
                f"the right one, {KEY_FILE} is damaged: put it back from a copy of the data folder."
            )
        case CredentialRecord():
            return (
                f"The systemd credential {CREDENTIAL} does not open this store; give the one it "
                f"was made with, or put back the {KEY_FILE} that belongs to it."
            )
        case KeyringRecord():
            return (
                f"The key in the keyring {record.backend} does not open this store; put back the "
                f"keyring's entry, or the {KEY_FILE}, that belong together."
            )


def derived_key(record: Argon2Record, secret: Secret[str]) -> Key:
    """What follows from a passphrase or phrase by the recorded parameters.

    Raises:
        Unusable: Argon2id does not have such parameters.
    """
    try:
        return key_from_passphrase(secret, recorded_parameters(record))
    except ValueError as problem:
        raise Unusable(
            f"{KEY_FILE} records parameters that Argon2id does not have; put it back from a copy "
            "of the data folder."
        ) from problem


def recorded_parameters(record: Argon2Record) -> PassphraseParameters:
    """What was recorded."""
    return PassphraseParameters(
        salt=bytes.fromhex(record.salt),
        iterations=record.iterations,
        lanes=record.lanes,
        memory_kib=record.memory_kib,
    )


def recorded(parameters: PassphraseParameters) -> dict[str, object]:
    """The fields of an `Argon2Record`."""
    return {
        "salt": parameters.salt.hex(),
        "iterations": parameters.iterations,
        "lanes": parameters.lanes,
        "memory_kib": parameters.memory_kib,
    }


def _credential_path(environ: Mapping[str, str]) -> Path | None:
    folder = environ.get(CREDENTIALS_VARIABLE)
    return Path(folder) / CREDENTIAL if folder else None


def _credential(environ: Mapping[str, str]) -> Key:
    """32 bytes, or their 64 hexadecimal digits in a line."""
    path = _credential_path(environ)
    if path is None:
        raise KeyUnavailable(
            f"There are no credentials of systemd's here ({CREDENTIALS_VARIABLE} is not set); run "
            f"tactfuld as a service with LoadCredential={CREDENTIAL}:FILE."
        )
    try:
        with path.open("rb") as stream:
            data = stream.read(2 * KEY_BYTES + 2)
    except OSError as problem:
        raise KeyUnavailable(
            f"The systemd credential {CREDENTIAL} could not be read from {path} "
            f"({problem.strerror}); give it to the service with LoadCredential={CREDENTIAL}:FILE."
        ) from problem
    if len(data) == KEY_BYTES:
        return Secret(data)
    if _HEX_KEY.fullmatch(data):
        return Secret(bytes.fromhex(data.decode()))
    raise KeyUnavailable(
        f"The systemd credential {CREDENTIAL} is no key; it must be {KEY_BYTES} bytes, or their "
        f"{2 * KEY_BYTES} hexadecimal digits in small letters."
    )


def _keyring_of(record: KeyringRecord, current: KeyringBackend) -> KeyringBackend:
    """The recorded keyring if it is in use, else the first that is to be trusted."""
    usable = {keyrings.backend_name(each): each for each in keyrings.usable_backends(current)}
    if not usable:
        raise KeyUnavailable(
            f"This store's key is in the keyring {record.backend}, but the keyring in use is "
            f"{keyrings.backend_name(current)}, which does not keep secrets safely; unlock or "
            f"install {record.backend}."
        )
    return usable.get(record.backend) or next(iter(usable.values()))


def _kek_from_keyring(record: KeyringRecord, store_id: bytes, keyring: KeyringBackend) -> Key:
    name = keyrings.entry_name(store_id, bytes.fromhex(record.entry))
    kek = keyrings.get(keyring, name)
    if kek is None:
        raise KeyUnavailable(
            f"The keyring {keyrings.backend_name(keyring)} has no key for this store (service "
            f"{keyrings.SERVICE}, name {name}); it was put into {record.backend}: unlock or "
            "restore that keyring."
        )
    return kek
