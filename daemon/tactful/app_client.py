"""An app's connection: it can ask, and a hosted app is told of events.

Decides how an app is proven, by its token or by the socket it inherited. What is *not* here:
reaching the daemon (`dialling`), what an app's author sees (`agent`).

Invariant: cancelling a call tells the daemon to stop.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from tactful.dialling import ANSWER_SECONDS, CLIENT_LIMITS, DAEMON, dialled, no_requests
from tactful.envelope import check, parse
from tactful.framing import Object
from tactful.peer import Call, NotificationListener, Peer, open_streams
from tactful.profile import Profile
from tactful.wire import (
    Answer,
    AppMethod,
    Ask,
    Authenticate,
    Begin,
    Budget,
    Detail,
    Empty,
    Event,
    HostedMethod,
    Message,
    Notification,
    Notify,
    Progress,
    Propose,
    Send,
    Vocabulary,
)


class AppClient:
    """An app's connection: it can ask, and a hosted app is told of events."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @classmethod
    @asynccontextmanager
    async def connect(cls, profile: Profile, token: str) -> AsyncIterator[AppClient]:
        """Connect an outside program, with the token that the owner issued for it.

        Raises:
            DaemonDown, NoPermission, Unusable: as for the owner.
            NotAuthenticated: the token is unknown or was revoked.
        """
        params = check(Authenticate, {"token": token})
        async with dialled(profile.app_socket, no_requests) as peer:
            await peer.call(AppMethod.AUTHENTICATE, params, Empty)
            yield cls(peer)

    @classmethod
    @asynccontextmanager
    async def over(
        cls,
        sock: socket.socket,
        on_event: Callable[[Event, AppClient], Awaitable[None]],
        on_start: Callable[[Begin, AppClient], Awaitable[None]] | None = None,
    ) -> AsyncIterator[AppClient]:
        """Take over the socket that a hosted app inherited: the connection is its identity.

        `on_start` runs once, before any event. `on_event` runs for each event, several at a time if
        several come. The daemon is told when they return, and what they raise.
        """

        async def handle(call: Call) -> Message:
            match call.method:
                case HostedMethod.START:
                    begin = parse(Begin, call.params)
                    if on_start is not None:
                        await on_start(begin, client)
                case HostedMethod.EVENT:
                    await on_event(parse(Event, call.params), client)
                case HostedMethod.PING:
                    pass
                case _:
                    return await no_requests(call)
            return Empty()

        peer = Peer(*await open_streams(sock, CLIENT_LIMITS), handle, CLIENT_LIMITS, name=DAEMON)
        client = cls(peer)
        async with peer.running():
            yield client

    async def ask(
        self,
        query: str,
        *,
        slots: Sequence[str] | None = None,
        thread: str | None = None,
        detail: Detail = "views",
        on_text: Callable[[str], None] | None = None,
    ) -> Answer:
        """Ask a question; `on_text` is given the answer's pieces as they come.

        Args:
            slots: which of the granted slots may be active; the router decides if None.
            thread: the conversation whose earlier turns come before; none of them if None.
            detail: whether the text may be drawn with memory (`fused`), or with views alone.
        """
        return await self._peer.call(
            AppMethod.ASK,
            check(Ask, {"query": query, "slots": slots, "thread": thread, "detail": detail}),
            Answer,
            on_notification=_listener(on_text),
            timeout=ANSWER_SECONDS,
        )

    async def budget(self) -> Budget:
        """What is left for each slot that the app may ask about."""
        return await self._peer.call(AppMethod.BUDGET, Empty(), Budget)

    async def quote(
        self, query: str, *, slots: Sequence[str] | None = None, thread: str | None = None
    ) -> Budget:
        """What each slot that a question activates would answer with now; costs nothing."""
        params = check(Ask, {"query": query, "slots": slots, "thread": thread})
        return await self._peer.call(AppMethod.QUOTE, params, Budget)

    async def vocabulary(self) -> Vocabulary:
        """The views that answers about the granted slots may be shaped by."""
        return await self._peer.call(AppMethod.VOCABULARY, Empty(), Vocabulary)

    async def notify(self, text: str, title: str = "") -> None:
        """Put something into the owner's inbox."""
        params = check(Notify, {"text": text, "title": title})
        await self._peer.call(AppMethod.NOTIFY, params, Empty)

    async def propose(self, text: str, slot: str) -> None:
        """Suggest a memory to the owner; what becomes of it is never told."""
        params = check(Propose, {"text": text, "slot": slot})
        await self._peer.call(AppMethod.PROPOSE, params, Empty)

    async def send(self, app: str, text: str) -> None:
        """Tell another app something."""
        params = check(Send, {"app": app, "text": text})
        await self._peer.call(AppMethod.SEND, params, Empty)

    @property
    def ended(self) -> bool:
        """Whether the connection has ended, as far as is known."""
        return self._peer.ended

    async def wait_ended(self) -> None:
        """Wait until the daemon has ended the connection."""
        await self._peer.wait_ended()


def _listener(on_text: Callable[[str], None] | None) -> NotificationListener:
    def hear(method: str, params: Object) -> None:
        if method == Notification.PROGRESS and on_text is not None:
            on_text(parse(Progress, params).text)

    return hear
