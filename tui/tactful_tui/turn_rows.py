"""The panel of the last turns: what apps asked, newest first, and which views shaped the answers.

Decides the columns, how a time is said, and that a narrow terminal gets two lines a turn. What is
*not* here: which turns are kept (the daemon, by its settings).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from textual.content import Content

from tactful.owner_wire import HistoryItem, HistoryTurn, HistoryView
from tactful.visible_text import visible
from tactful_tui.row import GAP, Row, cut, fitted, widest

ROOM_FOR_ONE_LINE = 110
"""Cells from which a turn takes one line."""

CUT_SHORT = "cut short"


def turn_rows(turns: Sequence[HistoryItem], now: datetime, cells: int) -> list[Row]:
    """The rows, `cells` wide."""
    times = [said(turn.at, now) for turn in turns]
    time, app = widest(times, 10), widest([turn.app for turn in turns], max(cells // 6, 6))
    views = widest([_told(turn) for turn in turns], cells // 2)
    columns = _Columns(time, app, views if cells >= ROOM_FOR_ONE_LINE else 0)
    return [
        Row(
            key=str(turn.id),
            shown=_shown(turn, told, columns, cells),
            title=f"Turn {turn.id}",
            whole=None,
        )
        for turn, told in zip(turns, times, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Cells of each column but the question's; `views` is 0 where they go below it."""

    time: int
    app: int
    views: int


def whole_turn(turn: HistoryTurn, now: datetime) -> Content:
    """Question, views and answer."""
    facts = [("asked", f"{said(turn.at, now)} by {turn.app}")]
    facts += [("conversation", turn.thread)] if turn.thread is not None else []
    facts += [("views", ", ".join(_view(view) for view in turn.views) or "none")]
    told = "\n".join(f"{name:<14}{visible(value)}" for name, value in facts)
    ending = Content.styled(f"\n\n({CUT_SHORT})", "$muted") if not turn.complete else ""
    return Content.assemble(
        told,
        "\n\n",
        (visible(turn.query), "bold"),
        "\n\n",
        visible(turn.answer, keep="\n").strip(),
        ending,
    )


def said(at: int, now: datetime) -> str:
    """A time of today, a time of this week, or a day."""
    then = datetime.fromtimestamp(at, now.tzinfo)
    if then.date() == now.date():
        return f"{then:%H:%M}"
    if timedelta(0) < now - then < timedelta(days=6):
        return f"{then:%a %H:%M}"
    return f"{then.day} {then:%b}" if then.year == now.year else f"{then:%Y-%m-%d}"


def _shown(turn: HistoryItem, time: str, columns: _Columns, cells: int) -> Content:
    start = Content.assemble(
        (fitted(time, columns.time), "$muted"), GAP, (fitted(turn.app, columns.app), "bold"), GAP
    )
    rest = cells - start.cell_length
    if columns.views:
        question = fitted(turn.query, rest - columns.views - len(GAP))
        return Content.assemble(start, question, GAP, _views(turn, columns.views))
    lines = (
        Content.assemble(start, cut(turn.query, rest)),
        Content.assemble(" " * start.cell_length, _views(turn, rest)),
    )
    return Content("\n").join(line.truncate(cells, ellipsis=True) for line in lines)


def _views(turn: HistoryItem, cells: int) -> Content:
    fresh = any(not view.fallback for view in turn.views)
    return Content.styled(cut(_told(turn), cells), "$primary" if fresh else "$muted")


def _told(turn: HistoryItem) -> str:
    """What shaped the answer; a topic that nothing could be charged for says so."""
    told = [_view(view) for view in turn.views] or ["no topic of the policy"]
    return " · ".join([*told, CUT_SHORT] if not turn.complete else told)


def _view(view: HistoryView) -> str:
    return f"{view.slot}: {view.view}" + (" (no charge)" if view.fallback else "")
