"""The accountant: what entries add up to, and whether one more fits.

Decides admission. What is *not* here: making it durable (`tactfuld.store.ledger` calls `refusal`
inside one `BEGIN IMMEDIATE` transaction), and what a release costs (`allocation`).

Invariants:

- prospective: `L_a + ε ≤ B_a` is checked for every attribute of the charge set, every quota of the
  app and the slot's share, before anything is written; one refusal refuses all (C5), and nobody is
  charged;
- an entry counts against `a` if `a` was charged *or* if its read set meets today's `I_a`: a group
  that grows is recomputed by interpretation, not by rewriting (GUARANTEE §3);
- sums are whole numbers and only ever grow within an epoch; there is no refund;
- what is known from outside (`Mark`) to have been spent counts, even if its entries are gone;
- a ledger that could not be read admits nothing (`UnreadableLedger`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from tactful_core.allocation import Standing
from tactful_core.entries import (
    Cell,
    Charge,
    Entry,
    EntryId,
    EpochOpened,
    FusedReserved,
    FusedSettled,
    UnprotectedRead,
    UnreadableEntry,
    ViewReleased,
)
from tactful_core.errors import ContractError
from tactful_core.fused_ledger import (
    FusedAccount,
    FusedMark,
    FusedSums,
    loss_cap,
    more,
    plus,
    with_,
)
from tactful_core.layout import Attribute
from tactful_core.promises import Promises
from tactful_core.values import AppId, AttributeName, Position, SlotName, Units


@dataclass(frozen=True, slots=True)
class Account:
    """Entries that read and charged alike for the same app; they are summed together."""

    app: AppId
    positions: frozenset[Position]
    charged: frozenset[AttributeName]

    def affects(self, attribute: Attribute) -> bool:
        return attribute.name in self.charged or not self.positions.isdisjoint(attribute.positions)


@dataclass(frozen=True, slots=True)
class Mark:
    """The high-water mark: what a ledger had come to, kept outside of it.

    Attributes:
        sequence: how many entries there were.
        settled, lifetime: `L_a` of the epoch and of all epochs, for the attributes there were.
        unprotected: positions read without protection in the epoch.
        fused: the same of fused text.
    """

    sequence: int
    epoch: int
    settled: Mapping[AttributeName, Units]
    lifetime: Mapping[AttributeName, Units]
    unprotected: frozenset[Position] = frozenset()
    fused: FusedMark = field(default_factory=FusedMark)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What all entries so far add up to.

    Attributes:
        epoch: the open epoch; 0 before the first one.
        period: the highest calendar period that an epoch was opened for.
        settled: units per account in the open epoch.
        lifetime: units per account over all epochs; never reset.
        unprotected: positions read without protection in the open epoch.
        charges: how many releases of each slot were charged in the open epoch.
        read: what each charge of the open epoch read.
        released: the views released for each slot in the open epoch, oldest first.
        lost, lifetime_lost: what is known to have been spent by entries that are gone (`Mark`).
        fused: draws of fused text, reserved and settled.
        exhausted: nothing is admitted before the next epoch.
    """

    epoch: int = 0
    period: int = 0
    settled: Mapping[Account, int] = field(default_factory=lambda: MappingProxyType({}))
    lifetime: Mapping[Account, int] = field(default_factory=lambda: MappingProxyType({}))
    unprotected: frozenset[Position] = frozenset()
    charges: Mapping[SlotName, int] = field(default_factory=lambda: MappingProxyType({}))
    read: Mapping[EntryId, frozenset[Position]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    released: Mapping[SlotName, tuple[ViewReleased, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    lost: Mapping[AttributeName, int] = field(default_factory=lambda: MappingProxyType({}))
    lifetime_lost: Mapping[AttributeName, int] = field(default_factory=lambda: MappingProxyType({}))
    fused: FusedSums = field(default_factory=FusedSums)
    exhausted: bool = False

    def after(self, entry: Entry) -> Ledger:
        """The ledger with one more entry.

        An entry of an earlier epoch (from another copy of the ledger) counts for the lifetime only.

        Raises:
            UnreadableEntry: an entry of an epoch that was not opened, an epoch out of order, or
                fused draws that could not be made or were not reserved.
        """
        if isinstance(entry, EpochOpened):
            return self._opened(entry)
        if not 1 <= entry.epoch <= self.epoch:
            raise UnreadableEntry("An entry in the ledger names an epoch that was not opened.")
        match entry:
            case Charge():
                return self._charged(entry)
            case UnprotectedRead() if entry.epoch == self.epoch:
                return replace(self, unprotected=self.unprotected | entry.positions)
            case ViewReleased() if entry.epoch == self.epoch:
                views = (*self.released.get(entry.slot, ()), entry)
                return replace(self, released=with_(self.released, entry.slot, views))
            case FusedReserved():
                return self._reserved(entry)
            case FusedSettled() if entry.epoch == self.epoch:
                return replace(self, fused=self.fused.settle(entry))
            case _:
                return self

    def _opened(self, entry: EpochOpened) -> Ledger:
        if entry.epoch != self.epoch + 1 or entry.period < self.period:
            raise UnreadableEntry("Epochs in the ledger are out of order.")
        return Ledger(
            epoch=entry.epoch,
            period=entry.period,
            lifetime=self.lifetime,
            lifetime_lost=self.lifetime_lost,
            fused=self.fused.opened(entry.epoch, entry.fusion),
        )

    def _reserved(self, entry: FusedReserved) -> Ledger:
        is_now = entry.epoch == self.epoch
        return replace(
            self,
            fused=self.fused.reserved(entry, in_open_epoch=is_now),
            unprotected=self.unprotected | (entry.unprotected if is_now else frozenset()),
        )

    def _charged(self, entry: Charge) -> Ledger:
        account = Account(entry.app, entry.positions, entry.charged)
        lifetime = plus(self.lifetime, account, entry.units)
        if entry.epoch < self.epoch:
            return replace(self, lifetime=lifetime)
        return replace(
            self,
            settled=plus(self.settled, account, entry.units),
            lifetime=lifetime,
            charges=plus(self.charges, entry.slot, 1),
            read=with_(self.read, entry.id, entry.positions),
        )

    def not_below(self, mark: Mark, attributes: Iterable[Attribute]) -> Ledger:
        """The ledger with what the mark knows to have been spent and the entries do not show.

        The difference is added to whatever is spent from now on. Where the mark knows an epoch that
        the entries do not, nothing is admitted before another one is opened.
        """
        listed = tuple(attributes)
        lifetime = {a.name: self.lifetime_spent(a) for a in listed}
        raised = replace(
            self,
            lifetime_lost=more(mark.lifetime, lifetime, self.lifetime_lost),
            fused=self.fused.lifetime_not_below(
                mark.fused, listed, of_a_later_epoch=mark.epoch > self.epoch
            ),
        )
        if mark.epoch > self.epoch:
            return raised.until_next_epoch()
        if mark.epoch < self.epoch:
            return raised
        settled = {a.name: self.spent(a) for a in listed}
        return replace(
            raised,
            lost=more(mark.settled, settled, self.lost),
            unprotected=self.unprotected | mark.unprotected,
            fused=raised.fused.not_below(mark.fused, listed),
        )

    def until_next_epoch(self) -> Ledger:
        """The ledger with everything exhausted."""
        return replace(self, exhausted=True)

    def exposed(self, attribute: Attribute) -> bool:
        """Whether this epoch read a position of `I_a` without protection: a loss of infinity."""
        return not self.unprotected.isdisjoint(attribute.positions)

    def spent(self, attribute: Attribute, app: AppId | None = None) -> Units:
        """`L_a` in the open epoch, over all apps or by one of them."""
        total = _total(self.settled, attribute, app)
        return Units(total + (self.lost.get(attribute.name, 0) if app is None else 0))

    def lifetime_spent(self, attribute: Attribute) -> Units:
        """The sum over all epochs."""
        lost = self.lifetime_lost.get(attribute.name, 0)
        return Units(_total(self.lifetime, attribute, None) + lost)


@dataclass(frozen=True, slots=True)
class UnreadableLedger:
    """A ledger with a row that cannot be opened, decoded or chained: everything is exhausted."""


class Refusal(StrEnum):
    """Why nothing was drawn; all of it follows from public input."""

    CAP = "cap"
    QUOTA = "quota"
    SHARE = "share"
    UNREADABLE = "unreadable"
    FUSION = "fusion"


@dataclass(frozen=True, slots=True)
class Refused:
    """No charge to anybody; the slot answers from its generic view."""

    reason: Refusal


@dataclass(frozen=True, slots=True)
class Admitted:
    """The receipt for a charge that is durable; nothing is drawn without one."""

    charge: Charge | FusedReserved
    sequence: int


def replay(entries: Iterable[Entry]) -> Ledger:
    """The ledger that these entries, in order, add up to."""
    ledger = Ledger()
    for entry in entries:
        ledger = ledger.after(entry)
    return ledger


def united(ours: Iterable[Entry], theirs: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries of `theirs` that must follow `ours`, so that both count: a union by id.

    Raises:
        UnreadableEntry: the two opened different epochs under one number; they are no copies.
    """
    kept = {entry.id: entry for entry in ours}
    missing = tuple(entry for entry in theirs if entry.id not in kept)
    known = {entry.epoch for entry in kept.values() if isinstance(entry, EpochOpened)}
    if any(isinstance(entry, EpochOpened) and entry.epoch in known for entry in missing):
        raise UnreadableEntry("The two ledgers opened different epochs under the same number.")
    return missing


def mark_of(ledger: Ledger, sequence: int, attributes: Iterable[Attribute]) -> Mark:
    """What is to be kept outside of the ledger after `sequence` entries."""
    listed = tuple(attributes)
    return Mark(
        sequence=sequence,
        epoch=ledger.epoch,
        settled=MappingProxyType({a.name: ledger.spent(a) for a in listed}),
        lifetime=MappingProxyType({a.name: ledger.lifetime_spent(a) for a in listed}),
        unprotected=ledger.unprotected,
        fused=ledger.fused.mark(listed),
    )


def refusal(
    ledger: Ledger | UnreadableLedger, charge: Charge, promises: Promises
) -> Refusal | None:
    """Why `charge` does not fit, or `None` if it may be written.

    Raises:
        ContractError: the charge set is smaller than `Γ*(R)`, or is empty; the charge costs
            nothing; or the app was not granted the slot.
    """
    _require_sound(charge, promises)
    if isinstance(ledger, UnreadableLedger) or not 1 <= charge.epoch == ledger.epoch:
        return Refusal.UNREADABLE
    for name in sorted(charge.charged):
        attribute = promises.layout.attribute(name)
        if not _fits(ledger, attribute, charge.units):
            return Refusal.CAP
        if charge.units > _quota_left(ledger, attribute, charge.app, promises):
            return Refusal.QUOTA
    rule = promises.allocation
    if isinstance(rule, Standing) and ledger.charges.get(charge.slot, 0) >= rule.releases:
        return Refusal.SHARE
    return None


def charges_left(
    ledger: Ledger | UnreadableLedger,
    app: AppId,
    charge_set: Iterable[AttributeName],
    units: Units,
    promises: Promises,
) -> int:
    """How many more charges of `units` the caps and the app's quotas admit."""
    if isinstance(ledger, UnreadableLedger):
        return 0
    left = []
    for name in charge_set:
        attribute = promises.layout.attribute(name)
        if not _fits(ledger, attribute, units):
            return 0
        room = attribute.cap - ledger.spent(attribute)
        left.append(min(room, _quota_left(ledger, attribute, app, promises)) // units)
    return max(0, min(left, default=0))


def reservation_refusal(
    ledger: Ledger | UnreadableLedger, reservation: FusedReserved, promises: Promises
) -> Refusal | None:
    """Why so many draws do not fit, or `None` if they may be reserved.

    Checked for every attribute that a cell is charged to: its fused budget, and the app's share of
    it, which is that which its quota is of the cap.

    Raises:
        ContractError: as `refusal` does, for every cell; cells that share a position or lie outside
            the slots; contents of a protected position in the public row; or no draw.
    """
    _require_sound_cells(reservation, promises)
    if isinstance(ledger, UnreadableLedger) or not 1 <= reservation.epoch == ledger.epoch:
        return Refusal.UNREADABLE
    for reason, most in _fused_rooms(ledger, reservation.app, reservation.cells, promises):
        if reservation.draws > most:
            return reason
    return None


def draws_left(
    ledger: Ledger | UnreadableLedger, app: AppId, cells: tuple[Cell, ...], promises: Promises
) -> int:
    """How many draws from these cells may still be reserved; public, like all that was charged."""
    if isinstance(ledger, UnreadableLedger):
        return 0
    return max(0, min((n for _, n in _fused_rooms(ledger, app, cells, promises)), default=0))


def settlement_refusal(ledger: Ledger | UnreadableLedger, settled: FusedSettled) -> Refusal | None:
    """Why a reservation is not settled and stays spent whole: its epoch is over.

    Raises:
        ContractError: it is not open, or more draws were made than were reserved.
    """
    if isinstance(ledger, UnreadableLedger) or settled.epoch != ledger.epoch:
        return Refusal.UNREADABLE
    reservation = ledger.fused.open.get(settled.reservation)
    if reservation is None:
        raise ContractError("Only a reservation that is open can be settled, and only once.")
    if not 0 <= settled.draws <= reservation.draws:
        raise ContractError("A reservation is settled to at most the draws that were reserved.")
    return None


def fused_cap(ledger: Ledger, attribute: Attribute, promises: Promises) -> Units | None:
    """The most that fused text may cost the attribute in the open epoch, in units of loss.

    `None` where no text may be fused from it: by the policy, or because the epoch was opened before
    the policy allowed it.
    """
    parameters, privacy = ledger.fused.now, promises.privacy
    if parameters is None or privacy is None or attribute.fusion is None:
        return None
    return loss_cap(parameters, attribute.fusion, privacy.delta)


def _fused_rooms(
    ledger: Ledger, app: AppId, cells: tuple[Cell, ...], promises: Promises
) -> Iterator[tuple[Refusal, int]]:
    """How many more draws each rule admits, and what is said where that is not enough."""
    for name in sorted(frozenset[AttributeName]().union(*(cell.charged for cell in cells))):
        attribute = promises.layout.attribute(name)
        cap = fused_cap(ledger, attribute, promises)
        if cap is None or ledger.fused.now is None:
            yield Refusal.FUSION, 0
            return
        each = FusedAccount(app, cells, ledger.fused.now).loss(attribute)
        closed = ledger.exposed(attribute) or ledger.exhausted
        yield Refusal.CAP, 0 if closed else (cap - ledger.fused.spent(attribute)) // each
        left = _fused_quota(cap, attribute, app, promises) - ledger.fused.spent(attribute, app)
        yield Refusal.QUOTA, left // each


def _fused_quota(cap: Units, attribute: Attribute, app: AppId, promises: Promises) -> int:
    """The app's share of a fused budget; all of it where its quota is the cap."""
    grant = promises.grant(app)
    quota = grant.quota.get(attribute.name, attribute.cap) if grant else Units(0)
    return cap * quota // attribute.cap


def _require_sound_cells(reservation: FusedReserved, promises: Promises) -> None:
    layout = promises.layout
    if reservation.draws < 1 or not reservation.cells:
        raise ContractError("A reservation is of at least one draw from at least one cell.")
    for slot in reservation.slots:
        promises.require_granted(reservation.app, slot)
    granted = {position for slot in reservation.slots for position in layout.slot(slot).positions}
    read = [*reservation.unprotected, *(p for cell in reservation.cells for p in cell.positions)]
    if len(set(read)) != len(read) or not granted.issuperset(read):
        raise ContractError("Cells must not share a position, and lie in the slots asked about.")
    shown = reservation.unprotected
    if not layout.is_unprotected(shown) or layout.required_charge_set(shown):
        raise ContractError("The public row of fused text shows only what is unprotected.")
    for cell in reservation.cells:
        if not cell.charged or not cell.charged >= layout.required_charge_set(cell.positions):
            raise ContractError("A cell must be charged to every attribute that it touches.")


def _require_sound(charge: Charge, promises: Promises) -> None:
    if charge.units < 1:
        raise ContractError("A charge must cost at least one unit.")
    required = promises.layout.required_charge_set(charge.positions)
    if not charge.charged or not charge.charged >= required:
        raise ContractError("A charge set must contain every attribute that the read set meets.")
    promises.require_granted(charge.app, charge.slot)


def _fits(ledger: Ledger, attribute: Attribute, units: Units) -> bool:
    within = ledger.spent(attribute) + units <= attribute.cap
    return within and not ledger.exposed(attribute) and not ledger.exhausted


def _quota_left(ledger: Ledger, attribute: Attribute, app: AppId, promises: Promises) -> int:
    """What the app may still spend of its quota; its cap where it has none of its own."""
    grant = promises.grant(app)
    quota = grant.quota.get(attribute.name, attribute.cap) if grant else Units(0)
    return quota - ledger.spent(attribute, app)


def _total(sums: Mapping[Account, int], attribute: Attribute, app: AppId | None) -> Units:
    return Units(
        sum(
            units
            for account, units in sums.items()
            if account.affects(attribute) and (app is None or account.app == app)
        )
    )
