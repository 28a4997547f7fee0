"""The mark keeps to SPEC.md §8, and SPEC.md §5 lists every kind of entry as it is."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.vectors import reference

from tactful_core import entries
from tactful_core.entries import EntryId, Mechanism
from tactful_core.fused_ledger import FusedMark
from tactful_core.ledger import Mark
from tactful_core.sealing import ChainSealer
from tactful_core.values import AttributeName, Position, Secret, Units
from tactfuld.store import mark as mark_module
from tactfuld.store.mark import MarkFile, machine_name

ROOT = Path(__file__).parents[3]
SPEC = (ROOT / "daemon" / "tactful_core" / "SPEC.md").read_text(encoding="utf-8")
VECTORS: dict[str, Any] = json.loads(
    (ROOT / "tests" / "vectors" / "marks.json").read_text(encoding="ascii")
)
KEY, KEY_ID, STORE = (bytes.fromhex(VECTORS[name]) for name in ("key", "key_id", "store_id"))

Vector = dict[str, Any]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MarkFile:
    """A mark on the machine of the vectors."""
    machine = tmp_path / "machine-id"
    machine.write_text(f"{VECTORS['machine_name']}\n")
    monkeypatch.setattr(mark_module, "_MACHINE_FILES", (machine,))
    sealer = ChainSealer(Secret(KEY), KEY_ID, STORE)
    return MarkFile(tmp_path / "ledger.mark", sealer, machine_name(STORE))


def vectors(kind: str) -> list[Any]:
    assert VECTORS[kind]
    return [pytest.param(vector, id=vector["name"]) for vector in VECTORS[kind]]


def fused_of(record: dict[str, Any] | None) -> FusedMark:
    if record is None:
        return FusedMark()
    return FusedMark(
        settled={AttributeName(n): Units(u) for n, u in record["settled"].items()},
        open={
            EntryId(key): {AttributeName(n): Units(u) for n, u in each.items()}
            for key, each in record["open"].items()
        },
        lifetime={AttributeName(n): Units(u) for n, u in record["lifetime"].items()},
        alpha=record["alpha"],
    )


@pytest.mark.parametrize("vector", vectors("open"))
def test_mark_opens_as_the_vector_says(file: MarkFile, tmp_path: Path, vector: Vector) -> None:
    sealed = bytes.fromhex(vector["sealed"])
    (tmp_path / "ledger.mark").write_bytes(sealed)
    record = json.loads(vector["record"])
    assert file.read() == Mark(
        sequence=record["sequence"],
        epoch=record["epoch"],
        settled={AttributeName(n): Units(u) for n, u in record["settled"].items()},
        lifetime={AttributeName(n): Units(u) for n, u in record["lifetime"].items()},
        unprotected=frozenset(Position(p) for p in record["unprotected"]),
        fused=fused_of(record.get("fused")),
    )
    nonce = bytes.fromhex(vector["nonce"])
    assert sealed == reference.mark(KEY, KEY_ID, STORE, nonce, vector["record"].encode())


@pytest.mark.parametrize("vector", vectors("fail"))
def test_mark_that_must_fail_is_no_mark(file: MarkFile, tmp_path: Path, vector: Vector) -> None:
    (tmp_path / "ledger.mark").write_bytes(bytes.fromhex(vector["sealed"]))
    assert file.read() is None


def test_written_mark_has_the_fields_of_the_specification(file: MarkFile, tmp_path: Path) -> None:
    debt = {AttributeName("debt"): Units(7)}
    fused = FusedMark(debt, {EntryId("1" * 32): debt}, debt, alpha=3)
    file.write(Mark(5, 2, debt, {}, frozenset({Position(6)}), fused))
    sealed = (tmp_path / "ledger.mark").read_bytes()
    record = json.loads(ChainSealer(Secret(KEY), KEY_ID, STORE).open(sealed, 0, ChainSealer.FIRST))
    section = SPEC[SPEC.index("## 8. ") : SPEC.index("## 9. ")]
    assert list(record) == re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert record["machine"] == reference.machine(STORE, VECTORS["machine_name"])


def test_every_kind_of_entry_is_specified_with_its_fields() -> None:
    section = SPEC[SPEC.index("## 5. ") : SPEC.index("## 6. ")]
    rows = re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|$", section, re.MULTILINE)
    specified = {kind: re.findall(r"`(\w+)`", names) for kind, names in rows}
    assert specified == {
        name: [field.name for field in fields(kind)] for name, kind in entries._KINDS.items()
    }
    first_cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section, re.MULTILINE)
    described = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert {name for names in specified.values() for name in names} <= described
    assert all(f"`{mechanism}`" in section for mechanism in Mechanism)
