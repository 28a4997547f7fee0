"""The format of `tactful_core/SPEC.md`, built a second time from primitives.

Shares no code with `tactful_core.sealing`, and takes every nonce, so that vectors can be computed
and not only opened. NOT here: opening, which only the product does.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id


def u(value: int, size: int) -> bytes:
    """An unsigned, big-endian number (§1)."""
    return value.to_bytes(size, "big")


def seal(key: bytes, nonce: bytes, plaintext: bytes, aad: bytes) -> bytes:
    """`seal` of §1 with the nonce given."""
    return nonce + AESGCM(key).encrypt(nonce, plaintext, aad)


def derive(key: bytes, purpose: bytes, salt: bytes) -> bytes:
    """`derive` of §1: HKDF-SHA-256 (RFC 5869) for one block of output."""
    extracted = hmac.digest(salt, key, "sha256")
    return hmac.digest(extracted, b"tactful/1 " + purpose + b"\x01", "sha256")


def row_plaintext(kind: int, written_at: int, text: bytes, capacity: int) -> bytes:
    """§3."""
    padding = bytes(capacity - len(text))
    return u(kind, 1) + u(written_at, 8) + u(len(text), 2) + text + padding


def row(
    key: bytes,
    key_id: bytes,
    store_id: bytes,
    position: int,
    version: int,
    nonce: bytes,
    plaintext: bytes,
) -> bytes:
    """A sealed row around any plaintext, also one that no writer makes (§3)."""
    aad = store_id + u(position, 4) + u(version, 8) + key_id
    return seal(derive(key, b"rows", store_id), nonce, plaintext, aad)


def root(key: bytes, store_id: bytes, version: int, parts: Sequence[bytes]) -> bytes:
    """§4; `parts` are the layout's fingerprint and the sealed rows."""
    digests = b"".join(hashlib.sha256(part).digest() for part in parts)
    return hmac.digest(derive(key, b"root", store_id), u(version, 8) + digests, "sha256")


def witness(key: bytes, store_id: bytes, version: int, name: str) -> bytes:
    """§4; `name` is that of the machine."""
    parts = [b"witness", machine(store_id, name).encode()]
    return u(version, 8) + root(key, store_id, version, parts)


def entry_plaintext(record: bytes) -> bytes:
    """§5."""
    used = 4 + len(record)
    return u(len(record), 4) + record + bytes(-used % 1024)


def entry(
    key: bytes,
    key_id: bytes,
    store_id: bytes,
    sequence: int,
    previous: bytes,
    nonce: bytes,
    plaintext: bytes,
) -> bytes:
    """A sealed ledger entry around any plaintext (§5)."""
    aad = store_id + key_id + u(sequence, 8) + previous
    return seal(derive(key, b"ledger", store_id), nonce, plaintext, aad)


def turn(
    key: bytes, key_id: bytes, store_id: bytes, number: int, nonce: bytes, plaintext: bytes
) -> bytes:
    """A sealed turn of released history around any plaintext (§9)."""
    aad = store_id + key_id + u(number, 8)
    return seal(derive(key, b"history", store_id), nonce, plaintext, aad)


def mark(key: bytes, key_id: bytes, store_id: bytes, nonce: bytes, record: bytes) -> bytes:
    """A sealed high-water mark (§8)."""
    return entry(key, key_id, store_id, 0, bytes(32), nonce, entry_plaintext(record))


def machine(store_id: bytes, name: str) -> str:
    """§8."""
    return hashlib.sha256(store_id + name.encode()).hexdigest()


def wrap(
    kek: bytes, key: bytes, purpose: bytes, store_id: bytes, key_id: bytes, nonce: bytes
) -> bytes:
    """A wrapped key (§6); the master key has no id."""
    return seal(kek, nonce, key, b"tactful/1 wrap " + purpose + store_id + key_id)


def key_file(master: bytes, nonce: bytes, contents: dict[str, object]) -> bytes:
    """The whole file around its fields, which it seals (§6)."""
    body = json.dumps(contents, separators=(",", ":"), ensure_ascii=False).encode()
    sealed = {**contents, "seal": seal(master, nonce, b"", b"tactful/1 key file " + body).hex()}
    return json.dumps(sealed, indent=2, ensure_ascii=False).encode() + b"\n"


def kek_from_passphrase(
    passphrase: str, salt: bytes, iterations: int, lanes: int, memory_kib: int
) -> bytes:
    """§6."""
    return Argon2id(
        salt=salt, length=32, iterations=iterations, lanes=lanes, memory_cost=memory_kib
    ).derive(passphrase.encode())


def backup(
    *,
    lock: int,
    secret_key: bytes,
    parameters: tuple[bytes, int, int, int],
    lock_key: bytes,
    backup_key: bytes,
    store_id: bytes,
    nonces: Sequence[bytes],
    content: bytes,
    version: int = 1,
) -> bytes:
    """A whole backup (§10); `parameters` are salt, iterations, lanes and KiB.

    The nonces are those of `locked`, `wrapped`, and each chunk.
    """
    salt, iterations, lanes, memory_kib = parameters
    name = {1: b"passphrase", 2: b"recovery"}[lock]
    start = b"tactful backup" + u(version, 2) + u(lock, 1) + u(len(content), 8) + store_id
    start += u(iterations, 4) + u(lanes, 4) + u(memory_kib, 4)
    start += u(len(salt), 1) + salt + bytes(64 - len(salt))
    locked = seal(secret_key, nonces[0], lock_key, b"tactful/1 wrap " + name + store_id)
    said = start + locked
    said += seal(lock_key, nonces[1], backup_key, b"tactful/1 wrap backup" + start)
    header = said + hashlib.sha256(said).digest()
    context = b"tactful/1 backup chunk" + hashlib.sha256(header).digest()
    pieces = [content[at : at + 65536] for at in range(0, len(content), 65536)]
    return header + b"".join(
        seal(
            backup_key, nonces[2 + index], piece, context + u(index, 8) + u(piece is pieces[-1], 1)
        )
        for index, piece in enumerate(pieces)
    )
