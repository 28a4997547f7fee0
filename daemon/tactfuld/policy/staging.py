"""What of a changed policy file holds when: at once, at the next tick, in the next epoch.

Decides between the policy in force and the one that the owner wrote. What is *not* here: when ticks
and epochs are (`tactfuld.epochs`), and what was in force before a restart (`record`).

| part of the policy                                      | narrower, tighter | wider, looser |
| ------------------------------------------------------- | ----------------- | ------------- |
| `apps`: all that is granted, and quotas                 | at once           | next tick     |
| `attributes`: listed, `cap`, `implied_by`, `fusion`     | next tick         | next epoch    |
| `privacy.delta`                                         | next tick         | next epoch    |
| `charge_also`; the word `unprotected`                   | next tick         | next epoch    |
| `epoch.renew`: seldomer, more often                     | next tick         | next epoch    |
| `epoch.tick`                                            | next tick         | next tick     |
| all the rest: views, descriptions, mechanism, allocation | next epoch       | next epoch    |
| shelves, their positions and tokens                     | `memory migrate`  | likewise      |

A grant or a quota shares what the caps allow among apps, which may tell each other everything; so a
wider one loosens no promise (GUARANTEE §3). A key that is not in the table waits for an epoch: what
a later version of the language adds is never loosened by having been forgotten here.

Invariants, within an epoch, whatever the owner writes in whatever order:

- no cap, price of fused text or delta grows, no index set and no charge set loses anything, no
  attribute goes, no shelf becomes unprotected, no release costs more; so `L_a ≤` the smallest cap
  that was in force and not spent;
- a file whose shelves are others changes nothing but what it takes away from apps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TypeVar

from pydantic import BaseModel

from tactfuld.policy.document import (
    AppPart,
    AttributePart,
    EpochPart,
    FusionPart,
    PolicyDocument,
    PrivacyPart,
    ShelfPart,
    SlotPart,
)
from tactfuld.policy.fusion import is_reachable

M = TypeVar("M", bound=BaseModel)
V = TypeVar("V")

_SELDOMER = ("weekly", "monthly", "manual")
"""How often epochs begin by themselves, most often first."""


def narrowed(in_force: PolicyDocument, wanted: PolicyDocument) -> PolicyDocument:
    """What holds at once: the policy in force without what `wanted` takes away from apps."""
    apps = {
        name: _less(app, wanted.apps[name], in_force.attributes)
        for name, app in in_force.apps.items()
        if name in wanted.apps
    }
    return _changed(in_force, "apps", apps)


def tightened(in_force: PolicyDocument, wanted: PolicyDocument) -> PolicyDocument:
    """What holds from the next tick on, within the same epoch."""
    if shelves_of(in_force) != shelves_of(wanted):
        return narrowed(in_force, wanted)
    return _composed(in_force, wanted, in_force)


def renewed(in_force: PolicyDocument, wanted: PolicyDocument) -> PolicyDocument:
    """What holds in a new epoch: all that was written, unless its shelves are others."""
    if shelves_of(in_force) != shelves_of(wanted):
        return narrowed(in_force, wanted)
    return wanted


def rehoused(in_force: PolicyDocument, wanted: PolicyDocument) -> PolicyDocument:
    """What is in force after memory was moved to the shelves of `wanted`, in the same epoch."""
    return _composed(in_force, wanted, wanted)


def shelves_of(document: PolicyDocument) -> tuple[tuple[str, str, int, int], ...]:
    """What rows of memory depend on: the shelves in order, their positions and capacities."""
    return tuple(
        (slot, name, shelf.positions, shelf.tokens)
        for slot, part in document.slots.items()
        for name, shelf in part.shelves.items()
    )


def differing(before: PolicyDocument, after: PolicyDocument) -> tuple[str, ...]:
    """The dotted keys in which two policies differ, each as far up as it is there in one only."""
    return tuple(_differences(before.model_dump(), after.model_dump(), ""))


def _composed(
    in_force: PolicyDocument, wanted: PolicyDocument, housing: PolicyDocument
) -> PolicyDocument:
    """The tighter of both in every respect, on the slots of `housing`."""
    places = _places(housing)
    attributes = {
        name: each
        for name in _either(in_force.attributes, wanted.attributes)
        if (each := _both(in_force.attributes.get(name), wanted.attributes.get(name), places))
    }
    covered = {place for each in attributes.values() for place in each.implied_by}
    slots = {
        name: _slot(name, slot, in_force.slots.get(name), wanted.slots[name], attributes, covered)
        for name, slot in housing.slots.items()
    }
    apps = {
        name: _shared(app, name, in_force, wanted, slots, attributes)
        for name, app in wanted.apps.items()
    }
    composed = _changed(in_force, "attributes", attributes)
    composed = _changed(composed, "slots", slots)
    composed = _changed(composed, "apps", apps)
    composed = _changed(composed, "epoch", _epoch(in_force.epoch, wanted.epoch))
    composed = _reachable(_changed(composed, "privacy", _privacy(in_force, wanted)))
    weights = {name: w for name, w in in_force.allocation.weights.items() if name in slots}
    return _changed(composed, "allocation", _changed(in_force.allocation, "weights", weights))


def _both(
    mine: AttributePart | None, theirs: AttributePart | None, places: frozenset[str]
) -> AttributePart | None:
    """An attribute under the smaller cap, implied by what either says; `None` if by nothing."""
    parts = [part for part in (mine, theirs) if part is not None]
    fusion = _fusion(mine, theirs)
    implied = tuple(
        place for place in _either(*(part.implied_by for part in parts)) if place in places
    )
    if not implied:
        return None
    whole = _changed(parts[0], "cap", min(part.cap for part in parts))
    return _changed(_changed(whole, "implied_by", implied), "fusion", fusion)


def _fusion(mine: AttributePart | None, theirs: AttributePart | None) -> FusionPart | None:
    """The smaller price of fused text; none that an epoch was not calibrated for."""
    if mine is None or mine.fusion is None or theirs is None:
        return None if mine is None else mine.fusion
    if theirs.fusion is None:
        return None
    return min(mine.fusion, theirs.fusion, key=lambda part: part.epsilon)


def _privacy(in_force: PolicyDocument, wanted: PolicyDocument) -> PrivacyPart | None:
    """The smaller delta; an epoch is calibrated once, so the draws planned for it stay."""
    mine, theirs = in_force.privacy, wanted.privacy
    if mine is None or theirs is None:
        return mine
    return _changed(mine, "delta", min(mine.delta, theirs.delta))


def _reachable(document: PolicyDocument) -> PolicyDocument:
    """Without fused text where its smaller price at the smaller delta cannot be promised."""
    privacy = document.privacy
    if privacy is None:
        return document
    attributes = {
        name: each
        if each.fusion is None
        or is_reachable(each.fusion.epsilon, privacy.delta, privacy.planned_draws)
        else _changed(each, "fusion", None)
        for name, each in document.attributes.items()
    }
    return _changed(document, "attributes", attributes)


def _slot(
    name: str,
    slot: SlotPart,
    mine: SlotPart | None,
    theirs: SlotPart,
    attributes: Mapping[str, AttributePart],
    covered: set[str],
) -> SlotPart:
    shelves: dict[str, ShelfPart] = {}
    for key, shelf in slot.shelves.items():
        is_covered = not covered.isdisjoint((name, f"{name}.{key}"))
        is_open = theirs.shelves[key].unprotected and not is_covered
        shelves[key] = _changed(shelf, "unprotected", is_open)
    also = _either(() if mine is None else mine.charge_also, theirs.charge_also)
    if all(shelf.unprotected for shelf in shelves.values()):
        also = ()  # nobody is charged where nothing is protected
    changed = _changed(slot, "shelves", shelves)
    return _changed(changed, "charge_also", tuple(each for each in also if each in attributes))


def _shared(
    app: AppPart,
    name: str,
    in_force: PolicyDocument,
    wanted: PolicyDocument,
    slots: Mapping[str, SlotPart],
    attributes: Mapping[str, AttributePart],
) -> AppPart:
    """A grant as it was written; of an attribute that is not in the file any more, as before."""
    before = in_force.apps.get(name)
    kept = {} if before is None else before.quota
    quota = {each: share for each, share in kept.items() if each not in wanted.attributes}
    groups = () if in_force.documents is None else in_force.documents.groups
    return app.model_copy(
        update={
            "slots": tuple(slot for slot in app.slots if slot in slots),
            "quota": _bounded(quota | app.quota, attributes),
            "document_groups": tuple(each for each in app.document_groups if each in groups),
        }
    )


def _less(mine: AppPart, theirs: AppPart, attributes: Mapping[str, AttributePart]) -> AppPart:
    """What both grants allow."""
    quota = {
        name: min(part.quota[name] for part in (mine, theirs) if name in part.quota)
        for name in _either(mine.quota, theirs.quota)
        if name in attributes
    }
    folders = {
        folder: "read" if "read" in (how, theirs.folders[folder]) else how
        for folder, how in mine.folders.items()
        if folder in theirs.folders
    }
    return mine.model_copy(
        update={
            "slots": _common(mine.slots, theirs.slots),
            "quota": _bounded(quota, attributes),
            "folders": folders,
            "document_groups": _common(mine.document_groups, theirs.document_groups),
            "events": _common(mine.events, theirs.events),
            "timers": _equal(mine.timers, theirs.timers),
            "hears": _common(mine.hears, theirs.hears),
            "budget_below": _equal(mine.budget_below, theirs.budget_below),
        }
    )


def _bounded(
    quota: Mapping[str, Decimal], attributes: Mapping[str, AttributePart]
) -> dict[str, Decimal]:
    """No share is above the cap that it is a share of."""
    return {
        name: min(share, attributes[name].cap)
        for name, share in quota.items()
        if name in attributes
    }


def _common(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in ours if name in theirs)


def _equal(ours: Mapping[str, V], theirs: Mapping[str, V]) -> dict[str, V]:
    return {name: value for name, value in ours.items() if theirs.get(name) == value}


def _epoch(mine: EpochPart, theirs: EpochPart) -> EpochPart:
    seldomer = max(mine.renew, theirs.renew, key=_SELDOMER.index)
    return _changed(_changed(mine, "renew", seldomer), "tick", theirs.tick)


def _places(document: PolicyDocument) -> frozenset[str]:
    """What `implied_by` may name."""
    shelves = (f"{slot}.{shelf}" for slot, shelf, _, _ in shelves_of(document))
    return frozenset((*document.slots, *shelves))


def _either(*names: Iterable[str]) -> tuple[str, ...]:
    """Names that are in any, each once, in order."""
    return tuple(dict.fromkeys(name for each in names for name in each))


def _changed(part: M, key: str, value: object) -> M:
    """The part with another value; the same part where it has this one already."""
    return part if getattr(part, key) == value else part.model_copy(update={key: value})


def _differences(before: object, after: object, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in _either(before, after):
            below = f"{path}.{name}" if path else name
            if name in before and name in after:
                yield from _differences(before[name], after[name], below)
            else:
                yield below
    elif before != after:
        yield path
