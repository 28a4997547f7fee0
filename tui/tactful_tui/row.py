"""One row of a panel, and fitting text into columns of terminal cells.

Decides where text is cut. What is *not* here: what stands in the rows (one module for each panel).

Invariant: nothing that came from elsewhere gets into a row but through `visible`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from tactful.visible_text import visible


@dataclass(frozen=True, slots=True)
class Row:
    """A row.

    Attributes:
        key: what stays the same when the row's content changes.
        shown: the row, at most as wide as it was asked for.
        title: a heading for what follows.
        whole: everything that there is to say, of any width; `None` where the daemon has more.
    """

    key: str
    shown: Content
    title: str
    whole: Content | None


GAP = "  "
"""What stands between two columns."""

Rows = Callable[[int], Sequence[Row]]
"""The rows for a number of cells."""


def cut(text: str, cells: int) -> str:
    """The text without what steers terminals, at most `cells` wide; … stands for what is missing.

    >>> cut("What can I cook?", 9)
    'What can…'
    """
    shown = visible(text)
    if cell_len(shown) <= cells:
        return shown
    return set_cell_size(shown, cells - 1).rstrip() + "…" if cells > 0 else ""


def fitted(text: str, cells: int) -> str:
    """The text, cut or filled up to exactly `cells`."""
    return set_cell_size(cut(text, cells), max(cells, 0))


def widest(texts: Sequence[str], most: int) -> int:
    """The cells that a column of these texts takes, at most `most`."""
    return min(max((cell_len(visible(text)) for text in texts), default=0), most)
