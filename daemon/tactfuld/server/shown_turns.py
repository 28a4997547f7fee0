"""Turns of apps on their way to the owner's screen, while one of the owner's requests runs.

Decides the order of notifications. What is *not* here: what a turn shows (`tactfuld.turns`), and
whose turns a request is about (the methods).

Invariant: everything that happened in the block was sent before it ends, and nothing after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tactful.owner_wire import TurnStarted
from tactful.wire import Message, Notification, Progress
from tactfuld.server.session import Caller
from tactfuld.turns import Started, TurnLog


@asynccontextmanager
async def shown(caller: Caller, log: TurnLog) -> AsyncIterator[None]:
    """Sends what happens in the block to the owner as it happens, and all of it before its end."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_show(caller, log), name="show turns")
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the group would wrap it: raised below
            failure = error
        finally:
            log.happenings.put_nowait(None)
    if failure is not None:
        raise failure


async def _show(caller: Caller, log: TurnLog) -> None:
    with suppress(ConnectionError):
        await _send_all(caller, log)


async def _send_all(caller: Caller, log: TurnLog) -> None:
    while (happening := await log.happenings.get()) is not None:
        if isinstance(happening, Started):
            turn = happening.turn
            message: Message = TurnStarted(
                request=caller.request_id,
                turn=turn.turn,
                app=turn.app,
                query=turn.query,
                selections=turn.selections,
            )
            await caller.notify(Notification.TURN, message)
        else:
            progress = Progress(request=caller.request_id, text=happening.text)
            await caller.notify(Notification.PROGRESS, progress)
