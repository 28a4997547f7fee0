"""A request of the other side, as its handler sees it.

Decides nothing: it carries what was sent, and a way to send more. What is *not* here: when a
handler runs, and what becomes of its result (`peer`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tactful import envelope
from tactful.envelope import Request
from tactful.framing import Object
from tactful.wire import Message, Notification, Progress


class Call:
    """A request that the other side made, while it runs.

    Attributes:
        method: as sent: it may be a name that nobody has.
        params: as sent, a JSON object within the limits.
        id: as sent.
        ends_connection: set by the handler to let the connection end once this is answered.
    """

    __slots__ = ("_send", "ends_connection", "id", "method", "params")

    def __init__(self, request: Request, send: Callable[[Object], Awaitable[None]]) -> None:
        self.method = request.method
        self.params = request.params
        self.id = request.id
        self.ends_connection = False
        self._send = send

    async def progress(self, text: str) -> None:
        """Send a piece of the answer; waits while the other side does not read.

        Raises:
            ConnectionError: the connection has ended; let it pass.
        """
        await self.notify(Notification.PROGRESS, Progress(request=self.id, text=text))

    async def notify(self, method: str, message: Message) -> None:
        """Send a notification, whose message names this request; waits and raises likewise."""
        await self._send(envelope.notice(method, message))


Handler = Callable[[Call], Awaitable[Message]]
