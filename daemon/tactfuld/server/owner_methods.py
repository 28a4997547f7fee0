"""What the owner's tools may call.

Decides what the daemon and apps look like to the owner. What is *not* here: memory
(`memory_methods`), ledgers, epochs and audits (`ledger_methods`), questions (`ask_methods`), and
anything an app may call (`app_methods`); the tables of the owner and of apps share no method.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tactful.errors import Unusable
from tactful.owner_wire import (
    AppName,
    AppsList,
    AppStatus,
    AppToken,
    GpuStatus,
    ModelStatus,
    OwnerMethod,
    Status,
    Tell,
    TellReply,
)
from tactful.profile import Profile
from tactful.wire import Empty, Event, EventKind, Message
from tactful_core.promises import Promises
from tactful_core.values import AppId
from tactfuld.apps.host import AppHost
from tactfuld.apps.installed import installed_beside, installed_names
from tactfuld.apps.tokens import AppTokens
from tactfuld.clock import Clock
from tactfuld.coverage_lint import CoverageLint
from tactfuld.doctor.stores import OpenStores
from tactfuld.events.inbox import Inbox
from tactfuld.events.tail import Tail
from tactfuld.gate import Gate
from tactfuld.inference.embedder import Embedder
from tactfuld.inference.engine import Engine, EngineState
from tactfuld.inference.offload import Offload
from tactfuld.notices import Notices
from tactfuld.owner_answers import OwnerAnswers
from tactfuld.resident_memory import resident_bytes
from tactfuld.rotation import Stores
from tactfuld.server.ask_methods import ask_methods
from tactfuld.server.doctor_methods import doctor_methods
from tactfuld.server.history_methods import history_methods
from tactfuld.server.inbox_methods import inbox_methods
from tactfuld.server.key_methods import key_methods
from tactfuld.server.ledger_methods import ledger_methods
from tactfuld.server.lint_methods import lint_methods
from tactfuld.server.memory_methods import MemoryParts, memory_methods
from tactfuld.server.named_apps import named_app
from tactfuld.server.policy_methods import PolicySteps, policy_methods, staged_policy
from tactfuld.server.session import Caller, Method, MethodTable
from tactfuld.server.shown_turns import shown
from tactfuld.store.history import HistoryStore
from tactfuld.store.ledger import LedgerStore
from tactfuld.store.memory import MemoryStore
from tactfuld.turns import TurnLog

VERSION = version("tactful")
"""Found once: it is read from the disk."""

_SERVING = (EngineState.READY, EngineState.ASLEEP, EngineState.PAUSED)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the owner's methods look at and act on.

    Attributes:
        revoked: called with an app whose token was revoked, to end its connections.
        stop: asks the daemon to stop.
    """

    profile: Profile
    promises: Promises
    policy: PolicySteps
    memory: MemoryStore
    ledger: LedgerStore
    history: HistoryStore
    engine: Engine
    embedder: Embedder
    lint: CoverageLint
    gate: Gate
    answers: OwnerAnswers
    host: AppHost
    inbox: Inbox
    tail: Tail
    tokens: AppTokens
    notices: Notices
    clock: Clock
    key_source: str
    sandbox: str
    revoked: Callable[[AppId], None]
    stop: Callable[[], None]


def owner_methods(parts: Parts) -> MethodTable:
    """The method table of `owner.sock`."""
    owner = _OwnerMethods(parts)
    return {
        OwnerMethod.STATUS: Method(Empty, owner.status),
        OwnerMethod.STOP: Method(Empty, owner.stop),
        **memory_methods(
            MemoryParts(
                parts.memory, parts.promises.layout, parts.embedder, parts.lint, parts.clock
            )
        ),
        **lint_methods(parts.memory, parts.lint),
        **history_methods(parts.history),
        **key_methods(Stores(parts.memory, parts.ledger, parts.history)),
        **doctor_methods(
            parts.profile,
            OpenStores(parts.memory, parts.ledger, parts.history),
            parts.engine,
            parts.clock,
        ),
        **policy_methods(parts.policy),
        **ledger_methods(parts.promises, parts.ledger, parts.policy),
        **inbox_methods(parts.inbox, parts.tail),
        **ask_methods(parts.promises, parts.gate, parts.answers),
        OwnerMethod.TELL: Method(Tell, owner.tell),
        OwnerMethod.APPS_LIST: Method(Empty, owner.apps_list),
        OwnerMethod.APPS_GRANT: Method(AppName, owner.apps_grant),
        OwnerMethod.APPS_REVOKE: Method(AppName, owner.apps_revoke),
        OwnerMethod.APPS_RESTART: Method(AppName, owner.apps_restart),
    }


class _OwnerMethods:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def status(self, _caller: Caller, _request: Empty) -> Status:
        parts, engine = self._parts, self._parts.engine
        return Status(
            version=VERSION,
            pid=os.getpid(),
            ready=engine.state in _SERVING,
            profile=str(parts.profile.data),
            key_source=parts.key_source,
            sandbox=parts.sandbox,
            policy=parts.promises.digest,
            positions=parts.promises.layout.size,
            model=_model_status(engine),
            apps=self._apps(),
            notices=parts.notices.sentences,
            staged=staged_policy(parts.policy.staged),
            resident_bytes=await asyncio.to_thread(resident_bytes),
            inbox=len(parts.inbox.items),
        )

    async def stop(self, _caller: Caller, _request: Empty) -> Empty:
        self._parts.stop()
        return Empty()

    async def tell(self, caller: Caller, request: Tell) -> TellReply:
        app = named_app(self._parts.promises, request.app)
        log = TurnLog(self._parts.promises.layout)
        async with shown(caller, log):
            event = Event(kind=EventKind.MESSAGE, text=request.text)
            watching = partial(self._parts.gate.watching, app, log)
            await self._parts.host.deliver(app, event, during=watching)
        return TellReply(turns=log.turns)

    async def apps_list(self, _caller: Caller, _request: Empty) -> AppsList:
        named = self._apps()
        installed = await asyncio.to_thread(_installed, self._parts.profile.state)
        others = sorted(installed - {AppId(app.app) for app in named})
        return AppsList(
            apps=(*named, *(AppStatus(app=app, slots=(), state="disabled") for app in others))
        )

    async def apps_grant(self, _caller: Caller, request: AppName) -> AppToken:
        app = named_app(self._parts.promises, request.app)
        token = await asyncio.to_thread(self._parts.tokens.issue, app)
        self._parts.revoked(app)
        return AppToken(app=app, token=token)

    async def apps_revoke(self, _caller: Caller, request: AppName) -> Message:
        app = AppId(request.app)
        await asyncio.to_thread(self._parts.tokens.revoke, app)
        self._parts.revoked(app)
        return Empty()

    async def apps_restart(self, _caller: Caller, request: AppName) -> Message:
        await self._parts.host.restart(AppId(request.app))
        return Empty()

    def _apps(self) -> tuple[AppStatus, ...]:
        return tuple(self._app(grant.app) for grant in self._parts.promises.grants)

    def _app(self, app: AppId) -> AppStatus:
        grant, hosted = self._parts.promises.grant(app), self._parts.host.state(app)
        slots = tuple(sorted(grant.slots)) if grant else ()
        if hosted is None:
            return AppStatus(app=app, slots=slots, state="outside")
        return AppStatus(app=app, slots=slots, state=hosted.state, problem=hosted.problem)


def _installed(state: Path) -> frozenset[AppId]:
    """The apps that could be granted something; as far as it is known."""
    try:
        return installed_names(state)
    except Unusable:
        return installed_beside()


def _model_status(engine: Engine) -> ModelStatus:
    return ModelStatus(
        name=engine.name,
        state=engine.state,
        progress=engine.load_progress,
        problem=engine.problem,
        gpu=_gpu_status(engine.offload),
        answers_from=engine.answers_from,
        memory_bytes=engine.memory.total if engine.memory is not None else None,
    )


def _gpu_status(found: Offload | None) -> GpuStatus | None:
    if found is None:
        return None
    return GpuStatus(
        supported=found.support.supported,
        offloaded=found.offloaded > 0,
        layers=found.layers,
        offloaded_layers=found.offloaded,
        place=found.place,
    )
