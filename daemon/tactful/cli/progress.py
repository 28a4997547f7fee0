"""Progress while the owner waits: a bar or a spinner on standard error, only on a terminal.

Decides how waiting looks. What is *not* here: what is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

Report = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and how much there is (0: not known)."""


@contextmanager
def progress_bar(notes: Console, waiting_for: str) -> Iterator[Report]:
    """A bar that disappears when the context ends; `waiting_for` stands there at first."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=28),
        TaskProgressColumn(),
        console=notes,
        transient=True,
        disable=not notes.is_terminal,
    )
    with bar:
        task = bar.add_task(waiting_for, total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield report


@contextmanager
def spinner(notes: Console, waiting_for: str) -> Iterator[None]:
    """A spinner that disappears when the context ends."""
    if not notes.is_terminal:
        yield
        return
    with notes.status(waiting_for):
        yield
