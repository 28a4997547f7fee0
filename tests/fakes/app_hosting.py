"""A real app host for tests: real child processes, a scripted daemon behind them, no waiting."""

from __future__ import annotations

import asyncio
import functools
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tactful.peer import Peer
from tactful.profile import Profile
from tactful.wire import Answer, AppMethod, Ask, ReleasedView
from tactful_core.values import AppId
from tactfuld.apps.host import AppHost, HostRules
from tactfuld.apps.sandbox import Bubblewrap, Confinement, sandbox_usable
from tactfuld.clock import Clock
from tactfuld.journal import LogLevel, open_journal
from tactfuld.server.listeners import APP_LIMITS
from tactfuld.server.session import Caller, Method, MethodTable, Session

WIRE = APP_LIMITS


@functools.cache
def usable_sandbox() -> Bubblewrap:
    """The sandbox of this machine; skips the test, with the reason, where there is none."""
    confinement = sandbox_usable()
    if not isinstance(confinement, Bubblewrap):
        pytest.skip(confinement.problem)
    return confinement


class InstantClock:
    """A clock on which sleeping takes no time; `slept` has the length of each sleep."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.time

    def now(self) -> int:
        return int(self.time)

    async def sleep_until(self, moment: float) -> None:
        self.slept.append(moment - self.time)
        self.time = max(self.time, moment)
        await asyncio.sleep(0)


class ScriptedDaemon:
    """Answers every question with the same text, in two pieces, and remembers who asked what."""

    def __init__(self, answer: str = "lentil soup") -> None:
        self.answer = answer
        self.asked: list[tuple[AppId, Ask]] = []
        self.log = io.StringIO()
        self.journal = open_journal(self.log, LogLevel("debug"))

    def serve(self, app: AppId, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Peer:
        """What an `AppHost` is given as `serve`: the product's own session."""
        table: MethodTable = {AppMethod.ASK: Method(Ask, self._ask)}
        return Session(
            reader,
            writer,
            table=table,
            authenticate=None,
            identity=app,
            limits=WIRE,
            log=self.journal,
        ).peer

    async def _ask(self, caller: Caller, question: Ask) -> Answer:
        assert isinstance(caller.identity, str)
        self.asked.append((caller.identity, question))
        half = len(self.answer) // 2
        for piece in (self.answer[:half], self.answer[half:]):
            await caller.progress(piece)
        views = (ReleasedView(slot="food", view="generic"),)
        return Answer(text=self.answer, views=views, policy="p1")


@asynccontextmanager
async def hosting(
    profile_dir: Path,
    confinement: Confinement,
    *,
    daemon: ScriptedDaemon | None = None,
    clock: Clock | None = None,
    rules: HostRules | None = None,
) -> AsyncIterator[AppHost]:
    """An app host for a block; every child is gone after it."""
    daemon = daemon or ScriptedDaemon()
    async with asyncio.TaskGroup() as group:
        host = AppHost(
            group,
            profile=Profile.at(profile_dir),
            home=Path.home(),
            confinement=confinement,
            serve=daemon.serve,
            clock=clock or InstantClock(),
            journal=daemon.journal,
            rules=rules,
        )
        try:
            yield host
        finally:
            await host.stop()
