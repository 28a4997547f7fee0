"""The gate: everything that leaves for an app leaves through `Gate.ask`.

Decides the order of one turn (DESIGN §3): grant, route, release a view for each active slot within
a fixed time, then let the response model answer from released values only, and keep the turn. What
is *not* here: how a view is released (`tactful_core.interface`), how a turn is kept
(`store.history`), connections (`server`).

Invariants:

- a refusal follows from policy, grants, the state of the model and the app's own requests alone,
  and comes before any charge, also that of a question that is too long for the model whichever
  views answer it;
- the stage that touches memory ends at a fixed time, an overrun at its next multiple;
- the response model is given the query, the guidance of released views, and what was released of
  earlier turns of the same app and thread: never another app's or thread's, and never memory (C6)
  but in the rows of fused text, which is charged by draws (`fusing.answering`);
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
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack, aclosing, nullcontext
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

from tactful.wire import Answer, Ask, Budget, Vocabulary
from tactful_core.allocation import Standing
from tactful_core.interface import Ports, Release, Scorer, release_view
from tactful_core.layout import Slot
from tactful_core.values import AppId, SlotName
from tactfuld.budget import slot_budget
from tactfuld.clock import Clock, fixed_time
from tactfuld.fusing.answering import Asked, Fusing, Fusion, NotFused
from tactfuld.inference.engine import Engine
from tactfuld.inference.places import Place
from tactfuld.inference.prompt import EarlierTurn, Prompt, build_prompt
from tactfuld.inference.prompt_room import require_room
from tactfuld.inference.requests import Source
from tactfuld.interest import Interest, InterestedScorer
from tactfuld.notices import Notices
from tactfuld.open_turn import FusedSpent, OpenTurn, TurnWatcher, Watchers
from tactfuld.policy_version import PolicyVersion
from tactfuld.store.released_turn import ReleasedTurn
from tactfuld.turn_errors import named_errors


class History(Protocol):
    """What was released before, by app and thread; neither call fails."""

    async def thread(self, app: AppId, thread: str) -> tuple[ReleasedTurn, ...]: ...

    async def record(self, turn: ReleasedTurn) -> None: ...


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Public constants of a turn.

    Attributes:
        stage_seconds: for selection and charging.
        answer_tokens: the most of an answer.
        memory_tokens: what the places of a fused answer's rows take together, at most.
    """

    stage_seconds: float
    answer_tokens: int
    memory_tokens: int = 512


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a turn answers from: views, and for fused text also what it is drawn from."""

    version: PolicyVersion
    releases: tuple[Release, ...]
    text: Fusion | NotFused | None


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
        fusing: Fusing,
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
        self._watchers = Watchers()
        self._fusing = fusing

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

    def watching(self, watched: AppId | int, watcher: TurnWatcher) -> AbstractContextManager[None]:
        """Tells `watcher` of an app's turns, or of one turn, for as long as the context is open."""
        return self._watchers.watching(watched, watcher)

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
        self._version.granted(app)
        await self._require_model(question)
        at = self._clock.now()
        async with AsyncExitStack() as held:
            place = await self._place(app, question, held)
            # After the place: who forgets turns finds everybody who may have read them.
            earlier = await self._earlier(app, question)
            opened = await self._views(app, question, earlier, held)
            fused = isinstance(opened.text, Fusion)
            turn = OpenTurn(next(self._turns), app, question, at, earlier, opened.releases, fused)
            with nullcontext() if watcher is None else self.watching(turn.number, watcher):
                await self._told(turn, opened.text, place, on_text)
        return turn.reply(opened.version.name)

    async def _told(
        self,
        turn: OpenTurn,
        text: Fusion | NotFused | None,
        place: Place,
        on_text: Callable[[str], Awaitable[None]],
    ) -> None:
        """Answers, keeps what was released, and lets the owner's tools watch."""
        for each in self._watchers.of(turn.app, turn.number):
            each.started(turn.number, turn.app, turn.question.query, turn.releases)
        began = self._clock.monotonic()
        try:
            await self._answer(turn, text, place, on_text)
        finally:
            await self._history.record(turn.released())
        for each in self._watchers.of(turn.app, turn.number):
            if text is not None:
                each.fused(turn.number, _spent(text, self._clock.monotonic() - began))
            each.finished(turn.number, turn.answer)

    def budget(self, app: AppId) -> Budget:
        """What is left for each slot that the app was granted; from public input alone.

        Raises:
            Denied: the policy grants the app nothing.
        """
        promises, grant = self._version.promises, self._version.granted(app)
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
        return self._version.vocabulary(app)

    async def quote(self, app: AppId, question: Ask) -> Budget:
        """What each slot that the question activates would answer with now; charges nothing.

        Raises:
            Denied: the policy grants the app nothing, or not a slot that it named.
        """
        version = self._version
        grant = version.granted(app)
        earlier = await self._earlier(app, question)
        slots = await version.active_slots(question, grant, _queries(earlier))
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

    async def _place(self, app: AppId, question: Ask, held: AsyncExitStack) -> Place:
        """A place in the model's queue, kept until `held` is closed; before any charge."""
        with named_errors():
            source = Source(app, question.thread)
            return await held.enter_async_context(self._engine.place(source))

    async def _views(
        self,
        app: AppId,
        question: Ask,
        earlier: tuple[ReleasedTurn, ...],
        held: AsyncExitStack,
    ) -> _Opened:
        """One view for each slot that the question is about, and the version of all of them.

        If the version changes before the turn's views are released, the turn begins anew under the
        next one: it cannot charge against a cap that does not hold any more.
        """
        while True:
            version = self._version
            grant = version.granted(app)
            slots = await version.active_slots(question, grant, _queries(earlier))
            opened = await self._release(version, app, question, slots, earlier, held)
            if opened is not None:
                return opened

    async def _release(
        self,
        version: PolicyVersion,
        app: AppId,
        question: Ask,
        slots: tuple[Slot, ...],
        earlier: tuple[ReleasedTurn, ...],
        held: AsyncExitStack,
    ) -> _Opened | None:
        """One view for each slot and what the text is drawn from; `None` if the version is over.

        Turns go one after the other, so that none draws twice for what another has just released.
        All of memory that a turn needs is read here.
        """
        async with (
            fixed_time(self._clock, self._limits.stage_seconds, self._notices.deadline_missed),
            self._releasing,
        ):
            if version is not self._version:
                return None
            await self._require_room(question, slots)
            ports = replace(self._ports, scorer=self._scorer_of(version, app, remembers=True))
            releases = tuple(
                [
                    await release_view(app, question.query, slot, version.promises, ports)
                    for slot in slots
                ]
            )
            if question.detail == "views":
                return _Opened(version, releases, None)
            prompt = _prompt(question, releases, earlier)
            limits = self._limits
            asked = Asked(app, slots, prompt, limits.answer_tokens, limits.memory_tokens)
            with named_errors():
                text = await held.enter_async_context(self._fusing.begun(asked, version.promises))
            return _Opened(version, releases, text)

    def _scorer_of(self, version: PolicyVersion, app: AppId, *, remembers: bool) -> Scorer:
        """Where a draw lasts, what the app asked before counts with what it asks now."""
        if not isinstance(version.promises.allocation, Standing):
            return version.scorer
        return InterestedScorer(version.scorer, self._interest, app, remembers=remembers)

    async def _answer(
        self,
        turn: OpenTurn,
        text: Fusion | NotFused | None,
        place: Place,
        on_text: Callable[[str], Awaitable[None]],
    ) -> None:
        with named_errors():
            async with aclosing(self._pieces(turn, text, place)) as pieces:
                async for piece in pieces:
                    turn.pieces.append(piece)
                    for watcher in self._watchers.of(turn.app, turn.number):
                        watcher.text(turn.number, piece)
                    await on_text(piece)
        turn.complete = True

    async def _pieces(
        self, turn: OpenTurn, text: Fusion | NotFused | None, place: Place
    ) -> AsyncGenerator[str, None]:
        """The answer as it is drawn; when this has been closed, nothing is drawn any more."""
        most = self._limits.answer_tokens
        if isinstance(text, Fusion):
            most = text.most
            generation = self._engine.generate_group(
                text.group, text.draws, max_tokens=most, place=place
            )
            if text.opening:
                yield text.opening
        else:
            prompt = _prompt(turn.question, turn.releases, turn.earlier)
            generation = self._engine.generate(prompt, max_tokens=most, place=place)
        async with aclosing(generation) as stream:
            async for piece in stream:
                yield piece

    async def _require_room(self, question: Ask, slots: tuple[Slot, ...]) -> None:
        """Refuses a question that the model has no room for, whichever views are drawn.

        What fits an endpoint elsewhere is known to it alone.
        """
        if self._engine.answers_from is not None:
            return
        guidance = [[view.guidance for view in slot.vocabulary] for slot in slots]
        most = self._limits.answer_tokens
        with named_errors():
            await self._engine.with_vocabulary(
                lambda known: require_room(question.query, guidance, known, max_tokens=most)
            )

    async def _require_model(self, question: Ask) -> None:
        """Refuses before anything is charged, or waits for a model that was unloaded.

        The state of the model is public: it follows from settings, power, and when was asked.
        """
        with named_errors():
            # Rows that show memory are computed on this machine, whoever answers else.
            await self._engine.admit(here=question.detail == "fused")


def _prompt(
    question: Ask, releases: tuple[Release, ...], earlier: tuple[ReleasedTurn, ...]
) -> Prompt:
    """What the response model is told: released values only."""
    return build_prompt(
        question.query,
        tuple(release.view.guidance for release in releases),
        tuple(EarlierTurn(each.query, each.answer) for each in earlier),
    )


def _spent(text: Fusion | NotFused, seconds: float) -> FusedSpent:
    if isinstance(text, NotFused):
        return FusedSpent(0, frozenset(), 0, 0, 0, seconds, text.reason)
    draws = text.draws
    return FusedSpent(
        len(text.cells), text.charged, draws.reserved, draws.charged, draws.free, seconds
    )


def _queries(earlier: tuple[ReleasedTurn, ...]) -> tuple[str, ...]:
    return tuple(turn.query for turn in earlier)
