"""The agent: the only thing an app holds.

Decides what an app can do: ask, ask what is left to ask, tell its owner and other apps something,
and keep something for itself. What is *not* here: the connection (`app_client`), and which slots
answer and what that costs the owner (the daemon; an app never learns it).

Invariants:

- an agent works for one event and ends with it: a stream that the app left unfinished is cancelled;
- an answer is final or an error of `tactful.errors` is raised; nothing is returned in doubt;
- what becomes of a notice, a proposal or a text for another app is never told.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Protocol

from tactful.app_log import AppLog
from tactful.app_state import AppState
from tactful.wire import Answer, Budget, Detail, Vocabulary


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

    async def vocabulary(self) -> Vocabulary: ...

    async def notify(self, text: str, title: str = "") -> None: ...

    async def propose(self, text: str, slot: str) -> None: ...

    async def send(self, app: str, text: str) -> None: ...


class Agent:
    """Asks the daemon on the app's behalf while one event is handled.

    Args:
        group: the event's own tasks; streams run in it.
        state: what the app keeps; it outlives the event.
        log: the app's log.

    Attributes:
        state: a few small values that the app keeps for itself, by name.
    """

    def __init__(
        self,
        asker: Asker,
        group: asyncio.TaskGroup,
        *,
        state: AppState | None = None,
        log: AppLog | None = None,
    ) -> None:
        self.state = state or AppState(Path())
        self._log = log or AppLog(sys.stderr.write)
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

    async def vocabulary(self) -> Vocabulary:
        """The views that answers about the granted slots may be shaped by: names and guidance.

        Raises:
            tactful.errors.Denied: the policy grants the app nothing.
        """
        return await self._asker.vocabulary()

    async def notify(self, text: str, title: str = "") -> None:
        """Puts something into the owner's inbox.

        Args:
            text: 1 to 1,000 characters.
            title: a line above it, at most 80 characters.

        Raises:
            tactful.errors.Denied: the policy grants the app nothing.
            tactful.errors.Busy: there were too many in a short time; try again later.
        """
        await self._asker.notify(text, title)

    async def propose(self, text: str, slot: str) -> None:
        """Suggests a memory to the owner, who may look at it some day.

        It returns the same whatever becomes of it: nothing tells whether the owner took it, threw
        it away, or never saw it.

        Args:
            text: 1 to 2,000 characters.
            slot: the granted slot that it is about.

        Raises:
            tactful.errors.Denied: the policy does not grant the slot.
        """
        await self._asker.propose(text, slot)

    async def send(self, app: str, text: str) -> None:
        """Tells another app something, as an event of the kind `app`.

        Whether and when it is handled is not told.

        Args:
            text: 1 to 2,000 characters.

        Raises:
            tactful.errors.Denied: the policy does not let that app hear this one.
            tactful.errors.Busy: there were too many in a short time; try again later.
        """
        await self._asker.send(app, text)

    def log(self, text: str) -> None:
        """Writes a line to the app's log; lines beyond some a second are counted and left out."""
        self._log.line(text)

    def close(self) -> None:
        """Cancels the streams that the app left unfinished; the event is over."""
        for stream in self._streams:
            stream.cancel()


def _fixed(slots: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if slots is None else tuple(slots)
