"""`tactful ledger --watch`: the ledgers as they move.

Decides when something is shown again, and that a daemon which stops is waited for. What is *not*
here: how a ledger looks (`accounts`).

Invariants:

- nothing is shown twice in a row, and no change that lasts a second is missed;
- a daemon that is not there at the beginning is an error; one that goes away later is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import NoReturn, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tactful.cli.accounts import accounts
from tactful.cli.invocation import Invocation
from tactful.cli.output import Output, envelope, error_envelope, write_line
from tactful.errors import DaemonDown, TactfulError
from tactful.owner_client import OwnerClient
from tactful.owner_wire import LedgerLine, LedgerReply
from tactful.profile import Profile
from tactful.spending import fused_in_words, left_in_words
from tactful.visible_text import visible

EVERY_SECONDS = 1.0

State = LedgerReply | TactfulError
"""What the daemon says, or why it says nothing."""

UNREADABLE = (
    "The ledger cannot be read, so every attribute counts as used up. `tactful status` says more."
)


class _Screen(Protocol):
    def show(self, state: State) -> None: ...


async def watch_ledgers(call: Invocation) -> None:
    """Shows every change until it is cancelled.

    Raises:
        TactfulError: the daemon did not answer at the beginning.
    """
    with _screen(call.output) as screen:
        await _follow(call.profile, screen.show)


async def _follow(profile: Profile, show: Callable[[State], None]) -> NoReturn:
    """Shows each state that differs from the one before; the first is a ledger."""
    last: object = None
    while True:
        try:
            async with OwnerClient.connect(profile) as client:
                while True:
                    if (found := await client.ledger()) != last:
                        last = found
                        show(found)
                    await asyncio.sleep(EVERY_SECONDS)
        except TactfulError as error:
            if last is None:
                raise
            if error.code != last:
                last = error.code
                show(error)
        await asyncio.sleep(EVERY_SECONDS)


def _screen(output: Output) -> AbstractContextManager[_Screen]:
    if output.as_json:
        return nullcontext(_Lines())
    if output.console.is_terminal:
        return _live(output.console)
    return nullcontext(_Journal(output.console))


class _Lines:
    """For programs: an envelope for each change."""

    def show(self, state: State) -> None:
        if isinstance(state, LedgerReply):
            write_line(envelope(state.model_dump(mode="json")))
        else:
            write_line(error_envelope(state.described()))


class _Journal:
    """Without a terminal: a line for each attribute that changed, with the time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, LedgerLine] = {}

    def show(self, state: State) -> None:
        now = datetime.now().astimezone().isoformat(" ", "seconds")
        for told in self._told(state):
            self._console.print(f"{now}  {told}", soft_wrap=True)

    def _told(self, state: State) -> Iterator[str]:
        if not isinstance(state, LedgerReply):
            yield _silence(state)
        elif not state.readable:
            yield UNREADABLE
        else:
            yield from map(_in_a_line, self._changed(state))

    def _changed(self, ledger: LedgerReply) -> list[LedgerLine]:
        before, self._shown = self._shown, {line.attribute: line for line in ledger.lines}
        return [line for line in ledger.lines if line != before.get(line.attribute)]


class _Page:
    """On a terminal: always the same place."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._ledger: RenderableType = ""

    def show(self, state: State) -> None:
        if isinstance(state, LedgerReply):
            self._ledger = _ledger(state)
            told = Text("Ctrl-C ends.", style="dim")
        else:
            told = Text(f"{_silence(state)} Waiting for it; Ctrl-C ends.", style="yellow")
        self._live.update(Group(self._ledger, told), refresh=True)


@contextmanager
def _live(console: Console) -> Iterator[_Page]:
    with Live(console=console, auto_refresh=False) as live:
        yield _Page(live)


def _silence(error: TactfulError) -> str:
    """Why nothing is known: the same words for a daemon that went away and one that is gone."""
    if isinstance(error, DaemonDown):
        return "The daemon does not answer."
    return visible(str(error))


def _ledger(found: LedgerReply) -> RenderableType:
    if not found.readable:
        return Text(UNREADABLE, style="bold red")
    heading = Text(f"Epoch {found.epoch}", style="dim")
    return Group(heading, accounts(found.lines, lifetime=True))


def _in_a_line(line: LedgerLine) -> str:
    told = f"{visible(line.attribute)} {line.spent:.3f} of {line.cap:.3f}, {left_in_words(line)}"
    fused = f", {fused_in_words(line)}" if line.fused is not None else ""
    return f"{told}, lifetime {line.lifetime:.3f}{fused}"
