"""The accountant: what entries add up to, and whether one more fits.

Decides admission. What is *not* here: making it durable (`tactfuld.store.ledger` calls `admission`
inside one `BEGIN IMMEDIATE` transaction), and what a release costs (`allocation`).

Invariants:

- prospective: `L_a + ε ≤ B_a` is checked for every attribute of the charge set, and every quota of
  the app, before anything is written; one refusal refuses all (C5), and nobody is charged;
- an entry counts against `a` if `a` was charged *or* if its read set meets today's `I_a`: a group
  that grows is recomputed by interpretation, not by rewriting (GUARANTEE §3);
- sums are whole numbers and only ever grow within an epoch; there is no refund;
- a ledger that could not be read admits nothing (`UnreadableLedger`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from tactful_core.entries import Charge, Entry, EpochOpened, UnprotectedRead, UnreadableEntry
from tactful_core.errors import ContractError
from tactful_core.layout import Attribute, Promises
from tactful_core.values import AppId, AttributeName, Position, Units


@dataclass(frozen=True, slots=True)
class Account:
    """Entries that read and charged alike for the same app; they are summed together."""

    app: AppId
    positions: frozenset[Position]
    charged: frozenset[AttributeName]

    def affects(self, attribute: Attribute) -> bool:
        return attribute.name in self.charged or not self.positions.isdisjoint(attribute.positions)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What all entries so far add up to.

    Attributes:
        epoch: the open epoch; 0 before the first one.
        settled: units per account in the open epoch.
        lifetime: units per account over all epochs; never reset.
        unprotected: positions read without protection in the open epoch.
    """

    epoch: int = 0
    settled: Mapping[Account, int] = field(default_factory=lambda: MappingProxyType({}))
    lifetime: Mapping[Account, int] = field(default_factory=lambda: MappingProxyType({}))
    unprotected: frozenset[Position] = frozenset()

    def after(self, entry: Entry) -> Ledger:
        """The ledger with one more entry.

        Raises:
            UnreadableEntry: an entry of another epoch, or an epoch out of order.
        """
        match entry:
            case EpochOpened(epoch=epoch):
                if epoch != self.epoch + 1:
                    raise UnreadableEntry("Epochs in the ledger are out of order.")
                return Ledger(epoch=epoch, lifetime=self.lifetime)
            case Charge():
                if entry.epoch != self.epoch:
                    raise UnreadableEntry("A charge in the ledger names another epoch.")
                account = Account(entry.app, entry.positions, entry.charged)
                return replace(
                    self,
                    settled=_add(self.settled, account, entry.units),
                    lifetime=_add(self.lifetime, account, entry.units),
                )

            case UnprotectedRead():
                if entry.epoch != self.epoch:
                    raise UnreadableEntry("A read in the ledger names another epoch.")
                return replace(self, unprotected=self.unprotected | entry.positions)

    def exposed(self, attribute: Attribute) -> bool:
        """Whether this epoch read a position of `I_a` without protection: a loss of infinity."""
        return not self.unprotected.isdisjoint(attribute.positions)

    def spent(self, attribute: Attribute, app: AppId | None = None) -> Units:
        """`L_a` in the open epoch, over all apps or by one of them."""
        return _total(self.settled, attribute, app)

    def lifetime_spent(self, attribute: Attribute) -> Units:
        """The sum over all epochs."""
        return _total(self.lifetime, attribute, None)


@dataclass(frozen=True, slots=True)
class UnreadableLedger:
    """A ledger with a row that cannot be opened, decoded or chained: everything is exhausted."""


class Refusal(StrEnum):
    """Why a charge was not admitted; all of it follows from public input."""

    CAP = "cap"
    QUOTA = "quota"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Refused:
    """No charge to anybody; the slot answers from its generic view."""

    reason: Refusal


@dataclass(frozen=True, slots=True)
class Admitted:
    """The receipt for a charge that is durable; nothing is drawn without one."""

    charge: Charge
    sequence: int


def replay(entries: Iterable[Entry]) -> Ledger:
    """The ledger that these entries, in order, add up to."""
    ledger = Ledger()
    for entry in entries:
        ledger = ledger.after(entry)
    return ledger


def refusal(
    ledger: Ledger | UnreadableLedger, charge: Charge, promises: Promises
) -> Refusal | None:
    """Why `charge` does not fit, or `None` if it may be written.

    Raises:
        ContractError: the charge set is smaller than `Γ*(R)`, or is empty; or the charge costs
            nothing.
    """
    if charge.units < 1:
        raise ContractError("A charge must cost at least one unit.")
    if not charge.charged or not charge.charged >= promises.layout.required_charge_set(
        charge.positions
    ):
        raise ContractError("A charge set must contain every attribute that the read set meets.")
    if isinstance(ledger, UnreadableLedger) or not 1 <= charge.epoch == ledger.epoch:
        return Refusal.UNREADABLE
    grant = promises.grant(charge.app)
    quota = grant.quota if grant else {}
    for name in sorted(charge.charged):
        attribute = promises.layout.attribute(name)
        over_cap = ledger.spent(attribute) + charge.units > attribute.cap
        if over_cap or ledger.exposed(attribute):
            return Refusal.CAP
        if name in quota and ledger.spent(attribute, charge.app) + charge.units > quota[name]:
            return Refusal.QUOTA
    return None


def _add(sums: Mapping[Account, int], account: Account, units: int) -> Mapping[Account, int]:
    return MappingProxyType({**sums, account: sums.get(account, 0) + units})


def _total(sums: Mapping[Account, int], attribute: Attribute, app: AppId | None) -> Units:
    return Units(
        sum(
            units
            for account, units in sums.items()
            if account.affects(attribute) and (app is None or account.app == app)
        )
    )
