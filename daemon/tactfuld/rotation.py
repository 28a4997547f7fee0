"""A new data key for everything that is sealed.

Decides the order. What is *not* here: how each store goes from one key to the next (`store`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tactfuld.keys.values import Purpose
from tactfuld.store.history import HistoryStore
from tactfuld.store.ledger import LedgerStore
from tactfuld.store.memory import MemoryStore


@dataclass(frozen=True, slots=True)
class Stores:
    """All that is sealed under data keys, open."""

    memory: MemoryStore
    ledger: LedgerStore
    history: HistoryStore

    async def rotate(self) -> tuple[str, ...]:
        """A new key for each, one after the other; their names.

        Being stopped in between leaves some with a new key and the others with the old one.
        """
        steps: dict[Purpose, Callable[[], Awaitable[None]]] = {
            Purpose.MEMORY: self.memory.rotate,
            Purpose.LEDGER: self.ledger.rotate,
            Purpose.HISTORY: self.history.rotate,
        }
        for rotate in steps.values():
            await rotate()
        return tuple(steps)
