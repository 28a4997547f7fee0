"""Ledgers as bars, for the owner's eyes.

Decides how accounts look. What is *not* here: what the numbers mean (`odds`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tactful.cli.odds import left_in_words, sentences
from tactful.cli.output import visible
from tactful.owner_wire import LedgerLine

WIDTH = 24


def show_accounts(console: Console, lines: Sequence[LedgerLine], *, lifetime: bool) -> None:
    """One line for each attribute: a bar, numbers, what is left in words.

    Below it what is promised for the epoch, where that is no longer the cap.
    """
    table = Table.grid(padding=(0, 2))
    for line in lines:
        row = [
            Text(visible(line.attribute), style="bold"),
            bar(line),
            Text(f"{line.spent:.3f} of {line.cap:.3f}"),
            Text(left_in_words(line), style=_style(line)),
        ]
        table.add_row(*row)
        beside = [f"promised {line.promised:.3f}"] if line.promised != line.cap else []
        beside += [f"lifetime {line.lifetime:.3f}"] if lifetime else []
        if beside:
            table.add_row("", Text(", ".join(beside), style="dim"))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def show_odds(console: Console, lines: Sequence[LedgerLine]) -> None:
    """One sentence for each attribute."""
    for told in sentences(lines):
        console.print(Padding(Text(visible(told)), (0, 2, 0, 2), expand=False))


def bar(line: LedgerLine) -> Text:
    """How much of the cap is spent; full only where nothing is left."""
    spent = min(line.spent / line.cap, 1.0)
    filled = WIDTH if spent == 1.0 else min(round(spent * WIDTH), WIDTH - 1)
    return Text.assemble(("█" * filled, _style(line)), ("░" * (WIDTH - filled), "dim"))


def _style(line: LedgerLine) -> str:
    if line.exposed or line.closed or line.spent >= line.cap:
        return "red"
    return "green" if line.spent <= line.cap / 2 else "yellow"
