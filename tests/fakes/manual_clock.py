"""A clock that stands still until a test moves it."""

import asyncio


class ManualClock:
    """Implements `tactfuld.clock.Clock`; whoever sleeps wakes when the test has come to the moment.

    Attributes:
        time: what the clock shows, in seconds.
        alarms: the moments that were slept for, oldest first.
    """

    def __init__(self, time: float = 1000.0) -> None:
        self.time = time
        self.alarms: list[float] = []
        self._sleepers = 0
        self._moved = asyncio.Event()
        self._fell_asleep = asyncio.Event()

    def monotonic(self) -> float:
        return self.time

    def now(self) -> int:
        return int(self.time)

    async def sleep_until(self, moment: float) -> None:
        self.alarms.append(moment)
        self._sleepers += 1
        self._fell_asleep.set()
        try:
            while self.time < moment:
                self._moved.clear()
                await self._moved.wait()
        finally:
            self._sleepers -= 1

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.time += seconds
        self._moved.set()

    async def asleep(self) -> float:
        """Waits until somebody sleeps, and returns until when."""
        while not self._sleepers:
            self._fell_asleep.clear()
            await self._fell_asleep.wait()
        return self.alarms[-1]
