"""One turn of an app as it goes on, and who of the owner's tools watches it.

Decides what there is to keep of a turn. What is *not* here: the order of a turn (`gate`), how a
turn is kept (`store.history`), how it is shown (`turns`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tactful.wire import Answer, Ask, ReleasedView
from tactful_core.interface import Release
from tactful_core.values import AppId, AttributeName
from tactfuld.fusing.answering import Unfused
from tactfuld.store.released_turn import ReleasedTurn, TurnView


@dataclass(frozen=True, slots=True)
class FusedSpent:
    """What a text came to that was asked for with `detail: fused`; for the owner.

    Attributes:
        cells: private contexts that it was drawn with.
        charged: the attributes that paid for each of `draws`.
        reserved: draws that could have been charged.
        free: draws that memory had no part in.
        reason: why it was not fused, `None` where it was.
    """

    cells: int
    charged: frozenset[AttributeName]
    reserved: int
    draws: int
    free: int
    seconds: float
    reason: Unfused | None = None


class TurnWatcher(Protocol):
    """The owner's view of turns while they happen; must not wait for anybody."""

    def started(self, turn: int, app: AppId, query: str, releases: tuple[Release, ...]) -> None: ...

    def text(self, turn: int, piece: str) -> None: ...

    def fused(self, turn: int, spent: FusedSpent) -> None: ...

    def finished(self, turn: int, answer: str) -> None: ...


class Watchers:
    """Who watches an app's turns, or one turn."""

    def __init__(self) -> None:
        self._entries: list[tuple[AppId | int, TurnWatcher]] = []

    @contextmanager
    def watching(self, watched: AppId | int, watcher: TurnWatcher) -> Iterator[None]:
        """Tells `watcher` of an app's turns, or of one turn, for as long as the context is open."""
        entry = (watched, watcher)
        self._entries.append(entry)
        try:
            yield
        finally:
            self._entries.remove(entry)

    def of(self, app: AppId, turn: int) -> tuple[TurnWatcher, ...]:
        """Those who watch this turn, or all turns of its app."""
        return tuple(watcher for watched, watcher in self._entries if watched in (app, turn))


@dataclass(slots=True)
class OpenTurn:
    """One turn as it goes on.

    Attributes:
        earlier: the turns of its thread, oldest first.
        fused: whether the text is drawn with memory.
        pieces: what was released of the answer so far.
        complete: whether that is the whole of it.
    """

    number: int
    app: AppId
    question: Ask
    at: int
    earlier: tuple[ReleasedTurn, ...]
    releases: tuple[Release, ...]
    fused: bool = False
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

    def reply(self, policy: str) -> Answer:
        """What the app is told at the end, under the version of the policy with this name."""
        return Answer(
            text=self.answer,
            views=tuple(ReleasedView(slot=r.slot, view=r.view.name) for r in self.releases),
            policy=policy,
            detail="fused" if self.fused else "views",
        )
