"""`keys.json`: the form of the file, and how it is replaced on disk (`tactful_core/SPEC.md` §6).

Decides which bytes are a key file, and that an old one is destroyed. What is *not* here: what the
wraps hold (`ring`), and where the key-encryption key comes from (`sources`).

Invariants:

- a file is only accepted in the one spelling that this module writes, so no byte of it is free;
- a file is replaced whole or not at all, durably; the bytes of the one before are overwritten
  where they lie. What copies, snapshots or the spare blocks of an SSD still hold is out of reach.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful.errors import NoPermission, Unusable
from tactfuld.refusals import refusal

KEY_FILE = "keys.json"
UNFINISHED = "init.unfinished"
"""Beside it while `init` or `restore` makes a profile; nothing opens a folder with this in it."""

FORMAT = 2
_MAX_FILE_BYTES = 64 * 1024
_NEW = f"{KEY_FILE}.new"

Id = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Wrap = Annotated[str, Field(pattern=r"^[0-9a-f]{120}$")]
Moment = Annotated[int, Field(ge=0, le=2**48)]
"""Whole seconds since 1970."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class KeyringRecord(_Record):
    """The KEK is in the operating system's keyring, in the entry that `entry` names."""

    source: Literal["keyring"] = "keyring"
    backend: Annotated[str, Field(min_length=1, max_length=200)]
    entry: Id

    @property
    def description(self) -> str:
        return f"keyring {self.backend}"


class CredentialRecord(_Record):
    """The KEK is a credential that systemd hands to the service."""

    source: Literal["credential"] = "credential"

    @property
    def description(self) -> str:
        return "systemd credential"


class Argon2Record(_Record):
    """Parameters of Argon2id."""

    kdf: Literal["argon2id"] = "argon2id"
    salt: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){8,64}$")]
    iterations: Annotated[int, Field(ge=1, le=64)]
    lanes: Annotated[int, Field(ge=1, le=64)]
    memory_kib: Annotated[int, Field(ge=8, le=1024 * 1024)]


class PassphraseRecord(Argon2Record):
    """The KEK follows from a passphrase."""

    source: Literal["passphrase"] = "passphrase"

    @property
    def description(self) -> str:
        return "passphrase"


KekRecord = KeyringRecord | CredentialRecord | PassphraseRecord


class RecoveryRecord(Argon2Record):
    """The master key under a key that follows from the recovery phrase."""

    since: Moment
    wrapped: Wrap


class WrappedKey(_Record):
    """A data key under the master key."""

    id: Id
    since: Moment
    wrapped: Wrap


Succeeding = Annotated[tuple[WrappedKey, ...], Field(min_length=1, max_length=2, strict=False)]
"""One key; two while the second takes the place of the first."""


class Contents(_Record):
    """What a key file says, without its seal."""

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    store_id: Id
    kek: Annotated[KekRecord, Field(discriminator="source")]
    kek_since: Moment
    master: Wrap
    recovery: RecoveryRecord | None
    memory: Succeeding
    ledger: Succeeding
    history: Succeeding

    @property
    def body(self) -> bytes:
        """What the seal is over."""
        return self.model_dump_json().encode()

    def sealed(self, seal: bytes) -> SealedContents:
        """The same, with its seal."""
        return SealedContents.model_validate({**dict(self), "seal": seal.hex()})


class SealedContents(Contents):
    """A whole key file."""

    seal: Annotated[str, Field(pattern=r"^[0-9a-f]{56}$")]

    @property
    def contents(self) -> Contents:
        """The same, without its seal."""
        fields = dict(self)
        del fields["seal"]
        return Contents.model_validate(fields)

    @property
    def spelling(self) -> bytes:
        """The file's bytes."""
        return self.model_dump_json(indent=2).encode() + b"\n"


def read_key_file(folder: Path) -> SealedContents:
    """The key file of a data folder, which nothing has authenticated yet.

    Raises:
        Unusable: there is none, it is damaged, it is of another version, or half-made.
        NoPermission: the operating system refuses.
    """
    if (folder / UNFINISHED).exists():
        raise Unusable(
            f"`tactful init` or `tactful restore` was interrupted in {folder}, and what it left "
            "was never used; run it again, and it begins anew."
        )
    return _read(folder)


def left_kek(folder: Path) -> tuple[KekRecord, bytes] | None:
    """Where an interrupted `init` has put its KEK, and for which store, if it came to that."""
    with suppress(Unusable, NoPermission):
        file = _read(folder)
        return file.kek, bytes.fromhex(file.store_id)
    return None


def write_key_file(folder: Path, file: SealedContents) -> None:
    """Puts a key file in the place of the one before, whose bytes are then overwritten.

    Raises:
        IoFailed, NoPermission: the operating system refuses; the file before is still in force.
    """
    path = folder / KEY_FILE
    try:
        before = _opened(path)
        try:
            _put(path, folder / _NEW, file.spelling)
            if before is not None:
                _overwrite(before)
        finally:
            if before is not None:
                os.close(before)
    except OSError as problem:
        raise refusal(
            problem,
            f"{path} could not be written ({problem.strerror}); check the folder and its disk.",
        ) from problem


def discard_unfinished(folder: Path) -> None:
    """Destroys what a write that was killed has left beside the key file.

    Raises:
        IoFailed, NoPermission: the operating system refuses.
    """
    leftover = folder / _NEW
    try:
        descriptor = _opened(leftover)
        if descriptor is None:
            return
        try:
            _overwrite(descriptor)
        finally:
            os.close(descriptor)
        leftover.unlink(missing_ok=True)
    except OSError as problem:
        raise refusal(
            problem, f"{leftover} could not be removed ({problem.strerror}); check the folder."
        ) from problem


def destroy_key_file(folder: Path) -> None:
    """Overwrites the key file, and one that a killed write has left beside it, and removes them.

    Raises:
        OSError: the operating system refuses.
    """
    for path in (folder / KEY_FILE, folder / _NEW):
        descriptor = _opened(path)
        if descriptor is not None:
            try:
                _overwrite(descriptor)
            finally:
                os.close(descriptor)
            path.unlink()


def damaged(folder: Path) -> Unusable:
    """A key file that is not as it was written last."""
    return Unusable(f"{folder / KEY_FILE} is damaged; put it back from a copy of the data folder.")


def _read(folder: Path) -> SealedContents:
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
        _refuse_other_version(path, json.loads(data))
        file = SealedContents.model_validate_json(data)
    except (ValueError, RecursionError, ValidationError) as problem:
        raise damaged(folder) from problem
    if file.spelling != data:
        raise damaged(folder)
    return file


def _refuse_other_version(path: Path, written: object) -> None:
    version = written.get("format") if isinstance(written, Mapping) else None
    if not isinstance(version, int) or isinstance(version, bool) or version == FORMAT:
        return
    if version > FORMAT:
        raise Unusable(f"{path} was written by a newer version of tactful; update tactful.")
    raise Unusable(
        f"{path} was written by a version of tactful from before its first release, which this one "
        "cannot open; make a new profile with `tactful init --profile DIR`."
    )


def _missing(folder: Path) -> Unusable:
    if any(folder.glob("*.db")):
        return Unusable(
            f"{folder} holds databases but no {KEY_FILE}, without which nothing can open them; "
            f"put {KEY_FILE} back from a copy of the folder, or choose another --profile."
        )
    return Unusable(f"There is no store in {folder}; make one with `tactful init`.")


def _opened(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    return None


def _put(path: Path, beside: Path, data: bytes) -> None:
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as stream:  # noqa: PTH123 - a descriptor has no Path
            stream.write(data)
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


def _overwrite(descriptor: int) -> None:
    os.pwrite(descriptor, bytes(os.fstat(descriptor).st_size), 0)
    os.fsync(descriptor)
