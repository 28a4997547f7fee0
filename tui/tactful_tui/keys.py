"""The keys, in one line and in full.

Decides their words. What is *not* here: what they do (`app`, `panel`, `sheet`).
"""

from __future__ import annotations

from textual.content import Content

_KEYS = (
    ("q", "quit", "Leave; so does Ctrl-C. The daemon goes on running."),
    ("tab", "next panel", "Go to the next panel; shift-tab to the one before."),
    ("↑↓", "move", "Move in the panel; also page up and down, home and end."),
    ("⏎", "open", "Show the row whole: what a ledger's figures mean, all of a turn."),
    ("r", "refresh", "Ask the daemon now; it is asked every second anyway."),
    ("t", "light/dark", "Change between colours for dark and for light terminals."),
    ("?", "help", "Show this."),
)

_LEDGERS = """\
A ledger counts what apps' answers can have given away about an attribute in this epoch, in ε. \
Nothing that would go beyond its cap is released: apps then get generic answers until the next \
epoch. The lifetime is the sum over all epochs. Bars and figures say the same."""


def hints(cells: int) -> Content:
    """As many keys, with a word each, as fit into a line."""
    line = Content("")
    for key, word, _ in _KEYS:
        longer = Content.assemble(line, " ", (key, "bold $primary"), f" {word} ")
        if longer.cell_length > cells:
            break
        line = longer
    return line


EXPLANATION = Content("\n").join(
    [
        *(Content.assemble((f"{key:<5}", "bold $primary"), meaning) for key, _, meaning in _KEYS),
        Content(""),
        Content(_LEDGERS),
    ]
)
