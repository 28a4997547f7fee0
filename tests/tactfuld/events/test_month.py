"""Fifty apps with a timer each, for a month in which the machine sleeps and its clock is set.

Time is injected: nothing here waits. Real time goes on while the clock shows something else, which
is put right within a day; so each day's moment has to be told exactly once.
"""

from __future__ import annotations

import asyncio
import io
import random
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from tests.fakes.two_clocks import TwoClocks

from tactful.wire import Budget, Event, EventKind
from tactful_core.values import AppId
from tactfuld.events.bus import LOOK_SECONDS, EventBus, Public
from tactfuld.events.grants import EventGrant
from tactfuld.events.kept import BusState, encode
from tactfuld.events.schedule import Schedule
from tactfuld.journal import LogLevel, open_journal
from tactfuld.notices import Notices

APPS, DAYS, DAY = 50, 31, 24 * 3600
START = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp())


def minute_of(number: int) -> int:
    """The minute of the day of an app's timer; they are spread over the day."""
    return number * 24 * 60 // APPS + 7


def app(number: int) -> AppId:
    return AppId(f"app{number}")


@dataclass
class Month:
    """The apps, the bus and the clock of the month.

    Attributes:
        real: seconds that have passed since the start, whatever the clock shows.
        told: by app and moment, how often it was told.
        late: by moment, how late it was told, where nothing happened to the clock meanwhile.
        undisturbed: since when nothing has happened to the clock, in seconds since 1970.
    """

    tick: float
    clock: TwoClocks = field(default_factory=lambda: TwoClocks(START))
    told: Counter[tuple[AppId, int]] = field(default_factory=Counter)
    late: dict[int, int] = field(default_factory=dict)
    real: float = 0.0
    undisturbed: int = START
    state: BusState = field(default_factory=BusState)

    def __post_init__(self) -> None:
        journal = open_journal(io.StringIO(), LogLevel("error"))
        self.bus = EventBus(
            self.state,
            apps=self,
            public=lambda: Public(ready=True, policy="p", budget=self._no_budget),
            keep=lambda _content: None,
            clock=self.clock,
            local=UTC,
            notices=Notices(journal),
            journal=journal,
        )
        self.bus.grant({app(number): self._grant(number) for number in range(APPS)})

    def _grant(self, number: int) -> EventGrant:
        hour, minute = divmod(minute_of(number), 60)
        daily = Schedule(f"{minute} {hour} * * *")
        return EventGrant(kinds=frozenset({EventKind.TIMER}), timers={"daily": daily})

    def _no_budget(self, _app: AppId) -> Budget:
        raise AssertionError("nobody is told of budgets here")

    def runs(self, _app: AppId) -> bool:
        return True

    async def deliver(self, told: AppId, event: Event) -> None:
        self.told[told, event.at] += 1
        if event.at > self.undisturbed:
            self.late[event.at] = self.clock.now() - event.at

    async def live(self, seconds: float) -> None:
        """Time passes, with a look at each tick, and every event is handled."""
        until = self.real + seconds
        while self.real < until:
            await self.clock.asleep()
            step = min(self.tick, until - self.real)
            self.real += step
            self.clock.advance(step)
            await self.looked()

    def forget(self) -> None:
        """Keeps nothing of what this test itself has noted."""
        self.told.clear()
        self.late.clear()
        del self.clock.alarms[:-1]

    async def looked(self) -> None:
        """The bus has looked and told what there was."""
        while self._is_busy():  # noqa: ASYNC110 - one step of the loop each
            await asyncio.sleep(0)

    def _is_busy(self) -> bool:
        queues = self.state.queues.values()
        return self.clock.alarms[-1] <= self.clock.time or any(each.waiting for each in queues)

    async def sleep(self, seconds: int) -> None:
        """The machine sleeps: the calendar goes on, the monotonic clock does not."""
        self.real += seconds
        self.clock.set_by(seconds)
        await self.live(self.tick)
        self.undisturbed = self.clock.now()

    async def step(self, seconds: int) -> None:
        """Somebody sets the clock."""
        self.clock.set_by(seconds)
        await self.live(self.tick)
        self.undisturbed = self.clock.now()


@asynccontextmanager
async def running(month: Month) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(month.bus.run())
        await month.clock.asleep()
        yield
        task.cancel()


async def one_day(month: Month, chance: random.Random) -> None:
    """A day on which something happens to the machine at some time."""
    begun = month.real
    await month.live(chance.randrange(1, 6) * 3600 + chance.randrange(3600))
    match chance.randrange(4):
        case 0:
            await month.sleep(chance.randrange(600, 15 * 3600))
        case 1:
            wrong = chance.choice((-1, 1)) * chance.randrange(60, 5 * 3600)
            await month.step(wrong)
            await month.live(chance.randrange(60, 5 * 3600))
            await month.step(-wrong)
        case 2:
            await month.step(chance.choice((-1, 1)))
            await month.sleep(3600)
            await month.step(chance.choice((-1, 1)))
    await month.live(begun + DAY - month.real)


async def whole_month(tick: float, seed: int) -> Month:
    month, chance = Month(tick), random.Random(seed)
    async with running(month):
        await one_day(month, chance)
        size = len(encode(month.state))
        for _ in range(DAYS - 1):
            await one_day(month, chance)
        await month.live(DAY)
        assert len(encode(month.state)) < size * 1.5
        assert len(month.bus.tail.after(0)) <= 500
    return month


def check(month: Month, tick: float) -> None:
    for number in range(APPS):
        for day in range(DAYS):
            moment = START + day * DAY + minute_of(number) * 60
            assert month.told[app(number), moment] == 1, (number, day)
    last = [late for moment, late in month.late.items() if moment > START + DAYS * DAY]
    assert last
    assert all(0 <= late <= tick + 2 for late in last), "the timers have drifted"


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_day_is_missed_and_none_told_twice(seed: int) -> None:
    check(await whole_month(tick := 240.0, seed), tick)


async def test_a_timer_that_forgets_what_it_lived_through_would_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tactfuld.events.schedule._kept", lambda _stretches, _now: ())
    month = await whole_month(480.0, 1)
    assert max(month.told.values()) > 1
    with pytest.raises(AssertionError):
        check(month, 480.0)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_month_at_the_real_pace() -> None:
    check(await whole_month(LOOK_SECONDS, 3), LOOK_SECONDS)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_memory_stays_flat() -> None:
    month, chance = Month(LOOK_SECONDS), random.Random(4)
    async with running(month):
        for _ in range(2):
            await one_day(month, chance)
        month.forget()
        tracemalloc.start()
        try:
            await one_day(month, chance)
            month.forget()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(3):
                await one_day(month, chance)
                month.forget()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert after - before < 256 * 1024
