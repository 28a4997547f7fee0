"""Turns under the standing rule, through the gate: one draw for a slot, whoever asks meanwhile.

The ledger is the real one on disk; time and memory wait for the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.daemon_site import GUEST, MEALS, PROMISES, Site, site
from tests.fakes.in_memory_rows import InMemoryRows
from tests.fakes.manual_clock import ManualClock
from tests.fakes.recording_engine import RecordingEngine

from tactful.wire import Answer, Ask
from tactful_core.allocation import Standing
from tactful_core.entries import Charge, ViewReleased
from tactful_core.interface import Release, Source
from tactful_core.ledger import Refusal
from tactful_core.values import AppId, Position, Secret
from tactfuld.clock import Clock
from tactfuld.gate import Gate
from tactfuld.open_turn import FusedSpent

ONCE = replace(PROMISES, allocation=Standing())
CHEAP = "What is an affordable dinner for tonight?"
FOOD = Ask(query=CHEAP, slots=("food",))


class HeldRows(InMemoryRows):
    """Memory that is opened once the test lets it."""

    def __init__(self) -> None:
        super().__init__({Position(3): "I must cut what I spend on groceries."})
        self.opening = asyncio.Event()
        self.released = asyncio.Event()
        self.opened = 0

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        self.opened += 1
        self.opening.set()
        await self.released.wait()
        return await super().open_rows(read_set)


class Last:
    """Always draws what stands last: never the generic view, where there is another."""

    def below(self, limit: int) -> int:
        return limit - 1


class Diary:
    """A watcher that keeps what was released."""

    def __init__(self) -> None:
        self.releases: list[Release] = []

    def started(self, turn: int, app: AppId, query: str, releases: tuple[Release, ...]) -> None:
        self.releases += releases

    def text(self, turn: int, piece: str) -> None: ...

    def fused(self, turn: int, spent: FusedSpent) -> None: ...

    def finished(self, turn: int, answer: str) -> None: ...


async def drop(_piece: str) -> None:
    """Nobody listens."""


async def ask(at: Site, app: AppId = MEALS, question: Ask = FOOD) -> Answer:
    return await at.gate.ask(app, question, drop)


async def release(at: Site, question: Ask = FOOD, app: AppId = MEALS) -> Release:
    """What one turn of one slot released."""
    diary = Diary()
    with at.gate.watching(app, diary):
        await ask(at, app, question)
    (only,) = diary.releases
    return only


@asynccontextmanager
async def held_site(
    folder: Path, memory: HeldRows, clock: Clock | None = None
) -> AsyncIterator[Site]:
    engine = RecordingEngine(max_waiting=64)
    async with site(
        folder, promises=ONCE, memory=memory, clock=clock, engine=engine, randomness=Last()
    ) as at:
        yield at


async def written(at: Site) -> list[str]:
    """The kinds of entries that were written since the ledger was made."""
    return [type(entry).__name__ for entry in (await at.ledger.entries())[1:]]


async def at_once(at: Site, memory: HeldRows, apps: tuple[AppId, ...]) -> list[Answer]:
    """The answers of turns that all begin before the first one has read memory."""
    async with asyncio.TaskGroup() as tasks:
        turns = [
            tasks.create_task(ask(at, app), name=f"turn {number}")
            for number, app in enumerate(apps)
        ]
        await memory.opening.wait()
        for _ in range(50):  # so that the others come as far as they can
            await asyncio.sleep(0)
        memory.released.set()
    return [turn.result() for turn in turns]


async def test_turns_at_once_draw_one_view_and_all_are_answered_with_it(
    profile_dir: Path,
) -> None:
    memory = HeldRows()
    async with held_site(profile_dir, memory) as at:
        answers = await at_once(at, memory, (MEALS, GUEST, MEALS, GUEST))
        assert {answer.views[0].view for answer in answers} != {"generic"}
        assert len({answer.views for answer in answers}) == 1
        assert await written(at) == [Charge.__name__, ViewReleased.__name__]
        assert memory.opened == 1


class UnlockedGate(Gate):
    """A mutant: turns do not wait for one another."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._releasing = Unlocked()


class Unlocked(asyncio.Lock):
    """Locks nothing."""

    async def acquire(self) -> bool:  # type: ignore[override]
        return True

    def release(self) -> None: ...


async def test_without_the_lock_some_would_be_answered_generically(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above: the ledger still refuses the second draw."""
    monkeypatch.setattr("tests.fakes.daemon_site.Gate", UnlockedGate)
    memory = HeldRows()
    async with held_site(profile_dir, memory) as at:
        answers = await at_once(at, memory, (MEALS, GUEST, MEALS, GUEST))
        assert "generic" in {answer.views[0].view for answer in answers}
        assert (await written(at)).count(Charge.__name__) == 1


@pytest.mark.parametrize(
    ("read_at", "first_ends", "second_ends"),
    [(0.2, 0.25, 0.35), (0.3, 0.5, 0.35), (0.4, 0.5, 0.6), (0.7, 0.75, 0.85)],
)
async def test_the_fixed_time_of_a_turn_includes_waiting_for_another(
    profile_dir: Path, read_at: float, first_ends: float, second_ends: float
) -> None:
    """The first begins at 0 and has read at `read_at`; the second begins at 0.1 and waits."""
    memory, clock = HeldRows(), ManualClock(0.0)
    ends: dict[str, float] = {}

    async def timed(at: Site, name: str) -> None:
        await ask(at)
        ends[name] = clock.time

    async with held_site(profile_dir, memory, clock) as at, asyncio.TaskGroup() as tasks:
        tasks.create_task(timed(at, "first"), name="first")
        await memory.opening.wait()
        clock.advance(0.1)
        tasks.create_task(timed(at, "second"), name="second")
        while not at.gate._releasing._waiters:  # noqa: ASYNC110 - it looks things up in threads
            await asyncio.sleep(0)
        clock.advance(read_at - clock.time)
        memory.released.set()
        for due in sorted((first_ends, second_ends)):
            while len(clock.alarms) < 2:  # noqa: ASYNC110 - the ledger answers from a thread
                await asyncio.sleep(0)
            clock.advance(due - clock.time)
            while len(ends) < 1 + (due == max(first_ends, second_ends)):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert clock.alarms == pytest.approx([first_ends, second_ends])
    assert ends == pytest.approx({"first": first_ends, "second": second_ends})


async def test_turn_that_is_cancelled_while_it_waits_costs_nothing_and_holds_nobody_up(
    profile_dir: Path,
) -> None:
    memory = HeldRows()
    async with held_site(profile_dir, memory) as at, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(ask(at), name="first")
        await memory.opening.wait()
        waiting = tasks.create_task(ask(at, GUEST), name="waiting")
        for _ in range(20):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        memory.released.set()
        assert (await first).views[0].view != "generic"
        assert (await ask(at, GUEST)).views == first.result().views
        assert await written(at) == [Charge.__name__, ViewReleased.__name__]


async def test_draw_that_is_cancelled_stays_charged_and_leaves_the_generic_view(
    profile_dir: Path,
) -> None:
    """Nothing is refunded: the slot's share of the epoch is spent, and no view was released."""
    memory = HeldRows()
    async with held_site(profile_dir, memory) as at, asyncio.TaskGroup() as tasks:
        turn = tasks.create_task(ask(at), name="turn")
        await memory.opening.wait()
        turn.cancel()
        await asyncio.wait([turn])
        memory.released.set()
        assert await written(at) == [Charge.__name__]
        after = await release(at)
        assert (after.source, after.refusal) == (Source.GENERIC, Refusal.SHARE)
        assert memory.opened == 1, "what is not drawn is not read"


async def test_standing_view_outlives_a_restart_and_ends_with_its_epoch(
    profile_dir: Path,
) -> None:
    async with site(profile_dir, promises=ONCE, randomness=Last()) as at:
        drawn = await release(at)
        assert drawn.source is Source.DRAWN
    async with site(profile_dir, promises=ONCE, randomness=Last()) as at:
        again = await release(at, app=GUEST)
        assert (again.source, again.view, again.units) == (Source.STANDING, drawn.view, 0)
        await at.ledger.open_next_epoch(0)
        assert (await release(at)).source is Source.DRAWN
        assert await written(at) == [
            *("Charge", "ViewReleased", "EpochOpened", "Charge", "ViewReleased")
        ]
