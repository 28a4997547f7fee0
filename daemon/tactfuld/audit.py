"""What a ledger says about pairs of memories: distances, lifetimes, and whether it adds up.

Decides what the owner is told about the promise. What is *not* here: the ledger's own rules
(`tactful_core.ledger`), and wording (`tactful.cli`).

Source: DP-MemView Corollary 1 and GUARANTEE §1, "Distance".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

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
    prices = {attribute.name: promised(attribute, ledger) for attribute in layout.attributes}
    needs = frozenset(layout.covering(position) for position in positions)
    best = _cheapest_cover(needs, prices)
    return Distance(
        beforehand=None if best is None else best[0],
        cover=() if best is None else best[1],
        afterwards=_afterwards(ledger, positions),
    )


_Needs = frozenset[frozenset[AttributeName]]
"""For each position that is not covered yet, the attributes that would cover it."""


def _cheapest_cover(
    needs: _Needs, prices: Mapping[AttributeName, Units], limit: int | None = None
) -> tuple[Units, tuple[AttributeName, ...]] | None:
    """The cheapest attributes that meet every need, if there are any that cost less than `limit`.

    Branches over the need that fewest attributes meet. An attribute that was tried is left out of
    what is tried after it: the covers that have it are known by then.
    """
    if frozenset() in needs or (limit is not None and _at_least(needs, prices) >= limit):
        return None
    if not needs:
        return Units(0), ()
    best: tuple[Units, tuple[AttributeName, ...]] | None = None
    hardest = min(needs, key=lambda need: (len(need), sorted(need)))
    for name in sorted(hardest, key=lambda name: (prices[name], name)):
        left = None if limit is None else limit - prices[name]
        rest = _cheapest_cover(frozenset(n for n in needs if name not in n), prices, left)
        if rest is not None:
            best = Units(prices[name] + rest[0]), (name, *rest[1])
            limit = best[0]
        needs = frozenset(need - {name} for need in needs)
    return best


def _at_least(needs: _Needs, prices: Mapping[AttributeName, Units]) -> int:
    """What no cover can cost less than: an attribute's price, shared by all needs that it meets."""
    met = Counter(name for need in needs for name in need)
    return sum(min(prices[name] // met[name] for name in need) for need in needs)


def promised(attribute: Attribute, ledger: Ledger) -> Units:
    """`max(B_a, L_a)`: what is promised for the open epoch, also after a cap was lowered."""
    return max(attribute.cap, ledger.spent(attribute))


def _afterwards(ledger: Ledger, positions: frozenset[Position]) -> Units | None:
    if not ledger.unprotected.isdisjoint(positions):
        return None
    read = sum(units for account, units in ledger.settled.items() if account.positions & positions)
    # What lost entries read is not known, so all of it may have been at these positions.
    return Units(read + sum(ledger.lost.values()))


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


def adds_up(entries: Iterable[Entry], ledger: Ledger) -> bool:
    """Whether the entries, replayed, give all that the daemon works with.

    What a high-water mark added is left out: it stands for entries that are gone.
    """
    again = replay(entries)
    marked = replace(
        again,
        lost=ledger.lost,
        lifetime_lost=ledger.lifetime_lost,
        unprotected=ledger.unprotected,
        exhausted=ledger.exhausted,
    )
    return marked == ledger and again.unprotected <= ledger.unprotected
