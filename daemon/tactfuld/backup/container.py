"""The file that a backup is: header and chunks, byte by byte (`tactful_core/SPEC.md` §10).

Decides which bytes are a backup, and which secret opens it. What is *not* here: what is in one
(`contents`), and ciphers (`tactful_core.sealing`).

Invariants:

- the header is checked before any key is derived from what it says, so that a wrong secret and a
  damaged file are told apart;
- no byte of a chunk is given out unless the chunk opens at its place; whoever reads to the end
  without an error has read all that was written, and nothing else;
- every way in which a file can be wrong is an `Unusable` of its own, a wrong secret is
  `KeyUnavailable`.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, NoReturn

from tactful.errors import KeyUnavailable, NotFound, Unusable
from tactful_core.errors import SealError
from tactful_core.sealing import (
    ID_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
    Key,
    PassphraseParameters,
    key_from_passphrase,
    new_key,
    unwrap_key,
    wrap_key,
)
from tactful_core.values import Secret

FORMAT = 1
CHUNK_BYTES = 65536

_MAGIC = b"tactful backup"
_START = struct.Struct(f">{len(_MAGIC)}sH")
_REST = struct.Struct(f">BQ{ID_BYTES}sIIIB64s")
SEAL_BYTES = NONCE_BYTES + TAG_BYTES
"""So much longer is what is sealed."""
_WRAP_BYTES = 32 + SEAL_BYTES
_DIGEST_BYTES = 32
_OPEN_BYTES = _START.size + _REST.size
HEADER_BYTES = _OPEN_BYTES + 2 * _WRAP_BYTES + _DIGEST_BYTES


class Lock(IntEnum):
    """Which kind of secret opens a backup."""

    PASSPHRASE = 1
    RECOVERY = 2


@dataclass(frozen=True, slots=True)
class Locking:
    """How a new backup is locked.

    Attributes:
        parameters: how the secret's key follows from the secret.
        locked: the lock key, sealed under the secret's key.
    """

    lock: Lock
    parameters: PassphraseParameters
    locked: bytes
    lock_key: Key


@dataclass(frozen=True, slots=True)
class Header:
    """What a backup says about itself, which only its secret authenticates.

    Attributes:
        length: the size of all that is sealed, in bytes.
        given: the header's bytes.
    """

    lock: Lock
    length: int
    store_id: bytes
    parameters: PassphraseParameters
    given: bytes

    @property
    def file_size(self) -> int:
        """The size of the whole file in bytes."""
        return HEADER_BYTES + self.length + SEAL_BYTES * self.chunks

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.length // CHUNK_BYTES)


def passphrase_locking(
    passphrase: Secret[str], parameters: PassphraseParameters, store_id: bytes
) -> Locking:
    """A backup that a passphrase of its own opens; takes a while."""
    lock_key = new_key()
    secret_key = key_from_passphrase(passphrase, parameters)
    locked = wrap_key(secret_key, lock_key, _lock_context(Lock.PASSPHRASE, store_id))
    return Locking(Lock.PASSPHRASE, parameters, locked, lock_key)


def sealed_backup(
    store_id: bytes, locking: Locking, length: int, content: Iterable[bytes]
) -> Iterator[bytes]:
    """The file's bytes, piece by piece; `content` has `length` bytes."""
    backup_key = new_key()
    header = _header(store_id, locking, length, backup_key)
    yield header
    waiting, index = bytearray(), 0
    for piece in content:
        waiting += piece
        while len(waiting) > CHUNK_BYTES:
            yield _sealed(
                backup_key, bytes(waiting[:CHUNK_BYTES]), _place(header, index, last=False)
            )
            del waiting[:CHUNK_BYTES]
            index += 1
    yield _sealed(backup_key, bytes(waiting), _place(header, index, last=True))


def read_header(path: Path) -> Header:
    """The header of a backup, and that the file is as long as it says.

    Raises:
        NotFound: there is no such file.
        Unusable: it is no backup, of a newer version, damaged, or cut off.
    """
    try:
        with path.open("rb") as stream:
            return _read_header(path, stream)
    except (FileNotFoundError, IsADirectoryError) as problem:
        raise NotFound(f"There is no file {path}; name a backup.") from problem


class OpenedBackup:
    """A backup whose secret was right."""

    def __init__(self, path: Path, header: Header, key: Key) -> None:
        self._path = path
        self.header = header
        self._key = key

    @classmethod
    def open(cls, path: Path, secret: Secret[str]) -> OpenedBackup:
        """Opens the header; nothing of the content is read yet. Takes a while.

        Raises:
            KeyUnavailable: the passphrase or phrase is another one.
            NotFound, Unusable: as for `read_header`.
        """
        header = read_header(path)
        locked, wrapped = _wraps(header.given)
        try:
            secret_key = key_from_passphrase(secret, header.parameters)
            lock_key = unwrap_key(secret_key, locked, _lock_context(header.lock, header.store_id))
        except ValueError as problem:
            _damaged(path, problem)
        except SealError as problem:
            raise KeyUnavailable(_wrong_secret(path, header.lock)) from problem
        try:
            key = unwrap_key(lock_key, wrapped, _key_context(header.given))
        except SealError as problem:
            _damaged(path, problem)
        return cls(path, header, key)

    def content(self, report: Callable[[int, int], None]) -> Iterator[bytes]:
        """Everything that is sealed, in order, each piece authenticated at its place.

        Args:
            report: called with how many chunks were read, and how many there are.

        Raises:
            Unusable: the file is damaged; what was read before is not to be used.
        """
        left = self.header.length
        with self._path.open("rb") as stream:
            stream.seek(HEADER_BYTES)
            for index in range(self.header.chunks):
                size = min(left, CHUNK_BYTES)
                left -= size
                place = _place(self.header.given, index, last=left == 0)
                try:
                    piece = unwrap_key(self._key, stream.read(size + SEAL_BYTES), place).reveal()
                except SealError as problem:
                    raise Unusable(
                        f"{self._path} is damaged: part {index + 1} of {self.header.chunks} is not "
                        "what was written there, because it was changed or stood elsewhere. Use "
                        "another backup. Nothing was changed."
                    ) from problem
                report(index + 1, self.header.chunks)
                yield piece


def _place(header: bytes, index: int, *, last: bool) -> bytes:
    """What a chunk is bound to."""
    digest = hashlib.sha256(header).digest()
    return b"tactful/1 backup chunk" + digest + struct.pack(">Q?", index, last)


def _sealed(key: Key, plaintext: bytes, place: bytes) -> bytes:
    return wrap_key(key, Secret(plaintext), place)


def _header(store_id: bytes, locking: Locking, length: int, backup_key: Key) -> bytes:
    made_with = locking.parameters
    salt = made_with.salt
    said = _START.pack(_MAGIC, FORMAT) + _REST.pack(
        locking.lock,
        length,
        store_id,
        made_with.iterations,
        made_with.lanes,
        made_with.memory_kib,
        len(salt),
        salt,
    )
    said += locking.locked + wrap_key(locking.lock_key, backup_key, _key_context(said))
    return said + hashlib.sha256(said).digest()


def _read_header(path: Path, stream: BinaryIO) -> Header:
    given, size = stream.read(HEADER_BYTES), os.fstat(stream.fileno()).st_size
    if not given.startswith(_MAGIC):
        if _MAGIC.startswith(given):
            _cut_off(path)
        raise Unusable(f"{path} is no backup of tactful's. Name a file that `backup` has written.")
    if len(given) < HEADER_BYTES:
        _cut_off(path)
    _, version = _START.unpack_from(given)
    said, digest = given[:-_DIGEST_BYTES], given[-_DIGEST_BYTES:]
    if version > FORMAT and size >= HEADER_BYTES:
        raise Unusable(f"{path} was written by a newer version of tactful; update tactful.")
    if hashlib.sha256(said).digest() != digest:
        _damaged(path, None)
    header = _parsed(path, given)
    if size < header.file_size:
        _cut_off(path)
    if size > header.file_size:
        raise Unusable(
            f"{path} goes on after its end, so it is not as it was written. Use another backup. "
            "Nothing was changed."
        )
    return header


def _parsed(path: Path, given: bytes) -> Header:
    _, version = _START.unpack_from(given)
    lock, length, store_id, iterations, lanes, memory, size, salt = _REST.unpack_from(
        given, _START.size
    )
    in_bounds = (
        version == FORMAT
        and length >= 1
        and 1 <= iterations <= 64
        and 1 <= lanes <= 64
        and 8 <= memory <= 1024 * 1024
        and 8 <= size <= len(salt)
        and not any(salt[size:])
    )
    if not in_bounds or lock not in set(Lock):
        _damaged(path, None)
    parameters = PassphraseParameters(salt[:size], iterations, lanes, memory)
    return Header(Lock(lock), length, store_id, parameters, given)


def _wraps(given: bytes) -> tuple[bytes, bytes]:
    """`locked` and `wrapped`."""
    middle = _OPEN_BYTES + _WRAP_BYTES
    return given[_OPEN_BYTES:middle], given[middle : middle + _WRAP_BYTES]


def _lock_context(lock: Lock, store_id: bytes) -> bytes:
    return b"tactful/1 wrap " + lock.name.lower().encode() + store_id


def _key_context(header: bytes) -> bytes:
    return b"tactful/1 wrap backup" + header[:_OPEN_BYTES]


def _wrong_secret(path: Path, lock: Lock) -> str:
    match lock:
        case Lock.PASSPHRASE:
            return (
                f"The passphrase does not open {path}; give the one that the backup was made with."
            )
        case Lock.RECOVERY:
            return (
                f"The recovery phrase does not open {path}; give the one that the profile had when "
                "the backup was made."
            )


def _damaged(path: Path, cause: Exception | None) -> NoReturn:
    raise Unusable(
        f"{path} is damaged: its beginning is not as it was written. Use another backup. Nothing "
        "was changed."
    ) from cause


def _cut_off(path: Path) -> NoReturn:
    raise Unusable(
        f"{path} was cut off: it ends before its end. Use another backup. Nothing was changed."
    )
