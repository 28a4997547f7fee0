"""Lines are bounded in length and time, in both directions."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.fakes.raw_connection import RawConnection, raw_side

from tactful.errors import IdleTimeout, LineTooLong
from tactful.framing import Object
from tactful.lines import Limits, Lines, Pace, drop, open_streams

_ONE_READ_OF_ASYNCIO = 256 * 1024


@asynccontextmanager
async def _lines(
    limits: Limits,
) -> AsyncIterator[tuple[RawConnection, Lines, asyncio.StreamReader]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    reader, writer = await open_streams(theirs, limits)
    lines = Lines(reader, writer, limits)
    async with raw_side(ours) as raw:
        yield raw, lines, reader
        await lines.close()


@pytest.mark.parametrize("size", [1, 2, 63, 64])
async def test_line_within_the_limit_is_read(size: int) -> None:
    async with _lines(Limits(line_bytes=64)) as (raw, lines, _):
        line = b"x" * (size - 1) + b"\n"
        await raw.say_bytes(line * 3)
        assert [await lines.next() for _ in range(3)] == [line] * 3


@pytest.mark.parametrize(
    "line", [b"x" * size + b"\n" for size in (64, 65, 66, 5_000)] + [b"x" * 66, b"x" * 5_000]
)
async def test_line_over_the_limit_is_refused(line: bytes) -> None:
    async with _lines(Limits(line_bytes=64)) as (raw, lines, _):
        await raw.say_bytes(line)
        with pytest.raises(LineTooLong, match="64 bytes"):
            await lines.next()


def test_pace_lets_a_burst_through_and_then_so_many_a_second() -> None:
    now = 100.0
    pace = Pace(50.0, 3, lambda: now)
    assert [pace.seconds_to_wait() for _ in range(3)] == [0, 0, 0]
    assert pace.seconds_to_wait() == pytest.approx(0.02)
    now += 0.02
    assert pace.seconds_to_wait() == pytest.approx(0.02)
    now += 1_000
    assert [pace.seconds_to_wait() for _ in range(3)] == [0, 0, 0]
    assert pace.seconds_to_wait() > 0


async def test_lines_beyond_the_pace_wait_in_the_connection() -> None:
    """What is not read fills the connection, so whoever floods it waits."""
    limits = Limits(lines_a_second=1e-9, burst=2)
    async with _lines(limits) as (raw, lines, _):
        await raw.say_bytes(b"{}\n" * 3)
        assert [await lines.next() for _ in range(2)] == [b"{}\n"] * 2
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await lines.next()


async def test_nothing_is_written_after_the_last_words() -> None:
    """Whoever has something to say while the rest is read is told that the connection ended."""
    async with _lines(Limits()) as (_, lines, _), asyncio.TaskGroup() as tasks:
        lingering = tasks.create_task(lines.linger(), name="linger")
        await asyncio.sleep(0)
        assert lines.closing
        with pytest.raises(ConnectionError):
            await lines.send({"late": True})
        lines.send_at_once({"late": True})
        lingering.cancel()


async def test_endless_line_is_not_collected() -> None:
    limits = Limits(line_bytes=4096)
    async with _lines(limits) as (raw, lines, reader), asyncio.TaskGroup() as tasks:
        flood = tasks.create_task(raw.say_bytes(b"x" * 32 * 1024 * 1024), name="flood")
        with pytest.raises(LineTooLong):
            await lines.next()
        for _ in range(50):
            await asyncio.sleep(0)  # more would arrive now, if anything still read it
        held = len(getattr(reader, "_buffer"))  # noqa: B009 - not in the type
        assert held <= 2 * limits.line_bytes + _ONE_READ_OF_ASYNCIO
        assert not flood.done()
        flood.cancel()


async def test_half_a_line_and_silence_times_out() -> None:
    async with _lines(Limits(line_seconds=0.05)) as (raw, lines, _):
        await raw.say_bytes(b'{"half":')
        with pytest.raises(IdleTimeout):
            await lines.next()


async def test_silence_between_lines_does_not_time_out() -> None:
    async with _lines(Limits(line_seconds=0.01)) as (raw, lines, _):
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(lines.next(), name="next line")
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await raw.say_bytes(b"late\n")
        assert waiting.result() == b"late\n"


@pytest.mark.parametrize("last", [b"", b"half a line"])
async def test_end_of_the_connection_is_no_line(last: bytes) -> None:
    async with _lines(Limits()) as (raw, lines, _):
        await raw.say_bytes(b"one\n" + last)
        raw.finish()
        assert await lines.next() == b"one\n"
        assert await lines.next() is None


async def test_lines_of_many_writers_never_mix() -> None:
    async with _lines(Limits()) as (raw, lines, _), asyncio.TaskGroup() as tasks:
        for number in range(20):
            message: Object = {"number": number, "text": str(number) * 50_000}
            tasks.create_task(lines.send(message), name="writer")
        heard = [await raw.hear() for _ in range(20)]
    assert sorted(message["number"] for message in heard) == list(range(20))
    assert all(message["text"] == str(message["number"]) * 50_000 for message in heard)


async def test_reader_that_never_reads_is_disconnected() -> None:
    async with _lines(Limits(write_seconds=0.05)) as (raw, lines, _):
        raw.stop_reading()
        with pytest.raises(ConnectionAbortedError):
            await _send_for_ever(lines, {"text": "x" * 100_000})
        with pytest.raises(ConnectionResetError):
            await lines.send({"text": "x"})
        assert lines.closing


async def test_line_that_the_system_took_at_once_sets_no_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer is many short lines: a timer for each would cost as much as writing it."""
    loop, timers = asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def noted(when: float, *args: Any, **options: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *args, **options)

    async with _lines(Limits(write_seconds=30.0)) as (raw, lines, _):
        monkeypatch.setattr(loop, "call_at", noted)
        for number in range(20):
            await lines.send({"number": number})
        assert not timers
        monkeypatch.undo()
        assert [(await raw.hear())["number"] for _ in range(20)] == list(range(20))


async def test_line_to_a_side_that_is_gone_is_an_error() -> None:
    """Also when the end of the connection is found by writing this very line."""
    async with _lines(Limits()) as (raw, lines, _):
        raw.vanish()
        for _ in range(10):
            await asyncio.sleep(0)
        with pytest.raises(ConnectionError):
            await lines.send({"text": "x"})


async def test_waiting_writers_have_one_line_each_in_the_buffer() -> None:
    limits = Limits(write_seconds=30.0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    reader, writer = await open_streams(theirs, limits)
    lines = Lines(reader, writer, limits)
    line: Object = {"text": "x" * 10_000}
    async with raw_side(ours) as raw, asyncio.TaskGroup() as tasks:
        raw.stop_reading()
        writers = [tasks.create_task(_send_for_ever(lines, line), name="writer") for _ in range(8)]
        for _ in range(2000):
            await asyncio.sleep(0)
        assert writer.transport.get_write_buffer_size() <= 64 * 1024 + 8 * 10_100
        for task in writers:
            task.cancel()
        drop(writer)


async def _send_for_ever(lines: Lines, line: Object) -> None:
    while True:
        await lines.send(line)


async def test_closing_writes_what_is_buffered() -> None:
    async with _lines(Limits()) as (raw, lines, _), asyncio.TaskGroup() as tasks:
        for _ in range(100):
            lines.send_at_once({"text": "x" * 10_000})
        hearing = tasks.create_task(raw.hear_end(), name="hearing")
        await lines.close()
        assert (await hearing).count(b"\n") == 100


async def test_closing_does_not_wait_for_a_reader_that_never_reads() -> None:
    async with _lines(Limits(write_seconds=0.05)) as (raw, lines, _):
        raw.stop_reading()
        for _ in range(100):
            lines.send_at_once({"text": "x" * 10_000})
        await lines.close()
        assert lines.closing
