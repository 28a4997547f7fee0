"""What a ledger says about pairs of memories: distances, lifetimes, and whether it adds up.

Decides what the owner is told about the promise. What is *not* here: the ledger's own rules
(`tactful_core.ledger`), and wording (`tactful.cli`).

Source: DP-MemView Corollary 1 and GUARANTEE §1, "Distance".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tactful_core.entries import Charge, Entry, EpochOpened
from tactful_core.layout import Attribute, Layout
from tactful_core.ledger import Ledger, replay
from tactful_core.values import AttributeName, Position, Units


@dataclass(frozen=True, slots=True)
class Distance:
    """How far all that was released can tell apart two memories that differ at some positions.

    Attributes:
        beforehand: κ in units, and the cover that gives it; `None` where no cover exists, so that
            nothing is promised.
        afterwards: the sum over what was really released in the open epoch; `None` for infinity.
    """

    beforehand: Units | None
    cover: tuple[AttributeName, ...]
    afterwards: Units | None


def distance(layout: Layout, ledger: Ledger, positions: frozenset[Position]) -> Distance:
    """`κ = min Σ B_a` over covers of `positions`, and `Σ {ε_t : R_t ∩ D ≠ ∅}`.

    Exact: every cover that could be cheaper is tried. A cap below what is spent counts as what is
    spent.
    """
    priced = [(promised(attribute, ledger), attribute) for attribute in layout.attributes]
    best = _cheapest_cover(positions, priced)
    return Distance(
        beforehand=None if best is None else best[0],
        cover=() if best is None else best[1],
        afterwards=_afterwards(ledger, positions),
    )


def _cheapest_cover(
    positions: frozenset[Position],
    priced: Sequence[tuple[Units, Attribute]],
    limit: int | None = None,
) -> tuple[Units, tuple[AttributeName, ...]] | None:
    """The cheapest attributes that together cover `positions`, if they cost less than `limit`.

    Branches over the position that fewest attributes cover, and drops what costs too much.
    """
    if not positions:
        return Units(0), ()
    hardest = min(positions, key=lambda p: (sum(p in a.positions for _, a in priced), p))
    best: tuple[Units, tuple[AttributeName, ...]] | None = None
    for price, attribute in sorted(priced, key=lambda each: each[0]):
        if hardest not in attribute.positions or (limit is not None and price >= limit):
            continue
        left = None if limit is None else limit - price
        rest = _cheapest_cover(positions - attribute.positions, priced, left)
        if rest is not None and (limit is None or price + rest[0] < limit):
            limit = price + rest[0]
            best = Units(limit), (attribute.name, *rest[1])
    return best


def promised(attribute: Attribute, ledger: Ledger) -> Units:
    """`max(B_a, L_a)`: what is promised for the open epoch, also after a cap was lowered."""
    return max(attribute.cap, ledger.spent(attribute))


def _afterwards(ledger: Ledger, positions: frozenset[Position]) -> Units | None:
    if not ledger.unprotected.isdisjoint(positions):
        return None
    read = sum(units for account, units in ledger.settled.items() if account.positions & positions)
    return Units(read)


@dataclass(frozen=True, slots=True)
class EpochSum:
    """What one epoch came to for each attribute, by today's index sets."""

    epoch: int
    spent: dict[AttributeName, Units]


def history(entries: Iterable[Entry], layout: Layout) -> tuple[EpochSum, ...]:
    """Every epoch's sums, oldest first."""
    charges: dict[int, list[Charge]] = {}
    for entry in entries:
        if isinstance(entry, EpochOpened):
            charges[entry.epoch] = []
        elif isinstance(entry, Charge):
            charges[entry.epoch].append(entry)
    return tuple(
        EpochSum(epoch, {a.name: _sum(found, a) for a in layout.attributes})
        for epoch, found in charges.items()
    )


def _sum(charges: Iterable[Charge], attribute: Attribute) -> Units:
    meeting = (
        charge.units
        for charge in charges
        if attribute.name in charge.charged or charge.positions & attribute.positions
    )
    return Units(sum(meeting))


def adds_up(entries: Iterable[Entry], ledger: Ledger, layout: Layout) -> bool:
    """Whether the entries, replayed, give the sums that the daemon works with.

    What a high-water mark added is left out: it stands for entries that are gone.
    """
    again = replay(entries)
    return (
        again.epoch == ledger.epoch
        and dict(again.settled) == dict(ledger.settled)
        and dict(again.lifetime) == dict(ledger.lifetime)
        and all(again.spent(a) <= ledger.spent(a) for a in layout.attributes)
    )
