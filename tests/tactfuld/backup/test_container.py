"""The file of a backup keeps to SPEC.md §10: what must open, what must fail, and as what."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vectors import reference

from tactful.errors import KeyUnavailable, NotFound, TactfulError, Unusable
from tactful_core.sealing import PassphraseParameters
from tactful_core.values import Secret
from tactfuld.backup.container import (
    CHUNK_BYTES,
    HEADER_BYTES,
    SEAL_BYTES,
    OpenedBackup,
    passphrase_locking,
    read_header,
    sealed_backup,
)

VECTORS = json.loads(
    (Path(__file__).parents[2] / "vectors" / "backups.json").read_text(encoding="ascii")
)
STORE = bytes.fromhex(VECTORS["store_id"])
OPEN = Secret("open sesame")
CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)
SEALED_CHUNK = CHUNK_BYTES + SEAL_BYTES


def vectors(kind: str) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS[kind]]


def written(path: Path, content: bytes, pieces: int = 1000) -> Path:
    """A backup of some content, which comes in pieces."""
    parts = [content[at : at + pieces] for at in range(0, len(content), pieces)]
    locking = passphrase_locking(OPEN, CHEAP, STORE)
    path.write_bytes(b"".join(sealed_backup(STORE, locking, len(content), parts)))
    return path


def read(path: Path, secret: Secret[str] = OPEN) -> bytes:
    return b"".join(OpenedBackup.open(path, secret).content(lambda _done, _total: None))


@pytest.mark.parametrize("vector", vectors("open"))
def test_vector_opens_and_is_what_the_specification_says(
    tmp_path: Path, vector: dict[str, Any]
) -> None:
    path = tmp_path / "b"
    path.write_bytes(bytes.fromhex(vector["file"]))
    assert read_header(path).store_id == STORE
    assert read(path, Secret(vector["secret"])) == bytes.fromhex(vector["content"])
    parameters = (
        bytes.fromhex(vector["salt"]),
        vector["iterations"],
        vector["lanes"],
        vector["memory_kib"],
    )
    built = reference.backup(
        lock=vector["lock"],
        secret_key=reference.kek_from_passphrase(vector["secret"], *parameters),
        parameters=parameters,
        lock_key=bytes.fromhex(vector["lock_key"]),
        backup_key=bytes.fromhex(vector["backup_key"]),
        store_id=STORE,
        nonces=tuple(map(bytes.fromhex, vector["nonces"])),
        content=bytes.fromhex(vector["content"]),
    )
    assert built == path.read_bytes()


@pytest.mark.parametrize("vector", vectors("fail"))
def test_vector_fails_as_what_it_is(tmp_path: Path, vector: dict[str, Any]) -> None:
    path = tmp_path / "b"
    path.write_bytes(bytes.fromhex(vector["file"]))
    wrong_secret = vector["says"] == "does not open"
    with pytest.raises(KeyUnavailable if wrong_secret else Unusable, match=vector["says"]) as told:
        read(path, Secret(vector["secret"]))
    assert "Nobody" not in str(told.value)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES]), st.integers(1, 3))
def test_content_of_any_length_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, size: int, more: int
) -> None:
    content = os.urandom(size + more)
    path = written(tmp_path_factory.mktemp("b") / "b", content, pieces=50_000)
    assert read(path) == content
    assert path.stat().st_size == read_header(path).file_size


def test_every_byte_flipped_is_found(tmp_path: Path) -> None:
    """Also those of the header, as what it is: nothing is derived from a damaged one."""
    path = written(tmp_path / "b", b"Nobody may read this.")
    whole, damaged = path.read_bytes(), tmp_path / "damaged"
    for at in range(len(whole)):
        for bit in (0, 7):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            damaged.write_bytes(bytes(changed))
            with pytest.raises(Unusable):
                read(damaged)


def test_every_length_but_the_right_one_is_cut_off(tmp_path: Path) -> None:
    path = written(tmp_path / "b", b"Nobody may read this.")
    whole, cut = path.read_bytes(), tmp_path / "cut"
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        with pytest.raises(Unusable, match="cut off"):
            read(cut)


def swapped(whole: bytes) -> bytes:
    first, second = HEADER_BYTES, HEADER_BYTES + SEALED_CHUNK
    third = second + SEALED_CHUNK
    return whole[:first] + whole[second:third] + whole[first:second] + whole[third:]


def repeated(whole: bytes) -> bytes:
    first, second = HEADER_BYTES, HEADER_BYTES + SEALED_CHUNK
    return whole[:second] + whole[first:second] + whole[second + SEALED_CHUNK :]


def dropped(whole: bytes) -> bytes:
    return whole[:HEADER_BYTES] + whole[HEADER_BYTES + SEALED_CHUNK :]


@pytest.mark.parametrize(
    ("act", "says"), [(swapped, "part 1"), (repeated, "part 2"), (dropped, "cut off")]
)
def test_chunks_that_stand_elsewhere_are_found(
    tmp_path: Path, act: Callable[[bytes], bytes], says: str
) -> None:
    path = written(tmp_path / "b", os.urandom(3 * CHUNK_BYTES), pieces=CHUNK_BYTES)
    path.write_bytes(act(path.read_bytes()))
    with pytest.raises(Unusable, match=says):
        read(path)


def test_the_chunks_of_one_backup_do_not_open_in_another(tmp_path: Path) -> None:
    one = written(tmp_path / "one", bytes(2 * CHUNK_BYTES), pieces=CHUNK_BYTES).read_bytes()
    other = written(tmp_path / "other", bytes(2 * CHUNK_BYTES), pieces=CHUNK_BYTES)
    other.write_bytes(other.read_bytes()[:HEADER_BYTES] + one[HEADER_BYTES:])
    with pytest.raises(Unusable, match="part 1 of 2"):
        read(other)


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(NotFound, match="no file"):
            read_header(path)


def test_no_error_has_a_cause_with_the_secret(tmp_path: Path) -> None:
    path = written(tmp_path / "b", b"x")
    with pytest.raises(TactfulError) as told:
        read(path, Secret("hunter2"))
    assert "hunter2" not in repr(told.value) + repr(told.value.__cause__)
