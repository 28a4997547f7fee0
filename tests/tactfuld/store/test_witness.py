"""The witness says which version memory had, or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tactfuld.store import samples
from tests.vectors import reference

from tactful_core.sealing import RowSealer
from tactful_core.values import Secret
from tactfuld.store import mark
from tactfuld.store.witness import WITNESS_FILE, WitnessFile

STORE = samples.keys().store_id
VECTORS: dict[str, Any] = json.loads(
    (Path(reference.__file__).parent / "witnesses.json").read_text(encoding="ascii")
)


def sealer(key: bytes = b"M", store: bytes = STORE) -> RowSealer:
    return RowSealer(Secret(key * 32), b"m" * 16, store, 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / WITNESS_FILE


@pytest.mark.parametrize("version", [1, 2, 2**40])
def test_it_says_what_was_written_last(path: Path, version: int) -> None:
    witness = WitnessFile(path, STORE)
    assert witness.read(sealer()) is None
    witness.write(7, sealer())
    witness.write(version, sealer())
    assert WitnessFile(path, STORE).read(sealer()) == version
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == [WITNESS_FILE]


@pytest.fixture
def of_vectors(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[WitnessFile, RowSealer]:
    """A witness on the machine of the vectors, and what it is made with."""
    machine = tmp_path / "machine-id"
    machine.write_text(f"{VECTORS['machine_name']}\n")
    monkeypatch.setattr(mark, "_MACHINE_FILES", (machine,))
    key, key_id, store = (bytes.fromhex(VECTORS[name]) for name in ("key", "key_id", "store_id"))
    return WitnessFile(path, store), RowSealer(Secret(key), key_id, store, 0)


@pytest.mark.parametrize("vector", VECTORS["open"], ids=lambda vector: vector["name"])
def test_vector_opens_and_is_what_is_written(
    of_vectors: tuple[WitnessFile, RowSealer], path: Path, vector: dict[str, Any]
) -> None:
    witness, maker = of_vectors
    content, version = bytes.fromhex(vector["witness"]), vector["version"]
    path.write_bytes(content)
    assert witness.read(maker) == version
    key, store = bytes.fromhex(VECTORS["key"]), bytes.fromhex(VECTORS["store_id"])
    assert content == reference.witness(key, store, version, VECTORS["machine_name"])
    witness.write(version, maker)
    assert path.read_bytes() == content


@pytest.mark.parametrize("vector", VECTORS["fail"], ids=lambda vector: vector["name"])
def test_vector_that_must_fail_says_nothing(
    of_vectors: tuple[WitnessFile, RowSealer], path: Path, vector: dict[str, Any]
) -> None:
    witness, maker = of_vectors
    path.write_bytes(bytes.fromhex(vector["witness"]))
    assert witness.read(maker) is None


def test_every_bit_counts(path: Path) -> None:
    WitnessFile(path, STORE).write(9, sealer())
    content = path.read_bytes()
    for index in range(8 * len(content)):
        changed = bytearray(content)
        changed[index // 8] ^= 1 << index % 8
        path.write_bytes(changed)
        assert WitnessFile(path, STORE).read(sealer()) is None
    for length in (*range(len(content)), len(content) + 1):
        path.write_bytes((content + b"x")[:length])
        assert WitnessFile(path, STORE).read(sealer()) is None


def test_that_of_another_key_store_or_machine_says_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WitnessFile(path, STORE).write(9, sealer())
    assert WitnessFile(path, STORE).read(sealer(b"N")) is None
    assert WitnessFile(path, b"T" * 16).read(sealer(store=b"T" * 16)) is None
    monkeypatch.setattr(mark, "_MACHINE_FILES", ())
    monkeypatch.setattr(mark, "_network_name", lambda: "0x1")
    assert WitnessFile(path, STORE).read(sealer()) is None


def test_it_goes_from_one_key_to_the_next_and_what_is_not_trusted_stays(path: Path) -> None:
    witness = WitnessFile(path, STORE)
    witness.write(9, sealer())
    witness.reseal(sealer(), sealer(b"N"))
    assert witness.read(sealer(b"N")) == 9
    before = path.read_bytes()
    witness.reseal(sealer(), sealer(b"O"))
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_read_says_nothing(path: Path) -> None:
    path.mkdir()
    assert WitnessFile(path, STORE).read(sealer()) is None
