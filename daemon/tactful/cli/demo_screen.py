"""What `tactful demo` shows: memories, turns, ledgers, what they mean, what to type next.

Decides words and looks. What is *not* here: the order of events (`demo`), a turn (`turns`), and a
ledger line (`accounts`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tactful.cli.accounts import show_accounts, show_odds
from tactful.cli.demo_story import APP
from tactful.cli.process import own_name
from tactful.cli.profile_setup import NEXT, show_next_steps
from tactful.cli.turns import TurnScreen
from tactful.owner_wire import LedgerReply
from tactful.profile import Profile
from tactful.visible_text import visible

MARGIN = 2


class DemoScreen:
    """Prints the demo from top to bottom; `turns` prints each turn while it runs."""

    def __init__(self, console: Console, profile: Profile, *, kept: bool) -> None:
        self._console = console
        self._profile = profile
        self._kept = kept
        self.turns = TurnScreen(console)

    def opening(self) -> None:
        """Before anything is made."""
        self._console.print()
        self._heading("tactful demo")
        self._paragraph(
            "A real daemon, a real app and a real language model, on this machine only. Five "
            "things are remembered; two attributes are protected: diabetes and debt. Each may "
            "cost ε 2 in all, and three answers use that up. The app never sees a memory: only "
            "answers, shaped by a view that was drawn at random."
        )
        self._fact("profile", f"{self._profile.data.parent}{'' if self._kept else ' (temporary)'}")

    def sandbox(self, problem: str | None) -> None:
        """The profile is made; `problem` is why apps run without a sandbox, if they do."""
        if problem is None:
            self._fact("sandbox", "required: the app runs in a sandbox of its own")
            return
        self._fact("sandbox", f"off, in this profile only. In your own: {problem}", style="yellow")

    def model(self, name: str) -> None:
        """The model is loaded."""
        self._fact("model", name)
        self._console.print()

    def memories(self, memories: Sequence[tuple[int, str, str]]) -> None:
        """Everything is remembered."""
        self._heading("What is remembered: sealed, for no app to see")
        table = Table.grid(padding=(0, 2))
        for position, shelf, text in memories:
            table.add_row(f"{position}", Text(shelf, style="cyan"), Text(text))
        self._console.print(Padding(table, (0, 0, 0, MARGIN), expand=False))
        self._console.print()

    def questions(self, count: int) -> None:
        """Questions begin."""
        self._heading(f"{count} questions to the app `{APP}`, and what each answer costs")

    def closing(self, found: LedgerReply) -> None:
        """All questions are answered."""
        self._heading("What it cost")
        show_accounts(self._console, found.lines, lifetime=False)
        self._console.print()
        show_odds(self._console, found.lines)
        self._console.print()
        if self._kept:
            self._paragraph(
                f"The demo's profile is kept in {self._profile.data.parent}; the file "
                "passphrase.txt in it unlocks it."
            )
        show_next_steps(self._console, [f"{own_name()} {words}" for words in ("init", *NEXT)])

    def _heading(self, text: str) -> None:
        self._console.print(Text(visible(text), style="bold"))
        self._console.print()

    def _paragraph(self, text: str) -> None:
        self._console.print(Padding(Text(visible(text)), (0, MARGIN, 0, MARGIN), expand=False))
        self._console.print()

    def _fact(self, name: str, value: str, style: str = "") -> None:
        table = Table.grid(padding=(0, 2))
        table.add_row(Text(f"{name:<8}", style="dim"), Text(visible(value), style=style))
        self._console.print(Padding(table, (0, 0, 0, MARGIN), expand=False))
