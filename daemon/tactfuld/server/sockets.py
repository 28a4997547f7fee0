"""Unix sockets that only their owner's processes reach.

Decides where a socket may be made, whether an old one may be replaced, and which processes may
connect. What is *not* here: what a connection may do (`session`).

Invariants:

- a socket lies in a folder of mode 0700 that belongs to this user, and has mode 0600 itself;
- a socket that somebody listens on is never removed: only ECONNREFUSED proves it stale, and nothing
  but a socket is ever removed;
- a process of another user is refused before a byte of it is read;
- at most `most` connections are open on a listener; the next is told so and closed.

Between finding a socket stale and replacing it there is a moment in which another daemon might do
the same: the caller holds the lock of the profile.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from tactful.credentials import peer_uid
from tactful.envelope import failure
from tactful.errors import AlreadyRunning, Busy, NoPermission, TactfulError, Unusable
from tactful.framing import encode
from tactful.lines import drop
from tactful.peer import Limits, open_streams

__all__ = ["LONGEST_PATH", "bind_unix", "peer_uid", "release_unix", "serve_socket"]

LONGEST_PATH = 107 if sys.platform == "linux" else 103
"""Bytes in `sun_path`, less the NUL that ends it."""

_BACKLOG = 128
_PROBE_SECONDS = 2.0
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.2

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def bind_unix(path: Path) -> socket.socket:
    """A listening socket at the path, whose folder is made if it is missing.

    Blocks for a moment: not for the event loop.

    Raises:
        AlreadyRunning: somebody listens there.
        Unusable: the path is too long, or something other than a socket of ours is in the way.
        NoPermission: the folder is open to other users, or cannot be written.
    """
    _refuse_long(path)
    try:
        _make_private(path.parent)
        return _bound(path)
    except PermissionError as error:
        raise NoPermission(
            f"The socket {path} cannot be made because its folder may not be written. Give the "
            "folder to the user who runs the daemon, or choose another profile."
        ) from error


def release_unix(sock: socket.socket, path: Path) -> None:
    """Stop listening, and remove the socket; the caller still holds the lock of the profile."""
    sock.close()
    path.unlink(missing_ok=True)


async def serve_socket(
    listener: socket.socket,
    serve: Serve,
    *,
    limits: Limits,
    most: int,
    log: FilteringBoundLogger,
    uid: int | None = None,
) -> None:
    """Serve each connection in a task of its own until cancelled; then all of them are cancelled.

    Args:
        serve: serves one connection; what it raises is logged by type and ends that connection.
        most: connections open at a time.
        uid: whose processes may connect; this user's if None.
    """
    allowed = os.geteuid() if uid is None else uid
    listener.setblocking(False)
    open_now = 0

    async def attend(sock: socket.socket) -> None:
        nonlocal open_now
        try:
            await _attend(sock, serve, limits)
        except Exception as error:  # noqa: BLE001 - one connection must not end the others
            log.error("connection_failed", error=type(error).__name__)  # noqa: TRY400 - no texts
        finally:
            open_now -= 1

    async with asyncio.TaskGroup() as connections:
        while True:
            # One that waits already is accepted without a pause: a flood would hold up the loop.
            await asyncio.sleep(0)
            sock = await _accepted(listener, log)
            refusal = _refusal(sock, allowed, full=open_now >= most)
            if refusal is not None:
                log.warning("connection_refused", code=refusal.code)
                _turn_away(sock, refusal)
                continue
            open_now += 1
            connections.create_task(attend(sock), name="connection")


async def _accepted(listener: socket.socket, log: FilteringBoundLogger) -> socket.socket:
    while True:
        try:
            return (await asyncio.get_running_loop().sock_accept(listener))[0]
        except OSError as error:
            # Descriptors have run out, or the connection is gone already: neither ends us.
            log.warning("accept_failed", errno=errno.errorcode.get(error.errno or 0, "other"))
            await asyncio.sleep(_PAUSE_SECONDS)


async def _attend(sock: socket.socket, serve: Serve, limits: Limits) -> None:
    try:
        reader, writer = await open_streams(sock, limits)
    except BaseException:
        sock.close()
        raise
    try:
        await serve(reader, writer)
    finally:
        drop(writer)


def _refusal(sock: socket.socket, uid: int, *, full: bool) -> TactfulError | None:
    try:
        known = peer_uid(sock) == uid
    except OSError:
        known = False
    if not known:
        return NoPermission("This daemon belongs to another user. Use your own.")
    if full:
        return Busy("The daemon has as many connections as it may have. Try again later.")
    return None


def _turn_away(sock: socket.socket, refusal: TactfulError) -> None:
    with sock, suppress(OSError):
        sock.setblocking(False)
        sock.send(encode(failure(None, refusal)))


def _refuse_long(path: Path) -> None:
    size = len(os.fsencode(path))
    if size > LONGEST_PATH:
        raise Unusable(
            f"The socket's path {path} has {size} bytes, the system allows {LONGEST_PATH}. "
            "Choose a profile in a folder with a shorter path."
        )


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise Unusable(
            f"The socket folder {folder} is not a folder itself (it may be a link). Remove it or "
            "choose another profile."
        )
    if found.st_uid != os.geteuid():
        raise NoPermission(
            f"The socket folder {folder} belongs to another user. Choose another profile."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise NoPermission(
            f"The socket folder {folder} is open to other users (mode "
            f"{stat.S_IMODE(found.st_mode):04o}). Close it with `chmod 700 {folder}`."
        )


def _bound(path: Path) -> socket.socket:
    for _ in range(_ATTEMPTS):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(os.fspath(path))
            path.chmod(0o600)  # the folder has kept others out until here
            sock.listen(_BACKLOG)
            return sock
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE:
                raise
        _remove_stale(path)
    raise AlreadyRunning(
        f"Another program keeps making the socket {path}. Stop it, or choose another profile."
    )


def _remove_stale(path: Path) -> None:
    """Remove the socket if nobody listens on it."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise Unusable(
                f"Something that is not a socket is at {path}. Move it away; it was not touched."
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PROBE_SECONDS)
            probe.connect(os.fspath(path))
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
        return
    except (BlockingIOError, TimeoutError):
        pass  # its queue is full, so somebody listens
    raise AlreadyRunning(
        f"A daemon already listens on {path}. Use it, or stop it with `tactful stop`."
    )
