"""The high-water mark: what the ledger had come to, kept outside of its database.

Decides whether a ledger is the newest that this machine has written. What is *not* here: what
follows from an older one (`tactful_core.ledger.Ledger.not_below`).

The mark lies in the state folder, sealed under the ledger's key (SPEC §6), and names the machine.
It is replaced after each durable charge by one rename, without waiting for the disk: that is enough
against an old `ledger.db` put back, and a charge does not pay for two disk writes.

Invariants:

- a mark that is missing, unreadable or of another machine is `None`: what was spent is not known,
  so whoever opens the ledger treats everything as exhausted until the next epoch;
- errors never carry what a mark holds.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful_core.errors import SealError
from tactful_core.ledger import Mark
from tactful_core.sealing import ChainSealer
from tactful_core.values import AttributeName, Units

MARK_FILE = "ledger.mark"

_MACHINE_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_LARGEST = 1024 * 1024

_Count = Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    machine: str
    sequence: _Count
    epoch: _Count
    settled: dict[str, _Count]
    lifetime: dict[str, _Count]


class MarkFile:
    """The mark of one ledger in a file. Reading and writing block for a moment."""

    def __init__(self, path: Path, sealer: ChainSealer, machine: str) -> None:
        """`machine` names this machine (`machine_name`)."""
        self._path = path
        self._sealer = sealer
        self._machine = machine

    def read(self) -> Mark | None:
        """The mark that was written last on this machine; `None` where there is none to trust."""
        try:
            with self._path.open("rb") as file:
                sealed = file.read(_LARGEST)
            data = self._sealer.open(sealed, 0, ChainSealer.FIRST)
            record = _Record.model_validate_json(data)
        except (OSError, SealError, ValidationError):
            return None
        if record.machine != self._machine:
            return None
        return Mark(record.sequence, record.epoch, _units(record.settled), _units(record.lifetime))

    def write(self, mark: Mark) -> None:
        """Replaces the mark; `OSError` if the operating system refuses."""
        record = _Record(
            machine=self._machine,
            sequence=mark.sequence,
            epoch=mark.epoch,
            settled={str(name): units for name, units in mark.settled.items()},
            lifetime={str(name): units for name, units in mark.lifetime.items()},
        )
        sealed = self._sealer.seal(record.model_dump_json().encode(), 0, ChainSealer.FIRST)
        beside = self._path.with_name(f"{self._path.name}.new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(sealed)
        beside.replace(self._path)


def machine_name(store_id: bytes) -> str:
    """Names this machine to this store, and to nobody else."""
    known = next((text for path in _MACHINE_FILES if (text := _text(path))), hex(uuid.getnode()))
    return hashlib.sha256(store_id + known.encode()).hexdigest()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _units(amounts: dict[str, int]) -> MappingProxyType[AttributeName, Units]:
    return MappingProxyType({AttributeName(name): Units(n) for name, n in amounts.items()})
