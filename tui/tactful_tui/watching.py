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
from tactful.profile import Profile
from tactful_tui.watch import Figures, Phase, Watch, answered, lost, refused

PERIOD = 1.0
"""Seconds between two questions."""

PATIENCE = 10.0
"""Seconds after which a daemon that says nothing counts as lost."""

_GONE = (DaemonDown, IdleTimeout, ShuttingDown)


async def watch_daemon(
    profile: Profile, show: Callable[[Watch], None], hurry: asyncio.Event
) -> NoReturn:
    """Tells `show` what is known, each time that the daemon was asked; `hurry` ends a pause."""
    watch = Watch()
    while True:
        try:
            async with OwnerClient.connect(profile) as owner:
                while True:
                    watch = await _asked(owner, watch)
                    show(watch)
                    await _pause(hurry)
        except TactfulError as error:
            had_answers = watch.phase in (Phase.LIVE, Phase.REFUSING)
            watch = lost(watch, error)
        if had_answers:
            continue  # why a connection ended says less than what the next attempt meets
        show(watch)
        await _pause(hurry)


async def _asked(owner: OwnerClient, watch: Watch) -> Watch:
    try:
        async with asyncio.timeout(PATIENCE):
            status = await owner.status()
            try:
                return answered(status, await _figures(owner))
            except _GONE:
                raise
            except TactfulError as refusal:
                return refused(watch, status, refusal)
    except TimeoutError as error:
        raise IdleTimeout(
            f"The daemon has not answered for {PATIENCE:.0f} seconds. It may be overloaded or "
            "stopped; look at its log, or restart it with `tactful stop` and `tactful start`."
        ) from error


async def _figures(owner: OwnerClient) -> Figures:
    ledger = await owner.ledger()
    renewal = (await owner.epoch_show()).renewal if ledger.readable else None
    return Figures(datetime.now().astimezone(), ledger, renewal)


async def _pause(hurry: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(PERIOD):
            await hurry.wait()
    hurry.clear()
