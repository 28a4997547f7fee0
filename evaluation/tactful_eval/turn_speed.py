"""What a turn takes besides its fixed stage and the model: milliseconds, measured in one run.

Decides how long an app waits for a whole answer, over a real socket, with real stores on a disk and
an engine that knows its words by heart, less the time of the stage that touches memory: that ends
at a public time whatever happens in it (DESIGN §3). What is left is the connection, routing, the
place in the queue, the prompt, handing over pieces, and keeping the turn. What is *not* here: the
model, and the app, which is another process (`turn_client`).
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import structlog
from structlog.typing import EventDict

from tactful.profile import Profile
from tactful_core.interface import Ports
from tactful_core.sampling import SystemRandomness
from tactful_core.values import AppId
from tactful_eval.throwaway import throwaway_keys
from tactful_eval.turn_client import turns_heard
from tactful_policies import starter_text
from tactfuld.apps.tokens import FILE_NAME, AppTokens
from tactfuld.clock import SystemClock
from tactfuld.fusing.answering import Fusing
from tactfuld.gate import Gate, History, TurnLimits
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
from tactfuld.store.released_turn import ReleasedTurn, Retention

APP = AppId("meals")
STAGE_SECONDS = 0.25
_COLD = 5
"""Turns at first that find nothing warm, and are not counted."""
WORDS = "Lentil soup with bread and a salad is a good dinner. " * 3


@dataclass(frozen=True, slots=True)
class TurnSpeed:
    """Milliseconds of a turn beyond its stage; goals are 3 (p50) and 10 (p99).

    Attributes:
        p50, p99: until the app has the whole answer, all of whose pieces come at once; beside a
            model all but the last are handed over while it computes the next.
        first_p50, first_p99: until the app has the answer's first piece.
        kept_p50, kept_p99: the part of a whole answer that was the durable write of what was
            released: a commit, as slow as the disk under `folder`.
        processor: of the daemon's process for a whole turn, its stage included, on average.
        overruns: turns whose stage went on to a further multiple of its time, which is taken off
            like the first.
    """

    p50: float
    p99: float
    first_p50: float
    first_p99: float
    kept_p50: float
    kept_p99: float
    processor: float
    turns: int
    overruns: int


class _NotedClock(SystemClock):
    """The machine's clocks; notes until when each stage was made to last."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    async def sleep_until(self, moment: float) -> None:
        self.ends.append(moment)
        await super().sleep_until(moment)


@dataclass(frozen=True, slots=True)
class _NotedHistory:
    """History that notes how many seconds each write took."""

    history: History
    seconds: list[float] = field(default_factory=list)

    async def thread(self, app: AppId, thread: str) -> tuple[ReleasedTurn, ...]:
        return await self.history.thread(app, thread)

    async def record(self, turn: ReleasedTurn) -> None:
        began = time.monotonic()
        await self.history.record(turn)
        self.seconds.append(time.monotonic() - began)


def turn_speed(folder: Path | None = None, turns: int = 200) -> TurnSpeed:
    """Measures so many turns in a temporary folder inside `folder` (default: the system's)."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        return asyncio.run(_measured(Path(temporary), turns))


async def _measured(folder: Path, turns: int) -> TurnSpeed:
    clock = _NotedClock()
    async with _daemon(folder, clock) as (token, history):
        began = time.process_time()
        heard = await turns_heard(folder, token, turns + _COLD)
        processor = 1000 * (time.process_time() - began) / len(heard)
    whole: list[float] = []
    first: list[float] = []
    overruns = 0
    for turn, end in list(zip(heard, clock.ends, strict=True))[_COLD:]:
        periods = max(1, int((end - turn.began) / STAGE_SECONDS))
        stage = turn.began + periods * STAGE_SECONDS
        whole.append(1000 * (turn.ended - stage))
        first.append(1000 * (turn.first - stage))
        overruns += periods > 1
    kept = [1000 * seconds for seconds in history.seconds[_COLD:]]
    hundredths = (*_percentiles(whole), *_percentiles(first), *_percentiles(kept))
    return TurnSpeed(*hundredths, processor, turns, overruns)


def _percentiles(milliseconds: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    hundredths = quantiles(milliseconds, n=100, method="inclusive")
    return hundredths[49], hundredths[98]


@asynccontextmanager
async def _daemon(folder: Path, clock: _NotedClock) -> AsyncIterator[tuple[str, _NotedHistory]]:
    """The apps' socket of a gate with everything behind it but a model, and an app's token."""
    profile = Profile.at(folder)
    journal = structlog.wrap_logger(structlog.PrintLogger(), processors=[_silent])
    tokens = await asyncio.to_thread(AppTokens.load, profile.state / FILE_NAME)
    listener = await asyncio.to_thread(bind_unix, profile.app_socket)
    try:
        async with AsyncExitStack() as stack:
            gate, history = await _gate(profile, clock, Notices(journal), stack)
            door = AppDoor(tokens, app_methods(gate), journal)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            serving = tasks.create_task(
                serve_socket(
                    listener, door.serve, limits=APP_LIMITS, most=MOST_CONNECTIONS, log=journal
                ),
                name="app.sock",
            )
            yield await asyncio.to_thread(tokens.issue, APP), history
            serving.cancel()
    finally:
        await asyncio.to_thread(release_unix, listener, profile.app_socket)


async def _gate(
    profile: Profile, clock: _NotedClock, notices: Notices, stack: AsyncExitStack
) -> tuple[Gate, _NotedHistory]:
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
    noted = _NotedHistory(history)
    return Gate(version, ports, engine, noted, clock, notices, limits, fusing), noted


def _silent(_logger: object, _name: str, _event: EventDict) -> EventDict:
    raise structlog.DropEvent
