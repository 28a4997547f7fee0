"""Ledger entries: what was released, written once and never changed.

Decides the closed set of kinds and their canonical bytes. What is *not* here: what entries add up
to (`ledger`), sealing and chaining them (`sealing`), storing them (`tactfuld.store`).

Invariants:

- the set of kinds is closed: bytes of an unknown kind, with a missing or an extra field, raise
  `UnreadableEntry`, and whoever reads a ledger then treats every attribute as exhausted;
- an entry holds public input and charges; never the drawn view, a score or any content.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from tactful_core.errors import CoreError
from tactful_core.values import AppId, AttributeName, Position, SlotName, Units


class UnreadableEntry(CoreError):
    """Bytes that are no entry of this version: the ledger cannot be trusted as it is."""


class Mechanism(StrEnum):
    """How a view was drawn."""

    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True)
class EpochOpened:
    """A new span for which caps are promised; numbered from 1."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Charge:
    """One admitted release, written before it is drawn.

    Attributes:
        positions: the read set `R`.
        charged: the charge set `Γ ⊇ Γ*(R)` at the time.
        units: what each attribute in `charged` pays.
        policy: digest of the policy in force.
    """

    epoch: int
    app: AppId
    slot: SlotName
    mechanism: Mechanism
    positions: frozenset[Position]
    charged: frozenset[AttributeName]
    units: Units
    policy: str


@dataclass(frozen=True, slots=True)
class UnprotectedRead:
    """A view chosen without noise from shelves that the owner declared unprotected.

    For an attribute that comes to cover one of `positions` later, its loss is infinite.
    """

    epoch: int
    app: AppId
    slot: SlotName
    positions: frozenset[Position]
    policy: str


Entry = EpochOpened | Charge | UnprotectedRead


def encode(entry: Entry) -> bytes:
    """Canonical JSON (sorted keys, no white space), UTF-8."""
    match entry:
        case EpochOpened():
            record: dict[str, object] = {"kind": "epoch_opened", "epoch": entry.epoch}
        case Charge():
            record = {
                "kind": "charge",
                "epoch": entry.epoch,
                "app": entry.app,
                "slot": entry.slot,
                "mechanism": entry.mechanism.value,
                "positions": sorted(entry.positions),
                "charged": sorted(entry.charged),
                "units": entry.units,
                "policy": entry.policy,
            }
        case UnprotectedRead():
            record = {
                "kind": "unprotected_read",
                "epoch": entry.epoch,
                "app": entry.app,
                "slot": entry.slot,
                "positions": sorted(entry.positions),
                "policy": entry.policy,
            }
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def decode(data: bytes) -> Entry:
    """The entry that `encode` made these bytes from.

    Raises:
        UnreadableEntry: anything else.
    """
    try:
        record = json.loads(data)
        entry = _READERS[record["kind"]](record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise UnreadableEntry("A ledger entry could not be read.") from problem
    if encode(entry) != data:
        raise UnreadableEntry("A ledger entry is not in its canonical form.")
    return entry


def _epoch_opened(record: dict[str, object]) -> Entry:
    return EpochOpened(epoch=_count(record["epoch"]))


def _charge(record: dict[str, object]) -> Entry:
    return Charge(
        epoch=_count(record["epoch"]),
        app=AppId(_name(record["app"])),
        slot=SlotName(_name(record["slot"])),
        mechanism=Mechanism(_name(record["mechanism"])),
        positions=frozenset(Position(_count(p)) for p in _list(record["positions"])),
        charged=frozenset(AttributeName(_name(a)) for a in _list(record["charged"])),
        units=Units(_count(record["units"])),
        policy=_name(record["policy"]),
    )


def _unprotected_read(record: dict[str, object]) -> Entry:
    return UnprotectedRead(
        epoch=_count(record["epoch"]),
        app=AppId(_name(record["app"])),
        slot=SlotName(_name(record["slot"])),
        positions=frozenset(Position(_count(p)) for p in _list(record["positions"])),
        policy=_name(record["policy"]),
    )


_READERS = {
    "epoch_opened": _epoch_opened,
    "charge": _charge,
    "unprotected_read": _unprotected_read,
}


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("not a positive whole number")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("not a name")
    return value
