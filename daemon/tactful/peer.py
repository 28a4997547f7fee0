"""One side of a connection: answers requests, makes requests, and stays sound whatever arrives.

Decides what happens to each line, and when a connection ends. The same class serves clients, hosted
apps and the daemon's sessions. What is *not* here: who may call what (`tactfuld.server.session`),
and the methods (`wire`).

Invariants:

- one line is taken at a time; a line that is refused but whose end is known leaves the connection
  usable; one too long, too slow or not UTF-8 ends it, after an error under no id that says why;
- each request is answered exactly once under its id, notices never; a request whose id is still in
  flight is refused under no id, since its answer would be taken for the first one's;
- at most `in_flight` requests run; the next is refused as busy, it does not wait;
- nothing is read while a refusal waits to be written, so whoever never reads stops being heard;
- what a handler raises ends its request only; what is not a `TactfulError`, nor one alone in a task
  group, becomes an `InternalError` without its text, and goes to `on_defect`;
- when the connection ends, every handler is cancelled and every call fails; no task outlives `run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TypeVar

from tactful import envelope
from tactful.call import Call, Handler
from tactful.envelope import Notice, Refused, Reply, Request, RequestId, request_id
from tactful.errors import (
    Busy,
    Cancelled,
    DaemonDown,
    IdleTimeout,
    InternalError,
    InvalidRequest,
    LineTooLong,
    ShuttingDown,
    TactfulError,
)
from tactful.framing import NotText, Object, decode
from tactful.lines import Limits, Lines, open_streams
from tactful.pending import Incoming, Interrupted, Interruption, NotificationListener, Outgoing
from tactful.wire import CancelledNotice, Message, Notification

__all__ = ["Call", "Handler", "Limits", "NotificationListener", "Peer", "open_streams"]

R = TypeVar("R", bound=Message)

_STOPPING = "The program is stopping. Try again when it runs again."


class Peer:
    """One side of one connection; `run` must be running for anything to happen."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handler: Handler,
        limits: Limits,
        *,
        name: str,
        gone: type[TactfulError] = DaemonDown,
        on_refusal: Callable[[str, int], None] | None = None,
        on_defect: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        """Take over a connection.

        Args:
            name: the other side in sentences: "the daemon", "the app meals".
            gone: what calls raise when the other side ends the connection without a reason.
            on_refusal: told the error code and the line's size in bytes when a line is refused.
            on_defect: told the method and the exception when a handler fails unexpectedly; the
                method is as sent, so log it only if it is a known one.
        """
        self._lines = Lines(reader, writer, limits)
        self._handler, self._limits = handler, limits
        self._name, self._gone = name, gone
        self._on_refusal, self._on_defect = on_refusal, on_defect
        self._incoming: dict[RequestId, Incoming] = {}
        self._outgoing: dict[RequestId, Outgoing] = {}
        self._numbers = count(1)
        self._listening = Interruption()
        self._started = False
        self._reason: TactfulError | None = None
        self._last_words: TactfulError | None = None
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Serve the connection until either side ends it; returns normally however it ended.

        Cancelling it tells the other side that this program is stopping.
        """
        self._started = True
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._listen(tasks)
                for incoming in self._incoming.values():
                    incoming.cancel(self._reason or Cancelled("The connection ended."))
                self._fail_calls()
            if self._reason is not None:
                with suppress(ConnectionError):
                    await self._lines.send(envelope.failure(None, self._reason))
                    await self._lines.linger()
        except asyncio.CancelledError:
            self._lines.send_at_once(envelope.failure(None, ShuttingDown(_STOPPING)))
            raise
        finally:
            self._listening.interrupt()
            self._fail_calls()
            try:
                await self._lines.close()
            finally:
                self._ended.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Peer]:
        """Run in the background of a block; ends the connection after it."""
        failure: Exception | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.run(), name=f"connection to {self._name}")
                try:
                    yield self
                except Exception as error:  # noqa: BLE001 - the group would wrap it: raised below
                    failure = error
                finally:
                    self.end()
        finally:
            if not self._started:  # a task that is cancelled early enough never begins
                await self._lines.close()
        if failure is not None:
            raise failure

    def end(self, reason: TactfulError | None = None) -> None:
        """Ask the connection to end: requests in flight are answered with the reason first."""
        if not self._listening.asked:
            self._reason = reason
            self._listening.interrupt()

    async def close(self, reason: TactfulError | None = None) -> None:
        """End the connection and wait until it has; not to be awaited by a handler of its own."""
        self.end(reason)
        if self._started:
            await self._ended.wait()
        else:
            await self._lines.close()

    @property
    def ended(self) -> bool:
        """Whether the connection has ended, as far as is known."""
        return self._ended.is_set()

    async def wait_ended(self) -> None:
        """Wait until the connection has ended."""
        await self._ended.wait()

    async def call(
        self,
        method: str,
        params: Message,
        reply: type[R],
        *,
        on_notification: NotificationListener | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - expiring is a named error here
    ) -> R:
        """Ask the other side; `timeout` in seconds, else `call_seconds`.

        Cancelling the caller tells the other side to stop.

        Raises:
            TactfulError: the one that the other side answered with, by its code;
                `IdleTimeout` if no reply came in time; `gone` if the connection ended.
        """
        number = next(self._numbers)
        outgoing = self._outgoing[number] = Outgoing(on_notification)
        try:
            outcome = await self._outcome_of(
                envelope.request(number, method, params), outgoing, timeout
            )
        except TimeoutError:
            raise IdleTimeout(
                f"No reply to `{method}` came from {self._name} in time. Try again later."
            ) from None
        finally:
            del self._outgoing[number]
            if not outgoing.answered:
                self._withdraw(number)
        if outcome is None:
            raise self._farewell(method)
        if isinstance(outcome, Exception):
            raise outcome
        return _typed(reply, outcome, method)

    async def notify(self, method: str, message: Message) -> None:
        """Send a notification.

        Raises:
            TactfulError: `gone`, if the connection has ended.
        """
        try:
            await self._lines.send(envelope.notice(method, message))
        except ConnectionError:
            raise self._farewell(method) from None

    # --- lines ----------------------------------------------------------------------------------

    async def _listen(self, tasks: asyncio.TaskGroup) -> None:
        """Take lines until the connection ends; leaves the reason, if there is one."""
        try:
            async with self._listening.block():
                while (line := await self._lines.next()) is not None:
                    await self._take(line, tasks)
                    await asyncio.sleep(0)  # whoever sends much must not hold up the others
        except (Interrupted, ConnectionError):
            return
        except (LineTooLong, IdleTimeout, NotText) as error:
            self._report(error, self._limits.line_bytes)
            self._reason = error

    async def _take(self, line: bytes, tasks: asyncio.TaskGroup) -> None:
        message: Request | Notice | Reply | Refused
        try:
            message = envelope.classify(decode(line, self._limits.depth))
        except NotText:
            raise
        except TactfulError as error:
            message = Refused(None, error)
        match message:
            case Request():
                refusal = self._begin(message, tasks)
                if refusal is not None:
                    await self._refuse(refusal, len(line))
            case Refused():
                await self._refuse(message, len(line))
            case Notice():
                self._hear(message)
            case Reply():
                self._settle(message)

    async def _refuse(self, refused: Refused, size: int) -> None:
        self._report(refused.error, size)
        await self._lines.send(envelope.failure(refused.id, refused.error))

    def _report(self, error: TactfulError, size: int) -> None:
        if self._on_refusal is not None:
            self._on_refusal(error.code, size)

    # --- requests of the other side -------------------------------------------------------------

    def _begin(self, request: Request, tasks: asyncio.TaskGroup) -> Refused | None:
        if request.id in self._incoming:
            problem = "A request with the same id is still running. Give each request its own id."
            return Refused(None, InvalidRequest(problem))
        if len(self._incoming) >= self._limits.in_flight:
            problem = (
                f"{self._limits.in_flight} requests are in flight on this connection, the most it "
                "may have. Wait for a reply, then send the request again."
            )
            return Refused(request.id, Busy(problem))
        incoming = self._incoming[request.id] = Incoming()
        tasks.create_task(self._answer(request, incoming), name=f"request of {self._name}")
        return None

    async def _answer(self, request: Request, incoming: Incoming) -> None:
        call = Call(request, self._lines.send)
        try:
            reply = await self._handle(call, incoming)
            with suppress(ConnectionError):
                await self._lines.send(reply)
        finally:
            del self._incoming[request.id]
        if call.ends_connection:
            self.end()

    async def _handle(self, call: Call, incoming: Incoming) -> Object:
        """What to answer: the handler's result, its named error, or why it was cancelled."""
        try:
            async with incoming.handling():
                message = await self._handler(call)
            return envelope.result(call.id, message)
        except TactfulError as error:
            return envelope.failure(call.id, error)
        except asyncio.CancelledError as error:
            # From outside, the program is stopping. A handler that let some other cancellation
            # through is a defect like any other.
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                return self._defect(call, error)
            self._lines.send_at_once(envelope.failure(call.id, ShuttingDown(_STOPPING)))
            raise
        except Exception as error:  # noqa: BLE001 - one request's defect must not end the others
            only = _only(error)
            if isinstance(only, TactfulError):
                return envelope.failure(call.id, only)
            return self._defect(call, only)

    def _defect(self, call: Call, error: BaseException) -> Object:
        lost = isinstance(error, ConnectionError) and self._lines.closing
        if self._on_defect is not None and not lost:
            self._on_defect(call.method, error)
        problem = "The request failed because of a defect. The log names the place."
        return envelope.failure(call.id, InternalError(problem))

    # --- notices, replies and our own calls -----------------------------------------------------

    def _hear(self, notice: Notice) -> None:
        """Notices about requests that are not known here, or no longer, are ignored."""
        number = request_id(notice.params.get("request"))
        if number is None:
            return
        if notice.method == Notification.CANCELLED:
            if number in self._incoming:
                problem = "The request was cancelled. What it was charged stays charged."
                self._incoming[number].cancel(Cancelled(problem))
        elif number in self._outgoing:
            self._outgoing[number].hear(notice.method, notice.params)

    def _settle(self, reply: Reply) -> None:
        """Replies to calls that were never made, or no longer wait, are ignored."""
        if reply.id is not None:
            if reply.id in self._outgoing:
                self._outgoing[reply.id].settle(reply.outcome)
        elif isinstance(reply.outcome, TactfulError):
            # A line of ours was refused, nobody knows which, or the connection is about to end:
            # none of our calls can count on an answer any more.
            self._last_words = reply.outcome
            self._fail_calls()

    async def _outcome_of(
        self, message: Object, outgoing: Outgoing, seconds: float | None
    ) -> Object | Exception | None:
        if self._listening.asked:
            outgoing.settle(None)
            return None
        async with asyncio.timeout(seconds or self._limits.call_seconds):
            try:
                await self._lines.send(message)
            except ConnectionError:
                outgoing.settle(None)
            return await outgoing.outcome

    def _fail_calls(self) -> None:
        for outgoing in self._outgoing.values():
            outgoing.settle(None)

    def _farewell(self, method: str) -> TactfulError:
        if self._last_words is not None:
            return type(self._last_words)(str(self._last_words))
        return self._gone(
            f"The connection to {self._name} ended before it answered `{method}`. "
            "Look whether it is still running, then try again."
        )

    def _withdraw(self, number: int) -> None:
        """Tell the other side without waiting: the caller may be cancelled already."""
        notice = CancelledNotice(request=number)
        self._lines.send_at_once(envelope.notice(Notification.CANCELLED, notice))


def _only(error: BaseException) -> BaseException:
    """The exception that task groups have wrapped, if it is one alone."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _typed(reply: type[R], outcome: Object, method: str) -> R:
    try:
        return envelope.parse(reply, outcome)
    except TactfulError:
        raise InternalError(
            f"The reply to `{method}` is not one that this version understands. "
            "Use the same version on both sides."
        ) from None
