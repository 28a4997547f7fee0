"""What the difference between two policies means: what gets tighter, what looser, and when.

Decides the lines of `tactful policy diff`, from two documents alone. What is *not* here: what may
come when, and so what is tighter (`staging`, which is asked in both directions), and the words of a
line (`change_sentences`).

Invariants:

- a change is tighter if `staging` would take it over within an epoch and would not take it back; it
  is looser if the other way round: comparing the other way turns every direction round;
- documents that say the same have no changes; any part that differs has one. `implied_by` counts
  by the shelves that it comes to, and order counts where it numbers positions or views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from tactfuld.policy.change_sentences import Difference, Key, sentence_of
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.promises import allocation_record
from tactfuld.policy.staging import narrowed, rehoused, shelves_of, tightened

Facts = Mapping[Key, object]
"""A document as single values: of a mapping that its names are there, of a list of names each."""

_NAME_LISTS = frozenset(
    {"implied_by", "charge_also", "slots", "document_groups", "events", "hears"}
)
"""Lists whose order says nothing."""


class Direction(StrEnum):
    """What a change does to what is promised, or to what an app may do."""

    TIGHTER = "tighter"
    LOOSER = "looser"
    OTHER = "other"


class Moment(StrEnum):
    """From when on a change holds, in a running daemon."""

    AT_ONCE = "at_once"
    TICK = "tick"
    EPOCH = "epoch"
    NEVER = "other_shelves"


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a comparison.

    Attributes:
        key: dotted, as in the file.
        when: `NEVER`: not while the memory lies on the old shelves.
    """

    key: str
    direction: Direction
    when: Moment
    sentence: str


@dataclass(frozen=True, slots=True)
class _Stages:
    """Both documents, and what `staging` makes of going from the old to the new and back."""

    old: Facts
    new: Facts
    at_once: Facts
    at_tick: Facts
    there: Facts
    back_at_once: Facts
    back: Facts
    same_shelves: bool

    def direction(self, key: Key) -> Direction:
        old, new = self.old.get(key), self.new.get(key)
        match self.there.get(key) == new, self.back.get(key) == old:
            case (True, False):
                return Direction.TIGHTER
            case (False, True):
                return Direction.LOOSER
        match self.at_once.get(key) == new, self.back_at_once.get(key) == old:
            case (True, False):
                return Direction.TIGHTER
            case (False, True):
                return Direction.LOOSER
        return Direction.OTHER

    def when(self, key: Key) -> Moment:
        new = self.new.get(key)
        if self.at_once.get(key) == new:
            return Moment.AT_ONCE
        if not self.same_shelves:
            return Moment.NEVER
        return Moment.TICK if self.at_tick.get(key) == new else Moment.EPOCH


def changes(old: PolicyDocument, new: PolicyDocument) -> tuple[Change, ...]:
    """What is different in `new`, in the order of the file; the old one is in force."""
    stages = _Stages(
        old=_facts(old),
        new=_facts(new),
        at_once=_facts(narrowed(old, new)),
        at_tick=_facts(tightened(old, new)),
        there=_facts(rehoused(old, new)),
        back_at_once=_facts(narrowed(new, old)),
        back=_facts(rehoused(new, old)),
        same_shelves=shelves_of(old) == shelves_of(new),
    )
    grouped: dict[tuple[Key, bool, Direction, Moment], list[str]] = {}
    for key in _differing(stages.old, stages.new):
        names = key[-1:] if _is_listed(key) else ()
        place = (key[: len(key) - len(names)], key in stages.new)
        grouped.setdefault((*place, stages.direction(key), stages.when(key)), []).extend(names)
    found = [
        _change(stages, key, direction, when, names)
        for (key, _, direction, when), names in grouped.items()
    ]
    moment = Moment.EPOCH if stages.same_shelves else Moment.NEVER
    orders = map(partial(_reordering, moment), _reordered(old, new))
    return (*found, *orders)


def _change(
    stages: _Stages, key: Key, direction: Direction, when: Moment, names: list[str]
) -> Change:
    if names:
        is_new = (*key, names[0]) in stages.new
        before, after = ((), tuple(names)) if is_new else (tuple(names), ())
        told = Difference(key, before, after)
    else:
        told = Difference(key, stages.old.get(key), stages.new.get(key))
    return Change(".".join(key), direction, when, sentence_of(told))


def _reordering(when: Moment, key: Key) -> Change:
    sentence = f"The order of {'.'.join(key)} is another."
    return Change(".".join(key), Direction.OTHER, when, sentence)


def _differing(old: Facts, new: Facts) -> Iterator[Key]:
    """The keys at which they differ; below a name that only one of them has, just the name."""
    either = old.keys() ^ new.keys()
    for key in dict.fromkeys((*old, *new)):
        above = (key[:length] for length in range(1, len(key)))
        if old.get(key) != new.get(key) and either.isdisjoint(above):
            yield key


def _facts(document: PolicyDocument) -> Facts:
    tree: dict[str, Any] = document.model_dump()
    tree |= {"allocation": allocation_record(document.allocation)}
    for name, attribute in document.attributes.items():
        tree["attributes"][name]["implied_by"] = tuple(_covered(document, attribute.implied_by))
    return dict(_flat(tree, ()))


def _flat(value: object, key: Key) -> Iterator[tuple[Key, object]]:
    if isinstance(value, dict):
        # A group of keys is not a fact: it is there whether or not something stands below it.
        if len(key) > 1 or key in {("privacy",), ("documents",)}:
            yield key, True
        for name, below in value.items():
            yield from _flat(below, (*key, name))
    elif isinstance(value, tuple) and key[-1] in _NAME_LISTS:
        yield from (((*key, name), True) for name in value)
    elif value is not None:
        yield key, value


def _is_listed(key: Key) -> bool:
    return len(key) > 2 and key[-2] in _NAME_LISTS


def _covered(document: PolicyDocument, places: Iterable[str]) -> Iterator[str]:
    """The shelves that places come to."""
    named = frozenset(places)
    for slot, shelf, _, _ in shelves_of(document):
        if not named.isdisjoint((slot, f"{slot}.{shelf}")):
            yield f"{slot}.{shelf}"


def _reordered(old: PolicyDocument, new: PolicyDocument) -> Iterator[Key]:
    """Where names that both have stand in another order that counts."""
    if _is_reordered(old.slots, new.slots):
        yield ("slots",)
    for name, before in old.slots.items():
        if name not in new.slots:
            continue
        after = new.slots[name]
        if _is_reordered(before.shelves, after.shelves):
            yield ("slots", name, "shelves")
        if _is_reordered(before.views.named, after.views.named):
            yield ("slots", name, "views")


def _is_reordered(before: Iterable[str], after: Iterable[str]) -> bool:
    before, after = list(before), list(after)
    return [each for each in before if each in after] != [each for each in after if each in before]
