"""A `ChargeStore` that keeps its entries in a list: the real accountant without a disk."""

from collections.abc import Iterable

from tactful_core.entries import Charge, Entry, EpochOpened, UnprotectedRead
from tactful_core.layout import Promises
from tactful_core.ledger import Admitted, Ledger, Refused, UnreadableLedger, refusal, replay

FIRST_EPOCH = (EpochOpened(1),)
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

    def open_next_epoch(self) -> None:
        self.append(EpochOpened(self.ledger.epoch + 1))

    def append(self, entry: Entry) -> int:
        """Writes without a check and returns the entry's number; tests may plant entries."""
        self.ledger = self.ledger.after(entry)
        self.entries = (*self.entries, entry)
        return len(self.entries)

    async def open_epoch(self) -> int:
        return self.ledger.epoch

    async def admit(self, charge: Charge, promises: Promises) -> Admitted | Refused:
        reason = refusal(self.readable_ledger, charge, promises)
        if reason is not None:
            return Refused(reason)
        return Admitted(charge, self.append(charge))

    async def record(self, read: UnprotectedRead) -> bool:
        if isinstance(self.readable_ledger, UnreadableLedger):
            return False
        self.append(read)
        return True

    @property
    def readable_ledger(self) -> Ledger | UnreadableLedger:
        """What a decision may rest on."""
        return self.ledger if self._readable else UnreadableLedger()
