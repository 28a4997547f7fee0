"""One connection to the daemon: who it is, and which methods it has.

Decides that nothing is answered before authentication, and that a request reaches a method only
through that connection's own table and only with parameters of the right types. What is *not* here:
the methods themselves, tokens and secrets (`authenticate` is passed in), lines and replies
(`tactful.peer`).

Invariants:

- identity is fixed once, by the connection itself (hosted apps) or by one `authenticate`;
- a wrong token is answered after a constant delay, and ends the connection; nobody stays
  unauthenticated for longer than `authenticate_seconds`;
- the log has names of known methods, error codes and sizes: nothing that was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from tactful.envelope import RequestId, parse
from tactful.errors import (
    Cancelled,
    IdleTimeout,
    InvalidRequest,
    NotAuthenticated,
    TactfulError,
    UnknownMethod,
)
from tactful.peer import Call, Limits, Peer
from tactful.wire import Authenticate, Empty, Message
from tactful_core.values import AppId
from tactfuld.journal import failure

AUTHENTICATE = "authenticate"


class Owner(Enum):
    """The owner as an identity."""

    OWNER = "owner"


OWNER: Final = Owner.OWNER

Identity = AppId | Owner

Authenticator = Callable[[str], Awaitable[Identity | None]]
"""Whose token it is; None for nobody's. Takes equally long for every wrong one."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who made a request, while it runs."""

    identity: Identity
    call: Call

    @property
    def request_id(self) -> RequestId:
        """The id that notifications about this request must name."""
        return self.call.id

    async def progress(self, text: str) -> None:
        """Send a piece of the answer; waits while the caller does not read."""
        await self.call.progress(text)

    async def notify(self, method: str, message: Message) -> None:
        """Send a notification, whose message names this request."""
        await self.call.notify(method, message)


P = TypeVar("P", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[P]):
    """A method: the type of its parameters, and what it does."""

    request: type[P]
    run: Callable[[Caller, P], Awaitable[Message]]


MethodTable = Mapping[str, Method[Any]]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a connection may be nobody's, and how long a wrong token waits; in seconds."""

    authenticate_seconds: float = 10.0
    refusal_seconds: float = 0.5


class Session:
    """One connection. `run` serves it; `peer` can be asked to call the other side, or to end.

    The connection of a hosted app has no deadline, so `peer.running()` serves it as well.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        table: MethodTable,
        authenticate: Authenticator | None,
        identity: Identity | None,
        limits: Limits,
        log: FilteringBoundLogger,
        patience: Patience = Patience(),
    ) -> None:
        """Take over a connection.

        Args:
            authenticate: for connections that anybody may have made; then `identity` is None.
            identity: for connections that are somebody's by themselves.
        """
        if (authenticate is None) == (identity is None):
            raise ValueError("A session has either an identity or a way to find it.")
        self._table, self._log, self._patience = table, log, patience
        self._authenticate, self._identity = authenticate, identity
        self._attempted = False
        self._identified = asyncio.Event()
        self.peer = Peer(
            reader,
            writer,
            self._handle,
            limits,
            name="the client" if identity is None else "the app",
            gone=Cancelled,
            on_refusal=self._refused,
            on_defect=self._failed,
        )

    async def run(self) -> None:
        """Serve the connection until it ends."""
        self._log.debug("session_began")
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(self._expire(), name="authentication deadline")
            await self.peer.run()
            watch.cancel()
        self._log.debug("session_ended")

    async def _handle(self, call: Call) -> Message:
        try:
            if self._authenticate is not None and call.method == AUTHENTICATE:
                return await self._identify(call, self._authenticate)
            if self._identity is None:
                raise NotAuthenticated(
                    "The connection is not authenticated. Send `authenticate` with a token, and "
                    "wait for its reply, before anything else."
                )
            method = self._table.get(call.method)
            if method is None:
                raise UnknownMethod(
                    f"This connection has no such method. It has: {', '.join(sorted(self._table))}."
                )
            params = parse(method.request, call.params)
            return await method.run(Caller(self._identity, call), params)
        except TactfulError as error:
            self._log.info("request_refused", method=self._known(call.method), code=error.code)
            raise

    async def _identify(self, call: Call, authenticate: Authenticator) -> Message:
        params = parse(Authenticate, call.params)
        if self._attempted:
            raise InvalidRequest("`authenticate` was sent before. Send it once on a connection.")
        self._attempted = True
        identity = await authenticate(params.token)
        if identity is None:
            call.ends_connection = True
            await asyncio.sleep(self._patience.refusal_seconds)
            raise NotAuthenticated(
                "The token is not valid; the connection is closed. Ask the owner to issue one with "
                "`tactful apps grant`."
            )
        self._identity = identity
        self._identified.set()
        self._log = self._log.bind(identity=identity.value if identity is OWNER else identity)
        self._log.info("authenticated")
        return Empty()

    async def _expire(self) -> None:
        if self._identity is not None:
            return
        try:
            async with asyncio.timeout(self._patience.authenticate_seconds):
                await self._identified.wait()
        except TimeoutError:
            self._log.info("authentication_timed_out")
            self.peer.end(
                IdleTimeout(
                    "Nobody authenticated on this connection within "
                    f"{self._patience.authenticate_seconds:g} seconds; it is closed."
                )
            )

    def _known(self, method: str) -> str:
        return method if method in self._table or method == AUTHENTICATE else "unknown"

    def _refused(self, code: str, size: int) -> None:
        self._log.info("line_refused", code=code, size=size)

    def _failed(self, method: str, error: BaseException) -> None:
        self._log.error("request_failed", method=self._known(method), error=failure(error))
