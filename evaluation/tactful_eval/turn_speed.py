"""What a turn takes besides its fixed stage and the model: milliseconds, measured in one run.

Decides how long an app waits for a whole answer, over a real socket, with real stores on a disk and
an engine that knows its words by heart, less the time of the stage that touches memory: that ends
at a public time whatever happens in it (DESIGN §3). What is left is the connection, routing, the
place in the queue, the prompt, handing over pieces, and keeping the turn. What is *not* here: the
model.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

import structlog
from structlog.typing import EventDict

from tactful.app_client import AppClient
from tactful.profile import Profile
from tactful_core.interface import Ports
from tactful_core.sampling import SystemRandomness
from tactful_core.values import AppId
from tactful_eval.throwaway import throwaway_keys
from tactful_policies import starter_text
from tactfuld.apps.tokens import FILE_NAME, AppTokens
from tactfuld.clock import SystemClock
from tactfuld.fusing.answering import Fusing
from tactfuld.gate import Gate, TurnLimits
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.inference.scripted import ScriptedEngine
from tactfuld.notices import Notices
from tactfuld.policy.loading import parse_policy
from tactfuld.policy_version import PolicyVersion
from tactfuld.router import Router
from tactfuld.scorer import EmbeddingScorer
from tactfuld.server.app_methods import app_methods
from tactfuld.server.listeners import APP_LIMITS, MOST_CONNECTIONS, AppDoor
from tactfuld.server.sockets import bind_unix, release_unix, serve_socket
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MemoryStore, memory_place
from tactfuld.store.released_turn import Retention

APP = AppId("meals")
STAGE_SECONDS = 0.25
WORDS = "Lentil soup with bread and a salad is a good dinner. " * 3


@dataclass(frozen=True, slots=True)
class TurnSpeed:
    """Milliseconds of a turn beyond its stage; goals are 3 (p50) and 10 (p99).

    Attributes:
        p50, p99: until the whole answer, all of whose pieces come at once; beside a model all but
            the last are handed over while it computes the next.
        first_p50, first_p99: until the answer's first piece.
        overruns: turns whose stage went on to a further multiple of its time, which is taken off
            like the first.
    """

    p50: float
    p99: float
    first_p50: float
    first_p99: float
    turns: int
    overruns: int


class _NotedClock(SystemClock):
    """The machine's clocks; notes until when the newest stage was made to last."""

    until = 0.0

    async def sleep_until(self, moment: float) -> None:
        self.until = moment
        await super().sleep_until(moment)


def turn_speed(folder: Path | None = None, turns: int = 200) -> TurnSpeed:
    """Measures so many turns in a temporary folder inside `folder` (default: the system's)."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        return asyncio.run(_measured(Path(temporary), turns))


async def _measured(folder: Path, turns: int) -> TurnSpeed:
    clock = _NotedClock()
    whole: list[float] = []
    first: list[float] = []
    overruns = 0
    async with _app(folder, clock) as app:
        for number in range(turns + 5):
            pieces: list[float] = []

            def heard(_piece: str, at: list[float] = pieces) -> None:
                at.append(time.perf_counter())

            began, moment = clock.monotonic(), time.perf_counter()
            await app.ask(
                "What shall I cook for dinner?",
                slots=["food"],
                on_text=heard,
            )
            ended = time.perf_counter()
            periods = max(1, int((clock.until - began) / STAGE_SECONDS))
            # The first few find nothing warm.
            if number >= 5:
                stage = moment + periods * STAGE_SECONDS
                whole.append(1000 * (ended - stage))
                first.append(1000 * (pieces[0] - stage))
                overruns += periods > 1
    return TurnSpeed(*_percentiles(whole), *_percentiles(first), turns, overruns)


def _percentiles(milliseconds: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    hundredths = quantiles(milliseconds, n=100, method="inclusive")
    return hundredths[49], hundredths[98]


@asynccontextmanager
async def _app(folder: Path, clock: _NotedClock) -> AsyncIterator[AppClient]:
    """An app's connection to a gate with everything behind it but a model."""
    profile = Profile.at(folder / "p")
    journal = structlog.wrap_logger(structlog.PrintLogger(), processors=[_silent])
    tokens = await asyncio.to_thread(AppTokens.load, profile.state / FILE_NAME)
    listener = await asyncio.to_thread(bind_unix, profile.app_socket)
    try:
        async with AsyncExitStack() as stack:
            gate = await _gate(profile, clock, Notices(journal), stack)
            door = AppDoor(tokens, app_methods(gate), journal)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            serving = tasks.create_task(
                serve_socket(
                    listener, door.serve, limits=APP_LIMITS, most=MOST_CONNECTIONS, log=journal
                ),
                name="app.sock",
            )
            token = await asyncio.to_thread(tokens.issue, APP)
            yield await stack.enter_async_context(AppClient.connect(profile, token))
            serving.cancel()
    finally:
        await asyncio.to_thread(release_unix, listener, profile.app_socket)


async def _gate(
    profile: Profile, clock: _NotedClock, notices: Notices, stack: AsyncExitStack
) -> Gate:
    policy = await asyncio.to_thread(starter_text, "demo")
    promises = await asyncio.to_thread(parse_policy, policy, source="demo")
    keys = throwaway_keys()
    for each in (profile.data, profile.state):
        await asyncio.to_thread(each.mkdir, mode=0o700, parents=True, exist_ok=True)
    memory_file, ledger_file = memory_place(profile), ledger_place(profile)
    await MemoryStore.create(memory_file, promises.layout, keys)
    fusion = await asyncio.to_thread(promises.calibrated)
    await LedgerStore.create(ledger_file, keys, fusion)
    await HistoryStore.create(profile.data / HISTORY_FILE, keys)
    memory = await stack.enter_async_context(
        MemoryStore.open(memory_file, promises.layout, keys, notices.add)
    )
    ledger = await stack.enter_async_context(
        LedgerStore.open(ledger_file, keys, promises.layout.attributes, notices.add)
    )
    history = await stack.enter_async_context(
        HistoryStore.open(
            profile.data / HISTORY_FILE, keys, Retention(50, 90), clock.now(), notices.add
        )
    )
    embedder, engine = HashEmbedder(), ScriptedEngine(WORDS)
    engine.start()
    router, scorer = Router(embedder), EmbeddingScorer(embedder)
    router.prepare(promises.layout.slots)
    scorer.prepare(promises.layout.slots)
    ports = Ports(ledger, memory, scorer, SystemRandomness(), notices)
    version = PolicyVersion(promises, router, scorer, "measured")
    fusing = Fusing(ledger, memory, ports.randomness, engine, notices)
    limits = TurnLimits(STAGE_SECONDS, answer_tokens=64)
    return Gate(version, ports, engine, history, clock, notices, limits, fusing)


def _silent(_logger: object, _name: str, _event: EventDict) -> EventDict:
    raise structlog.DropEvent
