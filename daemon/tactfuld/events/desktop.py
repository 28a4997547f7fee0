"""Notices of apps on the owner's desktop, if the owner wants that.

Decides which program shows them, and how often at most. What is *not* here: the inbox, where they
are kept (`inbox`), and the setting (`tactfuld.settings`).

Invariants:

- what is shown is what an app wrote, cut short, without characters that would steer anything; of a
  proposal only that there is one;
- a desktop that is not there, or does not answer, is nobody's problem.
"""

from __future__ import annotations

import asyncio
import html
import shutil
import subprocess
import sys
from collections.abc import Callable

from tactful.visible_text import visible
from tactfuld.clock import Clock
from tactfuld.events.inbox import Item, ItemKind
from tactfuld.events.pace import Allowance, Pace

LONGEST = 240
AT_MOST = Allowance(burst=5, seconds=60.0)
"""Of each app."""
_SECONDS = 10.0

_APPLESCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)


def command(item: Item, platform: str) -> list[str]:
    """What shows an item on this platform: a program and its arguments."""
    title = visible(f"{item.app}: {item.title}" if item.title else str(item.app))[:LONGEST]
    said = item.text if item.kind is ItemKind.NOTICE else "proposes a memory: tactful inbox"
    text = visible(said)[:LONGEST]
    if platform == "darwin":
        lines = [part for line in _APPLESCRIPT for part in ("-e", line)]
        return ["osascript", *lines, title, text]
    # The body may have markup; the title may not.
    return ["notify-send", "--app-name=tactful", "--", title, html.escape(text, quote=False)]


class Desktop:
    """Shows items, as long as the owner wants it and there are not too many."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        wanted: Callable[[], bool],
        clock: Clock,
        show: Callable[[list[str]], None] | None = None,
    ) -> None:
        """Nothing is shown yet.

        Args:
            wanted: whether the owner wants it now.
            show: runs a command; called in a thread.
        """
        self._group = group
        self._wanted = wanted
        self._pace = Pace(AT_MOST, clock)
        self._show = show or _run

    def shown(self, item: Item) -> None:
        """Shows an item; returns at once."""
        if self._wanted() and self._pace.allows(item.app):
            showing = asyncio.to_thread(self._show, command(item, sys.platform))
            self._group.create_task(showing, name="desktop notice")


def _run(words: list[str]) -> None:
    program = shutil.which(words[0])
    if program is None:
        return
    try:
        subprocess.run(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
