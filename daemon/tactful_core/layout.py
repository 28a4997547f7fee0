"""The public shape of memory: positions, slots, vocabularies, attributes.

Decides which positions exist, which attributes cover them, and which attributes a read charges
(`Γ*`, GUARANTEE §1). Everything here is public input: it comes from the policy and holds no
content. What is *not* here: reading a policy file (`tactfuld.policy`), who may ask (`promises`),
which slots and shelves a query is about (`tactfuld.router`), how much a read costs (`allocation`),
what has been spent (`ledger`).

Invariants:

- positions are `1..n` without gaps; each belongs to exactly one shelf, each shelf to one slot;
- every vocabulary has a generic view, and it is the first (C1: vocabularies are public);
- `required_charge_set(R) = {a : R ∩ I_a ≠ ∅}` and nothing smaller is ever charged (C2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from tactful_core.errors import ContractError
from tactful_core.values import AttributeName, Position, ShelfName, SlotName, Units, ViewName

GENERIC = ViewName("generic")


@dataclass(frozen=True, slots=True)
class View:
    """A public, response-conditioning instruction: how to answer, never a fact.

    Attributes:
        guidance: the sentence that the response model is given.
        supports: first-person statements; memory close to one of them speaks for this view.
        examples: public queries for which the view is relevant.
    """

    name: ViewName
    guidance: str
    supports: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shelf:
    """A run of positions of one slot, each with the same public capacity in tokens.

    `unprotected` is the owner's explicit word that no attribute needs to cover the shelf.
    """

    name: ShelfName
    positions: tuple[Position, ...]
    tokens: int
    unprotected: bool = False


@dataclass(frozen=True, slots=True)
class ReadRule:
    """Public intents, and the shelves that are read for a query with one of them."""

    when: tuple[str, ...]
    shelves: tuple[ShelfName, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """A topic fixed by policy: shelves to read and a vocabulary of views to answer with.

    Attributes:
        words, never: public words that make a query be about the slot, or keep it from that.
        reads: for which queries less is read than all shelves.
    """

    name: SlotName
    description: str
    shelves: tuple[Shelf, ...]
    vocabulary: tuple[View, ...]
    words: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    reads: tuple[ReadRule, ...] = ()

    def __post_init__(self) -> None:
        if not self.vocabulary or self.vocabulary[0].name != GENERIC:
            raise ContractError(f"The first view of slot {self.name} must be '{GENERIC}'.")
        if len({view.name for view in self.vocabulary}) != len(self.vocabulary):
            raise ContractError(f"Two views of slot {self.name} have the same name.")

    @property
    def generic(self) -> View:
        """The slot's fallback."""
        return self.vocabulary[0]

    @property
    def positions(self) -> tuple[Position, ...]:
        """All positions of the slot, in order."""
        return tuple(p for shelf in self.shelves for p in shelf.positions)

    def reading(self, names: Collection[ShelfName]) -> Slot:
        """The slot for a turn that reads these shelves of it: `R`, Γ and ε follow from them."""
        shelves = tuple(shelf for shelf in self.shelves if shelf.name in names)
        if len(shelves) < len(names) or not shelves:
            raise ContractError(f"Slot {self.name} can be read only by shelves that it has.")
        return replace(self, shelves=shelves)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A protected property `a`: its index set `I_a` and its cap `B_a` in units.

    `fusion` is the epsilon that fused text may cost it in an epoch, besides the cap; `None` where
    no text is fused from its positions.
    """

    name: AttributeName
    positions: frozenset[Position]
    cap: Units
    fusion: Units | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Slots and attributes, checked to fit together.

    Raises:
        ContractError: gaps or overlaps in positions, an attribute that names no such position, an
            empty index set, or duplicate names.
    """

    slots: tuple[Slot, ...]
    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        positions = [p for slot in self.slots for p in slot.positions]
        if sorted(positions) != list(range(1, len(positions) + 1)):
            raise ContractError("Positions must be 1..n, each on exactly one shelf.")
        if len({slot.name for slot in self.slots}) != len(self.slots):
            raise ContractError("Two slots have the same name.")
        if len({attribute.name for attribute in self.attributes}) != len(self.attributes):
            raise ContractError("Two attributes have the same name.")
        for attribute in self.attributes:
            if not attribute.positions or not attribute.positions <= set(positions):
                raise ContractError(
                    f"Attribute {attribute.name} must cover at least one position that exists."
                )

    @property
    def size(self) -> int:
        """The number of positions, `n`."""
        return sum(len(slot.positions) for slot in self.slots)

    @property
    def shelves(self) -> tuple[Shelf, ...]:
        return tuple(shelf for slot in self.slots for shelf in slot.shelves)

    def slot(self, name: SlotName) -> Slot:
        """The slot of that name; `ContractError` if there is none."""
        for slot in self.slots:
            if slot.name == name:
                return slot
        raise ContractError(f"There is no slot named {name}.")

    def attribute(self, name: AttributeName) -> Attribute:
        """The attribute of that name; `ContractError` if there is none."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise ContractError(f"There is no attribute named {name}.")

    def covering(self, position: Position) -> frozenset[AttributeName]:
        """`A(i) = {a : i ∈ I_a}`."""
        return frozenset(a.name for a in self.attributes if position in a.positions)

    def required_charge_set(self, read_set: Iterable[Position]) -> frozenset[AttributeName]:
        """`Γ*(R) = {a : R ∩ I_a ≠ ∅}`, the least that a read of `read_set` must charge."""
        read = frozenset(read_set)
        return frozenset(a.name for a in self.attributes if not read.isdisjoint(a.positions))

    def is_unprotected(self, read_set: Iterable[Position]) -> bool:
        """Whether the owner declared every shelf that `read_set` touches unprotected."""
        read = frozenset(read_set)
        touched = [s for s in self.shelves if not read.isdisjoint(s.positions)]
        return all(shelf.unprotected for shelf in touched)
