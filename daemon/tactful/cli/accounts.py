"""Ledgers as bars, for the owner's eyes.

Decides how accounts look. What is *not* here: what the numbers mean (`tactful.odds`,
`tactful.spending`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tactful.odds import sentences, together
from tactful.owner_wire import FusedLine, LedgerLine
from tactful.spending import (
    Alarm,
    alarm,
    filled,
    fused_amounts,
    left_in_words,
    tokens_left,
)
from tactful.visible_text import visible

WIDTH = 24


def show_accounts(console: Console, lines: Sequence[LedgerLine], *, lifetime: bool) -> None:
    """Prints `accounts`."""
    console.print(accounts(lines, lifetime=lifetime))


def accounts(lines: Sequence[LedgerLine], *, lifetime: bool) -> RenderableType:
    """One line for each attribute: a bar, numbers, what is left in words.

    Below it what is promised for the epoch, where that is no longer the cap. Then fused text, where
    there may be any, and what is promised of both together.
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
    shown = Padding(table, (0, 0, 0, 2), expand=False)
    fused = [(line, line.fused) for line in lines if line.fused is not None]
    return Group(shown, *_fused(fused, lifetime=lifetime)) if fused else shown


def _fused(
    lines: Sequence[tuple[LedgerLine, FusedLine]], *, lifetime: bool
) -> Iterator[RenderableType]:
    """What fused text costs besides, at the one delta that all of it is stated at."""
    table = Table.grid(padding=(0, 2))
    for line, fused in lines:
        table.add_row(
            Text(visible(line.attribute), style="bold"),
            Text(f"{fused_amounts(fused)}, {tokens_left(fused)}"),
        )
        beside = f"together {together(line)}"
        beside += f", lifetime {fused.lifetime:.3f}" if lifetime else ""
        table.add_row("", Text(beside, style="dim"))
    yield Text(f"Fused text, δ {lines[0][1].delta:g}", style="dim")
    yield Padding(table, (0, 0, 0, 2), expand=False)


def show_odds(console: Console, lines: Sequence[LedgerLine]) -> None:
    """One sentence for each attribute."""
    for told in sentences(lines):
        console.print(Padding(Text(visible(told)), (0, 2, 0, 2), expand=False))


def bar(line: LedgerLine) -> Text:
    """How much of the cap is spent."""
    cells = filled(line, WIDTH)
    return Text.assemble(("█" * cells, _style(line)), ("░" * (WIDTH - cells), "dim"))


def _style(line: LedgerLine) -> str:
    return ALARM_STYLES[alarm(line)]


ALARM_STYLES = {Alarm.CALM: "green", Alarm.HALF_SPENT: "yellow", Alarm.NOTHING_LEFT: "red"}
