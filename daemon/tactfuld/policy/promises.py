"""From a validated policy document to the promises that the trusted base keeps.

Decides how positions are numbered, what each attribute's index set is, and what identifies a
version of the policy. What is *not* here: whether the document makes sense (`document`,
`references`).

Invariants:

- positions are `1..n` in the order of the file, slots first, then their shelves;
- the generic view comes first in every vocabulary, wherever the file has it;
- nothing is granted that the document does not list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from itertools import count, islice
from types import MappingProxyType

from tactful_core.allocation import Allocation, Online, Preallocated, Standing
from tactful_core.entries import Mechanism
from tactful_core.layout import GENERIC, Attribute, Layout, ReadRule, Shelf, Slot, View
from tactful_core.promises import EpochRule, Grant, Privacy, Promises, Renewal
from tactful_core.values import (
    AppId,
    AttributeName,
    Position,
    ShelfName,
    SlotName,
    ViewName,
    units_from_epsilon,
)
from tactfuld.policy.document import (
    AllocationPart,
    AppPart,
    AttributePart,
    EpochPart,
    PolicyDocument,
    PrivacyPart,
    SlotPart,
    ViewsPart,
)


def promises_of(document: PolicyDocument) -> Promises:
    """The promises of a document in which `references` found nothing wrong."""
    numbers = count(1)
    slots = tuple(_slot(name, part, numbers) for name, part in document.slots.items())
    attributes = tuple(_attribute(n, part, slots) for n, part in document.attributes.items())
    return Promises(
        layout=Layout(slots, attributes),
        allocation=_allocation(document.allocation, attributes),
        mechanism=Mechanism(document.selection.mechanism),
        grants=tuple(_grant(name, part) for name, part in document.apps.items()),
        digest=digest_of(document),
        charge_also=_charge_also(document),
        epochs=_epochs(document.epoch),
        privacy=_privacy(document.privacy),
    )


def digest_of(document: PolicyDocument) -> str:
    """16 hexadecimal digits that name this version of the policy.

    Comments, spacing, quoting and defaults that are written out do not count; everything else does,
    the order of slots and shelves included, because it numbers the positions.
    """
    record = document.model_dump(mode="json") | {
        "allocation": allocation_record(document.allocation)
    }
    canonical = json.dumps(record, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:16]


def allocation_record(part: AllocationPart) -> dict[str, object]:
    """The keys of the rule in force, with those that were left out; equal for rules that are."""
    record: dict[str, object] = part.model_dump(exclude_unset=True)
    if part.mode == "standing":
        rule = Standing()
        weights = {name: weight for name, weight in part.weights.items() if weight != 1}
        record |= {
            "candidates": part.candidates or rule.candidates,
            "releases": part.releases or rule.releases,
            "weights": dict(sorted(weights.items())),
        }
    return dict(sorted(record.items()))


def _allocation(part: AllocationPart, attributes: tuple[Attribute, ...]) -> Allocation:
    match part.mode:
        case "online":
            return Online(part.charges_per_cap)
        case "preallocated":
            return Preallocated(MappingProxyType({a.name: part.planned for a in attributes}))
        case "standing":
            weights = {SlotName(name): weight for name, weight in part.weights.items()}
            return Standing(
                candidates=part.candidates or Standing().candidates,
                releases=part.releases or Standing().releases,
                weights=MappingProxyType(weights),
            )


def _epochs(part: EpochPart) -> EpochRule:
    hours, minutes = part.tick.split(":")
    return EpochRule(Renewal(part.renew), int(hours) * 60 + int(minutes))


def _charge_also(document: PolicyDocument) -> Mapping[SlotName, frozenset[AttributeName]]:
    return MappingProxyType(
        {
            SlotName(name): frozenset(AttributeName(a) for a in part.charge_also)
            for name, part in document.slots.items()
            if part.charge_also
        }
    )


def _slot(name: str, part: SlotPart, numbers: count[int]) -> Slot:
    shelves = tuple(
        Shelf(
            name=ShelfName(f"{name}.{shelf}"),
            positions=tuple(Position(n) for n in islice(numbers, content.positions)),
            tokens=content.tokens,
            unprotected=content.unprotected,
        )
        for shelf, content in part.shelves.items()
    )
    return Slot(
        name=SlotName(name),
        description=part.description,
        shelves=shelves,
        vocabulary=_vocabulary(part.views),
        words=part.router.words,
        never=part.router.never,
        reads=tuple(
            ReadRule(rule.when, tuple(ShelfName(f"{name}.{shelf}") for shelf in rule.shelves))
            for rule in part.reads
        ),
    )


def _vocabulary(views: ViewsPart) -> tuple[View, ...]:
    generic = View(GENERIC, views.generic.guidance)
    others = (
        View(ViewName(name), part.guidance, part.supports, part.examples)
        for name, part in views.named.items()
    )
    return (generic, *others)


def _attribute(name: str, part: AttributePart, slots: tuple[Slot, ...]) -> Attribute:
    positions = frozenset(
        position
        for slot in slots
        for shelf in slot.shelves
        if slot.name in part.implied_by or shelf.name in part.implied_by
        for position in shelf.positions
    )
    fusion = None if part.fusion is None else units_from_epsilon(part.fusion.epsilon)
    return Attribute(AttributeName(name), positions, units_from_epsilon(part.cap), fusion)


def _privacy(part: PrivacyPart | None) -> Privacy | None:
    return None if part is None else Privacy(Fraction(part.delta), part.planned_draws)


def _grant(name: str, part: AppPart) -> Grant:
    quota = {AttributeName(n): units_from_epsilon(share) for n, share in part.quota.items()}
    slots = frozenset(SlotName(slot) for slot in part.slots)
    return Grant(AppId(name), slots, MappingProxyType(quota))
