"""What the owner's verbs do to memory, as plain functions over what all positions hold.

Decides where a text goes, and what may be moved where. What is *not* here: the file (`memory`),
and which shelf suits a text (`tactfuld.proposals`).

Each function changes the list that it is given, which has one item a position, or raises and leaves
it as it was.

Invariants:

- a text is stored as it was given or refused; nothing is cut off or stripped;
- a text stands on the shelf that the owner named, or nowhere: nothing spills to another (C7);
- what enters a position was written by the owner for its shelf, or comes from a position that no
  attribute covers but those that cover this one as well: `A(old) ⊆ A(new)` (C7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tactful.errors import DoesNotFit, InvalidParams, NotFound, WouldUncover
from tactful_core.layout import Layout, Shelf
from tactful_core.sealing import Memory, capacity_bytes
from tactful_core.values import AttributeName, Position, ShelfName

Memories = list[Memory | None]
"""What each position holds, in order."""


def shelf_named(layout: Layout, name: ShelfName) -> Shelf:
    """The shelf of that name.

    Raises:
        NotFound: there is none.
    """
    for shelf in layout.shelves:
        if shelf.name == name:
            return shelf
    raise NotFound(f"There is no shelf named {name}; name one of the policy's.")


def shelf_of(layout: Layout, position: Position) -> Shelf:
    """The shelf that a position is on.

    Raises:
        NotFound: there is no such position.
    """
    require_position(layout, position)
    return next(shelf for shelf in layout.shelves if position in shelf.positions)


def require_position(layout: Layout, position: Position) -> None:
    """Raises `NotFound` unless there is such a position."""
    if not 1 <= position <= layout.size:
        raise NotFound(f"There is no position {position}; memory has positions 1 to {layout.size}.")


def put(
    memories: Memories,
    shelf: Shelf,
    texts: Sequence[str],
    wanted: Position | None,
    written_at: int,
) -> tuple[Position, ...]:
    """Writes texts to one shelf: the first to the position that is wanted, the others, or all where
    none is, to its first empty ones.

    Raises:
        InvalidParams: a text is empty, or has characters that no model should be given.
        NotFound: the shelf has no such position.
        DoesNotFit: a text is longer than a position, the position is taken, the shelf too full.
    """
    for text in texts:
        require_acceptable(text, shelf)
    chosen = () if wanted is None else (_empty(memories, shelf, wanted),)
    free = [p for p in shelf.positions if memories[p - 1] is None and p not in chosen]
    if len(chosen) + len(free) < len(texts):
        raise DoesNotFit(_too_full(shelf, len(free) + len(chosen), len(texts)))
    targets = (*chosen, *free)[: len(texts)]
    for target, text in zip(targets, texts, strict=True):
        memories[target - 1] = Memory(text, written_at)
    return targets


def replace(
    memories: Memories, layout: Layout, position: Position, text: str, written_at: int
) -> None:
    """Writes another text over a memory.

    Raises:
        NotFound: there is no memory at this position.
        InvalidParams, DoesNotFit: as for `put`.
    """
    shelf = shelf_of(layout, position)
    require_memory(memories, layout, position)
    require_acceptable(text, shelf)
    memories[position - 1] = Memory(text, written_at)


def carry(memories: Memories, layout: Layout, position: Position, target: Shelf) -> Position:
    """Moves a memory to the first empty position of another shelf, with the time it was written.

    Raises:
        NotFound: there is no memory at this position.
        InvalidParams: it is on this shelf already.
        WouldUncover: attributes that cover it would not cover it there (C7).
        DoesNotFit: the shelf is full, or its positions are too small.
    """
    if position in target.positions:
        raise InvalidParams(f"Position {position} is on the shelf {target.name} already.")
    memory = require_memory(memories, layout, position)
    _require_covered(layout, position, target)
    require_acceptable(memory.text, target)
    empty = next((p for p in target.positions if memories[p - 1] is None), None)
    if empty is None:
        raise DoesNotFit(_too_full(target, 0, 1))
    memories[empty - 1], memories[position - 1] = memory, None
    return empty


def drop(memories: Memories, layout: Layout, positions: Iterable[Position]) -> int:
    """Empties positions, and says how many were full.

    Raises:
        NotFound: there is no such position.
    """
    wanted = frozenset(positions)
    for position in sorted(wanted):
        require_position(layout, position)
    full = sum(memories[position - 1] is not None for position in wanted)
    for position in wanted:
        memories[position - 1] = None
    return full


def uncovering(layout: Layout, position: Position, target: Shelf) -> tuple[AttributeName, ...]:
    """The attributes that cover a position and not all of a shelf, in the policy's order."""
    return tuple(
        attribute.name
        for attribute in layout.attributes
        if position in attribute.positions and not attribute.positions.issuperset(target.positions)
    )


def joining(layout: Layout, position: Position, target: Shelf) -> tuple[AttributeName, ...]:
    """The attributes that cover a shelf and not a position, in the policy's order."""
    return tuple(
        attribute.name
        for attribute in layout.attributes
        if position not in attribute.positions
        and not attribute.positions.isdisjoint(target.positions)
    )


def require_memory(memories: Sequence[Memory | None], layout: Layout, position: Position) -> Memory:
    """What a position holds; `NotFound` if it is empty or not there."""
    require_position(layout, position)
    memory = memories[position - 1]
    if memory is None:
        raise NotFound(
            f"There is no memory at position {position}; `tactful memory list` shows those there "
            "are."
        )
    return memory


def require_acceptable(text: str, shelf: Shelf) -> None:
    """Raises `InvalidParams` or `DoesNotFit` unless the text may stand on this shelf."""
    if not text.strip() or "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidParams(
            "A memory must be a text that is not blank, without NUL characters and lone "
            "surrogates; nothing was remembered."
        )
    size, limit = len(text.encode()), capacity_bytes(shelf.tokens)
    if size > limit:
        raise DoesNotFit(
            f"The text has {size} bytes in UTF-8, a position of the shelf {shelf.name} holds at "
            f"most {limit}; shorten it, or split it over several positions."
        )


def listed(positions: Sequence[Position]) -> str:
    """Positions in a sentence."""
    word = "position" if len(positions) == 1 else "positions"
    return f"{word} {', '.join(str(position) for position in positions)}"


def _require_covered(layout: Layout, position: Position, target: Shelf) -> None:
    lost = uncovering(layout, position, target)
    if lost:
        raise WouldUncover(
            f"On the shelf {target.name} the memory would no longer be covered by "
            f"{', '.join(lost)}, so it was not moved. If it may stand there, write it anew: "
            f"`tactful remember --shelf {target.name}`, then `tactful memory forget {position}`."
        )


def _empty(memories: Memories, shelf: Shelf, wanted: Position) -> Position:
    if wanted not in shelf.positions:
        raise NotFound(
            f"The shelf {shelf.name} has no position {wanted}; it has {listed(shelf.positions)}."
        )
    if memories[wanted - 1] is not None:
        raise DoesNotFit(f"Position {wanted} is full; choose an empty one, or none in particular.")
    return wanted


def _too_full(shelf: Shelf, free: int, needed: int) -> str:
    number = len(shelf.positions)
    way_out = "choose another shelf, edit a memory that is there, or forget one"
    if free == 0:
        return f"All {number} positions of the shelf {shelf.name} are full; {way_out}."
    return (
        f"The text needs {needed} positions, and of the {number} of the shelf {shelf.name} only "
        f"{free} are empty; {way_out}."
    )


def rehoused(memories: Sequence[Memory | None], before: Layout, after: Layout) -> Memories:
    """What all positions of other shelves hold: each memory on the shelf of its name, in order.

    Raises:
        DoesNotFit: shelves that hold memories are gone, or have become too small for them.
    """
    held = {
        shelf.name: [m for m in (memories[p - 1] for p in shelf.positions) if m is not None]
        for shelf in before.shelves
    }
    room = {shelf.name: shelf for shelf in after.shelves}
    homeless = [name for name, kept in held.items() if not _fits(kept, room.get(name))]
    if homeless:
        raise DoesNotFit(
            f"What is remembered in {', '.join(homeless)} would have no place, or would be longer "
            "than a position: the policy has no such shelf any more, or a smaller one. Nothing was "
            "changed; put the shelf back, move or forget what is there, and migrate again."
        )
    new: Memories = [None] * after.size
    for shelf in after.shelves:
        for position, memory in zip(shelf.positions, held.get(shelf.name, ()), strict=False):
            new[position - 1] = memory
    return new


def _fits(kept: Sequence[Memory], shelf: Shelf | None) -> bool:
    if not kept or shelf is None:
        return not kept
    longest = max(len(memory.text.encode()) for memory in kept)
    return len(kept) <= len(shelf.positions) and longest <= capacity_bytes(shelf.tokens)
