"""What is open while the profile is unlocked: stores, model, gate, and the policy in force.

Decides the order in which these are opened and closed, and how a change of policy or settings
reaches them. What is *not* here: sockets and apps, which stay while it is locked (`lifecycle`), and
when it is locked (`vault`).

Invariants:

- a part that cannot be opened ends the opening with a sentence, and what was open is closed again;
- which policy is in force is decided by the open ledger, before anything can be asked;
- what needs keys is closed in the opposite order, after the policy can change nothing any more.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from structlog.typing import FilteringBoundLogger

from tactful.profile import Profile
from tactful_core.interface import Ports
from tactful_core.promises import Promises
from tactful_core.sampling import SystemRandomness
from tactful_core.standing import release_mechanism
from tactful_core.values import AppId
from tactfuld.apps.host import AppHost
from tactfuld.apps.tokens import AppTokens
from tactfuld.clock import Clock
from tactfuld.coverage import Detector
from tactfuld.coverage_lint import CoverageLint
from tactfuld.epochs import AGE_FILE, EpochRenewal
from tactfuld.events.bus import EventBus, Public
from tactfuld.events.inbox import Inbox
from tactfuld.fusing.answering import Fusing
from tactfuld.gate import Gate, TurnLimits
from tactfuld.inference.embedder import Embedder
from tactfuld.inference.engine import Engine, EngineState
from tactfuld.inference.judging import LlamaJudge
from tactfuld.inference.remote import RemoteEngine
from tactfuld.inference.requests import Forgetting, Source
from tactfuld.inference.residence import ResidentEngine
from tactfuld.keys.ring import KeyRing
from tactfuld.keys.values import StoreKeys
from tactfuld.notices import Notices
from tactfuld.owner_answers import OwnerAnswers
from tactfuld.policy_in_force import PolicyInForce
from tactfuld.policy_version import PolicyVersion
from tactfuld.response_engine import remote_of, residence_rules, response_engine
from tactfuld.router import Router
from tactfuld.scorer_choice import ScorerChoice
from tactfuld.server.app_methods import app_methods
from tactfuld.server.outlet_methods import Outlets, outlet_methods
from tactfuld.server.owner_methods import Parts, owner_methods
from tactfuld.server.session import MethodTable
from tactfuld.settings import Settings
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MemoryStore, memory_place
from tactfuld.store.released_turn import Retention, TurnsGone
from tactfuld.vault import Opened


@dataclass(frozen=True, slots=True)
class Around:
    """What stays while the profile is locked, and is needed while it is not.

    Attributes:
        sandbox: what `status` says of it.
        revoked: called with an app whose token was revoked, to end its connections.
        stop: asks the daemon to stop.
        watched: makes the owner's methods such that using them puts off the idle lock.
    """

    profile: Profile
    embedder: Embedder
    detector: Detector
    tokens: AppTokens
    host: AppHost
    inbox: Inbox
    bus: EventBus
    sandbox: str
    notices: Notices
    clock: Clock
    journal: FilteringBoundLogger
    revoked: Callable[[AppId], None]
    stop: Callable[[], None]
    watched: Callable[[MethodTable], MethodTable]


_NOT_NOW = frozenset({EngineState.LOADING, EngineState.PAUSED})
"""States of the model in which an app that was told of an event could not ask."""


@dataclass(frozen=True, slots=True)
class _Stores:
    """The three databases."""

    memory: MemoryStore
    ledger: LedgerStore
    history: HistoryStore


@dataclass(frozen=True, slots=True)
class _Answering:
    """What settings act on while it is open."""

    gate: Gate
    answers: OwnerAnswers
    history: HistoryStore
    resident: ResidentEngine
    engine: RemoteEngine


class Unlocked:
    """Opens everything that needs keys, and takes changes over while it is open."""

    def __init__(self, around: Around, settings: Settings, policy: PolicyInForce) -> None:
        """Nothing is open yet."""
        self._around = around
        self._settings = settings
        self._policy = policy
        self._answering: _Answering | None = None
        self.key_source = ""

    def take_over(self, settings: Settings) -> None:
        """Makes settings that may change while the daemon runs hold from now on."""
        self._settings = settings
        if self._answering is not None:
            self._answering.history.retain(_retention(settings))
            self._answering.gate.change_limits(_limits(settings))
            self._answering.resident.change_rules(residence_rules(settings))
            self._answering.engine.change(remote_of(settings))
            self._answering.answers.change_answer_tokens(settings.answer.max_tokens)

    @property
    def public(self) -> Public | None:
        """What the event bus may know of what is open; `None` where nothing is."""
        answering = self._answering
        if answering is None:
            return None
        gate, engine = answering.gate, answering.engine
        ready = engine.answers_from is not None or engine.state not in _NOT_NOW
        return Public(ready, gate.policy, gate.budget)

    @asynccontextmanager
    async def opened(self, ring: KeyRing) -> AsyncIterator[Opened]:
        """Opens the stores, and starts loading the model; closes all of it after the block."""
        around, keys = self._around, ring.store_keys()
        self.key_source = keys.source_description
        async with AsyncExitStack() as stack:
            stores = await self._stores(keys, stack)
            resident = await stack.enter_async_context(
                response_engine(around.profile, self._settings, around.clock, around.notices)
            )
            stores.history.watch(lambda gone: resident.forget(_forgetting(gone)))
            await stack.enter_async_context(_running(resident.run(), "residence"))
            remote = remote_of(self._settings)
            engine = RemoteEngine(resident, remote, around.notices.replace)
            promises = await self._policy.begin(stores.ledger)
            choice = self._scorer_choice(engine)
            version = await self._version(promises, choice, keys.store_id)
            await stack.enter_async_context(_running(choice.measure(version.scorer), "scorer"))
            gate = self._gate(version, stores, engine)
            parts = self._parts(promises, stores, engine, gate)
            opened = Opened(self._owner(parts), self._apps(gate))

            async def exchange(promises: Promises, first: Callable[[], Awaitable[bool]]) -> bool:
                version = await self._version(promises, choice, keys.store_id)
                agreed = await gate.exchange(version, first)
                if agreed:
                    opened.owner = self._owner(replace(parts, promises=promises))
                return agreed

            await self._policy.opened(stores.ledger, exchange, promises)
            stack.push_async_callback(self._policy.closing)
            await self._keep_time(stores.ledger, stack)
            self._answering = _Answering(gate, parts.answers, stores.history, resident, engine)
            self.take_over(self._settings)
            around.journal.info("unlocked")
            try:
                yield opened
            finally:
                self._answering = None
        around.journal.info("locked")

    async def _stores(self, keys: StoreKeys, stack: AsyncExitStack) -> _Stores:
        """Memory, ledger and history; which policy was in force is known before the ledger is."""
        profile, policy, notices = self._around.profile, self._policy, self._around.notices
        memory = MemoryStore.open(memory_place(profile), policy.promises.layout, keys, notices.add)
        attributes = (await policy.recalled()).layout.attributes
        ledger = LedgerStore.open(ledger_place(profile), keys, attributes, notices.add)
        history = HistoryStore.open(
            profile.data / HISTORY_FILE,
            keys,
            _retention(self._settings),
            self._around.clock.now(),
            notices.add,
        )
        return _Stores(
            await stack.enter_async_context(memory),
            await stack.enter_async_context(ledger),
            await stack.enter_async_context(history),
        )

    async def _keep_time(self, ledger: LedgerStore, stack: AsyncExitStack) -> None:
        """Looks for ticks and for epochs that open by themselves, until the stack is closed."""
        around, policy = self._around, self._policy
        renewal = EpochRenewal(
            lambda: policy.promises.epochs,
            ledger,
            policy.open_epoch,
            around.profile.state / AGE_FILE,
            around.clock,
            around.journal,
        )
        await stack.enter_async_context(_running(policy.run(), "ticks"))
        await stack.enter_async_context(_running(renewal.run(), "epochs"))

    def _gate(self, version: PolicyVersion, stores: _Stores, engine: Engine) -> Gate:
        clock, notices = self._around.clock, self._around.notices
        ports = Ports(stores.ledger, stores.memory, version.scorer, SystemRandomness(), notices)
        limits = _limits(self._settings)
        fusing = Fusing(stores.ledger, stores.memory, ports.randomness, engine, notices)
        return Gate(version, ports, engine, stores.history, clock, notices, limits, fusing)

    def _apps(self, gate: Gate) -> MethodTable:
        inbox, bus = self._around.inbox, self._around.bus

        def admitted(app: AppId) -> bool:
            return bool(gate.slots(app)) or app in bus.grants

        outlets = Outlets(inbox, bus, gate.slots, admitted, self._around.clock)
        return {**app_methods(gate), **outlet_methods(outlets)}

    def _scorer_choice(self, engine: Engine) -> ScorerChoice:
        return ScorerChoice(
            self._settings.scorer,
            self._around.embedder,
            LlamaJudge(engine),
            self._around.clock,
            self._around.notices,
            self._settings.turn.deadline_ms,
        )

    def _owner(self, parts: Parts) -> MethodTable:
        return self._around.watched(owner_methods(parts))

    async def _version(
        self, promises: Promises, choice: ScorerChoice, store_id: bytes
    ) -> PolicyVersion:
        name = opaque_version(promises.digest, store_id)
        return await asyncio.to_thread(_prepared, promises, self._around.embedder, choice, name)

    def _parts(self, promises: Promises, stores: _Stores, engine: Engine, gate: Gate) -> Parts:
        around, tokens = self._around, self._settings.answer.max_tokens
        return Parts(
            profile=around.profile,
            promises=promises,
            policy=self._policy,
            memory=stores.memory,
            ledger=stores.ledger,
            history=stores.history,
            engine=engine,
            embedder=around.embedder,
            lint=CoverageLint(promises.layout, around.detector, around.embedder),
            gate=gate,
            answers=OwnerAnswers(stores.memory, promises.layout, engine, around.embedder, tokens),
            host=around.host,
            inbox=around.inbox,
            tail=around.bus.tail,
            tokens=around.tokens,
            notices=around.notices,
            clock=around.clock,
            key_source=self.key_source,
            sandbox=around.sandbox,
            revoked=around.revoked,
            stop=around.stop,
        )


def opaque_version(digest: str, store_id: bytes) -> str:
    """Names a version of the policy to apps, which cannot tell from it which policy it is.

    A plain hash would let an app recognise an unedited starter policy.
    """
    return hmac.new(store_id, digest.encode(), hashlib.sha256).hexdigest()[:16]


def _prepared(
    promises: Promises, embedder: Embedder, choice: ScorerChoice, name: str
) -> PolicyVersion:
    """Computes what depends on the policy alone, so that no turn waits for it."""
    layout, router = promises.layout, Router(embedder)
    router.prepare(layout.slots)
    scorer = choice.prepared(layout.slots)
    for slot in layout.slots:
        if promises.charge_set(slot):
            release_mechanism(promises, slot).prepare()
    return PolicyVersion(promises, router, scorer, name)


def _forgetting(gone: TurnsGone) -> Forgetting:
    threads = gone.threads
    if threads is None:
        return Forgetting(None, overwrite=gone.by_owner)
    return Forgetting(frozenset(Source(*thread) for thread in threads), overwrite=gone.by_owner)


def _retention(settings: Settings) -> Retention:
    return Retention(settings.history.turns, settings.history.days)


def _limits(settings: Settings) -> TurnLimits:
    answer = settings.answer
    return TurnLimits(settings.turn.deadline_ms / 1000, answer.max_tokens, answer.memory_tokens)


@asynccontextmanager
async def _running(work: Coroutine[None, None, None], name: str) -> AsyncIterator[None]:
    """Runs something in a task of its own during the block."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work, name=name)
        yield
        task.cancel()
