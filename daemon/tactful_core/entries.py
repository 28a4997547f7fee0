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
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NewType

from tactful_core.errors import CoreError
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
    """

    id: EntryId
    epoch: int
    period: int


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


Entry = EpochOpened | Charge | ViewReleased | UnprotectedRead

_KINDS: Mapping[str, type[Entry]] = {
    "epoch_opened": EpochOpened,
    "charge": Charge,
    "view_released": ViewReleased,
    "unprotected_read": UnprotectedRead,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode(entry: Entry) -> bytes:
    """Canonical JSON (sorted keys, sorted sets, no white space), UTF-8."""
    record: dict[str, object] = {"kind": _NAMES[type(entry)]}
    for each in fields(entry):
        value = getattr(entry, each.name)
        record[each.name] = sorted(value) if isinstance(value, frozenset) else value
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def decode(data: bytes) -> Entry:
    """The entry that `encode` made these bytes from.

    Raises:
        UnreadableEntry: anything else.
    """
    try:
        record = json.loads(data)
        kind = _KINDS[record["kind"]]
        values: dict[str, Any] = {
            each.name: _READERS[each.name](record[each.name]) for each in fields(kind)
        }
        entry = kind(**values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise UnreadableEntry("A ledger entry could not be read.") from problem
    if encode(entry) != data:
        raise UnreadableEntry("A ledger entry is not in its canonical form.")
    return entry


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("not a positive whole number")
    return value


def _period(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("not a whole number")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("not a name")
    return value


_READERS: Mapping[str, Callable[[object], object]] = {
    "id": _name,
    "epoch": _count,
    "period": _period,
    "charge": _name,
    "app": _name,
    "slot": _name,
    "mechanism": lambda value: Mechanism(_name(value)),
    "positions": lambda value: frozenset(_count(p) for p in _list(value)),
    "charged": lambda value: frozenset(_name(a) for a in _list(value)),
    "candidates": lambda value: tuple(_name(v) for v in _list(value)),
    "view": _name,
    "units": _count,
    "policy": _name,
}
"""How each field is read, whatever entry it is in; one name means one thing."""
