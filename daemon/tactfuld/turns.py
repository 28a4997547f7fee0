"""Turns as the owner sees them while an app handles a message.

Decides how a turn is shown: selections in policy order, epsilon for people. What is *not* here:
taking the turn (`gate`).

Invariants:

- a watcher never makes an app wait; what it is told goes to an unbounded queue that lives as long
  as one `tell`;
- a turn that had begun before the log was watching is none of its turns.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tactful.owner_wire import FusedText, Selection, Turn
from tactful_core.interface import Release, Source
from tactful_core.layout import Layout
from tactful_core.ledger import Refusal
from tactful_core.values import AppId, epsilon_of
from tactfuld.fusing.answering import Unfused
from tactfuld.open_turn import FusedSpent

REASONS = {
    Refusal.CAP: "the budget of this topic is used up",
    Refusal.QUOTA: "this app's share of the budget is used up",
    Refusal.SHARE: "this topic's share of the budget is used up",
    Refusal.UNREADABLE: "the ledger could not be used",
    Refusal.FUSION: "no text may be fused from this topic",
}

FREE = {
    Source.STANDING: "this view was drawn earlier in the epoch",
    Source.UNPROTECTED: "these shelves are unprotected",
}

UNFUSED = {
    Unfused.NO_BUDGET: "the policy gives no budget for text fused from what was asked about, or "
    "did not when this epoch began",
    Unfused.NO_ROOM: "the model's context has no room for memory beside the question",
    Unfused.FUSION: "no text may be fused from what was asked about",
    Unfused.CAP: "the budget of fused text is used up",
    Unfused.QUOTA: "this app's share of the budget of fused text is used up",
    Unfused.SHARE: "a topic's share of the budget is used up",
    Unfused.UNREADABLE: "the ledger could not be used",
}


@dataclass(frozen=True, slots=True)
class Started:
    """Views are chosen; `turn.answer` is still empty."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the answer of the turn with this number."""

    turn: int
    text: str


class TurnLog:
    """Implements `open_turn.TurnWatcher`: keeps turns, and queues what happens for who shows it."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._turns: dict[int, Turn] = {}
        self.happenings: asyncio.Queue[Started | Piece | None] = asyncio.Queue()
        """`None` ends it."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns so far; one that failed or was cancelled has an empty answer."""
        return tuple(self._turns.values())

    def started(self, turn: int, app: AppId, query: str, releases: tuple[Release, ...]) -> None:
        selections = tuple(selection(release, self._layout) for release in releases)
        self._turns[turn] = Turn(turn=turn, app=app, query=query, selections=selections, answer="")
        self.happenings.put_nowait(Started(self._turns[turn]))

    def text(self, turn: int, piece: str) -> None:
        if turn in self._turns:
            self.happenings.put_nowait(Piece(turn, piece))

    def fused(self, turn: int, spent: FusedSpent) -> None:
        if turn in self._turns:
            update = {"fused": fused_text(spent, self._layout)}
            self._turns[turn] = self._turns[turn].model_copy(update=update)

    def finished(self, turn: int, answer: str) -> None:
        if turn in self._turns:
            self._turns[turn] = self._turns[turn].model_copy(update={"answer": answer})


def selection(release: Release, layout: Layout) -> Selection:
    """A release for the owner's eyes."""
    return Selection(
        slot=release.slot,
        view=release.view.name,
        epsilon=epsilon_of(release.units),
        charged=tuple(a.name for a in layout.attributes if a.name in release.charged),
        fallback=release.fallback,
        reason=FREE.get(release.source) if release.refusal is None else REASONS[release.refusal],
    )


def fused_text(spent: FusedSpent, layout: Layout) -> FusedText:
    """What a fused text came to, for the owner's eyes."""
    return FusedText(
        cells=spent.cells,
        charged=tuple(a.name for a in layout.attributes if a.name in spent.charged),
        reserved=spent.reserved,
        draws=spent.draws,
        free=spent.free,
        seconds=spent.seconds,
        reason=None if spent.reason is None else UNFUSED[spent.reason],
    )
