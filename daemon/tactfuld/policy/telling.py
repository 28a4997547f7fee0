"""What a policy tells about its owner, who edited it.

Decides the warnings of `tactful policy check`. A policy is public (C1), and one that everybody has
says nothing; so what differs from the starter that it came from is what can tell. What is *not*
here: what is wrong with a policy (`references`), what an edit promises (`comparison`).

Invariant: a starter policy as it is shipped gives no warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import median

from tactfuld.policy.comparison import Direction, changes
from tactfuld.policy.document import PolicyDocument, SlotPart

_FIRST_PERSON = re.compile(r"\b(I|my|mine|me|myself|we|our|ours)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[a-z,;] )(?!I\b)[A-Z][a-z]+")
"""A word with a capital in the middle of a sentence."""

_FAR = 2
"""A cap so many times the middle one, or one so many times below it, stands out."""


@dataclass(frozen=True, slots=True)
class Warned:
    """Something in a policy that tells about its owner, with its dotted key."""

    key: str
    sentence: str


def nearest_starter(document: PolicyDocument, starters: Mapping[str, PolicyDocument]) -> str | None:
    """The starter with the fewest differences; `None` if none has a slot or attribute of it."""
    related = {
        name: starter
        for name, starter in starters.items()
        if not document.attributes.keys().isdisjoint(starter.attributes)
        or not document.slots.keys().isdisjoint(starter.slots)
    }
    differences = {name: len(changes(starter, document)) for name, starter in related.items()}
    return min(differences, key=differences.__getitem__) if differences else None


def telling(document: PolicyDocument, starter: PolicyDocument | None) -> tuple[Warned, ...]:
    """Everything that stands out, of the policy by itself and of what it changes of the starter."""
    known = frozenset(text for _, text in _texts(starter)) if starter is not None else frozenset()
    return (
        *(() if starter is None else _listed(document, starter)),
        *(() if starter is None else _narrowed(document, starter)),
        *_caps(document, starter),
        *_quotas(document, starter),
        *_facts(document, known),
    )


def _listed(document: PolicyDocument, starter: PolicyDocument) -> Iterator[Warned]:
    for name in starter.attributes:
        if name in document.attributes:
            continue
        yield Warned(
            f"attributes.{name}",
            f"The starter protects {name} and this policy does not: that tells that it does not "
            "concern you. Protect it all the same.",
        )
    for name in document.attributes:
        if name in starter.attributes:
            continue
        yield Warned(
            f"attributes.{name}",
            f"The starter does not protect {name}: that this policy does tells that it may concern "
            "you.",
        )


def _narrowed(document: PolicyDocument, starter: PolicyDocument) -> Iterator[Warned]:
    for change in changes(starter, document):
        if change.key.endswith(".implied_by") and change.direction is Direction.LOOSER:
            yield Warned(
                change.key,
                f"Compared with the starter, {change.sentence} Leaving places out tells what you "
                "do not write there.",
            )


def _caps(document: PolicyDocument, starter: PolicyDocument | None) -> Iterator[Warned]:
    caps = {name: attribute.cap for name, attribute in document.attributes.items()}
    if len(caps) < 3:
        return
    middle = median(caps.values())
    given = {} if starter is None else starter.attributes
    for name, cap in caps.items():
        if name in given and given[name].cap == cap:
            continue
        if cap >= middle * _FAR or cap * _FAR <= middle:
            yield Warned(
                f"attributes.{name}.cap",
                f"The cap of {name} is {cap:f} where the others are about {middle:f}: one that "
                "stands out tells which attribute matters to you.",
            )


def _quotas(document: PolicyDocument, starter: PolicyDocument | None) -> Iterator[Warned]:
    if len(document.attributes) < 2:
        return
    given = {} if starter is None else starter.apps
    for app, part in document.apps.items():
        is_given = app in given and given[app].quota == part.quota
        if len(part.quota) == 1 and not is_given:
            (name,) = part.quota
            yield Warned(
                f"apps.{app}.quota",
                f"{app} has a quota of {name} alone: that tells which attribute matters to you. "
                "Give it one of each.",
            )


def _facts(document: PolicyDocument, known: frozenset[str]) -> Iterator[Warned]:
    for key, text in _texts(document):
        if text in known:
            continue
        own_words = key.rsplit(".", 1)[-1] not in ("supports", "examples")
        if own_words and (found := _FIRST_PERSON.search(text)):
            yield Warned(
                key,
                f"“{found[0]}” reads like a fact about you. Say how to answer, or what the topic "
                "is; facts belong in memory.",
            )
        elif found := _NAME.search(text):
            yield Warned(
                key,
                f"“{found[0]}” looks like a name. The policy is public; write it without names.",
            )


def _texts(document: PolicyDocument) -> Iterator[tuple[str, str]]:
    """Every text that is not a name, by the dotted key of what it stands in."""
    return chain.from_iterable(
        _slot_texts(f"slots.{name}", slot) for name, slot in document.slots.items()
    )


def _slot_texts(key: str, slot: SlotPart) -> Iterator[tuple[str, str]]:
    yield f"{key}.description", slot.description
    yield f"{key}.views.generic.guidance", slot.views.generic.guidance
    for name, view in slot.views.named.items():
        below = f"{key}.views.{name}"
        yield f"{below}.guidance", view.guidance
        yield from ((f"{below}.supports", text) for text in view.supports)
        yield from ((f"{below}.examples", text) for text in view.examples)
    yield from ((f"{key}.router.words", text) for text in slot.router.words)
    yield from ((f"{key}.router.never", text) for text in slot.router.never)
