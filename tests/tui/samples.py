"""Values that screens are drawn from, and looking at a screen as people do: line by line."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.fakes.scripted_daemon import ScriptedDaemon
from textual.app import App

from tactful.owner_wire import (
    AppStatus,
    EpochReply,
    HistoryItem,
    HistoryTurn,
    HistoryView,
    LedgerLine,
    LedgerReply,
    ModelStatus,
    StagedPolicy,
    Status,
)
from tactful_tui.watch import Figures

NOON = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202eevil\x9b31m\nsecond\tline"
"""Clears screens, renames windows, reverses what follows."""


def line(
    attribute: str = "diabetes",
    spent: float = 0.0,
    *,
    cap: float = 2.0,
    lifetime: float | None = None,
    closed: bool | None = None,
    exposed: bool = False,
) -> LedgerLine:
    return LedgerLine(
        attribute=attribute,
        spent=spent,
        cap=cap,
        promised=max(spent, cap),
        lifetime=spent if lifetime is None else lifetime,
        closed=spent >= cap if closed is None else closed,
        exposed=exposed,
    )


LINES = (line("diabetes", 2.0), line("debt", 4 / 3), line("pregnancy", 0.0, lifetime=0.5))
APPS = (
    AppStatus(app="meals", slots=("food", "finance", "health"), state="running"),
    AppStatus(app="letters", slots=("plans",), state="parked", problem="It ended three times."),
    AppStatus(app="shim", slots=(), state="outside"),
)


def status(
    *,
    apps: tuple[AppStatus, ...] = APPS,
    notices: tuple[str, ...] = (),
    model: str = "SmolLM2-135M-Instruct",
    state: str = "ready",
    progress: float = 1.0,
    problem: str | None = None,
    locked: bool = False,
) -> Status:
    return Status(
        locked=locked,
        version="0.1.0",
        pid=4711,
        ready=state == "ready",
        profile="/somewhere/data",
        key_source="passphrase",
        sandbox="required",
        policy="5eed",
        positions=5,
        model=ModelStatus(name=model, state=state, progress=progress, problem=problem),
        apps=apps,
        notices=notices,
    )


VIEWS = (
    HistoryView(slot="food", view="blood_sugar", fallback=False),
    HistoryView(slot="finance", view="generic", fallback=True),
)


def turn(
    id_: int,
    query: str,
    *,
    app: str = "meals",
    minutes_ago: int = 3,
    views: tuple[HistoryView, ...] = VIEWS,
    complete: bool = True,
) -> HistoryItem:
    return HistoryItem(
        id=id_,
        app=app,
        thread=None,
        at=int(NOON.timestamp()) - 60 * minutes_ago,
        query=query,
        views=views,
        beginning="Lentils go far …",
        complete=complete,
    )


def whole(
    *,
    query: str = "What could I cook?",
    answer: str = "Lentils go far.",
    thread: str | None = None,
    complete: bool = True,
) -> HistoryTurn:
    return HistoryTurn(
        id=2,
        app="meals",
        thread=thread,
        at=int(NOON.timestamp()) - 180,
        query=query,
        views=VIEWS,
        answer=answer,
        complete=complete,
    )


TURNS = (
    turn(2, "What is an affordable dinner for tonight, and what do I need to buy for it?"),
    turn(1, "Which bill comes first?", app="letters", minutes_ago=800, views=VIEWS[1:]),
)


STAGED = StagedPolicy(
    written="5eed", at_tick=(), tick_at=0, at_epoch=(), other_shelves=False, at_once=False
)


def ledger(*lines: LedgerLine, epoch: int = 1, readable: bool = True) -> LedgerReply:
    return LedgerReply(epoch=epoch, readable=readable, lines=lines)


def figures(*lines: LedgerLine) -> Figures:
    return Figures(NOON, ledger(*lines), "manual", TURNS)


def daemon(*lines: LedgerLine) -> ScriptedDaemon:
    """One that says what this module's constants say, or has these ledgers."""
    return ScriptedDaemon(
        status(),
        ledger(*(lines or LINES)),
        EpochReply(epoch=1, renewal="manual", lines=(), staged=STAGED),
        TURNS,
        {2: whole()},
    )


def screen_lines(app: App[None]) -> list[str]:
    """What is on the screen, without colours and without spaces at the ends."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def screen_text(app: App[None]) -> str:
    """The same as one text."""
    return "\n".join(screen_lines(app))
