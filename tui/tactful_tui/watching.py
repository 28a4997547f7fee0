"""Asking the daemon, about once a second, on one connection that is made anew whenever it is lost.

Decides when to ask, and which failures end a connection. What is *not* here: what is kept of the
answers (`watch`), and the screen.

Invariant: whatever the daemon does, the asking goes on until it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import NoReturn

from tactful.errors import DaemonDown, IdleTimeout, ShuttingDown, TactfulError
from tactful.owner_client import OwnerClient
from tactful.owner_wire import HistoryTurn
from tactful.profile import Profile
from tactful_tui.watch import Figures, Phase, Watch, answered, lost, refused

PERIOD = 1.0
"""Seconds between two questions."""

PATIENCE = 10.0
"""Seconds after which a daemon that says nothing counts as lost."""

LAST_TURNS = 50

_ENDED = (DaemonDown, ShuttingDown)
"""The daemon ended the connection."""


class Watching:
    """The asking; `hurry` ends the pause between two questions."""

    def __init__(
        self, profile: Profile, show: Callable[[Watch], None], hurry: asyncio.Event
    ) -> None:
        """Tells `show` what is known, each time that the daemon was asked."""
        self._profile, self._show, self._hurry = profile, show, hurry
        self._watch = Watch()

    async def run(self) -> NoReturn:
        """Asks for ever."""
        while True:
            try:
                await self._ask_on_one_connection()
            except TactfulError as error:
                had_answers = self._watch.phase in (Phase.LIVE, Phase.REFUSING)
                self._watch = lost(self._watch, error)
                if had_answers and isinstance(error, _ENDED):
                    continue  # why it ended says less than what the next attempt meets
            self._show(self._watch)
            await self._pause()

    async def _ask_on_one_connection(self) -> NoReturn:
        now = asyncio.get_running_loop().time
        try:
            async with (
                asyncio.timeout(PATIENCE) as patience,
                OwnerClient.connect(self._profile) as owner,
            ):
                while True:
                    self._watch = await _asked(owner, self._watch)
                    patience.reschedule(None)
                    self._show(self._watch)
                    await self._pause()
                    patience.reschedule(now() + PATIENCE)
        except TimeoutError as error:
            raise IdleTimeout(
                f"The daemon has not answered for {PATIENCE:.0f} seconds. It may be overloaded or "
                "stopped; look at its log, or restart it with `tactful stop` and `tactful start`."
            ) from error

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PERIOD):
                await self._hurry.wait()
        self._hurry.clear()


async def _asked(owner: OwnerClient, watch: Watch) -> Watch:
    status = await owner.status()
    try:
        return answered(status, await _figures(owner))
    except (*_ENDED, IdleTimeout):
        raise
    except TactfulError as refusal:
        return refused(watch, status, refusal)


async def _figures(owner: OwnerClient) -> Figures:
    ledger = await owner.ledger()
    renewal = (await owner.epoch_show()).renewal if ledger.readable else None
    turns = (await owner.history_list(limit=LAST_TURNS)).turns
    return Figures(datetime.now().astimezone(), ledger, renewal, turns)


async def whole_turn_of(profile: Profile, number: int) -> HistoryTurn:
    """One turn with its answer, which lists do not have.

    Raises:
        TactfulError: there is no connection, or no such turn any more.
    """
    async with OwnerClient.connect(profile) as owner:
        return await owner.history_show(number)
