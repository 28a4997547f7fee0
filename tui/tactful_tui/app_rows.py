"""The panel of apps: one row for each that the policy names.

Decides the columns. What is *not* here: what a state means (the daemon).
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from tactful.owner_wire import AppStatus
from tactful.visible_text import visible
from tactful_tui.row import GAP, Row, cut, fitted, widest

_STYLES = {
    "running": "$success",
    "outside": "$success",
    "stopped": "$warning",
    "parked": "$error",
}


def app_rows(apps: Sequence[AppStatus], cells: int) -> list[Row]:
    """The rows, `cells` wide."""
    name = widest([app.app for app in apps], max(cells // 4, 8))
    state = widest([app.state for app in apps], 10)
    rest = cells - name - state - 2 * len(GAP)
    return [
        Row(
            key=app.app,
            shown=Content.assemble(
                (fitted(app.app, name), "bold"),
                GAP,
                (fitted(app.state, state), _STYLES.get(app.state, "")),
                GAP,
                _rest(app, rest),
            ).truncate(cells, ellipsis=True),
            title=f"App {visible(app.app)}",
            whole=_whole(app),
        )
        for app in apps
    ]


def _rest(app: AppStatus, cells: int) -> Content:
    if app.problem is not None:
        return Content.styled(cut(app.problem, cells), "$warning")
    return Content(cut(_slots(app), cells))


def _whole(app: AppStatus) -> Content:
    facts = [("state", app.state), ("may ask about", _slots(app))]
    facts += [("needs a look", app.problem)] if app.problem is not None else []
    return Content("\n".join(f"{name:<15}{visible(value)}" for name, value in facts))


def _slots(app: AppStatus) -> str:
    return ", ".join(app.slots) or "no slots: it may ask nothing"
