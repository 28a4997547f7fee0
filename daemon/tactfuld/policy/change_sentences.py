"""One difference between two policies, in plain words.

Decides the sentences of `tactful policy diff`. What is *not* here: which differences there are and
what each does to a promise (`comparison`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from tactful.odds import largest_factor

Key = tuple[str, ...]
"""The way from the top of a policy to one value."""

_LONGEST = 60

_RENEWALS: Mapping[object, str] = MappingProxyType(
    {
        "manual": "only when you open one",
        "weekly": "every week",
        "monthly": "every month",
    }
)


@dataclass(frozen=True, slots=True)
class Difference:
    """What stands at a key; `None` where nothing does, a tuple of names where names came or went.

    Attributes:
        key: of the list, where names came or went.
    """

    key: Key
    before: object
    after: object


def sentence_of(difference: Difference) -> str:
    """The difference as a sentence that needs no knowledge of the file."""
    match difference.key:
        case ("attributes", name, *below):
            return _about_attribute(name, tuple(below), difference)
        case ("slots", slot, *below):
            return _about_slot(slot, tuple(below), difference)
        case ("apps", app, *below):
            return _about_app(app, tuple(below), difference)
        case ("epoch", "renew"):
            before, after = _RENEWALS[difference.before], _RENEWALS[difference.after]
            return f"A new epoch, with fresh caps, begins {after}, not {before}."
        case _:
            return _plain(difference)


def _about_attribute(name: str, below: Key, difference: Difference) -> str:
    match below:
        case ():
            if difference.after is None:
                return f"{name} is not protected any more: nothing is promised about it."
            return f"{name} is protected as well."
        case ("cap",):
            before, after = _epsilon(difference.before), _epsilon(difference.after)
            return (
                f"All apps together may spend {after} on {name} in an epoch, not {before}; a guess "
                f"gains odds of at most ×{_factor(difference.after)}, not "
                f"×{_factor(difference.before)}."
            )
        case ("fusion",):
            if difference.after:
                return f"Text may be fused from what implies {name}, at a price of its own."
            return f"No text is fused from what implies {name} any more."
        case ("fusion", "epsilon"):
            before, after = _epsilon(difference.before), _epsilon(difference.after)
            return f"Fused text may cost {name} {after} in an epoch, besides the cap, not {before}."
        case ("implied_by",):
            if difference.after:
                return f"{name} is also protected on {_names(difference.after)}."
            return f"{name} is not protected on {_names(difference.before)} any more."
        case _:
            return _plain(difference)


def _about_slot(slot: str, below: Key, difference: Difference) -> str:
    gone = difference.after is None
    match below:
        case ():
            return f"There is no slot {slot} any more." if gone else f"There is a new slot {slot}."
        case ("shelves", shelf):
            return f"The shelf {slot}.{shelf} is {'gone' if gone else 'new'}."
        case ("shelves", shelf, "unprotected"):
            if difference.after:
                return f"{slot}.{shelf} is unprotected: what is read there costs nothing."
            return f"{slot}.{shelf} has to be protected: it is not called unprotected any more."
        case ("charge_also",):
            if difference.after:
                return f"Answers about {slot} are also charged to {_names(difference.after)}."
            return f"Answers about {slot} are not charged to {_names(difference.before)} as well."
        case ("views", view):
            return (
                f"{slot} cannot be answered by the view {view} any more."
                if gone
                else f"{slot} can also be answered by the view {view}."
            )
        case _:
            return _plain(difference)


def _about_app(app: str, below: Key, difference: Difference) -> str:
    gone = difference.after is None
    match below:
        case ():
            return f"{app} may ask nothing any more." if gone else f"{app} is let in as an app."
        case ("slots",):
            if difference.after:
                return f"{app} may also ask about {_names(difference.after)}."
            return f"{app} may not ask about {_names(difference.before)} any more."
        case ("quota", attribute):
            before, after = difference.before, difference.after
            if gone:
                return f"{app} may use up all of the cap of {attribute}, not {_epsilon(before)}."
            instead = "all of it" if before is None else _epsilon(before)
            return f"{app} may use up {_epsilon(after)} of the cap of {attribute}, not {instead}."
        case _:
            return _plain(difference)


def _plain(difference: Difference) -> str:
    key = ".".join(difference.key)
    before, after = _written(difference.before), _written(difference.after)
    if difference.before in (None, ()):
        return f"{key} is new: {after}."
    if difference.after in (None, ()):
        return f"{key} is gone; it was {before}."
    return f"{key} is {after}, not {before}."


def _written(value: object) -> str:
    match value:
        case True:
            return "there"
        case Decimal():
            return f"{value:f}"
        case tuple():
            return _cut(json.dumps(value, ensure_ascii=False))
        case str():
            return _cut(value)
        case _:
            return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _epsilon(value: object) -> str:
    return f"ε {value:f}" if isinstance(value, Decimal) else _written(value)


def _factor(cap: object) -> str:
    return largest_factor(float(cap)) if isinstance(cap, Decimal) else _written(cap)


def _names(names: object) -> str:
    *most, last = names if isinstance(names, tuple) else (str(names),)
    return f"{', '.join(most)} and {last}" if most else str(last)
