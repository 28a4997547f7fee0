"""What was spent and what is left, in words and as cells of a bar: how the owner reads a ledger.

Decides words, and when a ledger needs a look. What is *not* here: what a loss means (`odds`), what
was spent (the daemon), and how it is drawn (`cli.accounts`, `tactful_tui`).
"""

from __future__ import annotations

from enum import StrEnum

from tactful.owner_wire import FusedLine, LedgerLine, Selection


class Alarm(StrEnum):
    """How much of a cap is gone, at a glance."""

    CALM = "calm"
    HALF_SPENT = "half spent"
    NOTHING_LEFT = "nothing left"


def alarm(line: LedgerLine) -> Alarm:
    """At most half is spent, more than that, or no further charge is possible."""
    if line.exposed or line.closed or line.spent >= line.cap:
        return Alarm.NOTHING_LEFT
    return Alarm.CALM if line.spent <= line.cap / 2 else Alarm.HALF_SPENT


def filled(line: LedgerLine, width: int) -> int:
    """How many of a bar's cells are spent; all of them only where nothing is left."""
    spent = min(line.spent / line.cap, 1.0)
    return width if spent == 1.0 else min(round(spent * width), width - 1)


def left_in_words(line: LedgerLine) -> str:
    """How much of the cap is left."""
    if line.exposed:
        return "no promise in this epoch"
    if line.spent > line.cap:
        return "closed: more was spent than the cap now allows"
    if line.spent == line.cap:
        return "used up"
    if line.closed:
        return "closed until the next epoch"
    left = (line.cap - line.spent) / line.cap
    for share, words in _SHARES:
        if left >= share:
            return words
    return "little left"


def fused_in_words(line: LedgerLine) -> str:
    """What fused text came to and how much of it is left; empty where there is none."""
    fused = line.fused
    if fused is None:
        return ""
    return f"fused text ε {fused_amounts(fused)} at δ {fused.delta:g}, {tokens_left(fused)}"


def fused_amounts(fused: FusedLine) -> str:
    """What was spent of what: `3.102 of 8.000`, or without the latter where nothing is allowed."""
    of = "" if fused.epsilon is None else f" of {fused.epsilon:.3f}"
    return f"{fused.spent:.3f}{of}"


def tokens_left(fused: FusedLine) -> str:
    """How many tokens more, if one private context each touches the attribute."""
    return f"{fused.draws_left:,} tokens left" if fused.draws_left else "none left"


_SHARES = (
    (1.0, "untouched"),
    (0.8, "most is left"),
    (0.6, "about two thirds left"),
    (0.42, "about half left"),
    (0.25, "about a third left"),
)


def cost(chosen: Selection) -> str:
    """Who paid what for a selection, or why nobody paid."""
    if chosen.charged:
        return f"ε {chosen.epsilon:.3f} charged to {' and '.join(chosen.charged)}"
    return f"no charge: {chosen.reason or 'nothing filed here may be used for an answer'}"
