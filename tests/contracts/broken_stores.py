"""Ledgers and memories that are broken on purpose: each forgets one rule.

The text says what its author might have thought. What is *not* here: broken turns
(`broken_turns`), the list of mutants and what kills each (`mutants`).
"""

from dataclasses import replace

from tests.fakes.in_memory_charges import InMemoryCharges
from tests.fakes.in_memory_rows import Contents, InMemoryRows
from tests.fakes.running import Pause

from tactful_core.allocation import Online
from tactful_core.entries import Charge
from tactful_core.layout import Attribute
from tactful_core.ledger import Admitted, Ledger, Refused, UnreadableLedger, refusal
from tactful_core.promises import Promises
from tactful_core.values import Position, Secret, Units


class ChargesInTurn(InMemoryCharges):
    """C2: a shared read is paid by its attributes one after the other (IncompleteCharge)."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        order = sorted(charge.charged)
        payer = order[len(self.entries) % len(order)]
        partial = replace(charge, charged=frozenset({payer}), positions=frozenset())
        admission = await super().admit(partial, promises)
        return replace(admission, charge=charge) if isinstance(admission, Admitted) else admission


class RareWordsOnly(InMemoryRows):
    """C2: an index-wide statistic: a word counts only where no other row of the store has it."""

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        def rare(position: Position) -> str:
            elsewhere = " ".join(t for p, t in self.contents.items() if p != position).split()
            words = self.contents.get(position, "").split()
            return " ".join(word for word in words if word not in elsewhere)

        return Secret(tuple(rare(position) for position in read_set))


class NoCap(InMemoryCharges):
    """C5: writes charges without looking."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        return Admitted(charge, self.append(charge))


class ChecksAfterwards(InMemoryCharges):
    """C5: writes first and checks then; what did not fit stays written."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        reason = refusal(self.ledger, charge, promises)
        number = self.append(charge)
        return Admitted(charge, number) if reason is None else Refused(reason)


class ChargesWhomItFits(InMemoryCharges):
    """C5: refuses for the attribute that is full, and charges the others all the same."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        admission = await super().admit(charge, promises)
        if isinstance(admission, Refused):
            open_ones = frozenset(
                name
                for name in charge.charged
                if self._has_room(promises.layout.attribute(name), charge)
            )
            if open_ones:
                self.append(replace(charge, charged=open_ones, positions=frozenset()))
        return admission

    def _has_room(self, attribute: Attribute, charge: Charge) -> bool:
        return self.ledger.spent(attribute) + charge.units <= attribute.cap


class WritesHalf(InMemoryCharges):
    """C5: charges half of what the mechanism is run with."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        half = replace(charge, units=Units(charge.units // 2))
        admission = await super().admit(half, promises)
        return replace(admission, charge=charge) if isinstance(admission, Admitted) else admission


class CapsForEachApp(InMemoryCharges):
    """C5: caps that hold for each app by itself, as if apps could not talk to each other."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        own = Ledger(epoch=self.ledger.epoch, charges=self.ledger.charges)
        for entry in self.entries:
            if isinstance(entry, Charge) and entry.app == charge.app:
                own = own.after(entry)
        reason = refusal(own, charge, promises)
        return Refused(reason) if reason else Admitted(charge, self.append(charge))


class NotDurable(InMemoryCharges):
    """C5: says that a charge is written, and never writes it."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        reason = refusal(self.ledger, charge, promises)
        return Refused(reason) if reason else Admitted(charge, len(self.entries) + 1)


class ChecksThenWrites(InMemoryCharges):
    """C5: checks and writes in two transactions, with a wait in between."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        reason = refusal(self.snapshot(), charge, promises)
        if reason is not None:
            return Refused(reason)
        await Pause()
        return Admitted(charge, self.append(charge))


class UnreadableIsEmpty(InMemoryCharges):
    """C5: starts afresh where the ledger cannot be read."""

    def snapshot(self) -> Ledger | UnreadableLedger:
        return self.ledger


class NoQuotas(InMemoryCharges):
    """C5: keeps the device-wide caps and forgets the quotas inside them."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        unlimited = tuple(replace(grant, quota={}) for grant in promises.grants)
        return await super().admit(charge, replace(promises, grants=unlimited))


class NoShares(InMemoryCharges):
    """C5: leaves it to whoever plans a release whether a share is used up already."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        return await super().admit(charge, replace(promises, allocation=Online(1)))


class ReopensTheEpoch(InMemoryCharges):
    """C5: opens an epoch whenever a cap is full, so that nobody has to wait."""

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        admission = await super().admit(charge, promises)
        if isinstance(admission, Admitted):
            return admission
        self.open_next_epoch()
        return await super().admit(replace(charge, epoch=self.ledger.epoch), promises)


class SpillsOver(InMemoryRows):
    """C7: what position 2 has no room for is continued at position 4."""

    def __init__(self, contents: Contents) -> None:
        spilled = f"{contents.get(Position(4), '')} {contents.get(Position(2), '')}"
        super().__init__({**contents, Position(4): spilled})


class RemovesDuplicates(InMemoryRows):
    """C7: a text that an earlier position holds already is not kept a second time."""

    def __init__(self, contents: Contents) -> None:
        kept: dict[Position, str] = {}
        for position in sorted(contents):
            text = contents[position]
            kept[position] = "" if text in kept.values() else text
        super().__init__(kept)
