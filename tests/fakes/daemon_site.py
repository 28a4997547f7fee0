"""A daemon inside the test's own process: all parts real but the model, the embeddings and time.

Stores are sealed files in the profile's data folder, doors are the product's own, and `listening`
puts them behind real sockets. Nothing here decides anything.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from structlog.typing import FilteringBoundLogger
from tests.fakes.app_hosting import InstantClock
from tests.fakes.kept_texts import KeptTexts
from tests.fakes.naming_detector import naming_detector
from tests.fakes.raw_connection import RawConnection, raw_side
from tests.fakes.recording_engine import RecordingEngine
from tests.fakes.unchanging_policy import UnchangingPolicy
from tests.tactfuld.store.samples import keys

from tactful.peer import Limits
from tactful.profile import Profile
from tactful_core.interface import MemoryReader, Ports, Scorer
from tactful_core.ledger import Ledger
from tactful_core.promises import Promises
from tactful_core.sampling import Randomness, SystemRandomness
from tactful_core.values import AppId, AttributeName, Units
from tactful_policies import starter_text
from tactfuld.apps.host import AppHost, HostRules
from tactfuld.apps.sandbox import Unconfined
from tactfuld.apps.tokens import FILE_NAME, AppTokens
from tactfuld.clock import Clock
from tactfuld.coverage_lint import CoverageLint
from tactfuld.events.inbox import INBOX_FILE, Inbox
from tactfuld.events.tail import Tail
from tactfuld.fusing.answering import Fusing
from tactfuld.gate import Gate, TurnLimits
from tactfuld.inference.embedder import Embedder
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.journal import LogLevel, open_journal
from tactfuld.notices import Notices
from tactfuld.owner_answers import OwnerAnswers
from tactfuld.policy.loading import parse_policy
from tactfuld.policy_version import PolicyVersion
from tactfuld.router import Router
from tactfuld.scorer import EmbeddingScorer
from tactfuld.server import listeners
from tactfuld.server.app_methods import app_methods
from tactfuld.server.listeners import AppDoor, OwnerDoor, write_owner_secret
from tactfuld.server.outlet_methods import Outlets, outlet_methods
from tactfuld.server.owner_methods import Parts, owner_methods
from tactfuld.server.session import MethodTable
from tactfuld.server.sockets import Serve, bind_unix, release_unix, serve_socket
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MemoryStore, memory_place
from tactfuld.store.released_turn import Retention

PERIOD = 0.25
"""Seconds of the stage that touches memory."""

VERSION = "opaque"

POLICY = starter_text("demo") + "  guest:\n    slots: [food]\n  nobody:\n    slots: []\n"
"""The demo's policy, where `guest` may ask about food and `nobody` about nothing."""

MEALS, GUEST, NOBODY, STRANGER = map(AppId, ("meals", "guest", "nobody", "stranger"))
DIABETES, DEBT = AttributeName("diabetes"), AttributeName("debt")


PROMISES = parse_policy(POLICY, source="policy.yaml")


@dataclass(slots=True)
class Site:
    """What a test looks at.

    Attributes:
        methods: the table of every app connection.
        log: the text of the daemon's log.
        stopped: set once the owner has asked the daemon to stop.
    """

    profile: Profile
    promises: Promises
    memory: MemoryStore
    ledger: LedgerStore
    history: HistoryStore
    engine: RecordingEngine
    embedder: Embedder
    clock: Clock
    notices: Notices
    gate: Gate
    answers: OwnerAnswers
    tokens: AppTokens
    inbox: Inbox
    tail: Tail
    switchboard: KeptTexts
    methods: MethodTable
    doors: AppDoor
    journal: FilteringBoundLogger
    log: io.StringIO
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def spent(self) -> dict[str, Units]:
        """What is charged to each attribute, in units."""
        ledger = self.ledger.snapshot()
        assert isinstance(ledger, Ledger)
        return {a.name: ledger.spent(a) for a in self.promises.layout.attributes}


@asynccontextmanager
async def site(
    folder: Path,
    *,
    promises: Promises | None = None,
    engine: RecordingEngine | None = None,
    clock: Clock | None = None,
    embedder: Embedder | None = None,
    memory: MemoryReader | None = None,
    scorer: Scorer | None = None,
    randomness: Randomness | None = None,
    retention: Retention = Retention(turns=50, days=90),  # noqa: B008 - it never changes
) -> AsyncIterator[Site]:
    """A daemon over fresh stores in `folder`, or over those that are there.

    Args:
        clock: on which by default sleeping takes no time.
        memory: what the gate reads instead of the sealed store.
    """
    profile, promises = Profile.at(folder), promises or PROMISES
    log = io.StringIO()
    journal = open_journal(log, LogLevel("debug"))
    notices, clock, engine = Notices(journal), clock or InstantClock(), engine or RecordingEngine()
    engine.start()
    embedder = embedder or HashEmbedder()
    router, own_scorer = Router(embedder), EmbeddingScorer(embedder)
    router.prepare(promises.layout.slots)
    own_scorer.prepare(promises.layout.slots)
    async with AsyncExitStack() as stack:
        sealed, ledger = await _stores(profile, promises, notices, stack)
        history = await _history(profile, retention, clock, notices, stack)
        ports = Ports(
            ledger,
            memory or sealed,
            scorer or own_scorer,
            randomness or SystemRandomness(),
            notices,
        )
        limits = TurnLimits(PERIOD, answer_tokens=64)
        version = PolicyVersion(promises, router, ports.scorer, VERSION)
        fusing = Fusing(ledger, ports.memory, ports.randomness, engine, notices)
        gate = Gate(version, ports, engine, history, clock, notices, limits, fusing)
        tokens = AppTokens.load(profile.state / FILE_NAME)
        inbox, switchboard = Inbox.load(profile.state / INBOX_FILE, journal), KeptTexts()
        outlets = Outlets(inbox, switchboard, gate.slots, lambda a: bool(gate.slots(a)), clock)
        methods = {**app_methods(gate), **outlet_methods(outlets)}
        yield Site(
            profile,
            promises,
            sealed,
            ledger,
            history,
            engine,
            embedder,
            clock,
            notices,
            gate,
            OwnerAnswers(sealed, promises.layout, engine, embedder, limits.answer_tokens),
            tokens,
            inbox,
            Tail(),
            switchboard,
            methods,
            AppDoor(tokens, methods, journal),
            journal,
            log,
        )


async def _stores(
    profile: Profile, promises: Promises, notices: Notices, stack: AsyncExitStack
) -> tuple[MemoryStore, LedgerStore]:
    profile.data.mkdir(mode=0o700, exist_ok=True)
    profile.state.mkdir(mode=0o700, exist_ok=True)
    memory_file, ledger = memory_place(profile), ledger_place(profile)
    if not ledger.database.exists():
        await MemoryStore.create(memory_file, promises.layout, keys())
        fusion = await asyncio.to_thread(promises.calibrated)
        await LedgerStore.create(ledger, keys(), fusion)
    opened = MemoryStore.open(memory_file, promises.layout, keys(), notices.add)
    attributes = promises.layout.attributes
    return (
        await stack.enter_async_context(opened),
        await stack.enter_async_context(LedgerStore.open(ledger, keys(), attributes, notices.add)),
    )


async def _history(
    profile: Profile, retention: Retention, clock: Clock, notices: Notices, stack: AsyncExitStack
) -> HistoryStore:
    path = profile.data / HISTORY_FILE
    if not path.exists():
        await HistoryStore.create(path, keys())
    opened = HistoryStore.open(path, keys(), retention, clock.now(), notices.add)
    return await stack.enter_async_context(opened)


@asynccontextmanager
async def hosting_apps(at: Site, rules: HostRules | None = None) -> AsyncIterator[AppHost]:
    """The site's app host, without walls, nothing started; every child is gone after the block."""
    async with asyncio.TaskGroup() as group:
        host = AppHost(
            group,
            profile=at.profile,
            home=Path.home(),
            confinement=Unconfined(),
            serve=at.doors.hosted,
            clock=at.clock,
            journal=at.journal,
            rules=rules,
        )
        try:
            yield host
        finally:
            await host.stop()


def parts_of(at: Site, host: AppHost) -> Parts:
    """What the owner's methods of a site work on."""
    return Parts(
        profile=at.profile,
        promises=at.promises,
        policy=UnchangingPolicy(at.promises, at.ledger),
        memory=at.memory,
        ledger=at.ledger,
        history=at.history,
        engine=at.engine,
        embedder=at.embedder,
        lint=CoverageLint(at.promises.layout, naming_detector(at.embedder), at.embedder),
        gate=at.gate,
        answers=at.answers,
        host=host,
        inbox=at.inbox,
        tail=at.tail,
        tokens=at.tokens,
        notices=at.notices,
        clock=at.clock,
        key_source="a test",
        sandbox="off",
        revoked=at.doors.revoked,
        stop=at.stopped.set,
    )


@asynccontextmanager
async def listening(at: Site, host: AppHost | None = None) -> AsyncIterator[None]:
    """Serves the site's sockets: always `app.sock`, and `owner.sock` where there is a host."""
    async with AsyncExitStack() as stack:
        if host is not None:
            path = at.profile.owner_secret_file
            secret = await asyncio.to_thread(write_owner_secret, path)
            door = OwnerDoor(secret, owner_methods(parts_of(at, host)), at.journal)
            await stack.enter_async_context(
                _served(at, at.profile.owner_socket, door.serve, listeners.OWNER_LIMITS)
            )
        await stack.enter_async_context(
            _served(at, at.profile.app_socket, at.doors.serve, listeners.APP_LIMITS)
        )
        yield


@asynccontextmanager
async def _served(at: Site, path: Path, serve: Serve, limits: Limits) -> AsyncIterator[None]:
    listener = await asyncio.to_thread(bind_unix, path)
    try:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(
                serve_socket(listener, serve, limits=limits, most=64, log=at.journal),
                name=path.name,
            )
            try:
                yield
            finally:
                serving.cancel()
    finally:
        await asyncio.to_thread(release_unix, listener, path)


@asynccontextmanager
async def dialled(path: Path) -> AsyncIterator[RawConnection]:
    """A raw connection to a socket, as somebody who is nobody yet."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(os.fspath(path))
    async with raw_side(sock) as raw:
        yield raw


async def until(condition: Callable[[], bool]) -> None:
    """Returns once the condition holds; the test's own time limit ends a vain wait."""
    while not condition():  # noqa: ASYNC110 - what is waited for may happen in another process
        await asyncio.sleep(0.01)
