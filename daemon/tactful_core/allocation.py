"""Allocation rules: what one release may cost, and when none is needed (GUARANTEE §3).

Decides epsilon, candidates and reuse from public input, charges and released views alone (C4). What
is *not* here: whether a charge still fits (`ledger`), and the draw (`selection`).

| rule | what a release of a slot costs | how often |
| --- | --- | --- |
| `Online` | `min_{a ∈ Γ} B_a / K` | each turn, until a cap is reached |
| `Preallocated` | `min_{a ∈ Γ} B_a / C_a`, with `C_a` charges planned for `a` | each turn |
| `Standing` | `min_{a ∈ Γ} share(a, slot) / releases` | `releases` times an epoch, then free |

`Standing` (ours): a released view belongs to the released history, so using it again is
post-processing and costs nothing (C3). Each slot has a share of every cap that it can be charged
to, by the policy's weights, so the slot that is asked first does not starve the others.

Invariants:

- units are divided rounding down, so planned charges never exceed a cap, and up to 16 of them fill
  a cap with up to three decimals exactly;
- nothing here knows a score, contents of memory, or a query of another app.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tactful_core.errors import ContractError
from tactful_core.layout import Attribute, Layout, Slot
from tactful_core.values import AttributeName, SlotName, Units

MOST_CHARGES = 16
"""So many planned charges are sure to fill a cap exactly."""


@dataclass(frozen=True, slots=True)
class Online:
    """`K` charges fill the smallest cap; the same number for every slot."""

    charges_per_cap: int

    def __post_init__(self) -> None:
        _require_count(self.charges_per_cap, "charges_per_cap")

    def part(self, attribute: Attribute, slot: Slot, payers: Sequence[Slot]) -> int:
        """What one release of `slot` may cost `attribute`, in units."""
        return attribute.cap // self.charges_per_cap


@dataclass(frozen=True, slots=True)
class Preallocated:
    """`C_a` charges are planned for each attribute beforehand, from public input."""

    planned: Mapping[AttributeName, int]

    def __post_init__(self) -> None:
        for name, count in self.planned.items():
            _require_count(count, f"planned.{name}")

    def part(self, attribute: Attribute, slot: Slot, payers: Sequence[Slot]) -> int:
        """What one release of `slot` may cost `attribute`, in units."""
        if attribute.name not in self.planned:
            raise ContractError(f"No number of charges is planned for {attribute.name}.")
        return attribute.cap // self.planned[attribute.name]


@dataclass(frozen=True, slots=True)
class Standing:
    """Spend much once for a slot, then reuse what was released for the rest of the epoch.

    Attributes:
        candidates: how many groups of views a release chooses from; a public set (`standing`).
        releases: how many releases of a slot its share is divided into.
        weights: the parts in which slots share a cap; 1 where a slot is not named.
    """

    candidates: int = 2
    releases: int = 1
    weights: Mapping[SlotName, int] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        _require_count(self.releases, "releases")
        if self.candidates < 2:
            raise ContractError("A release chooses from at least two candidates.")
        for name, weight in self.weights.items():
            _require_count(weight, f"weights.{name}")

    def part(self, attribute: Attribute, slot: Slot, payers: Sequence[Slot]) -> int:
        """What one release of `slot` may cost `attribute`, in units; `payers` share its cap."""
        total = sum(self.weights.get(each.name, 1) for each in payers if each.name != slot.name)
        own = self.weights.get(slot.name, 1)
        return attribute.cap * own // ((total + own) * self.releases)


Allocation = Online | Preallocated | Standing


def release_epsilon(
    allocation: Allocation,
    layout: Layout,
    slot: Slot,
    charge_set: Iterable[AttributeName],
    charge_also: Mapping[SlotName, frozenset[AttributeName]] = MappingProxyType({}),
) -> Units:
    """What one release of a slot costs each attribute of its charge set.

    Args:
        charge_also: attributes that slots are charged to beyond `Γ*`; such slots share their caps.

    Raises:
        ContractError: the charge set is empty (nothing may be read then), or a cap is too small to
            be divided.
    """
    parts = [
        allocation.part(attribute, slot, _payers(layout, attribute, charge_also))
        for attribute in map(layout.attribute, charge_set)
    ]
    if not parts:
        raise ContractError("An empty charge set has no epsilon: nothing may be read.")
    if min(parts) < 1:
        raise ContractError("A cap divided by the planned charges must be at least one unit.")
    return Units(min(parts))


def _payers(
    layout: Layout, attribute: Attribute, charge_also: Mapping[SlotName, frozenset[AttributeName]]
) -> tuple[Slot, ...]:
    """The slots whose releases can be charged to an attribute."""
    return tuple(
        slot
        for slot in layout.slots
        if not attribute.positions.isdisjoint(slot.positions)
        or attribute.name in charge_also.get(slot.name, frozenset())
    )


def _require_count(count: int, name: str) -> None:
    if not 1 <= count <= MOST_CHARGES:
        raise ContractError(f"{name} must be between 1 and {MOST_CHARGES}.")
