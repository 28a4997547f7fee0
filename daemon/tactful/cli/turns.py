"""Turns of an app as they happen, for the owner's eyes: question, views, charges, answer.

Decides how a turn looks while it runs. What is *not* here: anything an app could see; this is the
owner's screen.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tactful.owner_wire import Selection, TurnStarted
from tactful.spending import cost
from tactful.visible_text import visible

INDENT = 5


class TurnScreen:
    """Prints turns in the order in which they begin."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._answer: Paragraph | None = None

    def started(self, turn: TurnStarted) -> None:
        """The views are chosen: the question and what each slot contributed."""
        self.finished()
        question = Text.assemble(
            (f"{visible(turn.app)} asks: ", "dim"), (visible(turn.query), "bold")
        )
        heading = Table.grid()
        heading.add_column(width=INDENT)
        heading.add_column()
        heading.add_row(Text(f"{turn.turn:>3}", style="bold cyan"), question)
        self._console.print(heading)
        self._console.print(Padding(_selections(turn.selections), (0, 0, 0, INDENT), expand=False))
        self._console.print()
        self._answer = Paragraph(self._console, INDENT)

    def text(self, piece: str) -> None:
        """A piece of the answer."""
        if self._answer is not None:
            self._answer.add(piece)

    def finished(self) -> None:
        """No more text comes for the turn that was shown last."""
        if self._answer is not None:
            self._answer.end()
            self._console.print()
        self._answer = None


class Paragraph:
    """Text that arrives in pieces, wrapped between words and indented."""

    def __init__(self, console: Console, indent: int) -> None:
        self._console = console
        self._indent = indent
        self._word = ""
        self._column = 0

    def add(self, piece: str) -> None:
        for character in visible(piece, keep="\n"):
            if character not in " \n":
                self._word += character
                continue
            self._write_word()
            if character == "\n":
                self._break()

    def end(self) -> None:
        self._write_word()
        self._break()

    def _write_word(self) -> None:
        word, self._word = self._word, ""
        if not word:
            return
        width = cell_len(word)
        if self._column and self._column + 1 + width > self._console.width:
            self._break()
        gap = " " if self._column else " " * self._indent
        self._column += len(gap) + width
        self._console.print(Text(gap + word), end="", soft_wrap=True)

    def _break(self) -> None:
        """Ends the line; an empty one is not written, so that a text never begins with one."""
        if self._column:
            self._console.print()
        self._column = 0


def _selections(selections: tuple[Selection, ...]) -> Table:
    table = Table.grid(padding=(0, 2))
    for chosen in selections:
        style = "yellow" if chosen.fallback else "green"
        table.add_row(
            Text(visible(chosen.slot), style="cyan"),
            Text(visible(chosen.view) + (" (fallback)" if chosen.fallback else ""), style=style),
            Text(visible(cost(chosen)), style="dim" if chosen.fallback else ""),
        )
    return table
