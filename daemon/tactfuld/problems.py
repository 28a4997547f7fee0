"""What is wrong with a file that the owner wrote, and where.

Decides how problems of the policy and of the settings are named, ordered and limited:
`policy.yaml:12: attributes.debt.implied_by[1]: there is no shelf named food.grocery; did you mean
food.groceries?`. What is *not* here: one problem's form (`tactful.errors.Problem`), and finding
problems (`yaml_text`, `yaml_models`, `policy`).

Invariant: all problems that one reading finds travel in one error.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from itertools import islice

from tactful.errors import PolicyRefused, Problem

KeyPath = tuple[str | int, ...]
"""The way from the top of a file to one value: keys, and indices of lists from 0."""

MOST_PROBLEMS = 100
"""More are not collected: a file with so many is the wrong file."""

_LONGEST_NAME_SHOWN = 60
_MOST_COMPARED = 512


class FileRefusedError(PolicyRefused):
    """A file of the owner's was not accepted; the owner must change it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems), problems)


def first_per_key(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """At most `MOST_PROBLEMS` of them by line, and of several with one key only the first given."""
    kept: dict[tuple[str, int, int], Problem] = {}
    for problem in problems:
        place = ("", problem.line, problem.column) if not problem.key else (problem.key, 0, 0)
        kept.setdefault(place, problem)
    ordered = sorted(kept.values(), key=lambda problem: (problem.line, problem.column))
    return tuple(ordered[:MOST_PROBLEMS])


def dotted(path: KeyPath) -> str:
    """The path as people read it: `apps.meals.slots[0]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{shown(step)}" if text else shown(step)
    return text


def shown(name: str) -> str:
    """A name as it may stand in a sentence: short, on one line, quoted unless it is plain."""
    if len(name) > _LONGEST_NAME_SHOWN:
        name = name[:_LONGEST_NAME_SHOWN] + "…"
    plain = name != "" and all(c.isascii() and (c.isalnum() or c in "_.-") for c in name)
    return name if plain else json.dumps(name, ensure_ascii=True)


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean food.groceries?` when a known name is close, else a full stop."""
    near = closest(name, known)
    return f"; did you mean {near}?" if near else "."


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody who wrote `name` most likely meant."""
    candidates = list(islice(known, _MOST_COMPARED))
    shelves = [candidate for candidate in candidates if candidate.endswith(f".{name}")]
    if len(shelves) == 1:
        return shelves[0]
    matches = difflib.get_close_matches(name[:_LONGEST_NAME_SHOWN], candidates, n=1)
    return matches[0] if matches else None
