"""Locking by itself, after the owner has not been there for a while.

Decides when. What is *not* here: what locking does (`vault`).

The rule is public: it looks at when the owner's tools asked for something, and at nothing that an
app does. Looking at what a screen shows again and again by itself (`LOOKS`) does not count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from tactful.owner_wire import OwnerMethod
from tactful.wire import Message
from tactfuld.clock import Clock
from tactfuld.server.session import Caller, Method, MethodTable

LOOK_SECONDS = 15.0

LOOKS = frozenset(
    {
        OwnerMethod.STATUS,
        OwnerMethod.LEDGER,
        OwnerMethod.EPOCH_SHOW,
        OwnerMethod.APPS_LIST,
        OwnerMethod.HISTORY_LIST,
        OwnerMethod.INBOX_LIST,
        OwnerMethod.EVENTS_TAIL,
    }
)


class IdleLock:
    """Calls `lock` when the owner has asked for nothing for some minutes."""

    def __init__(
        self, minutes: int | None, lock: Callable[[], Awaitable[None]], clock: Clock
    ) -> None:
        """`minutes` is None where the profile stays unlocked."""
        self._seconds = None if minutes is None else 60.0 * minutes
        self._lock = lock
        self._clock = clock
        self._running = 0
        self.touch()

    def touch(self) -> None:
        """The owner is there now."""
        self._last = (self._clock.monotonic(), self._clock.now())

    def watched(self, table: MethodTable) -> MethodTable:
        """The table, whose requests show that the owner is there, except for looks."""
        watched: Mapping[str, Method[Any]] = {
            name: method
            if name in LOOKS
            else Method(method.request, partial(self._noticed, method))
            for name, method in table.items()
        }
        return watched

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while self._seconds is not None:
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_SECONDS)
            if not self._running and self._idle() >= self._seconds:
                await self._lock()
                self.touch()

    def _idle(self) -> float:
        """By the clock that shows more: one may stand still while the machine is suspended."""
        moment, day = self._last
        return max(self._clock.monotonic() - moment, self._clock.now() - day)

    async def _noticed(self, method: Method[Any], caller: Caller, request: Message) -> Message:
        self._running += 1
        try:
            return await method.run(caller, request)
        finally:
            self._running -= 1
            self.touch()
