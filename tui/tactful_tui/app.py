"""The screen: heading, messages, panels and keys, drawn from what is known about the daemon.

Decides where things stand and what a key does. What is *not* here: asking the daemon (`watching`),
and any figure or word in a panel (`heading`, one module of rows for each panel).

Invariants:

- what is on the screen is a function of the last `Watch` and of the terminal's size;
- a defect of ours ends in one sentence, never in a traceback with the owner's questions in it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from tactful.errors import TactfulError, from_defect
from tactful.profile import Profile
from tactful.visible_text import visible
from tactful_tui.app_rows import app_rows
from tactful_tui.heading import heading, messages
from tactful_tui.keys import EXPLANATION, hints
from tactful_tui.ledger_rows import ledger_rows
from tactful_tui.panel import Panel
from tactful_tui.row import Row
from tactful_tui.sheet import Sheet
from tactful_tui.themes import DARK, LIGHT, fitting
from tactful_tui.turn_rows import turn_rows, whole_turn
from tactful_tui.watch import Watch
from tactful_tui.watching import Watching, whole_turn_of

NOT_YET = "Nothing is known yet."


class TactfulTui(App[None]):
    """What the owner watches."""

    TITLE = "tactful"
    CSS_PATH = Path(__file__).with_name("screen.tcss")
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high"), (30, "-roomy")]  # noqa: RUF012 - Textual declares no ClassVar
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
        Binding("r", "ask_now"),
        Binding("t", "other_theme"),
        Binding("question_mark", "keys"),
    ]

    def __init__(self, profile: Profile, name: str) -> None:
        """A screen for one profile, which the owner knows by this name."""
        super().__init__()
        self._profile, self._profile_name = profile, name
        self.watch_of_daemon = Watch()
        self._hurry = asyncio.Event()
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = fitting(os.environ).name

    def compose(self) -> ComposeResult:
        yield Static(id="heading", markup=False)
        yield Static(id="messages", markup=False)
        yield Panel("Ledgers", vacancy=NOT_YET, id="ledgers")
        yield Panel("Last turns", vacancy=NOT_YET, id="turns")
        yield Panel("Apps", vacancy=NOT_YET, id="apps")
        yield Static(id="hints", markup=False)

    def on_mount(self) -> None:
        self.show(self.watch_of_daemon)
        self.begin_asking()

    def on_resize(self) -> None:
        self._draw_around()

    def on_panel_opened(self, opened: Panel.Opened) -> None:
        row = opened.row
        if row.whole is not None:
            self.push_screen(Sheet(row.title, row.whole))
        else:
            self.run_worker(
                self._open_turn(row), name="ask for a turn", exclusive=True, group="turn"
            )

    def action_ask_now(self) -> None:
        self._hurry.set()

    def action_other_theme(self) -> None:
        self.theme = (LIGHT if self.current_theme.dark else DARK).name

    def action_keys(self) -> None:
        self.push_screen(Sheet("Keys", EXPLANATION))

    def begin_asking(self) -> None:
        """Asks the daemon from now on, as long as the screen is there."""
        watching = Watching(self._profile, self.show, self._hurry)
        self.run_worker(watching.run(), name="ask the daemon")

    def show(self, watch: Watch) -> None:
        """Draws what is known."""
        self.watch_of_daemon = watch
        screen = self.screen_stack[0]
        screen.set_class(not watch.current, "-stale")
        self._draw_around()
        if watch.figures is not None:
            now, lines, turns = watch.figures.at, watch.figures.ledger.lines, watch.figures.turns
            self._panel("ledgers").show(
                lambda cells: ledger_rows(lines, cells),
                vacancy="The policy protects no attribute, so there is no ledger.",
            )
            self._panel("turns").show(
                lambda cells: turn_rows(turns, now, cells),
                vacancy="No turn is kept yet. What apps ask appears here.",
            )
        if watch.status is not None and not watch.status.locked:
            apps = watch.status.apps
            self._panel("apps").show(
                lambda cells: app_rows(apps, cells),
                vacancy="The policy names no apps, so none may ask anything.",
            )

    async def _open_turn(self, row: Row) -> None:
        try:
            turn = await whole_turn_of(self._profile, int(row.key))
        except TactfulError as error:
            text = Content(visible(str(error)))
        else:
            text = whole_turn(turn, datetime.now().astimezone())
        await self.push_screen(Sheet(row.title, text))

    def _draw_around(self) -> None:
        """What is not in a panel."""
        screen, cells = self.screen_stack[0], self.size.width
        told = messages(self.watch_of_daemon)
        _put(
            screen.query_one("#heading", Static),
            heading(self.watch_of_daemon, self._profile_name, cells),
        )
        _put(screen.query_one("#messages", Static), told)
        screen.query_one("#messages").display = bool(told.plain)
        _put(screen.query_one("#hints", Static), hints(cells))

    def _panel(self, name: str) -> Panel:
        return self.screen_stack[0].query_one(f"#{name}", Panel)

    def _fatal_error(self) -> None:
        """Textual would print a traceback with the values of local variables."""
        error = sys.exc_info()[1] or self._exception
        self.panic(Text(f"tactful: {from_defect(error)}"))


def _put(place: Static, content: Content) -> None:
    """Draws only what changed, so that nothing flickers."""
    before = place.content
    if not (isinstance(before, Content) and before.is_same(content)):
        place.update(content)
