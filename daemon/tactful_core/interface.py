"""The private memory interface: one active slot of one turn (DP-MemView, Algorithm 1).

The line that decides that a view is released is the call of `mechanism.select` in
`_release_charged`.
What is *not* here: routing a query to slots, the response model, sockets, storage; they are passed
in as the ports below or surround this module in `tactfuld.gate`.

Invariants (GUARANTEE §1):

- C1 the view is one of the slot's public vocabulary;
- C2 `Γ ⊇ Γ*(R)`; scores come from public input and the contents of `R` alone, and a scorer that
  fails counts as contents that speak for no view;
- C3 what is returned, `Release`, was drawn by a charged mechanism, was released before, or is the
  generic view;
- C4 nothing about `R`, `Γ` or ε comes from contents or from another app's query;
- C5 the charge is durable before rows are opened; not admitted means generic and no charge;
- C6 nothing after admission can fail visibly because of contents.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tactful_core.allocation import Standing
from tactful_core.entries import (
    Charge,
    FusedReserved,
    UnprotectedRead,
    ViewReleased,
    new_entry_id,
)
from tactful_core.errors import ContractError
from tactful_core.layout import Slot, View
from tactful_core.ledger import Admitted, Ledger, Refusal, Refused, UnreadableLedger
from tactful_core.promises import Promises
from tactful_core.sampling import Randomness
from tactful_core.scoring import Evidence, Scores, neutral_scores, scores_from
from tactful_core.standing import Draw, NothingLeft, Reuse, plan_release
from tactful_core.values import AppId, AttributeName, Position, Secret, SlotName, Units


class ChargeStore(Protocol):
    """The durable ledger."""

    def snapshot(self) -> Ledger | UnreadableLedger:
        """What all durable entries add up to."""
        ...

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        """Checks all caps and quotas and writes the charge, in one durable transaction."""
        ...

    async def record(self, entry: UnprotectedRead | ViewReleased) -> bool:
        """Writes the entry durably; `False` where the ledger is unreadable and nothing may."""
        ...


class ReservationStore(ChargeStore, Protocol):
    """The durable ledger, for those who fuse text."""

    async def reserve(self, reservation: FusedReserved, promises: Promises) -> Admitted | Refused:
        """Checks all fused budgets and writes the reservation, in one durable transaction.

        All its draws count as spent from then on.
        """
        ...

    async def settle(self, reservation: FusedReserved, draws: int) -> bool:
        """Says durably how many draws were made, after the last one; the others are free again.

        `False` where it cannot be said, because the epoch is over or the ledger unreadable: then
        the reservation stays spent whole.

        Raises:
            ContractError: it was settled before, was not made here, or is of fewer draws.
        """
        ...


class MemoryReader(Protocol):
    """Sealed memory."""

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        """One text a position, in order; empty, unreadable and undecodable ones are `""`."""
        ...


class Scorer(Protocol):
    """Judges how well each view of a slot fits a query and the contents of a read set."""

    async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        """`r` for each view: a function of public input alone."""
        ...

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        """`c` and `s` for each view: a function of the vocabulary and of these rows."""
        ...


class OwnerNotices(Protocol):
    """Where the owner, and nobody else, is told that something needs a look."""

    def scoring_failed(self, slot: SlotName) -> None:
        """Contents could not be read or scored; must not raise, since contents may cause it."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything with I/O or chance that a release needs."""

    charges: ChargeStore
    memory: MemoryReader
    scorer: Scorer
    randomness: Randomness
    notices: OwnerNotices


class Source(StrEnum):
    """Where a released view comes from; public, like the view."""

    DRAWN = "drawn"
    STANDING = "standing"
    GENERIC = "generic"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True, slots=True)
class Release:
    """A view that may leave: the only kind of value the response model and apps ever see.

    Attributes:
        charged: the attributes that paid `units` each; empty where nothing was charged.
        refusal: why nothing was drawn; `None` where something was, or nothing had to be.
    """

    slot: SlotName
    view: View
    units: Units
    charged: frozenset[AttributeName]
    refusal: Refusal | None
    source: Source

    @property
    def fallback(self) -> bool:
        """Whether this is the generic view because nothing could be drawn."""
        return self.source is Source.GENERIC


async def release_view(
    app: AppId, query: str, slot: Slot, promises: Promises, ports: Ports
) -> Release:
    """Algorithm 1 for one active slot: read set, charge set, ε, admission, scores, draw.

    Args:
        slot: with the shelves that the query reads, all of them or fewer (`Slot.reading`).

    Raises:
        ContractError: the app was not granted the slot, or the slot has other shelves.
    """
    promises.require_granted(app, slot.name)
    if not set(slot.positions) <= set(promises.layout.slot(slot.name).positions):
        raise ContractError("Only the slot's own positions may be read for it.")
    charge_set = promises.charge_set(slot)
    relevance = await ports.scorer.relevance(query, slot)
    if len(relevance) != len(slot.vocabulary):
        raise ContractError("A scorer must state the relevance of every view of the slot.")
    if len(slot.vocabulary) == 1:
        return _generic(slot, None)
    if not charge_set:
        return await _release_uncharged(app, relevance, slot, promises, ports)
    ledger = ports.charges.snapshot()
    if isinstance(ledger, UnreadableLedger):
        return _generic(slot, Refusal.UNREADABLE)
    match plan_release(promises, slot, promises.epsilon(slot), relevance, ledger):
        case NothingLeft():
            return _generic(slot, Refusal.SHARE)
        case Reuse(view=view):
            return _free(slot, slot.vocabulary[view])
        case Draw() as draw:
            charge = Charge(
                id=new_entry_id(),
                epoch=ledger.epoch,
                app=app,
                slot=slot.name,
                mechanism=promises.mechanism,
                positions=frozenset(slot.positions),
                charged=charge_set,
                units=draw.mechanism.charge,
                policy=promises.digest,
            )
            return await _release_charged(charge, draw, relevance, slot, promises, ports)


async def _release_charged(
    charge: Charge,
    draw: Draw,
    relevance: tuple[float, ...],
    slot: Slot,
    promises: Promises,
    ports: Ports,
) -> Release:
    """Admission, then scores, then the draw; nothing is opened before the charge is durable."""
    admission = await ports.charges.admit(charge, promises)
    if isinstance(admission, Refused):
        return _generic(slot, admission.reason)
    scores = draw.judged(await _scores(relevance, slot, ports))
    chosen = draw.candidates[draw.mechanism.select(scores, ports.randomness)]
    view = slot.vocabulary[chosen]
    if isinstance(promises.allocation, Standing):
        await ports.charges.record(_released(charge, draw, slot, view))
    return Release(slot.name, view, charge.units, charge.charged, None, Source.DRAWN)


async def _release_uncharged(
    app: AppId, relevance: tuple[float, ...], slot: Slot, promises: Promises, ports: Ports
) -> Release:
    """`Γ = ∅`: generic, unless the owner declared every shelf of the read set unprotected."""
    ledger = ports.charges.snapshot()
    if not promises.layout.is_unprotected(slot.positions):
        return _generic(slot, None)
    if isinstance(ledger, UnreadableLedger):
        return _generic(slot, Refusal.UNREADABLE)
    read = UnprotectedRead(
        id=new_entry_id(),
        epoch=ledger.epoch,
        app=app,
        slot=slot.name,
        positions=frozenset(slot.positions),
        policy=promises.digest,
    )
    if not await ports.charges.record(read):
        return _generic(slot, Refusal.UNREADABLE)
    best = (await _scores(relevance, slot, ports)).best()
    view = slot.vocabulary[best]
    return Release(slot.name, view, Units(0), frozenset(), None, Source.UNPROTECTED)


async def _scores(relevance: tuple[float, ...], slot: Slot, ports: Ports) -> Scores:
    """Scores of every view; contents that cannot be read or scored speak for none (C2, C6)."""
    try:
        rows = await ports.memory.open_rows(slot.positions)
        return scores_from(relevance, await ports.scorer.evidence(slot, rows))
    except Exception:  # noqa: BLE001 - C6: whatever contents cause, nothing of it may show
        ports.notices.scoring_failed(slot.name)
        return neutral_scores(relevance)


def _released(charge: Charge, draw: Draw, slot: Slot, view: View) -> ViewReleased:
    return ViewReleased(
        id=new_entry_id(),
        epoch=charge.epoch,
        charge=charge.id,
        slot=slot.name,
        mechanism=charge.mechanism,
        candidates=tuple(slot.vocabulary[index].name for index in draw.candidates),
        view=view.name,
        units=charge.units,
    )


def _free(slot: Slot, view: View) -> Release:
    return Release(slot.name, view, Units(0), frozenset(), None, Source.STANDING)


def _generic(slot: Slot, reason: Refusal | None) -> Release:
    return Release(slot.name, slot.generic, Units(0), frozenset(), reason, Source.GENERIC)
