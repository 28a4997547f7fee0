"""What a ledger says about pairs of memories: distances, lifetimes, and whether it adds up.

Decides what the owner is told about the promise. What is *not* here: the ledger's own rules
(`tactful_core.ledger`), and wording (`tactful.cli`).

Source: DP-MemView Corollary 1 and GUARANTEE §1, "Distance".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tactful_core.entries import (
    Charge,
    Entry,
    EntryId,
    EpochOpened,
    FusedReserved,
    FusedSettled,
)
from tactful_core.fused_ledger import FusedAccount
from tactful_core.layout import Attribute, Layout
from tactful_core.ledger import Ledger, replay
from tactful_core.values import AttributeName, Position, Units


@dataclass(frozen=True, slots=True)
class Distance:
    """How far all that was released can tell apart two memories that differ at some positions.

    Attributes:
        beforehand: κ in units, and the cover that gives it; `None` where no cover exists, so that
            nothing is promised.
        afterwards: the sum over the views that were really released in the open epoch; `None` for
            infinity.
        fused: likewise over fused draws, as a loss at the epoch's order.
    """

    beforehand: Units | None
    cover: tuple[AttributeName, ...]
    afterwards: Units | None
    fused: Units | None


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
        fused=_fused_afterwards(ledger, positions),
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


def _fused_afterwards(ledger: Ledger, positions: frozenset[Position]) -> Units | None:
    """`Σ draws · ln(1 + c·max((k_D/k*)², (k_D/k*)^α))/(α − 1)`; `None` where draws are lost.

    What cells a lost draw had is not known, and so neither is how many of them differ.
    """
    if ledger.fused.is_short or not ledger.unprotected.isdisjoint(positions):
        return None
    drawn = ledger.fused.draws().items()
    return Units(sum(count * account.distance(positions) for account, count in drawn))


@dataclass(frozen=True, slots=True)
class EpochSum:
    """What one epoch came to for each attribute, by today's index sets.

    Attributes:
        fused: losses of fused text at the order `alpha`, which is 0 where the epoch fused none.
    """

    epoch: int
    spent: dict[AttributeName, Units]
    alpha: int
    fused: dict[AttributeName, Units]


def history(entries: Iterable[Entry], layout: Layout) -> tuple[EpochSum, ...]:
    """Every epoch's sums, oldest first."""
    every = tuple(entries)
    opened = [entry for entry in every if isinstance(entry, EpochOpened)]
    charges: dict[int, list[Charge]] = {entry.epoch: [] for entry in opened}
    for entry in every:
        if isinstance(entry, Charge):
            charges[entry.epoch].append(entry)
    return tuple(
        EpochSum(
            epoch.epoch,
            {a.name: _sum(charges[epoch.epoch], a) for a in layout.attributes},
            0 if epoch.fusion is None else epoch.fusion.alpha,
            {a.name: _fused_sum(every, epoch, a) for a in layout.attributes},
        )
        for epoch in opened
    )


def _fused_sum(entries: tuple[Entry, ...], epoch: EpochOpened, attribute: Attribute) -> Units:
    """The loss of one epoch's draws; reservations that were never settled count whole."""
    if epoch.fusion is None:
        return Units(0)
    made: dict[EntryId, int] = {}
    for entry in entries:
        if isinstance(entry, FusedSettled):
            made[entry.reservation] = made.get(entry.reservation, 0) + entry.draws
    return Units(
        sum(
            made.get(each.id, each.draws)
            * FusedAccount(each.app, each.cells, epoch.fusion).loss(attribute)
            for each in entries
            if isinstance(each, FusedReserved) and each.epoch == epoch.epoch
        )
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
        fused=replace(
            again.fused,
            gone=ledger.fused.gone,
            lost=ledger.fused.lost,
            lifetime_lost=ledger.fused.lifetime_lost,
            lost_alpha=ledger.fused.lost_alpha,
        ),
    )
    return marked == ledger and again.unprotected <= ledger.unprotected
