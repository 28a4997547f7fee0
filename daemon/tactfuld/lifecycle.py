"""The life of the daemon: start, ready, orderly stop.

Decides the order in which parts are opened and closed. What is *not* here: what they do.

Invariants:

- the data folder is held from before keys are read until everything is closed;
- a part that cannot be opened ends the start with a sentence, and nothing was served;
- what needs keys, and the model, which was given what they open, are open only while the vault is
  (`vault`); sockets, apps and what follows from the policy alone stay while it is locked;
- stopping closes the sockets first, then apps, the model and the stores, in that order; a turn in
  flight is cancelled and keeps its charge.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from tactful.owner_wire import OwnerMethod
from tactful.peer import Limits
from tactful.profile import Profile
from tactful.wire import AppMethod
from tactful_core.interface import Ports
from tactful_core.promises import Promises
from tactful_core.sampling import SystemRandomness
from tactful_core.standing import release_mechanism
from tactfuld.apps.host import AppHost, HostRules
from tactfuld.apps.installed import installed_names
from tactfuld.apps.sandbox import (
    Bubblewrap,
    Confinement,
    NoSandbox,
    Unconfined,
    choose_confinement,
)
from tactfuld.apps.tokens import FILE_NAME, AppTokens
from tactfuld.clock import SystemClock
from tactfuld.epochs import AGE_FILE, EpochRenewal
from tactfuld.gate import Gate, TurnLimits
from tactfuld.idle_lock import IdleLock
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.inference.engine import Check, EngineSettings, LlamaEngine, available_cores
from tactfuld.inference.offload import GpuUse
from tactfuld.inference.trial import Attempt, FirstLoads
from tactfuld.journal import LogLevel
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.values import StoreKeys
from tactfuld.locking import hold
from tactfuld.models.installed import model_file
from tactfuld.notices import Notices
from tactfuld.owner_answers import OwnerAnswers
from tactfuld.passphrases import Handed
from tactfuld.policy.loading import load_policy
from tactfuld.reload import Reloading
from tactfuld.router import Router
from tactfuld.scorer import EmbeddingScorer
from tactfuld.server.app_methods import app_methods
from tactfuld.server.listeners import (
    APP_LIMITS,
    MOST_CONNECTIONS,
    OWNER_LIMITS,
    AppDoor,
    OwnerDoor,
    write_owner_secret,
)
from tactfuld.server.lock_methods import LockParts, lock_methods
from tactfuld.server.owner_methods import Parts, owner_methods
from tactfuld.server.reload_methods import reload_methods
from tactfuld.server.session import AUTHENTICATE
from tactfuld.server.sockets import Serve as ServeConnection
from tactfuld.server.sockets import bind_unix, release_unix, serve_socket
from tactfuld.settings import Settings, load_settings
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MemoryStore, memory_place
from tactfuld.store.released_turn import Retention
from tactfuld.unlocking import unlock
from tactfuld.vault import Opened, Vault


@dataclass(frozen=True, slots=True)
class Start:
    """What a daemon is started with.

    Attributes:
        announce: called once in a thread, when both sockets accept connections.
    """

    profile: Profile
    passphrase: Handed
    journal: Callable[[LogLevel], FilteringBoundLogger]
    announce: Callable[[], None]


async def serve(start: Start) -> None:
    """Runs the daemon until SIGTERM, SIGINT or the owner's `stop`.

    Raises:
        TactfulError: it could not start; the message says what to do.
    """
    profile = start.profile
    settings = await asyncio.to_thread(load_settings, profile.settings_file)
    promises = await asyncio.to_thread(load_policy, profile.policy_file)
    with hold(profile.data):
        level = LogLevel(settings.logging.level)
        journal = start.journal(level)
        daemon = await _Daemon.prepared(profile, settings, promises, journal, level)
        await daemon.run(start.passphrase, start.announce)
        journal.info("stopped")


@dataclass(frozen=True, slots=True)
class _Public:
    """What follows from policy and machine alone, and stays while the profile is locked."""

    tokens: AppTokens
    confinement: Confinement
    embedder: WordLlamaEmbedder
    router: Router
    scorer: EmbeddingScorer


_APP_NAMES = frozenset(map(str, AppMethod)) - {AUTHENTICATE}
_OWNER_NAMES = frozenset(map(str, OwnerMethod)) - {AUTHENTICATE}


class _Daemon:
    """Everything that is open while the daemon runs."""

    def __init__(
        self,
        profile: Profile,
        settings: Settings,
        promises: Promises,
        public: _Public,
        journal: FilteringBoundLogger,
        level: LogLevel,
    ) -> None:
        self._profile = profile
        self._settings = settings
        self._promises = promises
        self._public = public
        self._journal = journal
        self._level = level
        self._notices = Notices(journal)
        self._reloading = Reloading(
            profile, settings, promises, self._take_over, self._notices, journal
        )
        self._answering: tuple[Gate, OwnerAnswers, HistoryStore] | None = None
        self._key_source = ""
        self._stopping = asyncio.Event()

    @classmethod
    async def prepared(
        cls,
        profile: Profile,
        settings: Settings,
        promises: Promises,
        journal: FilteringBoundLogger,
        level: LogLevel,
    ) -> _Daemon:
        """Prepares public tables; opens nothing."""
        embedder = await asyncio.to_thread(WordLlamaEmbedder.load)
        router, scorer = Router(embedder), EmbeddingScorer(embedder)
        await asyncio.to_thread(_prepare, promises, router, scorer)
        public = _Public(
            await asyncio.to_thread(AppTokens.load, profile.state / FILE_NAME),
            await asyncio.to_thread(choose_confinement, settings.sandbox),
            embedder,
            router,
            scorer,
        )
        return cls(profile, settings, promises, public, journal, level)

    async def run(self, passphrase: Handed, announce: Callable[[], None]) -> None:
        """Serves until it is asked to stop."""
        with _signals(self._stopping):
            await self._serve(passphrase, announce)

    async def _serve(self, passphrase: Handed, announce: Callable[[], None]) -> None:
        def opening(ring: KeyRing) -> AbstractAsyncContextManager[Opened]:
            return self._opened(ring, host, apps, idle)

        async with asyncio.TaskGroup() as tasks:
            vault = Vault(tasks, partial(unlock, self._profile), opening)
            apps = AppDoor(self._public.tokens, vault.app_table(_APP_NAMES), self._journal)
            host = self._host(tasks, apps)
            idle = IdleLock(self._settings.lock.idle_minutes, vault.lock, SystemClock())
            await vault.open(passphrase.take())
            idling = tasks.create_task(idle.run(), name="idle lock")
            reloading = tasks.create_task(self._reloading.run(), name="reloading")
            secret = await asyncio.to_thread(write_owner_secret, self._profile.owner_secret_file)
            always = idle.watched(
                {**lock_methods(self._lock_parts(vault)), **reload_methods(self._reloading.look)}
            )
            owner = OwnerDoor(secret, vault.owner_table(always, _OWNER_NAMES), self._journal)
            async with (
                self._listening(self._profile.owner_socket, owner.serve, OWNER_LIMITS),
                self._listening(self._profile.app_socket, apps.serve, APP_LIMITS),
            ):
                await self._start_apps(host)
                self._journal.info("ready", policy=self._promises.digest)
                await asyncio.to_thread(announce)
                await self._stopping.wait()
                self._journal.info("stopping")
            idling.cancel()
            reloading.cancel()
            await host.stop()
            await vault.lock()

    @asynccontextmanager
    async def _opened(
        self, ring: KeyRing, host: AppHost, apps: AppDoor, idle: IdleLock
    ) -> AsyncIterator[Opened]:
        """Opens the stores, and starts loading the model; closes all of it after the block."""
        profile, promises, notices = self._profile, self._promises, self._notices
        keys, public = ring.store_keys(), self._public
        self._key_source = keys.source_description
        async with AsyncExitStack() as stack:
            memory = await stack.enter_async_context(
                MemoryStore.open(memory_place(profile), promises.layout, keys, notices.add)
            )
            attributes = promises.layout.attributes
            ledger = await stack.enter_async_context(
                LedgerStore.open(ledger_place(profile), keys, attributes, notices.add)
            )
            history = await stack.enter_async_context(self._history(keys))
            engine = await stack.enter_async_context(_engine(profile, self._settings))
            ports = Ports(ledger, memory, public.scorer, SystemRandomness(), notices)
            gate = self._gate(ports, engine, history, keys.store_id)
            age = profile.state / AGE_FILE
            renewal = EpochRenewal(promises.epochs, ledger, age, SystemClock(), self._journal)
            await stack.enter_async_context(_running(renewal.run(), "epochs"))
            parts = self._parts(memory, ledger, history, engine, gate, host, apps)
            self._answering = (gate, parts.answers, history)
            self._take_over(self._settings)
            self._journal.info("unlocked")
            try:
                yield Opened(idle.watched(owner_methods(parts)), app_methods(gate))
            finally:
                self._answering = None
        self._journal.info("locked")

    def _take_over(self, settings: Settings) -> None:
        """Makes settings that may change while the daemon runs hold from now on."""
        self._settings = settings
        self._level.set(settings.logging.level)
        if self._answering is not None:
            gate, answers, history = self._answering
            history.retain(_retention(settings))
            gate.change_limits(_limits(settings))
            answers.change_answer_tokens(settings.answer.max_tokens)

    def _history(self, keys: StoreKeys) -> AbstractAsyncContextManager[HistoryStore]:
        return HistoryStore.open(
            self._profile.data / HISTORY_FILE,
            keys,
            _retention(self._settings),
            SystemClock().now(),
            self._notices.add,
        )

    def _gate(
        self, ports: Ports, engine: LlamaEngine, history: HistoryStore, store_id: bytes
    ) -> Gate:
        settings, promises = self._settings, self._promises
        return Gate(
            promises,
            ports,
            self._public.router,
            engine,
            history,
            SystemClock(),
            self._notices,
            _limits(settings),
            opaque_version(promises.digest, store_id),
        )

    def _host(self, tasks: asyncio.TaskGroup, apps: AppDoor) -> AppHost:
        return AppHost(
            tasks,
            profile=self._profile,
            home=Path.home(),
            confinement=self._public.confinement,
            serve=apps.hosted,
            clock=SystemClock(),
            journal=self._journal,
            rules=HostRules(wire=APP_LIMITS),
        )

    @asynccontextmanager
    async def _listening(
        self, path: Path, serve_one: ServeConnection, limits: Limits
    ) -> AsyncIterator[None]:
        """Accepts connections during the block; ends all of them after it."""
        listener = await asyncio.to_thread(bind_unix, path)
        try:
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(
                    serve_socket(
                        listener,
                        serve_one,
                        limits=limits,
                        most=MOST_CONNECTIONS,
                        log=self._journal,
                    ),
                    name=path.name,
                )
                try:
                    yield
                finally:
                    serving.cancel()
        finally:
            await asyncio.to_thread(release_unix, listener, path)

    async def _start_apps(self, host: AppHost) -> None:
        """Starts each app that the policy names and that is installed here."""
        installed = await asyncio.to_thread(installed_names)
        for grant in self._promises.grants:
            if grant.app in installed:
                await host.start(grant.app)

    def _parts(
        self,
        memory: MemoryStore,
        ledger: LedgerStore,
        history: HistoryStore,
        engine: LlamaEngine,
        gate: Gate,
        host: AppHost,
        apps: AppDoor,
    ) -> Parts:
        tokens, layout = self._settings.answer.max_tokens, self._promises.layout
        return Parts(
            profile=self._profile,
            promises=self._promises,
            memory=memory,
            ledger=ledger,
            history=history,
            engine=engine,
            embedder=self._public.embedder,
            gate=gate,
            answers=OwnerAnswers(memory, layout, engine, self._public.embedder, tokens),
            host=host,
            tokens=self._public.tokens,
            notices=self._notices,
            clock=SystemClock(),
            key_source=self._key_source,
            sandbox=_sandbox_word(self._public.confinement),
            revoked=apps.revoked,
            stop=self._stopping.set,
        )

    def _lock_parts(self, vault: Vault) -> LockParts:
        return LockParts(
            vault=vault,
            profile=str(self._profile.data),
            key_source=lambda: self._key_source,
            sandbox=_sandbox_word(self._public.confinement),
            stop=self._stopping.set,
        )


def _retention(settings: Settings) -> Retention:
    return Retention(settings.history.turns, settings.history.days)


def _limits(settings: Settings) -> TurnLimits:
    return TurnLimits(settings.turn.deadline_ms / 1000, settings.answer.max_tokens)


@asynccontextmanager
async def _running(work: Coroutine[None, None, None], name: str) -> AsyncIterator[None]:
    """Runs something in a task of its own during the block."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work, name=name)
        yield
        task.cancel()


@asynccontextmanager
async def _engine(profile: Profile, settings: Settings) -> AsyncIterator[LlamaEngine]:
    """The response model, loading in the background; closed after the block."""
    threads = settings.model.threads or available_cores()
    path = model_file(settings.model.use, profile.models)
    how = EngineSettings(settings.model.context, threads, gpu=settings.gpu)
    engine = LlamaEngine(path, how, _first_load(profile, settings.model.context, threads, how.gpu))
    engine.start()
    try:
        yield engine
    finally:
        await engine.close()


def _first_load(profile: Profile, context: int, threads: int, gpu: GpuUse) -> Check:
    """A file that is new here is loaded by a child first, which may die of it."""
    loads = FirstLoads(profile.first_loads)

    def check(path: Path, stopped: Callable[[], bool]) -> None:
        loads.ensure(Attempt(str(path), context, threads, gpu), stopped)

    return check


@contextmanager
def _signals(stopping: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask for an orderly stop during the block."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _prepare(promises: Promises, router: Router, scorer: EmbeddingScorer) -> None:
    """Computes what depends on the policy alone, so that no turn waits for it."""
    layout = promises.layout
    router.prepare(layout.slots)
    scorer.prepare(layout.slots)
    for slot in layout.slots:
        if promises.charge_set(slot):
            release_mechanism(promises, slot).prepare()


def opaque_version(digest: str, store_id: bytes) -> str:
    """Names a version of the policy to apps, which cannot tell from it which policy it is.

    A plain hash would let an app recognise an unedited starter policy.
    """
    return hmac.new(store_id, digest.encode(), hashlib.sha256).hexdigest()[:16]


def _sandbox_word(confinement: Confinement) -> str:
    match confinement:
        case Bubblewrap():
            return "bubblewrap"
        case NoSandbox(problem=problem):
            return problem
        case Unconfined():
            return "off"
