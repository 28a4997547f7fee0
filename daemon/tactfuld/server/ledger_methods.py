"""What the owner's tools may ask about ledgers, epochs and the promise.

Decides how sums become epsilons for people. What is *not* here: the sums (`tactful_core.ledger`),
distances and histories (`tactfuld.audit`).
"""

from __future__ import annotations

import asyncio

from tactful.errors import AlreadyExists, NotFound, Unusable
from tactful.owner_wire import (
    AuditDistance,
    Distance,
    EpochHistory,
    EpochLine,
    EpochNew,
    EpochReply,
    EpochSums,
    FusedDistance,
    LedgerLine,
    LedgerReply,
    OwnerMethod,
    Replay,
)
from tactful.wire import Empty
from tactful_core.entries import Entry, UnreadableEntry
from tactful_core.fusion import FusionParameters
from tactful_core.layout import Attribute
from tactful_core.ledger import Ledger, UnreadableLedger
from tactful_core.promises import Promises
from tactful_core.standing import release_mechanism
from tactful_core.values import Position, Units, epsilon_of
from tactfuld.audit import Distance as DistanceFound
from tactfuld.audit import adds_up, distance, history, promised
from tactfuld.fused_accounts import (
    delta_of,
    epsilon_at,
    fused_line,
    lifetime_odds_after,
    lifetime_odds_now,
)
from tactfuld.server.policy_methods import PolicySteps, staged_policy
from tactfuld.server.session import Caller, Method, MethodTable
from tactfuld.store.ledger import LedgerStore


def ledger_methods(promises: Promises, store: LedgerStore, policy: PolicySteps) -> MethodTable:
    """The part of the owner's table that is about ledgers."""
    owner = _LedgerMethods(promises, store, policy)
    return {
        OwnerMethod.LEDGER: Method(Empty, owner.ledger),
        OwnerMethod.EPOCH_SHOW: Method(Empty, owner.epoch_show),
        OwnerMethod.EPOCH_NEW: Method(EpochNew, owner.epoch_new),
        OwnerMethod.EPOCH_HISTORY: Method(Empty, owner.epoch_history),
        OwnerMethod.AUDIT_DISTANCE: Method(AuditDistance, owner.audit_distance),
        OwnerMethod.AUDIT_REPLAY: Method(Empty, owner.audit_replay),
    }


class _LedgerMethods:
    def __init__(self, promises: Promises, store: LedgerStore, policy: PolicySteps) -> None:
        self._promises = promises
        self._policy = policy
        self._layout = promises.layout
        self._store = store

    async def ledger(self, _caller: Caller, _request: Empty) -> LedgerReply:
        ledger = self._store.snapshot()
        if isinstance(ledger, UnreadableLedger):
            lines = tuple(_exhausted(attribute) for attribute in self._layout.attributes)
            return LedgerReply(epoch=0, readable=False, lines=lines)
        return LedgerReply(
            epoch=ledger.epoch,
            readable=True,
            lines=tuple(_line(a, ledger, self._promises) for a in self._layout.attributes),
        )

    async def epoch_show(self, _caller: Caller, _request: Empty) -> EpochReply:
        ledger, promises = self._readable(), self._policy.promises
        following = self._policy.in_next_epoch
        calibrated = await asyncio.to_thread(following.calibrated)
        return EpochReply(
            epoch=ledger.epoch,
            renewal=promises.epochs.renewal.value,
            lines=tuple(
                _epoch_line(attribute, ledger, promises, following, calibrated)
                for attribute in promises.layout.attributes
            ),
            staged=staged_policy(self._policy.staged),
        )

    async def epoch_new(self, caller: Caller, request: EpochNew) -> EpochReply:
        if await self._policy.open_epoch(0, request.after) is not None:
            return await self.epoch_show(caller, Empty())
        if self._readable().epoch == request.after:
            raise Unusable(
                "ledger.db or the record of the policy in force could not be written, so no epoch "
                "was opened. Check the disk."
            )
        raise AlreadyExists(
            f"Epoch {request.after} is not the open one; nothing was changed. "
            "Look at `tactful epoch show` and decide again."
        )

    async def epoch_history(self, _caller: Caller, _request: Empty) -> EpochHistory:
        _, entries = await self._witnessed()
        sums = history(entries, self._layout)
        return EpochHistory(
            epochs=tuple(
                EpochSums(
                    epoch=each.epoch,
                    spent={str(name): epsilon_of(units) for name, units in each.spent.items()},
                    fused={
                        str(name): epsilon_at(each.alpha, rho, delta_of(self._promises))
                        for name, rho in each.fused.items()
                    },
                )
                for each in sums
            )
        )

    async def audit_distance(self, _caller: Caller, request: AuditDistance) -> Distance:
        ledger = self._readable()
        beyond = [p for p in request.positions if not 1 <= p <= self._layout.size]
        if beyond:
            raise NotFound(
                f"There is no position {beyond[0]}; memory has positions 1 to {self._layout.size}."
            )
        positions = frozenset(Position(p) for p in request.positions)
        found = await asyncio.to_thread(distance, self._layout, ledger, positions)
        return Distance(
            beforehand=_epsilon(found.beforehand),
            cover=found.cover,
            afterwards=_epsilon(found.afterwards),
            fused=self._fused(found, ledger),
        )

    def _fused(self, found: DistanceFound, ledger: Ledger) -> FusedDistance | None:
        """Nothing where no text was fused in this epoch."""
        if not ledger.fused.is_used:
            return None
        delta = delta_of(self._promises)
        alpha = ledger.fused.alpha if ledger.fused.now is None else ledger.fused.now.alpha
        after = None if found.fused is None else epsilon_at(alpha, found.fused, delta)
        return FusedDistance(afterwards=after, delta=float(delta))

    async def audit_replay(self, _caller: Caller, _request: Empty) -> Replay:
        ledger, entries = await self._witnessed()
        return Replay(entries=len(entries), matches=adds_up(entries, ledger))

    async def _witnessed(self) -> tuple[Ledger, tuple[Entry, ...]]:
        try:
            return await self._store.witnessed()
        except UnreadableEntry as problem:
            raise _unreadable() from problem

    def _readable(self) -> Ledger:
        ledger = self._store.snapshot()
        if isinstance(ledger, UnreadableLedger):
            raise _unreadable()
        return ledger


def _unreadable() -> Unusable:
    return Unusable(
        "The ledger cannot be read as it was written, so every attribute counts as exhausted. "
        "Stop the daemon and put the data folder back from a copy."
    )


def _line(attribute: Attribute, ledger: Ledger, promises: Promises) -> LedgerLine:
    spent, exposed = ledger.spent(attribute), ledger.exposed(attribute)
    return LedgerLine(
        attribute=attribute.name,
        spent=epsilon_of(spent),
        cap=epsilon_of(attribute.cap),
        promised=epsilon_of(promised(attribute, ledger)),
        lifetime=epsilon_of(ledger.lifetime_spent(attribute)),
        closed=exposed or ledger.exhausted or not _admits(attribute, spent, promises),
        exposed=exposed,
        fused=fused_line(attribute, ledger, promises),
    )


def _admits(attribute: Attribute, spent: Units, promises: Promises) -> bool:
    """Whether the next charge of some slot would fit under the cap."""
    prices = [
        release_mechanism(promises, slot).charge
        for slot in promises.layout.slots
        if attribute.name in promises.charge_set(slot)
    ]
    return any(spent + price <= attribute.cap for price in prices)


def _epoch_line(
    attribute: Attribute,
    ledger: Ledger,
    promises: Promises,
    following: Promises,
    calibrated: FusionParameters | None,
) -> EpochLine:
    """Its bound now, and in a new epoch, whose policy may have another cap and another group."""
    left = promised(attribute, ledger) - ledger.spent(attribute)
    lifetime = ledger.lifetime_spent(attribute)
    after = next((a for a in following.layout.attributes if a.name == attribute.name), None)
    return EpochLine(
        attribute=attribute.name,
        lifetime_now=epsilon_of(Units(lifetime + left)),
        lifetime_after=None
        if after is None
        else epsilon_of(Units(max(lifetime, ledger.lifetime_spent(after)) + after.cap)),
        fused_now=lifetime_odds_now(attribute, ledger, promises),
        fused_after=0.0
        if after is None
        else lifetime_odds_after(attribute, after, ledger, following, calibrated),
        delta=float(delta_of(promises)),
    )


def _exhausted(attribute: Attribute) -> LedgerLine:
    cap = epsilon_of(attribute.cap)
    return LedgerLine(
        attribute=attribute.name,
        spent=cap,
        cap=cap,
        promised=cap,
        lifetime=cap,
        closed=True,
        exposed=False,
    )


def _epsilon(units: Units | None) -> float | None:
    return None if units is None else epsilon_of(units)
