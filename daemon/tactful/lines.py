"""Lines over a Unix socket, bounded in both directions.

Decides when a line is refused for its length or slowness, and when a side that does not read is
disconnected. What is *not* here: what a line holds (`framing`, `envelope`).

Invariants:

- a line is read within `line_bytes` and, once its first byte is there, within `line_seconds`;
  between lines a connection may be silent for as long as it likes;
- a line is written whole or not at all, and lines never mix; whoever has written waits until there
  is room for more, for at most `write_seconds`, after which the connection is aborted: what is
  buffered is 64 KiB and one line of each writer at most;
- closing never waits for the other side longer than that;
- lines are taken no faster than `lines_a_second` in the long run, so that one side which sends much
  leaves the others their time; how long it waits depends on what it sends and on nothing else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tactful.errors import IdleTimeout, LineTooLong
from tactful.framing import Object, encode

_NEWLINE = b"\n"
_WRITE_BUFFER = 64 * 1024
_LINGER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one side of a connection accepts.

    Attributes:
        line_bytes: the longest line read, with its newline. The connection's `StreamReader` must
            have the same limit (`open_streams`); asyncio then holds at most twice as much, and one
            read of its own (256 KiB).
        depth: arrays and objects around a value.
        in_flight: requests of the other side that run at a time.
        line_seconds: from the first byte of a line to its newline.
        write_seconds: how long the other side may take to make room for a line.
        call_seconds: how long a call made from here waits for its reply unless it says otherwise.
        lines_a_second: how many lines are taken in the long run; more wait in the connection until
            it is full and whoever sends them waits. Any number if `None`.
        burst: how many lines are taken at once after a rest.
    """

    line_bytes: int = 64 * 1024
    depth: int = 32
    in_flight: int = 8
    line_seconds: float = 10.0
    write_seconds: float = 10.0
    call_seconds: float = 60.0
    lines_a_second: float | None = None
    burst: int = 200


async def open_streams(
    sock: socket.socket, limits: Limits
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Streams over a connected Unix socket, with the reading limit that `Lines` needs."""
    sock.setblocking(False)
    return await asyncio.open_unix_connection(sock=sock, limit=limits.line_bytes)


def drop(writer: asyncio.StreamWriter) -> None:
    """End a connection at once, whatever is still buffered."""
    writer.close()
    # Asyncio's abort() fails on a transport that has closed by itself after its last write.
    if writer.transport.get_write_buffer_size():
        writer.transport.abort()


class Pace:
    """Lets so many lines through at once, and so many a second in the long run (token bucket)."""

    def __init__(self, a_second: float, burst: int, now: Callable[[], float]) -> None:
        self._a_second = a_second
        self._burst = burst
        self._now = now
        self._left = float(burst)
        self._since = now()

    def seconds_to_wait(self) -> float:
        """Before the next line, which is counted now."""
        now = self._now()
        self._left = min(self._burst, self._left + (now - self._since) * self._a_second) - 1
        self._since = now
        return max(0.0, -self._left / self._a_second)


class Lines:
    """The lines of one connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits
    ) -> None:
        self._reader, self._writer, self._limits = reader, writer, limits
        self._closed = False
        self._said_all = False
        self._pace = _pace(limits)
        writer.transport.set_write_buffer_limits(high=_WRITE_BUFFER)

    @property
    def closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self._said_all or self._writer.is_closing()

    async def next(self) -> bytes | None:
        """The next line with its newline; None when the other side has ended the connection.

        Raises:
            IdleTimeout, LineTooLong: where the next line begins is not known any more.
            ConnectionError: the connection broke.
        """
        if self._pace is not None and (seconds := self._pace.seconds_to_wait()) > 0:
            await asyncio.sleep(seconds)
        first = await self._reader.read(1)
        if first in (b"", _NEWLINE):
            return first or None
        try:
            async with asyncio.timeout(self._limits.line_seconds):
                line = first + await self._reader.readuntil(_NEWLINE)
        except TimeoutError:
            raise IdleTimeout(
                f"A line was begun and not finished within {self._limits.line_seconds:g} seconds. "
                "Send whole lines; the connection is closed."
            ) from None
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            raise self._too_long() from None
        if len(line) > self._limits.line_bytes:
            raise self._too_long()
        return line

    async def send(self, message: Object) -> None:
        """Write a message as a line, and wait until there is room for more.

        Raises:
            ConnectionError: the connection has ended, or the other side does not read.
            InvalidRequest: the message has no form in JSON.
        """
        data = encode(message)
        if self.closing:
            raise ConnectionResetError("The connection has ended.")
        self._writer.write(data)
        if not self._buffered and not self.closing:
            return  # the system has it all: a timer for each line would cost more than the line
        try:
            async with asyncio.timeout(self._limits.write_seconds):
                await self._writer.drain()
        except TimeoutError:
            drop(self._writer)
            raise ConnectionAbortedError("The other side does not read.") from None

    @property
    def _buffered(self) -> int:
        """Bytes that the system has not taken yet."""
        return self._writer.transport.get_write_buffer_size()

    def send_at_once(self, message: Object) -> None:
        """Write a short message without waiting for room; nothing if the connection has ended."""
        if not self.closing:
            self._writer.write(encode(message))

    async def linger(self) -> None:
        """Read on for a moment: closing with unread data would take our last words back."""
        self._said_all = True
        with suppress(TimeoutError, OSError):
            self._writer.write_eof()
            async with asyncio.timeout(_LINGER_SECONDS):
                while await self._reader.read(_WRITE_BUFFER):
                    pass

    async def close(self) -> None:
        """Write what is still buffered, for at most `write_seconds`, and end the connection."""
        if self._closed:
            return  # wait_closed cannot be awaited again once it was cut short
        self._closed = True
        self._writer.close()
        try:
            async with asyncio.timeout(self._limits.write_seconds):
                await self._writer.wait_closed()
        except (TimeoutError, OSError):
            pass
        finally:
            drop(self._writer)

    def _too_long(self) -> LineTooLong:
        return LineTooLong(
            f"A line is longer than {self._limits.line_bytes} bytes. Send shorter messages; "
            "the connection is closed."
        )


def _pace(limits: Limits) -> Pace | None:
    if limits.lines_a_second is None:
        return None
    return Pace(limits.lines_a_second, limits.burst, asyncio.get_running_loop().time)
