"""Reaching the daemon: one connection to one of its sockets.

Decides how a socket is found and checked before anything is sent to it. What is *not* here: what is
sent (`owner_client`, `app_client`).

Invariants:

- a socket of another user's process is closed before anything is written to it;
- everything that goes wrong is a `TactfulError`; a daemon that is not there is `DaemonDown`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tactful.credentials import peer_uid
from tactful.errors import DaemonDown, NoPermission, TactfulError, UnknownMethod, Unusable
from tactful.peer import Call, Limits, Peer, open_streams
from tactful.wire import Message

CLIENT_LIMITS = Limits(line_bytes=16 * 1024 * 1024, depth=32, in_flight=32)
"""What a client accepts from its own daemon: a whole memory in one line."""

ANSWER_SECONDS = 900.0
"""A small machine may take minutes for an answer, and answers wait for one another."""

CONNECT_SECONDS = 10.0
"""How long the daemon may take to accept a connection."""

DAEMON = "the daemon"
"""What the other side is called in errors."""

_RETRY_SECONDS = 0.05
_DOWN = "No daemon is running for this profile. Start it with `tactful start`."


async def no_requests(_call: Call) -> Message:
    """Answers every request of the daemon's with a refusal."""
    raise UnknownMethod("This program does not answer requests. Do not send it any.")


@asynccontextmanager
async def dialled(path: Path, handler: Callable[[Call], Awaitable[Message]]) -> AsyncIterator[Peer]:
    """A running peer on the socket at `path`; nothing was sent yet."""
    sock = await _connected(path)
    try:
        streams = await open_streams(sock, CLIENT_LIMITS)
    except BaseException:
        sock.close()
        raise
    async with Peer(*streams, handler, CLIENT_LIMITS, name=DAEMON).running() as peer:
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
