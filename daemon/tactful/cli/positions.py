"""Positions as the owner names them: `3`, `3-5`, or a shelf such as `food.diet`.

Decides which words name which positions. What is *not* here: which positions exist, and what is at
them (the daemon).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tactful.errors import NotFound, UsageError

if TYPE_CHECKING:
    from tactful.owner_wire import ShelfInfo

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def names_shelf(word: str) -> bool:
    """Whether a word is the name of a shelf rather than a number or a range."""
    return "." in word


def resolved(words: Sequence[str], size: int, shelves: Iterable[ShelfInfo]) -> tuple[int, ...]:
    """The positions that the words name, in ascending order, each once.

    Args:
        size: how many positions there are.

    Raises:
        NotFound: there is no such shelf, or no position with such a number.
        UsageError: a word is none of the three.
    """
    known = {shelf.shelf: shelf.positions for shelf in shelves}
    return tuple(sorted({position for word in words for position in _named(word, size, known)}))


def in_short(positions: Sequence[int]) -> str:
    """Ascending positions with their ranges drawn together: `1-3, 5`."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position == runs[-1][-1] + 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def uncovered(positions: Iterable[int], shelves: Iterable[ShelfInfo]) -> tuple[int, ...]:
    """Those of the positions that no attribute covers."""
    bare = {number for shelf in shelves if not shelf.covered_by for number in shelf.positions}
    return tuple(position for position in positions if position in bare)


def _named(word: str, size: int, shelves: Mapping[str, tuple[int, ...]]) -> Sequence[int]:
    if names_shelf(word):
        if word not in shelves:
            raise NotFound(
                f"There is no shelf {word}. The shelves are listed by: tactful memory list"
            )
        return shelves[word]
    found = _RANGE.fullmatch(word)
    if found is None:
        raise UsageError(
            f"{word} names no position. Give a number (3), a range (3-5) or a shelf (food.diet)."
        )
    first, last = int(found[1]), int(found[2] or found[1])
    if first > last:
        raise UsageError(f"The range {word} is empty: write the smaller number first.")
    for end in (first, last):
        if not 1 <= end <= size:
            raise NotFound(f"There is no position {end}; memory has positions 1 to {size}.")
    return range(first, last + 1)
