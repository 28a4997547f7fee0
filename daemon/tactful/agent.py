"""The agent: the only thing an app holds.

Decides what an app can do: ask, and ask what is left to ask. What is *not* here: the connection
(`client`), and which slots answer and what that costs the owner (the daemon; an app never learns
it).

Invariants:

- an agent works for one event and ends with it: a stream that the app left unfinished is cancelled;
- an answer is final or an error of `tactful.errors` is raised; nothing is returned in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from tactful.wire import Answer, Budget, Detail


class Asker(Protocol):
    """What an agent needs of a connection; `tactful.app_client.AppClient` is one."""

    async def ask(
        self,
        query: str,
        *,
        slots: tuple[str, ...] | None = None,
        thread: str | None = None,
        detail: Detail = "views",
        on_text: Callable[[str], None] | None = None,
    ) -> Answer: ...

    async def budget(self) -> Budget: ...

    async def quote(
        self, query: str, *, slots: tuple[str, ...] | None = None, thread: str | None = None
    ) -> Budget: ...


class Agent:
    """Asks the daemon on the app's behalf while one event is handled.

    Args:
        group: the event's own tasks; streams run in it.
    """

    def __init__(self, asker: Asker, group: asyncio.TaskGroup) -> None:
        self._asker = asker
        self._group = group
        self._streams: list[asyncio.Task[None]] = []

    async def ask(
        self,
        query: str,
        slots: Sequence[str] | None = None,
        *,
        thread: str | None = None,
        detail: Detail = "views",
    ) -> Answer:
        """The whole answer to a question.

        Args:
            query: 1 to 2,000 characters, public: never put a secret in it.
            slots: topics to answer from; `None` lets the daemon choose among the granted ones.
            thread: a conversation of the app's own, by a name of its choice: lower-case letters,
                digits, `_` and `-`, at most 40. The question is answered with what was asked and
                answered in it before; with `None` it stands alone.
            detail: `fused` lets the text be drawn with what is remembered, at the owner's price;
                where the owner allows none of it or it is used up, the answer is one of views, and
                says so in its `detail`.

        Raises:
            tactful.errors.InvalidParams: the question, or the name of a slot or thread, is not
                well-formed.
            tactful.errors.Denied: the policy does not grant this.
            tactful.errors.Busy: too much is in flight; try again later.
            tactful.errors.NotReady: the daemon is still loading its model.
            tactful.errors.ModelFailed: the model did not answer.
            tactful.errors.Cancelled: the question was cancelled.
            tactful.errors.ShuttingDown: the daemon is stopping.
        """
        return await self._asker.ask(query, slots=_fixed(slots), thread=thread, detail=detail)

    async def stream(
        self,
        query: str,
        slots: Sequence[str] | None = None,
        *,
        thread: str | None = None,
        detail: Detail = "views",
    ) -> AsyncGenerator[str, None]:
        """The answer to a question, piece by piece; arguments and errors as for `ask`.

        Leaving the loop early cancels the question. What it was charged stays charged.
        """
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        failures: list[Exception] = []

        async def answer() -> None:
            try:
                await self._asker.ask(
                    query,
                    slots=_fixed(slots),
                    thread=thread,
                    detail=detail,
                    on_text=pieces.put_nowait,
                )
            except Exception as error:  # noqa: BLE001 - raised in the app's loop, which may want to
                failures.append(error)  # catch it; the group would end the whole event
            finally:
                pieces.put_nowait(None)

        asking = self._group.create_task(answer(), name="agent stream")
        self._streams.append(asking)
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
        finally:
            asking.cancel()
        for error in failures:
            raise error

    async def budget(self) -> Budget:
        """What is left for each slot that the app may ask about: fresh answers, or which other.

        Raises:
            tactful.errors.Denied: the policy grants the app nothing.
        """
        return await self._asker.budget()

    async def quote(
        self, query: str, slots: Sequence[str] | None = None, *, thread: str | None = None
    ) -> Budget:
        """What each slot that a question activates would answer with now; nothing is charged.

        Arguments and errors as for `ask`.
        """
        return await self._asker.quote(query, slots=_fixed(slots), thread=thread)

    def close(self) -> None:
        """Cancels the streams that the app left unfinished; the event is over."""
        for stream in self._streams:
            stream.cancel()


def _fixed(slots: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if slots is None else tuple(slots)
