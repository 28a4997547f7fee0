"""Which positions a fused answer shows, and which of them share a private row.

Decides, from public input alone (layout, policy, the turn's read set, room in the model's context),
the places of a row and the cells that they form. What is *not* here: what the positions hold and
how a row becomes token ids (`contexts`), what a draw costs (`tactful_core.fusion`).

Invariants (GUARANTEE §5):

- nothing here is given a memory: the number of cells `m`, their order and every capacity are the
  same for any two stores;
- a cell holds the positions that are charged to the same attributes, which contain all that cover
  them; so a cell that meets `I_a` is charged to `a`;
- a cell of which an attribute has no budget for fused text is left out whole, and so are positions
  that nothing covers, unless their shelf is declared unprotected: those stand in every row;
- a position has one place, of as many tokens as its shelf says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from tactful_core.layout import Shelf, Slot
from tactful_core.promises import Promises
from tactful_core.values import AttributeName, Position

MOST_CELLS: Final = 8
"""Private rows of one answer; each is computed with every token."""

Charged = frozenset[AttributeName]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one position stands in a row.

    Attributes:
        capacity: token ids that it takes, whatever it holds.
        charged: the attributes that pay for its cell; none where the shelf is unprotected.
    """

    position: Position
    capacity: int
    charged: Charged


@dataclass(frozen=True, slots=True)
class CellPlan:
    """The places of a row in order, and what follows from them."""

    places: tuple[Place, ...]

    @property
    def cells(self) -> tuple[Charged, ...]:
        """The attributes of each cell, in the order of the cells' first places."""
        return tuple(dict.fromkeys(place.charged for place in self.places if place.charged))

    @property
    def open_positions(self) -> tuple[Position, ...]:
        """Those that every row shows."""
        return tuple(place.position for place in self.places if not place.charged)

    def positions(self, cell: Charged) -> frozenset[Position]:
        """The positions of a cell."""
        return frozenset(place.position for place in self.places if place.charged == cell)

    def touching(self, attribute: AttributeName) -> int:
        """`k_a`: the cells that an attribute pays for."""
        return sum(attribute in cell for cell in self.cells)

    @property
    def widest(self) -> int:
        """`k*`: the most cells that one attribute pays for; 0 without cells."""
        return max((self.touching(name) for cell in self.cells for name in cell), default=0)


def plan_cells(
    slots: Iterable[Slot],
    promises: Promises,
    budgeted: Collection[AttributeName],
    *,
    room: int,
    around: int,
) -> CellPlan:
    """The places of a turn that reads these slots.

    The first position of each shelf comes first, then the second of each, and so on until no
    further one fits; positions of one shelf are filled in order, so those that hold most come
    first. Of more than `MOST_CELLS` cells those whose first position comes first are kept.

    Args:
        slots: the active ones, each with the shelves that are read (`Slot.reading`).
        budgeted: the attributes that have a budget for fused text.
        room: tokens that all places may take together.
        around: tokens of public text that each place takes besides its capacity.
    """
    runs = [
        list(_places(shelf, slot, promises, budgeted)) for slot in slots for shelf in slot.shelves
    ]
    chosen: list[Place] = []
    cells: set[Charged] = set()
    for place in _by_turns(runs):
        known = not place.charged or place.charged in cells
        taken = place.capacity + around
        if taken > room or not (known or len(cells) < MOST_CELLS):
            continue
        room -= taken
        cells |= {place.charged} if place.charged else set()
        chosen.append(place)
    # What every row shows comes first: rows are computed once up to where they differ.
    return CellPlan(tuple(sorted(chosen, key=lambda place: (bool(place.charged), place.position))))


def _places(
    shelf: Shelf, slot: Slot, promises: Promises, budgeted: Collection[AttributeName]
) -> Iterator[Place]:
    also = promises.charge_also.get(slot.name, frozenset[AttributeName]())
    for position in shelf.positions:
        covering = promises.layout.covering(position)
        charged = covering | also if covering else covering
        if charged <= frozenset(budgeted) and (charged or shelf.unprotected):
            yield Place(position, shelf.tokens, charged)


def _by_turns(runs: list[list[Place]]) -> Iterator[Place]:
    return (place for turn in zip_longest(*runs) for place in turn if place is not None)
