"""The private memory interface: one active slot of one turn (DP-MemView, Algorithm 1).

The line that decides that a view is released is the call of `mechanism.select` in `release_view`.
What is *not* here: routing a query to slots, the response model, sockets, storage; they are passed
in as the ports below or surround this module in `tactfuld.gate`.

Invariants (GUARANTEE §1):

- C1 the view is one of the slot's public vocabulary;
- C2 `Γ = Γ*(R)`; scores come from public input and the contents of `R` alone, and a scorer that
  fails counts as contents that speak for no view;
- C3 what is returned, `Release`, was drawn by a charged mechanism or is the generic view;
- C4 nothing about `R`, `Γ` or ε comes from contents or from another app's query;
- C5 the charge is durable before rows are opened; not admitted means generic and no charge;
- C6 nothing after admission can fail visibly because of contents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from tactful_core.allocation import online_epsilon
from tactful_core.entries import Charge, Mechanism, UnprotectedRead
from tactful_core.errors import ContractError
from tactful_core.layout import Promises, Slot, View
from tactful_core.ledger import Admitted, Refusal, Refused
from tactful_core.sampling import Randomness
from tactful_core.scoring import Evidence, Scores, neutral_scores, scores_from
from tactful_core.selection import Exponential
from tactful_core.values import AppId, AttributeName, Position, Secret, SlotName, Units


class ChargeStore(Protocol):
    """The durable ledger."""

    async def open_epoch(self) -> int:
        """The number of the open epoch."""
        ...

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        """Checks all caps and quotas and writes the charge, in one durable transaction."""
        ...

    async def record(self, read: UnprotectedRead) -> bool:
        """Writes the entry durably; `False` where the ledger is unreadable and nothing may."""
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

    async def evidence(
        self, relevance: tuple[float, ...], slot: Slot, rows: Secret[tuple[str, ...]]
    ) -> Evidence:
        """`c` and `s` for each view, beside the relevance already found."""
        ...


class OwnerNotices(Protocol):
    """Where the owner, and nobody else, is told that something needs a look."""

    def scoring_failed(self, slot: SlotName) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything with I/O or chance that a release needs."""

    charges: ChargeStore
    memory: MemoryReader
    scorer: Scorer
    randomness: Randomness
    notices: OwnerNotices


@dataclass(frozen=True, slots=True)
class Release:
    """A view that may leave: the only kind of value the response model and apps ever see.

    Attributes:
        charged: the attributes that paid `units` each; empty where nothing was charged.
        refusal: why a charge was not admitted; `None` where one was, or none was needed.
        fallback: whether this is the generic view because nothing could be drawn.
    """

    slot: SlotName
    view: View
    units: Units
    charged: frozenset[AttributeName]
    refusal: Refusal | None
    fallback: bool


async def release_view(
    app: AppId, query: str, slot: Slot, promises: Promises, ports: Ports
) -> Release:
    """Algorithm 1 for one active slot: read set, charge set, ε, admission, scores, draw."""
    read_set = slot.positions
    charge_set = promises.layout.required_charge_set(read_set)
    relevance = await ports.scorer.relevance(query, slot)
    if len(relevance) != len(slot.vocabulary):
        raise ContractError("A scorer must state the relevance of every view of the slot.")
    if not charge_set:
        return await _release_uncharged(app, relevance, slot, promises, ports)
    charge = Charge(
        epoch=await ports.charges.open_epoch(),
        app=app,
        slot=slot.name,
        mechanism=Mechanism.EXPONENTIAL,
        positions=frozenset(read_set),
        charged=charge_set,
        units=online_epsilon(promises.layout, charge_set, promises.charges_per_cap),
        policy=promises.digest,
    )
    admission = await ports.charges.admit(charge, promises)
    if isinstance(admission, Refused):
        return _generic(slot, admission.reason)
    mechanism = Exponential(admission.charge.units)
    scores = await _scores(relevance, slot, ports)
    view = slot.vocabulary[mechanism.select(scores, ports.randomness)]
    return Release(slot.name, view, charge.units, charge_set, None, fallback=False)


async def _release_uncharged(
    app: AppId, relevance: tuple[float, ...], slot: Slot, promises: Promises, ports: Ports
) -> Release:
    """`Γ = ∅`: generic, unless the owner declared every shelf of the read set unprotected."""
    if not promises.layout.is_unprotected(slot.positions):
        return _generic(slot, None)
    read = UnprotectedRead(
        epoch=await ports.charges.open_epoch(),
        app=app,
        slot=slot.name,
        positions=frozenset(slot.positions),
        policy=promises.digest,
    )
    if not await ports.charges.record(read):
        return _generic(slot, Refusal.UNREADABLE)
    best = (await _scores(relevance, slot, ports)).best()
    return Release(slot.name, slot.vocabulary[best], Units(0), frozenset(), None, fallback=False)


async def _scores(relevance: tuple[float, ...], slot: Slot, ports: Ports) -> Scores:
    """Scores of every view; contents that cannot be scored speak for none (C2, C6).

    The public part stays the relevance that was found before any row was opened.
    """
    try:
        rows = await ports.memory.open_rows(slot.positions)
        evidence = await ports.scorer.evidence(relevance, slot, rows)
        return scores_from(replace(evidence, relevance=relevance))
    except Exception:  # noqa: BLE001 - C6: whatever contents cause, nothing of it may show
        ports.notices.scoring_failed(slot.name)
        return neutral_scores(relevance)


def _generic(slot: Slot, reason: Refusal | None) -> Release:
    return Release(slot.name, slot.generic, Units(0), frozenset(), reason, fallback=True)
