"""The profile locks by itself when its owner has not asked for anything for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from tests.fakes.two_clocks import TwoClocks

from tactful.owner_wire import OwnerMethod
from tactful.wire import Empty, Message
from tactfuld.idle_lock import LOOK_SECONDS, LOOKS, IdleLock
from tactfuld.server.session import Caller, Method, MethodTable

NOBODY = cast("Caller", None)
MINUTE = 60


class Watch:
    """An idle lock of two minutes, and what it has done."""

    def __init__(self, minutes: int | None = 2) -> None:
        self.clock = TwoClocks(calendar=1_800_000_000)
        self.locked = 0
        self.let_go = asyncio.Event()
        self.lock = IdleLock(minutes, self._lock, self.clock)
        self.table: MethodTable = self.lock.watched(
            {name: Method(Empty, self._answer) for name in OwnerMethod}
        )

    async def _lock(self) -> None:
        self.locked += 1

    async def _answer(self, _caller: Caller, _request: Empty) -> Message:
        await self.let_go.wait()
        return Empty()

    async def ask(self, name: OwnerMethod) -> None:
        self.let_go.set()
        await self.table[name].run(NOBODY, Empty())

    async def pass_time(self, seconds: float) -> None:
        """Time passes, look by look."""
        while seconds > 0:
            before = len(self.clock.alarms)
            self.clock.advance(min(LOOK_SECONDS, seconds))
            seconds -= LOOK_SECONDS
            await self.looked(before)

    async def looked(self, before: int) -> None:
        while len(self.clock.alarms) == before:  # noqa: ASYNC110 - one step of the loop each
            await asyncio.sleep(0)


@asynccontextmanager
async def watching(minutes: int | None = 2) -> AsyncIterator[Watch]:
    watch = Watch(minutes)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.lock.run(), name="idle lock")
        await watch.clock.asleep()
        yield watch
        task.cancel()


async def test_locks_after_the_minutes_that_were_set_and_not_before() -> None:
    async with watching() as watch:
        await watch.pass_time(2 * MINUTE - LOOK_SECONDS)
        assert watch.locked == 0
        await watch.pass_time(LOOK_SECONDS)
        assert watch.locked == 1


async def test_what_the_owner_asks_for_puts_it_off() -> None:
    async with watching() as watch:
        await watch.pass_time(MINUTE)
        await watch.ask(OwnerMethod.MEMORY_LIST)
        await watch.pass_time(2 * MINUTE - LOOK_SECONDS)
        assert watch.locked == 0
        await watch.pass_time(LOOK_SECONDS)
        assert watch.locked == 1


@pytest.mark.parametrize("name", sorted(LOOKS))
async def test_what_a_screen_asks_by_itself_does_not(name: OwnerMethod) -> None:
    async with watching() as watch:
        for _ in range(8):
            await watch.pass_time(LOOK_SECONDS)
            await watch.ask(name)
        assert watch.locked == 1


async def test_request_that_still_runs_keeps_it_open() -> None:
    async with watching() as watch, asyncio.TaskGroup() as tasks:
        method = watch.table[OwnerMethod.TELL]

        async def tell() -> None:
            await method.run(NOBODY, Empty())

        tasks.create_task(tell(), name="tell")
        await asyncio.sleep(0)
        await watch.pass_time(10 * MINUTE)
        assert watch.locked == 0
        watch.let_go.set()


async def test_machine_that_slept_counts_by_the_calendar() -> None:
    async with watching() as watch:
        watch.clock.set_by(2 * MINUTE)
        await watch.pass_time(LOOK_SECONDS)
        assert watch.locked == 1


async def test_calendar_that_was_set_back_does_not_keep_it_open() -> None:
    async with watching() as watch:
        watch.clock.set_by(-3600)
        await watch.pass_time(2 * MINUTE)
        assert watch.locked == 1


async def test_without_minutes_it_never_locks() -> None:
    watch = Watch(None)
    await watch.lock.run()
    assert (watch.locked, watch.clock.alarms) == (0, [])
