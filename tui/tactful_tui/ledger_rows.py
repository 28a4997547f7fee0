"""The panel of ledgers: one row for each attribute.

Decides the columns, and which of them a narrow terminal goes without. What is *not* here: what the
numbers mean (`tactful.odds`, `tactful.spending`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from tactful.odds import sentence, together
from tactful.owner_wire import LedgerLine
from tactful.spending import Alarm, alarm, filled, fused_in_words, left_in_words
from tactful.visible_text import visible
from tactful_tui.row import GAP, Row, fitted, widest

NARROWEST_BAR, WIDEST_BAR = 6, 40
ROOM_FOR_LIFETIME = 100
"""Cells from which the lifetime has a column of its own."""

_STYLES = {
    Alarm.CALM: "$success",
    Alarm.HALF_SPENT: "$warning",
    Alarm.NOTHING_LEFT: "$error",
}


def ledger_rows(lines: Sequence[LedgerLine], cells: int) -> list[Row]:
    """The rows, `cells` wide."""
    columns = _columns(lines, cells)
    return [
        Row(
            key=line.attribute,
            shown=_shown(line, columns, cells),
            title=f"Ledger of {visible(line.attribute)}",
            whole=_whole(line),
        )
        for line in lines
    ]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Cells of each column; 0 where it is left out."""

    name: int
    bar: int
    amounts: int
    words: int
    lifetime: int


def _columns(lines: Sequence[LedgerLine], cells: int) -> _Columns:
    name = widest([line.attribute for line in lines], max(cells // 4, 8))
    amounts = widest([_amounts(line) for line in lines], cells)
    words = widest([left_in_words(line) for line in lines], max(cells // 3 + 2, 10))
    lifetime = widest([_lifetime(line) for line in lines], cells)
    lifetime = lifetime if cells >= ROOM_FOR_LIFETIME else 0
    taken = sum(column + len(GAP) for column in (name, amounts, words, lifetime) if column)
    bar = min(cells - taken, WIDEST_BAR)
    if bar < NARROWEST_BAR:
        words = max(min(words, cells - name - amounts - 2 * len(GAP)), 0)
        return _Columns(name, 0, amounts, words, 0)
    return _Columns(name, bar, amounts, words, lifetime)


def _shown(line: LedgerLine, columns: _Columns, cells: int) -> Content:
    style = _STYLES[alarm(line)]
    pieces = [(fitted(line.attribute, columns.name), "bold")]
    if columns.bar:
        spent = filled(line, columns.bar)
        pieces += [(GAP, ""), ("█" * spent, style), ("░" * (columns.bar - spent), "$muted")]
    pieces += [(GAP, ""), (fitted(_amounts(line), columns.amounts), "")]
    pieces += [(GAP, ""), (fitted(left_in_words(line), columns.words), style)]
    if columns.lifetime:
        pieces += [(GAP, ""), (fitted(_lifetime(line), columns.lifetime), "$muted")]
    return Content.assemble(*pieces).truncate(cells, ellipsis=True)


def _whole(line: LedgerLine) -> Content:
    facts = (
        ("spent in this epoch", f"ε {_amounts(line)}: {left_in_words(line)}"),
        ("promised for this epoch", "nothing" if line.exposed else f"ε {line.promised:.3f}"),
        ("spent in all epochs", f"ε {line.lifetime:.3f}"),
        *_fused_facts(line),
    )
    told = "\n".join(f"{name:<24}{value}" for name, value in facts)
    return Content(f"{told}\n\n{visible(sentence(line))}")


def _fused_facts(line: LedgerLine) -> tuple[tuple[str, str], ...]:
    """Fused text, and what both together are promised at; nothing where there is none."""
    fused = line.fused
    if fused is None:
        return ()
    return (
        ("fused text", fused_in_words(line).removeprefix("fused text ")),
        ("fused in all epochs", f"ε {fused.lifetime:.3f} at δ {fused.delta:g}"),
        ("promised together", "nothing" if line.exposed else together(line)),
    )


def _amounts(line: LedgerLine) -> str:
    return f"{line.spent:.3f} of {line.cap:.3f}"


def _lifetime(line: LedgerLine) -> str:
    return f"lifetime {line.lifetime:.3f}"
