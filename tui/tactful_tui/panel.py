"""A titled list of rows that keeps its place while its rows change.

Decides what is redrawn. What is *not* here: what the rows say.

Invariants:

- a row that did not change is not drawn again;
- the highlight stays on its row, by the row's key, wherever that row moves; in a panel that nobody
  is in, one on the first row stays on the first row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tactful_tui.row import Row, Rows


def no_rows(_cells: int) -> Sequence[Row]:
    """Nothing is known yet."""
    return ()


class Panel(OptionList):
    """One of the screen's lists.

    Attributes:
        vacancy: what stands in it while there are no rows.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"panel--vacant"}

    class Opened(Message):
        """The owner wants to see a row whole."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    def __init__(self, title: str, *, vacancy: str, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, markup=False)
        self.border_title = f" {title} "
        self.vacancy = vacancy
        self._rows: Rows = no_rows
        self._drawn: list[Row] = []
        self._cells = 0

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_option_list_option_selected(self, chosen: OptionList.OptionSelected) -> None:
        chosen.stop()
        if self._drawn:
            self.post_message(self.Opened(self._drawn[chosen.option_index]))

    def show(self, rows: Rows, *, vacancy: str | None = None) -> None:
        """Shows these rows, made for the width that there is."""
        self._rows = rows
        if vacancy is not None and vacancy != self.vacancy:
            self.vacancy = vacancy
            self._drawn = []
            self.clear_options()
        self._draw()

    def _draw(self) -> None:
        cells = self.scrollable_content_region.width
        if cells <= 0:
            return
        rows = list(self._rows(cells))
        if not rows:
            self._draw_vacancy()
        elif [row.key for row in rows] == [row.key for row in self._drawn]:
            self._draw_changes(rows)
        else:
            self._draw_anew(rows)
        self._drawn = rows

    def _draw_vacancy(self) -> None:
        if self._drawn or not self.options:
            self.set_options([Option(Content.styled(self.vacancy, "$muted"), disabled=True)])

    def _draw_changes(self, rows: Sequence[Row]) -> None:
        for index, (row, before) in enumerate(zip(rows, self._drawn, strict=True)):
            if not row.shown.is_same(before.shown):
                self.replace_option_prompt_at_index(index, row.shown)

    def _draw_anew(self, rows: Sequence[Row]) -> None:
        at, scrolled = self.highlighted, self.scroll_y
        chosen = at is not None and bool(self._drawn) and (at > 0 or self.has_focus)
        key = self._drawn[at].key if at is not None and chosen else None
        with self.prevent(OptionList.OptionHighlighted):
            self.set_options([Option(row.shown) for row in rows])
            keys = [row.key for row in rows]
            self.highlighted = keys.index(key) if key in keys else 0
        if self.highlighted == 0:
            scrolled = 0
        self.scroll_to(y=scrolled, animate=False)
        # A new height that is asked for while the terminal changes its size gets lost otherwise.
        self.call_after_refresh(self.refresh, layout=True)
