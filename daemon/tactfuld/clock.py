"""Time, passed in so that tests can be exact about it.

Decides how long a stage that touches memory takes: a whole number of periods, whatever was in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol


class Clock(Protocol):
    """Monotonic and calendar time."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary origin; never goes back."""
        ...

    def now(self) -> int:
        """Whole seconds since 1970."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Returns once `monotonic()` has reached `moment`."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> int:
        return int(time.time())

    async def sleep_until(self, moment: float) -> None:
        remaining = moment - time.monotonic()
        while remaining > 0:  # a sleep may end a little early
            await asyncio.sleep(remaining)
            remaining = moment - time.monotonic()


@asynccontextmanager
async def fixed_time(
    clock: Clock, period: float, on_overrun: Callable[[], None]
) -> AsyncIterator[None]:
    """Makes its body take exactly `period` seconds, or the next multiple (DESIGN §3 step 5).

    The end is the same on success and on failure, so neither tells anything by its time; only a
    cancellation, which the caller caused, ends it early.
    """
    start = clock.monotonic()
    try:
        yield
    except asyncio.CancelledError:
        raise
    except BaseException:
        await clock.sleep_until(_end(clock, start, period, on_overrun))
        raise
    await clock.sleep_until(_end(clock, start, period, on_overrun))


def _end(clock: Clock, start: float, period: float, on_overrun: Callable[[], None]) -> float:
    periods = int((clock.monotonic() - start) // period) + 1
    if periods > 1:
        on_overrun()
    return start + periods * period
