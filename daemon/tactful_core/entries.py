"""Ledger entries: what was released, written once and never changed.

Decides the closed set of kinds and their canonical bytes. What is *not* here: what entries add up
to (`ledger`), sealing and chaining them (`sealing`), storing them (`tactfuld.store`).

Invariants:

- the set of kinds is closed: bytes of an unknown kind, with a missing or an extra field, raise
  `UnreadableEntry`, and whoever reads a ledger then treats every attribute as exhausted;
- an entry holds public input, charges and released views; never a score or any content;
- every entry has an id of its own, so that copies of one ledger can be united (`ledger.united`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any, NewType

from tactful_core.errors import CoreError
from tactful_core.fusion import FusionParameters
from tactful_core.values import AppId, AttributeName, Position, SlotName, Units, ViewName

EntryId = NewType("EntryId", str)
"""32 hexadecimal digits, random."""


def new_entry_id() -> EntryId:
    """A fresh id."""
    return EntryId(secrets.token_hex(16))


class UnreadableEntry(CoreError):
    """Bytes that are no entry of this version: the ledger cannot be trusted as it is."""


class Mechanism(StrEnum):
    """How a view was drawn; the words of the policy."""

    EXPONENTIAL = "exponential"
    WEIGHTED_EXPONENTIAL = "weighted_exponential"
    PERMUTE_AND_FLIP = "permute_and_flip"
    RANDOMIZED_RESPONSE = "randomized_response"


@dataclass(frozen=True, slots=True)
class EpochOpened:
    """A new span for which caps are promised.

    Attributes:
        epoch: numbered from 1, without gaps.
        period: which calendar period it was opened for (`tactfuld.epochs`); never goes back, so a
            clock that does cannot open a period twice.
        fusion: what every draw of fused text in the epoch is made with; none is where it is `None`.
    """

    id: EntryId
    epoch: int
    period: int
    fusion: FusionParameters | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    """One admitted release, written before it is drawn.

    Attributes:
        positions: the read set `R`.
        charged: the charge set `Γ ⊇ Γ*(R)` at the time.
        units: what each attribute in `charged` pays.
        policy: digest of the policy in force.
    """

    id: EntryId
    epoch: int
    app: AppId
    slot: SlotName
    mechanism: Mechanism
    positions: frozenset[Position]
    charged: frozenset[AttributeName]
    units: Units
    policy: str


@dataclass(frozen=True, slots=True)
class ViewReleased:
    """The view that a charge bought, kept so that it can be used again (GUARANTEE §3).

    Attributes:
        charge: the id of the charge that paid for it.
        candidates: one view of each group it was drawn from; the last one stands for every view
            that is not named before it.
        units: epsilon of the mechanism, for the public belief.
    """

    id: EntryId
    epoch: int
    charge: EntryId
    slot: SlotName
    mechanism: Mechanism
    candidates: tuple[ViewName, ...]
    view: ViewName
    units: Units


@dataclass(frozen=True, slots=True)
class UnprotectedRead:
    """A view chosen without noise from shelves that the owner declared unprotected.

    For an attribute that comes to cover one of `positions` later, its loss is infinite.
    """

    id: EntryId
    epoch: int
    app: AppId
    slot: SlotName
    positions: frozenset[Position]
    policy: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One private context of fused text.

    Attributes:
        positions: what it reveals.
        charged: the attributes that pay for it, `⊇ Γ*(positions)`.
    """

    positions: frozenset[Position]
    charged: frozenset[AttributeName]


@dataclass(frozen=True, slots=True)
class FusedReserved:
    """Admits up to `draws` draws from `P = q + Σ λ_i (p_i − q)`, written before the first.

    All of it counts as spent until `FusedSettled` says how many were made, and for ever where
    nothing does (GUARANTEE C5).

    Attributes:
        slots: whose positions the cells are made of.
        cells: one for each `p_i`; no two share a position.
        unprotected: positions whose contents stand in `q`.
        policy: digest of the policy in force.
    """

    id: EntryId
    epoch: int
    app: AppId
    slots: frozenset[SlotName]
    cells: tuple[Cell, ...]
    unprotected: frozenset[Position]
    draws: int
    policy: str


@dataclass(frozen=True, slots=True)
class FusedSettled:
    """How many draws a reservation came to, with the first, the last and discarded ones.

    Draws that were publicly skipped (`λ = 0`, decided on `q` alone) are free and not counted.
    """

    id: EntryId
    epoch: int
    reservation: EntryId
    draws: int


Entry = EpochOpened | Charge | ViewReleased | UnprotectedRead | FusedReserved | FusedSettled

_KINDS: Mapping[str, type[Entry]] = {
    "epoch_opened": EpochOpened,
    "charge": Charge,
    "view_released": ViewReleased,
    "unprotected_read": UnprotectedRead,
    "fused_reserved": FusedReserved,
    "fused_settled": FusedSettled,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    CoreError,
)
"""What reading bytes that are no entry may raise."""


def encode(entry: Entry) -> bytes:
    """Canonical JSON (sorted keys, sorted sets, no white space), UTF-8; what is `None` is left out.

    Leaving it out keeps the bytes of entries that were written before there was such a field.
    """
    record = {"kind": _NAMES[type(entry)], **_record(entry)}
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def _record(values: Entry | Cell) -> dict[str, object]:
    found = {each.name: getattr(values, each.name) for each in fields(values)}
    return {name: _written(value) for name, value in found.items() if value is not None}


def _written(value: object) -> object:
    match value:
        case frozenset():
            return sorted(value)
        case tuple():
            return [_written(each) for each in value]
        case Cell():
            return _record(value)
        case FusionParameters():
            alpha, limit, divergence = value.steps
            return {"alpha": alpha, "limit": limit, "divergence": divergence}
        case _:
            return value


def decode(data: bytes) -> Entry:
    """The entry that `encode` made these bytes from.

    Raises:
        UnreadableEntry: anything else.
    """
    try:
        record = json.loads(data)
        kind = _KINDS[record["kind"]]
        entry: Entry = _read(kind, record)
    except _UNREADABLE as problem:
        raise UnreadableEntry("A ledger entry could not be read.") from problem
    if encode(entry) != data:
        raise UnreadableEntry("A ledger entry is not in its canonical form.")
    return entry


def _read(kind: type[Any], record: object) -> Any:
    """The value of this dataclass; a field that it has a default for may be left out."""
    if not isinstance(record, dict):
        raise TypeError("not an object")
    values = {
        each.name: _READERS[each.name](record[each.name])
        for each in fields(kind)
        if each.name in record or each.default is MISSING
    }
    return kind(**values)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("not a positive whole number")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("not a whole number")
    return value


def _parameters(value: object) -> FusionParameters:
    if not isinstance(value, dict) or value.keys() != {"alpha", "limit", "divergence"}:
        raise TypeError("not parameters of fusion")
    return FusionParameters.in_steps(
        _count(value["alpha"]), _count(value["limit"]), _count(value["divergence"])
    )


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("not a name")
    return value


def _names(value: object) -> frozenset[str]:
    return frozenset(_name(each) for each in _list(value))


def _positions(value: object) -> frozenset[int]:
    return frozenset(_count(each) for each in _list(value))


_READERS: Mapping[str, Callable[[object], object]] = {
    "id": _name,
    "epoch": _count,
    "period": _whole,
    "fusion": _parameters,
    "charge": _name,
    "reservation": _name,
    "app": _name,
    "slot": _name,
    "mechanism": lambda value: Mechanism(_name(value)),
    "slots": _names,
    "cells": lambda value: tuple(_read(Cell, cell) for cell in _list(value)),
    "positions": _positions,
    "unprotected": _positions,
    "charged": _names,
    "draws": _whole,
    "candidates": lambda value: tuple(_name(v) for v in _list(value)),
    "view": _name,
    "units": _count,
    "policy": _name,
}
"""How each field is read, whatever entry it is in; one name means one thing."""
