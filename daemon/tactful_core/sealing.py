"""Sealing: how rows of memory, ledger entries and keys become bytes that only the owner can read.

The only module of the daemon that touches a cipher; `SPEC.md` is the format, byte by byte. What is
*not* here: where keys come from (`tactfuld.keys`) and where bytes are kept (`tactfuld.store`).

Invariants:

- AES-256-GCM with a fresh random nonce for each seal; no algorithm options;
- a row's plaintext always has the same size, so an empty position looks like a full one; that of a
  ledger entry or a turn is padded to whole blocks, so its size tells little of what it says;
- the additional data binds store, position, store version and key: a row moved to another
  position, store or version does not open;
- the root MAC binds all rows of one version; a ledger entry binds the entry before it; a turn of
  released history binds its number;
- `SealError` for anything that does not authenticate or is not in the one form that sealing gives
  it; opening has no other way to fail.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tactful_core.errors import CapacityError, ContractError, SealError
from tactful_core.values import Position, Secret

KEY_BYTES = 32
ID_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16
BYTES_PER_TOKEN = 8
"""A position of `t` tokens holds at most `8 t` bytes of UTF-8; the limit is public."""

_ROW_HEADER = struct.Struct(">BQH")
_ROW_EMPTY, _ROW_MEMORY = 0, 1
_MAX_TEXT_BYTES = 0xFFFF
_RECORD_HEADER = struct.Struct(">I")
_RECORD_BLOCK = 1024

Key = Secret[bytes]


@dataclass(frozen=True, slots=True)
class Memory:
    """What a full position holds: a text and when it was written, in whole seconds since 1970."""

    text: str
    written_at: int

    def __repr__(self) -> str:
        return "Memory(…)"


def new_key() -> Key:
    """32 fresh random bytes."""
    return Secret(os.urandom(KEY_BYTES))


def new_id() -> bytes:
    """16 fresh random bytes that name a store or a key."""
    return os.urandom(ID_BYTES)


def capacity_bytes(tokens: int) -> int:
    """The most bytes of UTF-8 that a position of `tokens` tokens may hold."""
    size = tokens * BYTES_PER_TOKEN
    if not 0 < size <= _MAX_TEXT_BYTES:
        raise ContractError("A position's capacity in tokens is out of range.")
    return size


class RowSealer:
    """Seals and opens rows of one store under one data key.

    Args:
        row_capacity: bytes of text that every row has room for: the largest of the layout.
    """

    def __init__(self, key: Key, key_id: bytes, store_id: bytes, row_capacity: int) -> None:
        self._cipher = AESGCM(_derive(key, b"rows", store_id))
        self._root_key = _derive(key, b"root", store_id)
        self._key_id = key_id
        self._store_id = store_id
        self._row_capacity = row_capacity

    @property
    def sealed_size(self) -> int:
        """The size of every sealed row in bytes."""
        return NONCE_BYTES + _ROW_HEADER.size + self._row_capacity + TAG_BYTES

    def seal(self, memory: Memory | None, position: Position, version: int) -> bytes:
        """A sealed row; `None` seals padding.

        Raises:
            CapacityError: the text is longer than `row_capacity` bytes.
        """
        text = b"" if memory is None else memory.text.encode()
        if len(text) > self._row_capacity:
            raise CapacityError(len(text), self._row_capacity)
        kind, written = (_ROW_EMPTY, 0) if memory is None else (_ROW_MEMORY, memory.written_at)
        padding = bytes(self._row_capacity - len(text))
        plaintext = _ROW_HEADER.pack(kind, written, len(text)) + text + padding
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plaintext, self._row_aad(position, version))

    def open(self, sealed: bytes, position: Position, version: int) -> Secret[Memory | None]:
        """What a row holds; `None` for padding.

        Raises:
            SealError: not sealed by this key for this store, position and version.
        """
        if len(sealed) != self.sealed_size:
            raise SealError("A sealed row does not have the size of this store's rows.")
        plaintext = _open(self._cipher, sealed, self._row_aad(position, version))
        kind, written, length = _ROW_HEADER.unpack_from(plaintext)
        content = _unpadded(plaintext[_ROW_HEADER.size :], length)
        if (kind, written, length) == (_ROW_EMPTY, 0, 0):
            return Secret(None)
        text = _decoded(content)
        if kind != _ROW_MEMORY or text is None:
            raise SealError("A row is not in a form that this version writes.")
        return Secret(Memory(text, written))

    def root_mac(self, version: int, rows: Iterable[bytes]) -> bytes:
        """HMAC-SHA-256 over the version and all sealed rows in order of position."""
        mac = hmac.new(self._root_key, struct.pack(">Q", version), hashlib.sha256)
        for row in rows:
            mac.update(hashlib.sha256(row).digest())
        return mac.digest()

    def check_root(self, version: int, rows: Iterable[bytes], expected: bytes) -> None:
        """Raises `SealError` unless `expected` is the root MAC of these rows."""
        if not hmac.compare_digest(self.root_mac(version, rows), expected):
            raise SealError("The rows of memory are not those that were written last.")

    def _row_aad(self, position: Position, version: int) -> bytes:
        return self._store_id + struct.pack(">IQ", position, version) + self._key_id


class _Blocks:
    """Seals and opens records of any length as whole blocks, each bound to its place."""

    def __init__(self, key: bytes, context: bytes) -> None:
        self._cipher = AESGCM(key)
        self._context = context

    def seal(self, record: bytes, place: bytes) -> bytes:
        block = _RECORD_HEADER.pack(len(record)) + record
        block += bytes(-len(block) % _RECORD_BLOCK)
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, block, self._context + place)

    def open(self, sealed: bytes, place: bytes) -> bytes:
        block = _open(self._cipher, sealed, self._context + place)
        if not block or len(block) % _RECORD_BLOCK:
            raise SealError("A sealed record does not fill whole blocks.")
        (length,) = _RECORD_HEADER.unpack_from(block)
        return _unpadded(block[_RECORD_HEADER.size :], length)


class ChainSealer:
    """Seals and opens ledger entries, each bound to its number and to the one before it."""

    FIRST = bytes(32)
    """What stands before the first entry."""

    def __init__(self, key: Key, key_id: bytes, ledger_id: bytes) -> None:
        self._blocks = _Blocks(_derive(key, b"ledger", ledger_id), ledger_id + key_id)

    def seal(self, plaintext: bytes, sequence: int, previous: bytes) -> bytes:
        """The sealed entry; `previous` is the `link` of the entry before it, or `FIRST`."""
        return self._blocks.seal(plaintext, struct.pack(">Q", sequence) + previous)

    def open(self, sealed: bytes, sequence: int, previous: bytes) -> bytes:
        """The entry's bytes; `SealError` if it does not stand where it was written."""
        return self._blocks.open(sealed, struct.pack(">Q", sequence) + previous)

    @staticmethod
    def link(sealed: bytes) -> bytes:
        """What the next entry is bound to."""
        return hashlib.sha256(sealed).digest()


class TurnSealer:
    """Seals and opens turns of released history, each bound to its number."""

    def __init__(self, key: Key, key_id: bytes, store_id: bytes) -> None:
        self._blocks = _Blocks(_derive(key, b"history", store_id), store_id + key_id)

    def seal(self, plaintext: bytes, number: int) -> bytes:
        """The sealed turn."""
        return self._blocks.seal(plaintext, struct.pack(">Q", number))

    def open(self, sealed: bytes, number: int) -> bytes:
        """The turn's bytes; `SealError` if it was sealed under another number, store or key."""
        return self._blocks.open(sealed, struct.pack(">Q", number))


@dataclass(frozen=True, slots=True)
class PassphraseParameters:
    """Recorded parameters of Argon2id (RFC 9106); memory in KiB."""

    salt: bytes
    iterations: int = 3
    lanes: int = 4
    memory_kib: int = 64 * 1024


def key_from_passphrase(passphrase: Secret[str], parameters: PassphraseParameters) -> Key:
    """A key-encryption key by Argon2id; slow by design, never on an event loop."""
    kdf = Argon2id(
        salt=parameters.salt,
        length=KEY_BYTES,
        iterations=parameters.iterations,
        lanes=parameters.lanes,
        memory_cost=parameters.memory_kib,
    )
    return Secret(kdf.derive(passphrase.reveal().encode()))


def wrap_key(kek: Key, key: Key, context: bytes) -> bytes:
    """A data key sealed under a key-encryption key; `context` names what it is for."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(kek.reveal()).encrypt(nonce, key.reveal(), context)


def unwrap_key(kek: Key, wrapped: bytes, context: bytes) -> Key:
    """The data key; `SealError` if `kek` or `context` is another one."""
    return Secret(_open(AESGCM(kek.reveal()), wrapped, context))


def _open(cipher: AESGCM, sealed: bytes, aad: bytes) -> bytes:
    if len(sealed) < NONCE_BYTES + TAG_BYTES:
        raise SealError("Sealed bytes are too short to be what was written.")
    try:
        return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], aad)
    except InvalidTag as problem:
        raise SealError("Sealed bytes could not be authenticated.") from problem


def _unpadded(padded: bytes, length: int) -> bytes:
    """The first `length` bytes; the rest must be there and be zeros."""
    if length > len(padded) or padded[length:] != bytes(len(padded) - length):
        raise SealError("Sealed bytes are not padded as this version pads them.")
    return padded[:length]


def _decoded(content: bytes) -> str | None:
    """The text, or `None`: the error of the codec would carry the bytes of a memory along."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _derive(key: Key, purpose: bytes, salt: bytes) -> bytes:
    """A sub-key by HKDF-SHA-256: one purpose, one key."""
    hkdf = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=b"tactful/1 " + purpose)
    return hkdf.derive(key.reveal())
