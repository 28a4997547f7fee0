"""The other side of a connection, as somebody who writes whatever they like.

`connected` joins it to a real `Peer` over a real Unix socket pair. Nothing here checks anything.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tactful.lines import drop
from tactful.peer import Handler, Limits, Peer, open_streams


class RawConnection:
    """Writes bytes, reads lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def say_bytes(self, data: bytes) -> None:
        """Write exactly this."""
        self._writer.write(data)
        await self._writer.drain()

    async def say(self, **message: object) -> None:
        """Write a message as a line; `jsonrpc` is added."""
        await self.say_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def hear_line(self) -> bytes:
        """The next line, as it came."""
        return await self._reader.readuntil(b"\n")

    async def hear(self) -> dict[str, Any]:
        """The next line."""
        message: dict[str, Any] = json.loads(await self.hear_line())
        return message

    async def hear_error(self) -> tuple[object, str]:
        """The next line, an error: its id and its code."""
        message = await self.hear()
        return message["id"], message["error"]["data"]["code"]

    async def hear_end(self) -> bytes:
        """Everything until the other side ends the connection."""
        return await self._reader.read()

    async def ask(self, number: object, method: str, **params: object) -> dict[str, Any]:
        """Send a request and take the next line for its reply."""
        await self.say(id=number, method=method, params=params)
        return await self.hear()

    def stop_reading(self) -> None:
        """Never read again, so that the kernel's buffer fills up."""
        transport = self._writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()

    def finish(self) -> None:
        """Write nothing more; what comes back can still be read."""
        self._writer.write_eof()

    def vanish(self) -> None:
        """End the connection without a word."""
        drop(self._writer)


@asynccontextmanager
async def raw_side(sock: socket.socket) -> AsyncIterator[RawConnection]:
    """A raw connection over a connected socket."""
    reader, writer = await open_streams(sock, Limits(line_bytes=64 * 1024 * 1024))
    try:
        yield RawConnection(reader, writer)
    finally:
        drop(writer)
        await asyncio.sleep(0)  # lets the transport close its socket


@asynccontextmanager
async def connected(
    handler: Handler, limits: Limits, **options: Any
) -> AsyncIterator[tuple[RawConnection, Peer]]:
    """A raw connection and the running peer at its other end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    streams = await open_streams(theirs, limits)
    peer = Peer(*streams, handler, limits, **{"name": "the tester", **options})
    async with raw_side(ours) as raw, peer.running():
        yield raw, peer
