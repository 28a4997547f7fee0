"""Requests that wait for their replies: the other side's (`Incoming`) and our own (`Outgoing`).

Decides what cancelling one means. What is *not* here: lines and tasks (`peer`).

Invariants:

- a request can be cancelled until its handler has returned, also before the handler began; after
  that its result stands;
- a call has one outcome, the first; what comes later is ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from tactful.errors import TactfulError
from tactful.framing import Object


class NotificationListener(Protocol):
    """Is told of notifications that belong to a call, in order; must not wait for anybody."""

    def __call__(self, method: str, params: Object, /) -> None: ...


class Interrupted(Exception):
    """A block was interrupted; never leaves this package."""


class Interruption:
    """A block that can be interrupted by other tasks of the same loop, before or while it runs."""

    __slots__ = ("_scope", "asked")

    def __init__(self) -> None:
        self.asked = False
        self._scope: asyncio.Timeout | None = None

    def interrupt(self) -> None:
        """Cancel what runs inside the block, or will."""
        if self.asked:
            return
        self.asked = True
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def block(self) -> AsyncIterator[None]:
        """The block; not entered twice.

        Raises:
            Interrupted: it was interrupted.
        """
        if self.asked:
            raise Interrupted
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scope = scope
                yield
        except TimeoutError:
            if scope.expired():
                raise Interrupted from None
            raise
        finally:
            self._scope = None


class Incoming:
    """A request of the other side while its handler runs."""

    __slots__ = ("_interruption", "_reason")

    def __init__(self) -> None:
        self._reason: TactfulError | None = None
        self._interruption = Interruption()

    def cancel(self, reason: TactfulError) -> None:
        """Cancel the handler; the first reason becomes the answer."""
        if self._reason is None:
            self._reason = reason
            self._interruption.interrupt()

    @asynccontextmanager
    async def handling(self) -> AsyncIterator[None]:
        """Around the handler.

        Raises:
            TactfulError: the reason, if it was cancelled.
        """
        try:
            async with self._interruption.block():
                yield
        except Interrupted:
            if self._reason is None:
                raise
            raise self._reason from None


class Outgoing:
    """A call of ours; its outcome is a result, an error, or None when no reply will come."""

    __slots__ = ("_listener", "listener_failed", "outcome")

    def __init__(self, listener: NotificationListener | None) -> None:
        self.outcome: asyncio.Future[Object | Exception | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.listener_failed = False
        self._listener = listener

    @property
    def answered(self) -> bool:
        """Whether the other side gave the outcome, so that it has nothing to stop."""
        return self.outcome.done() and not self.outcome.cancelled() and not self.listener_failed

    def settle(self, outcome: Object | Exception | None) -> None:
        """Give the outcome, unless there is one."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def hear(self, method: str, params: Object) -> None:
        """Tell the listener; if it fails, its failure is the outcome."""
        if self._listener is None or self.outcome.done():
            return
        try:
            self._listener(method, params)
        except Exception as error:  # noqa: BLE001 - raised where the call was made
            self.listener_failed = True
            self.settle(error)
