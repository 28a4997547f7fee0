"""How programs talk to the daemon: `OwnerClient` for the owner's tools, `AppClient` for apps.

Decides how a connection to the daemon is found, checked and authenticated; each method is one typed
call. What is *not* here: any decision about memory or budgets.

Invariants:

- the secret or token is sent only to a process of the same user;
- everything that goes wrong is a `TactfulError`; a daemon that is not there is `DaemonDown`;
- cancelling a call tells the daemon to stop.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tactful.credentials import peer_uid
from tactful.envelope import check, parse
from tactful.errors import DaemonDown, NoPermission, TactfulError, UnknownMethod, Unusable
from tactful.framing import Object
from tactful.peer import Call, Limits, NotificationListener, Peer, open_streams
from tactful.profile import Profile
from tactful.wire import (
    Answer,
    AppMethod,
    AppName,
    AppsList,
    AppToken,
    Ask,
    AuditDistance,
    Authenticate,
    Budget,
    Distance,
    Empty,
    EpochHistory,
    EpochNew,
    EpochReply,
    Event,
    HostedMethod,
    LedgerReply,
    MemoryList,
    Message,
    Notification,
    OwnerMethod,
    Progress,
    Remember,
    Remembered,
    Replay,
    Status,
    Tell,
    TellReply,
    TurnStarted,
)

CLIENT_LIMITS = Limits(line_bytes=16 * 1024 * 1024, depth=32, in_flight=32)
"""What a client accepts from its own daemon: a whole memory in one line."""

ANSWER_SECONDS = 900.0
"""A small machine may take minutes for an answer, and answers wait for one another."""

CONNECT_SECONDS = 10.0
"""How long the daemon may take to accept a connection."""

_RETRY_SECONDS = 0.05
_NAME = "the daemon"
_DOWN = "No daemon is running for this profile. Start it with `tactful start`."


class OwnerClient:
    """The owner's connection: everything the command line and the terminal interface can do."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @classmethod
    @asynccontextmanager
    async def connect(cls, profile: Profile) -> AsyncIterator[OwnerClient]:
        """Connect and authenticate with the secret in the profile.

        Raises:
            DaemonDown: nothing listens.
            NoPermission, Unusable: the socket or the secret cannot be used.
            NotAuthenticated: the secret is another one than the daemon's.
        """
        async with _dialled(profile.owner_socket, _no_requests) as peer:
            secret = await asyncio.to_thread(_read_secret, profile.owner_secret_file)
            params = check(Authenticate, {"token": secret})
            await peer.call(OwnerMethod.AUTHENTICATE, params, Empty)
            yield cls(peer)

    async def status(self) -> Status:
        """What the daemon is doing; also answered while it is still loading."""
        return await self._peer.call(OwnerMethod.STATUS, Empty(), Status)

    async def stop(self) -> None:
        """Ask the daemon to stop; it has begun to when this returns."""
        await self._peer.call(OwnerMethod.STOP, Empty(), Empty)

    async def remember(self, text: str, shelf: str, position: int | None = None) -> Remembered:
        """Put a text on a shelf (`slot.shelf`), in its first empty position unless one is named."""
        params = check(Remember, {"text": text, "shelf": shelf, "position": position})
        return await self._peer.call(OwnerMethod.REMEMBER, params, Remembered)

    async def memory_list(self) -> MemoryList:
        """Everything that is remembered."""
        return await self._peer.call(OwnerMethod.MEMORY_LIST, Empty(), MemoryList)

    async def ledger(self) -> LedgerReply:
        """What every attribute has been charged."""
        return await self._peer.call(OwnerMethod.LEDGER, Empty(), LedgerReply)

    async def epoch_show(self) -> EpochReply:
        """The open epoch, and what opening another one would mean."""
        return await self._peer.call(OwnerMethod.EPOCH_SHOW, Empty(), EpochReply)

    async def epoch_new(self, after: int) -> EpochReply:
        """Open an epoch after the one with this number; caps begin anew, the lifetime sum grows."""
        params = check(EpochNew, {"after": after})
        return await self._peer.call(OwnerMethod.EPOCH_NEW, params, EpochReply)

    async def epoch_history(self) -> EpochHistory:
        """What every epoch came to."""
        return await self._peer.call(OwnerMethod.EPOCH_HISTORY, Empty(), EpochHistory)

    async def audit_distance(self, positions: tuple[int, ...]) -> Distance:
        """How far all releases can tell apart two memories that differ at these positions."""
        params = check(AuditDistance, {"positions": positions})
        return await self._peer.call(OwnerMethod.AUDIT_DISTANCE, params, Distance)

    async def audit_replay(self) -> Replay:
        """Whether the ledger's entries, read anew, give the sums that the daemon works with."""
        return await self._peer.call(OwnerMethod.AUDIT_REPLAY, Empty(), Replay)

    async def tell(
        self,
        app: str,
        text: str,
        *,
        on_turn: Callable[[TurnStarted], None] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> TellReply:
        """Send a message to a hosted app, and watch the turns that it takes because of it."""
        return await self._peer.call(
            OwnerMethod.TELL,
            check(Tell, {"app": app, "text": text}),
            TellReply,
            on_notification=_listener(on_turn, on_text),
            timeout=ANSWER_SECONDS,
        )

    async def apps_list(self) -> AppsList:
        """The apps that the policy names."""
        return await self._peer.call(OwnerMethod.APPS_LIST, Empty(), AppsList)

    async def apps_grant(self, app: str) -> AppToken:
        """A new token for an outside program that speaks as this app; shown once."""
        params = check(AppName, {"app": app})
        return await self._peer.call(OwnerMethod.APPS_GRANT, params, AppToken)

    async def apps_revoke(self, app: str) -> None:
        """Make the app's tokens worthless."""
        params = check(AppName, {"app": app})
        await self._peer.call(OwnerMethod.APPS_REVOKE, params, Empty)


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
        async with _dialled(profile.app_socket, _no_requests) as peer:
            await peer.call(AppMethod.AUTHENTICATE, params, Empty)
            yield cls(peer)

    @classmethod
    @asynccontextmanager
    async def over(
        cls, sock: socket.socket, on_event: Callable[[Event, AppClient], Awaitable[None]]
    ) -> AsyncIterator[AppClient]:
        """Take over the socket that a hosted app inherited: the connection is its identity.

        `on_event` runs for each event, several at a time if several come; the daemon is told when
        it returns, and what it raises.
        """

        async def handle(call: Call) -> Message:
            if call.method != HostedMethod.EVENT:
                return await _no_requests(call)
            await on_event(parse(Event, call.params), client)
            return Empty()

        peer = Peer(*await open_streams(sock, CLIENT_LIMITS), handle, CLIENT_LIMITS, name=_NAME)
        client = cls(peer)
        async with peer.running():
            yield client

    async def ask(
        self,
        query: str,
        *,
        slots: Sequence[str] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Answer:
        """Ask a question; `on_text` is given the answer's pieces as they come.

        Args:
            slots: which of the granted slots may be active; the router decides if None.
        """
        return await self._peer.call(
            AppMethod.ASK,
            check(Ask, {"query": query, "slots": slots}),
            Answer,
            on_notification=_listener(None, on_text),
            timeout=ANSWER_SECONDS,
        )

    async def budget(self) -> Budget:
        """What is left for each slot that the app may ask about."""
        return await self._peer.call(AppMethod.BUDGET, Empty(), Budget)

    async def quote(self, query: str, *, slots: Sequence[str] | None = None) -> Budget:
        """What each slot that a question activates would answer with now; costs nothing."""
        params = check(Ask, {"query": query, "slots": slots})
        return await self._peer.call(AppMethod.QUOTE, params, Budget)

    async def wait_ended(self) -> None:
        """Wait until the daemon has ended the connection."""
        await self._peer.wait_ended()


async def _no_requests(_call: Call) -> Message:
    raise UnknownMethod("This program does not answer requests. Do not send it any.")


@asynccontextmanager
async def _dialled(
    path: Path, handler: Callable[[Call], Awaitable[Message]]
) -> AsyncIterator[Peer]:
    sock = await _connected(path)
    try:
        streams = await open_streams(sock, CLIENT_LIMITS)
    except BaseException:
        sock.close()
        raise
    async with Peer(*streams, handler, CLIENT_LIMITS, name=_NAME).running() as peer:
        yield peer


async def _connected(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(CONNECT_SECONDS):
            await _connect(sock, path)
        if peer_uid(sock) != os.geteuid():
            raise NoPermission(
                f"The socket {path} belongs to another user, so nothing was sent to it. "
                "Choose another profile."
            )
    except BaseException as error:
        sock.close()
        named = _named(path, error)
        if named is None:
            raise
        raise named from error
    return sock


async def _connect(sock: socket.socket, path: Path) -> None:
    while True:
        try:
            sock.connect(os.fspath(path))
        except BlockingIOError:
            # The daemon's queue of new connections is full. asyncio's own sock_connect would take
            # this for a connection in progress, which Unix sockets do not have.
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


def _named(path: Path, error: BaseException) -> TactfulError | None:
    match error:
        case FileNotFoundError() | ConnectionRefusedError() | NotADirectoryError():
            return DaemonDown(_DOWN)
        case TimeoutError():
            return DaemonDown(
                f"The daemon does not accept connections on {path}. It may be overloaded or "
                "stopped; try again, or restart it with `tactful stop` and `tactful start`."
            )
        case PermissionError():
            return NoPermission(
                f"The socket {path} may not be opened by this user. Run as the user who started "
                "the daemon."
            )
        case OSError():
            return Unusable(
                f"The socket {path} cannot be opened. If the path is long, choose a profile with "
                "a shorter one: the system allows about 100 characters."
            )
        case _:
            return None


def _read_secret(path: Path) -> str:
    try:
        secret = path.read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        raise Unusable(
            f"The owner's secret {path} is missing although a daemon is running. Restart it with "
            "`tactful stop` and `tactful start`, which makes a new one."
        ) from error
    except PermissionError as error:
        raise NoPermission(
            f"The owner's secret {path} may not be read by this user. Run as the user who started "
            "the daemon."
        ) from error
    except ValueError:
        secret = ""  # judged below: the context of an error raised here would keep the content
    if not secret:
        raise Unusable(
            f"The owner's secret {path} is damaged. Restart the daemon, which makes a new one."
        )
    return secret


def _listener(
    on_turn: Callable[[TurnStarted], None] | None, on_text: Callable[[str], None] | None
) -> NotificationListener:
    def hear(method: str, params: Object) -> None:
        if method == Notification.PROGRESS and on_text is not None:
            on_text(parse(Progress, params).text)
        elif method == Notification.TURN and on_turn is not None:
            on_turn(parse(TurnStarted, params))

    return hear
