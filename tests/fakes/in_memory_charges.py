"""A `ReservationStore` that keeps its entries in a list: the real accountant without a disk."""

from collections.abc import Iterable

from tactful_core.entries import (
    Charge,
    Entry,
    EntryId,
    EpochOpened,
    FusedReserved,
    FusedSettled,
    UnprotectedRead,
    ViewReleased,
    new_entry_id,
)
from tactful_core.fusion import FusionParameters
from tactful_core.ledger import (
    Admitted,
    Ledger,
    Refused,
    UnreadableLedger,
    refusal,
    replay,
    reservation_refusal,
    settlement_refusal,
)
from tactful_core.promises import Promises


def numbered_id(number: int) -> EntryId:
    """An id that says which entry it is: the one with this number, counted from 1."""
    return EntryId(f"{number:032x}")


FIRST_EPOCH = (EpochOpened(numbered_id(1), 1, 0),)
"""The entries of a store that was just made."""


class InMemoryCharges:
    """Atomic because it never waits between the check and the write.

    Args:
        entries: what was written before; the ledger is rebuilt from them, as after a restart.
    """

    def __init__(self, entries: Iterable[Entry] = FIRST_EPOCH) -> None:
        self.entries: tuple[Entry, ...] = tuple(entries)
        self.ledger: Ledger = replay(self.entries)
        self._readable = True

    def lose_a_row(self) -> None:
        """From now on the ledger counts as unreadable."""
        self._readable = False

    def open_next_epoch(self, fusion: FusionParameters | None = None) -> None:
        """Opens an epoch by hand: its period is that of the one before."""
        number, period = self.ledger.epoch + 1, self.ledger.period
        self.append(EpochOpened(new_entry_id(), number, period, fusion))

    def append(self, entry: Entry) -> int:
        """Writes without a check and returns the entry's number; tests may plant entries."""
        self.ledger = self.ledger.after(entry)
        self.entries = (*self.entries, entry)
        return len(self.entries)

    def snapshot(self) -> Ledger | UnreadableLedger:
        return self.ledger if self._readable else UnreadableLedger()

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        reason = refusal(self.snapshot(), charge, promises)
        if reason is not None:
            return Refused(reason)
        return Admitted(charge, self.append(charge))

    async def reserve(self, reservation: FusedReserved, promises: Promises) -> Admitted | Refused:
        reason = reservation_refusal(self.snapshot(), reservation, promises)
        if reason is not None:
            return Refused(reason)
        return Admitted(reservation, self.append(reservation))

    async def settle(self, reservation: FusedReserved, draws: int) -> bool:
        entry = FusedSettled(new_entry_id(), reservation.epoch, reservation.id, draws)
        if settlement_refusal(self.snapshot(), entry) is not None:
            return False
        self.append(entry)
        return True

    async def record(self, entry: UnprotectedRead | ViewReleased) -> bool:
        ledger = self.snapshot()
        if isinstance(ledger, UnreadableLedger) or entry.epoch != ledger.epoch:
            return False
        self.append(entry)
        return True
