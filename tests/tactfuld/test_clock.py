"""A stage ends on time: at its fixed end or a multiple of it, whatever happened inside."""

import asyncio
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.app_hosting import InstantClock
from tests.fakes.manual_clock import ManualClock
from tests.fakes.running import run_now

from tactfuld.clock import SystemClock, fixed_time

PERIOD = 0.25
EXACT = st.integers(0, 4096).map(lambda ticks: ticks / 1024)
"""Durations that floats hold exactly."""


class PlannedError(Exception):
    """What a body raises in these tests."""


async def staged(
    clock: InstantClock, work: float, on_overrun: Callable[[], None], *, fails: bool
) -> None:
    """A stage whose body takes `work` seconds."""
    async with fixed_time(clock, PERIOD, on_overrun):
        clock.time += work
        if fails:
            raise PlannedError


@given(work=EXACT, fails=st.booleans())
def test_stage_ends_at_the_first_multiple_after_its_work(work: float, fails: bool) -> None:
    clock, overruns = InstantClock(), list[None]()
    start = clock.time
    try:
        run_now(staged(clock, work, lambda: overruns.append(None), fails=fails))
        assert not fails
    except PlannedError:
        assert fails
    periods = math.floor(work / PERIOD) + 1
    assert clock.time == start + periods * PERIOD
    assert len(overruns) == (periods > 1)


async def test_stage_that_was_quick_is_held_until_its_end() -> None:
    clock, passed = ManualClock(), list[str]()

    async def stage() -> None:
        async with fixed_time(clock, PERIOD, lambda: passed.append("overrun")):
            passed.append("worked")
        passed.append("ended")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stage(), name="stage")
        assert await clock.asleep() == 1000.25
        clock.advance(0.249)
        await asyncio.sleep(0)
        assert passed == ["worked"]
        clock.advance(0.001)
    assert passed == ["worked", "ended"]


async def test_cancelling_the_work_ends_the_stage_at_once() -> None:
    clock, started = ManualClock(), asyncio.Event()

    async def stage() -> None:
        async with fixed_time(clock, PERIOD, lambda: None):
            started.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage(), name="stage")
        await started.wait()
        task.cancel()
    assert task.cancelled()
    assert clock.alarms == []


async def test_cancelling_the_wait_ends_the_stage_at_once() -> None:
    clock = ManualClock()

    async def stage() -> None:
        async with fixed_time(clock, PERIOD, lambda: None):
            pass

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage(), name="stage")
        await clock.asleep()
        task.cancel()
    assert task.cancelled()
    assert clock.time == 1000.0


async def test_system_clock_sleeps_at_least_until_the_moment() -> None:
    clock = SystemClock()
    for seconds in (-1.0, 0.0, 0.02):
        moment = clock.monotonic() + seconds
        await clock.sleep_until(moment)
        assert clock.monotonic() >= moment


def test_system_clock_tells_whole_seconds_of_calendar_time() -> None:
    assert isinstance(SystemClock().now(), int)
    assert SystemClock().now() > 1_700_000_000


async def test_manual_clock_wakes_nobody_early() -> None:
    clock, woken = ManualClock(), list[float]()

    async def sleeper(moment: float) -> None:
        await clock.sleep_until(moment)
        woken.append(clock.monotonic())

    async with asyncio.TaskGroup() as tasks:
        for moment in (1002.0, 1001.0, 1000.0):
            tasks.create_task(sleeper(moment), name="sleeper")
        await clock.asleep()
        for _ in range(5):
            clock.advance(0.5)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert woken == [1000.0, 1001.0, 1002.0]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await clock.asleep()
