"""The gate: everything that leaves for an app leaves through `Gate.ask`.

Decides the order of one turn (DESIGN §3): grant, route, release a view for each active slot within
a fixed time, then let the response model answer from released values only, and keep the turn. What
is *not* here: how a view is released (`tactful_core.interface`), how a turn is kept
(`store.history`), connections (`server`).

Invariants:

- a refusal follows from policy, grants and the state of the model alone, and comes before any
  charge; only a queue that is full or a question that is too long for the model is found when the
  views are there already, and then the charge stands;
- the stage that touches memory ends at a fixed time, an overrun at its next multiple;
- the response model is given the query, the guidance of released views, and what was released of
  earlier turns of the same app and thread: never memory (C6), never another app's or thread's;
- all views of a turn are released under one version of the policy, the one in force at that moment;
  the version changes between two such moments and in none, and what is drawn under one is answered
  under it;
- a cancelled turn keeps its charges;
- what was released of a turn is recorded before its reply, also if it was cancelled or failed. The
  record is made of released values, so the time that reading and writing history take is a
  function of those and of the disk; a write that fails is the owner's notice, not the app's error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from tactful.errors import Busy, Denied, InvalidParams, ModelFailed, NotReady, ShuttingDown
from tactful.wire import (
    Answer,
    Ask,
    Budget,
    OfferedView,
    ReleasedView,
    SlotVocabulary,
    Vocabulary,
)
from tactful_core.allocation import Standing
from tactful_core.interface import Ports, Release, Scorer, release_view
from tactful_core.layout import Slot
from tactful_core.promises import Grant, Promises
from tactful_core.values import AppId, SlotName
from tactfuld.budget import slot_budget
from tactfuld.clock import Clock, fixed_time
from tactfuld.inference.engine import Engine
from tactfuld.inference.errors import (
    EngineBusy,
    EngineClosed,
    EngineLoading,
    EnginePaused,
    ModelError,
    PromptTooLong,
)
from tactfuld.inference.prompt import EarlierTurn, build_prompt
from tactfuld.interest import Interest, InterestedScorer
from tactfuld.notices import Notices
from tactfuld.router import Router
from tactfuld.store.released_turn import ReleasedTurn, TurnView


class History(Protocol):
    """What was released before, by app and thread; neither call fails."""

    async def thread(self, app: AppId, thread: str) -> tuple[ReleasedTurn, ...]: ...

    async def record(self, turn: ReleasedTurn) -> None: ...


class TurnWatcher(Protocol):
    """The owner's view of turns while they happen; must not wait for anybody."""

    def started(self, turn: int, app: AppId, query: str, releases: tuple[Release, ...]) -> None: ...

    def text(self, turn: int, piece: str) -> None: ...

    def finished(self, turn: int, answer: str) -> None: ...


@dataclass(slots=True)
class _OpenTurn:
    """One turn as it goes on.

    Attributes:
        earlier: the turns of its thread, oldest first.
        pieces: what was released of the answer so far.
        complete: whether that is the whole of it.
    """

    number: int
    app: AppId
    question: Ask
    at: int
    earlier: tuple[ReleasedTurn, ...]
    releases: tuple[Release, ...]
    pieces: list[str] = field(default_factory=list)
    complete: bool = False

    @property
    def answer(self) -> str:
        return "".join(self.pieces)

    def released(self) -> ReleasedTurn:
        """What there is to keep of it."""
        return ReleasedTurn(
            app=self.app,
            thread=self.question.thread,
            at=self.at,
            query=self.question.query,
            answer=self.answer,
            complete=self.complete,
            views=tuple(TurnView(r.slot, r.view.name, r.fallback) for r in self.releases),
        )


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Public constants of a turn: seconds for selection and charging, tokens of an answer."""

    stage_seconds: float
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A version of the policy, and what answers under it.

    Attributes:
        name: what apps see of it: changes with it, tells nothing about it.
    """

    promises: Promises
    router: Router
    scorer: Scorer
    name: str


class Gate:
    """Answers the questions of apps under the version of the policy that is in force."""

    def __init__(
        self,
        version: PolicyVersion,
        ports: Ports,
        engine: Engine,
        history: History,
        clock: Clock,
        notices: Notices,
        limits: TurnLimits,
    ) -> None:
        """Nothing is answered yet; the scorer of `ports` gives way to the version's."""
        self._version = version
        self._ports = ports
        self._engine = engine
        self._history = history
        self._clock = clock
        self._notices = notices
        self._limits = limits
        self._interest = Interest()
        self._turns = count(1)
        self._releasing = asyncio.Lock()
        self._watchers: list[tuple[AppId | int, TurnWatcher]] = []

    async def exchange(self, version: PolicyVersion, first: Callable[[], Awaitable[bool]]) -> bool:
        """Puts another version in force if `first` says so, while no view is being released."""
        async with self._releasing:
            agreed = await first()
            if agreed:
                self._version, self._interest = version, Interest()
        return agreed

    def change_limits(self, limits: TurnLimits) -> None:
        """Other public constants, for turns that begin after this."""
        self._limits = limits

    @contextmanager
    def watching(self, watched: AppId | int, watcher: TurnWatcher) -> Iterator[None]:
        """Tells `watcher` of an app's turns, or of one turn, for as long as the context is open."""
        entry = (watched, watcher)
        self._watchers.append(entry)
        try:
            yield
        finally:
            self._watchers.remove(entry)

    async def ask(
        self,
        app: AppId,
        question: Ask,
        on_text: Callable[[str], Awaitable[None]],
        *,
        watcher: TurnWatcher | None = None,
    ) -> Answer:
        """One turn; `watcher` is told of it and of no other.

        Raises:
            Denied: the policy grants the app nothing, or not a slot that it named.
            NotReady, ModelFailed, Busy: the response model cannot answer now; nothing was charged
                unless it failed while answering.
        """
        _granted(self._version, app)
        await self._require_model()
        at, earlier = self._clock.now(), await self._earlier(app, question)
        version, releases = await self._views(app, question, earlier)
        turn = _OpenTurn(next(self._turns), app, question, at, earlier, releases)
        with nullcontext() if watcher is None else self.watching(turn.number, watcher):
            for each in self._watchers_of(turn):
                each.started(turn.number, app, question.query, releases)
            try:
                await self._answer(turn, on_text)
            finally:
                await self._history.record(turn.released())
            for each in self._watchers_of(turn):
                each.finished(turn.number, turn.answer)
        return Answer(
            text=turn.answer,
            views=tuple(ReleasedView(slot=r.slot, view=r.view.name) for r in releases),
            policy=version.name,
        )

    def budget(self, app: AppId) -> Budget:
        """What is left for each slot that the app was granted; from public input alone.

        Raises:
            Denied: the policy grants the app nothing.
        """
        promises, grant = self._version.promises, _granted(self._version, app)
        ledger = self._ports.charges.snapshot()
        granted = [slot for slot in promises.layout.slots if slot.name in grant.slots]
        return Budget(slots=tuple(slot_budget(app, s, promises, ledger) for s in granted))

    @property
    def policy(self) -> str:
        """The opaque version in force, as apps see it."""
        return self._version.name

    def slots(self, app: AppId) -> frozenset[SlotName]:
        """The slots that the app was granted; none if it was granted nothing."""
        grant = self._version.promises.grant(app)
        return frozenset() if grant is None else grant.slots

    def vocabulary(self, app: AppId) -> Vocabulary:
        """The public views of the slots that the app was granted.

        Raises:
            Denied: the policy grants the app nothing.
        """
        version = self._version
        grant = _granted(version, app)
        granted = [slot for slot in version.promises.layout.slots if slot.name in grant.slots]
        return Vocabulary(slots=tuple(map(_vocabulary, granted)), policy=version.name)

    async def quote(self, app: AppId, question: Ask) -> Budget:
        """What each slot that the question activates would answer with now; charges nothing.

        Raises:
            Denied: the policy grants the app nothing, or not a slot that it named.
        """
        version = self._version
        grant = _granted(version, app)
        earlier = await self._earlier(app, question)
        slots = await _active_slots(version, question, grant, earlier)
        scorer = self._scorer_of(version, app, remembers=False)
        suits = [await scorer.relevance(question.query, slot) for slot in slots]
        ledger = self._ports.charges.snapshot()
        return Budget(
            slots=tuple(
                slot_budget(app, slot, version.promises, ledger, relevance)
                for slot, relevance in zip(slots, suits, strict=True)
            )
        )

    async def _earlier(self, app: AppId, question: Ask) -> tuple[ReleasedTurn, ...]:
        """What came before in the question's thread; nothing if it stands alone."""
        if question.thread is None:
            return ()
        return await self._history.thread(app, question.thread)

    async def _views(
        self, app: AppId, question: Ask, earlier: tuple[ReleasedTurn, ...]
    ) -> tuple[PolicyVersion, tuple[Release, ...]]:
        """One view for each slot that the question is about, and the version of all of them.

        If the version changes before the turn's views are released, the turn begins anew under the
        next one: it cannot charge against a cap that does not hold any more.
        """
        while True:
            version = self._version
            grant = _granted(version, app)
            slots = await _active_slots(version, question, grant, earlier)
            releases = await self._release(version, app, question.query, slots)
            if releases is not None:
                return version, releases

    async def _release(
        self, version: PolicyVersion, app: AppId, query: str, slots: tuple[Slot, ...]
    ) -> tuple[Release, ...] | None:
        """One view for each slot, or `None` if the version is in force no more.

        Turns go one after the other, so that none draws twice for what another has just released.
        """
        async with (
            fixed_time(self._clock, self._limits.stage_seconds, self._notices.deadline_missed),
            self._releasing,
        ):
            if version is not self._version:
                return None
            ports = replace(self._ports, scorer=self._scorer_of(version, app, remembers=True))
            return tuple(
                [await release_view(app, query, slot, version.promises, ports) for slot in slots]
            )

    def _scorer_of(self, version: PolicyVersion, app: AppId, *, remembers: bool) -> Scorer:
        """Where a draw lasts, what the app asked before counts with what it asks now."""
        if not isinstance(version.promises.allocation, Standing):
            return version.scorer
        return InterestedScorer(version.scorer, self._interest, app, remembers=remembers)

    async def _answer(self, turn: _OpenTurn, on_text: Callable[[str], Awaitable[None]]) -> None:
        prompt = build_prompt(
            turn.question.query,
            tuple(release.view.guidance for release in turn.releases),
            tuple(EarlierTurn(each.query, each.answer) for each in turn.earlier),
        )
        generation = self._engine.generate(prompt, max_tokens=self._limits.answer_tokens)
        with _named_errors():
            async with aclosing(generation) as stream:
                async for piece in stream:
                    turn.pieces.append(piece)
                    for watcher in self._watchers_of(turn):
                        watcher.text(turn.number, piece)
                    await on_text(piece)
        turn.complete = True

    async def _require_model(self) -> None:
        """Refuses before anything is charged, or waits for a model that was unloaded.

        The state of the model is public: it follows from settings, power, and when was asked.
        """
        with _named_errors():
            await self._engine.admit()

    def _watchers_of(self, turn: _OpenTurn) -> tuple[TurnWatcher, ...]:
        about = (turn.app, turn.number)
        return tuple(watcher for watched, watcher in self._watchers if watched in about)


def _vocabulary(slot: Slot) -> SlotVocabulary:
    views = tuple(OfferedView(view=v.name, guidance=v.guidance) for v in slot.vocabulary)
    return SlotVocabulary(slot=slot.name, views=views)


def _granted(version: PolicyVersion, app: AppId) -> Grant:
    grant = version.promises.grant(app)
    if grant is None or not grant.slots:
        raise Denied(
            "This app may not ask anything. The owner grants slots under 'apps' in the policy."
        )
    return grant


async def _active_slots(
    version: PolicyVersion, question: Ask, grant: Grant, earlier: tuple[ReleasedTurn, ...]
) -> tuple[Slot, ...]:
    asked = tuple(turn.query for turn in earlier)
    return await version.router.active_slots(question.query, grant, question.slots, asked)


@contextmanager
def _named_errors() -> Iterator[None]:
    """What goes wrong with the model, as the errors that a connection knows."""
    try:
        yield
    except EngineBusy as error:
        raise Busy("Too many questions wait for the language model. Ask again later.") from error
    except (EngineLoading, EnginePaused) as error:
        raise NotReady(str(error)) from error
    except EngineClosed as error:
        raise ShuttingDown("The daemon is stopping.") from error
    except PromptTooLong as error:
        raise InvalidParams(
            "The question does not fit the language model's context. Ask a shorter one."
        ) from error
    except ModelError as error:
        raise ModelFailed(
            "The language model could not answer. The owner must look at it."
        ) from error
