"""A policy that is in force and stays so; epochs open as the ledger opens them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tactful.errors import Unusable
from tactful_core.promises import Promises
from tactfuld.policy_in_force import Staged
from tactfuld.store.ledger import LedgerStore


@dataclass(frozen=True, slots=True)
class UnchangingPolicy:
    """Implements `tactfuld.server.policy_methods.PolicySteps` for promises that no file made."""

    promises: Promises
    ledger: LedgerStore

    @property
    def in_next_epoch(self) -> Promises:
        return self.promises

    @property
    def staged(self) -> Staged:
        return Staged(self.promises.digest, (), 0, (), other_shelves=False, at_once=False)

    async def open_epoch(self, period: int, after: int | None) -> int | None:
        fusion = await asyncio.to_thread(self.promises.calibrated)
        return await self.ledger.open_next_epoch(period, after, fusion)

    async def apply_at_once(self, written: str) -> None:
        raise Unusable("Nothing but this policy is ever in force here.")
