"""A peer answers, asks and cancels by the rules, and stays sound whatever the other side sends."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.raw_connection import RawConnection, connected, raw_side

from tactful.errors import (
    Busy,
    Cancelled,
    DaemonDown,
    IdleTimeout,
    InternalError,
    NotFound,
    ShuttingDown,
    TactfulError,
)
from tactful.peer import Call, Limits, Peer, open_streams
from tactful.wire import Ask, Empty, Message, Progress

_LIMITS = Limits(line_bytes=4096, depth=8, in_flight=3, line_seconds=0.1, write_seconds=0.5)


class Words(Message):
    """A reply of the handlers below."""

    text: str


class Handlers:
    """Methods by name; `waiting` requests end when `release` is set."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.started: asyncio.Queue[object] = asyncio.Queue()
        self.cancelled: list[object] = []

    async def __call__(self, call: Call) -> Message:
        method: Callable[[Call], Any] = getattr(self, call.method)
        reply: Message = await method(call)
        return reply

    async def echo(self, call: Call) -> Message:
        return Words(text=str(call.params.get("text")))

    async def wait(self, call: Call) -> Message:
        self.started.put_nowait(call.id)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.append(call.id)
            raise
        return Words(text="waited")

    async def stubborn(self, call: Call) -> Message:
        self.started.put_nowait(call.id)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            return Words(text="finished all the same")
        return Words(text="waited")

    async def fail(self, _call: Call) -> Message:
        raise ValueError("zebra")

    async def refuse(self, _call: Call) -> Message:
        raise NotFound("There is no such thing. Name another.")

    async def refuse_in_group(self, call: Call) -> Message:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.refuse(call), name="refusing")
        return Empty()

    async def leak_cancellation(self, _call: Call) -> Message:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        return Empty()

    async def time_out(self, _call: Call) -> Message:
        async with asyncio.timeout(0):
            await self.release.wait()
        return Empty()

    async def stream(self, call: Call) -> Message:
        for piece in ("one ", "two ", "three"):
            await call.progress(piece)
        return Words(text="one two three")

    async def pour(self, call: Call) -> Message:
        self.started.put_nowait(call.id)
        try:
            while True:
                await call.progress("x" * 3000)
        finally:
            self.cancelled.append(call.id)

    async def farewell(self, call: Call) -> Message:
        call.ends_connection = True
        return Words(text="bye")


async def _sound(raw: RawConnection) -> bool:
    """Whether the next request is answered, and with nothing before it."""
    reply = await raw.ask("sound?", "echo", text="yes")
    return reply == {"jsonrpc": "2.0", "id": "sound?", "result": {"text": "yes"}}


def _no_other_tasks() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, -5, 2**53 - 1, "", "an id", "ä😀"])
async def test_request_is_answered_under_its_id(number: int | str) -> None:
    async with connected(Handlers(), _LIMITS) as (raw, _):
        reply = await raw.ask(number, "echo", text="hello")
        assert reply == {"jsonrpc": "2.0", "id": number, "result": {"text": "hello"}}


async def test_notification_is_never_answered() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, _):
        for method in ("echo", "fail", "nothing", "notifications/other"):
            await raw.say(method=method, params={"text": "x"})
        await raw.say(method="echo", params=[1])
        assert await _sound(raw)


async def test_requests_run_at_the_same_time() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, _):
        await raw.say(id=1, method="wait")
        assert await _sound(raw)
        handlers.release.set()
        assert (await raw.hear())["id"] == 1


async def test_progress_names_the_request_and_comes_before_the_reply() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, _):
        await raw.say(id="s", method="stream")
        for piece in ("one ", "two ", "three"):
            notice = await raw.hear()
            assert notice["method"] == "notifications/progress"
            assert notice["params"] == {"request": "s", "text": piece}
        assert (await raw.hear())["result"] == {"text": "one two three"}


async def test_reply_can_end_the_connection() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, _):
        assert (await raw.ask(1, "farewell"))["result"] == {"text": "bye"}
        assert await raw.hear_end() == b""


# --- failing handlers ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["refuse", "refuse_in_group"])
async def test_named_error_of_a_handler_is_the_answer(method: str) -> None:
    async with connected(Handlers(), _LIMITS) as (raw, _):
        reply = await raw.ask(1, method)
        assert reply["error"]["code"] == -32009
        assert reply["error"]["data"] == {"code": "not_found"}
        assert reply["error"]["message"] == "There is no such thing. Name another."
        assert await _sound(raw)


@pytest.mark.parametrize("method", ["fail", "leak_cancellation", "time_out", "no_such_attribute"])
async def test_defect_of_a_handler_is_answered_without_its_text(method: str) -> None:
    defects: list[tuple[str, str]] = []

    def note(where: str, error: BaseException) -> None:
        defects.append((where, type(error).__name__))

    handlers = Handlers()
    async with connected(handlers, _LIMITS, on_defect=note) as (raw, _):
        await raw.say(id="other", method="wait")
        await handlers.started.get()
        reply = await raw.ask(1, method)
        assert reply["error"]["data"] == {"code": "internal_error"}
        assert "zebra" not in str(reply)
        assert await _sound(raw)
        handlers.release.set()
        assert (await raw.hear())["result"] == {"text": "waited"}
    assert [where for where, _ in defects] == [method]


# --- malformed lines ----------------------------------------------------------------------------

_REFUSED_LINES = {
    "not JSON": (b"zebra", None, "parse_error"),
    "empty": (b"", None, "parse_error"),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"echo"}]', None, "invalid_request"),
    "an empty batch": (b"[]", None, "invalid_request"),
    "a number": (b"5", None, "invalid_request"),
    "too deep": (b'{"jsonrpc":"2.0","id":1,"params":' + b"[" * 3000, None, "invalid_request"),
    "NaN": (b'{"jsonrpc":"2.0","id":NaN,"method":"echo"}', None, "parse_error"),
    "Infinity": (b'{"jsonrpc":"2.0","id":-Infinity,"method":"echo"}', None, "parse_error"),
    "a huge integer": (b'{"id":1' + b"0" * 3000 + b"}", None, "invalid_request"),
    "a huge number": (b'{"id":1e999}', None, "invalid_request"),
    "a key twice": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"echo"}', None, "invalid_request"),
    "half a pair": (b'{"jsonrpc":"2.0","id":"\\ud800","method":"e"}', None, "invalid_request"),
    "id true": (b'{"jsonrpc":"2.0","id":true,"method":"echo"}', None, "invalid_request"),
    "id null": (b'{"jsonrpc":"2.0","id":null,"method":"echo"}', None, "invalid_request"),
    "id 1.0": (b'{"jsonrpc":"2.0","id":1.0,"method":"echo"}', None, "invalid_request"),
    "no version": (b'{"id":7,"method":"echo"}', 7, "invalid_request"),
    "another version": (b'{"jsonrpc":"1.0","id":7,"method":"echo"}', 7, "invalid_request"),
    "another key": (b'{"jsonrpc":"2.0","id":7,"method":"echo","x":1}', 7, "invalid_request"),
    "no method": (b'{"jsonrpc":"2.0","id":7}', 7, "invalid_request"),
    "method 5": (b'{"jsonrpc":"2.0","id":7,"method":5}', 7, "invalid_request"),
    "params text": (b'{"jsonrpc":"2.0","id":7,"method":"echo","params":"x"}', 7, "invalid_request"),
    "params array": (b'{"jsonrpc":"2.0","id":7,"method":"echo","params":[1]}', 7, "invalid_params"),
}


@pytest.mark.parametrize("case", _REFUSED_LINES)
async def test_refused_line_leaves_the_connection_sound(case: str) -> None:
    line, number, code = _REFUSED_LINES[case]
    handlers, refused = Handlers(), list[tuple[str, int]]()

    def note(error_code: str, size: int) -> None:
        refused.append((error_code, size))

    async with connected(handlers, _LIMITS, on_refusal=note) as (raw, _):
        await raw.say(id="other", method="wait")
        await raw.say_bytes(line + b"\n")
        assert await raw.hear_error() == (number, code)
        assert await _sound(raw)
        handlers.release.set()
        assert (await raw.hear())["id"] == "other"
    assert refused == [(code, len(line) + 1)]


_FATAL_LINES = {
    "too long": (b"x" * 4096 + b"\n", "line_too_long"),
    "too long, no end": (b"x" * 1_000_000, "line_too_long"),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}\n', "parse_error"),
    "half a line": (b'{"jsonrpc":', "idle_timeout"),
}


@pytest.mark.parametrize("case", _FATAL_LINES)
async def test_line_without_a_sure_end_ends_the_connection(case: str) -> None:
    data, code = _FATAL_LINES[case]
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, peer):
        await raw.say(id="other", method="wait")
        await handlers.started.get()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_say_what_fits(raw, data), name="sender")
            # What was running is told why, then everybody.
            assert await raw.hear_error() == ("other", code)
            assert await raw.hear_error() == (None, code)
            assert await raw.hear_end() == b""
            raw.finish()
        await peer.wait_ended()
    assert handlers.cancelled == ["other"]


async def _say_what_fits(raw: RawConnection, data: bytes) -> None:
    await raw.say_bytes(data)


async def test_half_a_line_and_the_end_is_not_answered() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer):
        await raw.say_bytes(b'{"jsonrpc":')
        raw.finish()
        assert await raw.hear_end() == b""
        await peer.wait_ended()


# --- ids and limits -----------------------------------------------------------------------------


async def test_id_in_flight_twice_is_refused_and_the_first_is_answered_once() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, _):
        await raw.say(id=1, method="wait")
        await raw.say(id=1, method="echo")
        assert await raw.hear_error() == (None, "invalid_request")
        assert await _sound(raw)
        handlers.release.set()
        assert await raw.hear() == {"jsonrpc": "2.0", "id": 1, "result": {"text": "waited"}}
        assert await _sound(raw)


async def test_text_and_integer_ids_are_different_ids() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, _):
        await raw.say(id=1, method="wait")
        await raw.say(id="1", method="wait")
        handlers.release.set()
        assert {(await raw.hear())["id"], (await raw.hear())["id"]} == {1, "1"}


async def test_id_can_be_used_again_after_its_reply() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, _):
        for _ in range(20):
            assert (await raw.ask(1, "echo", text="x"))["id"] == 1


async def test_request_over_the_limit_is_busy_and_does_not_wait() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, _):
        for number in range(3):
            await raw.say(id=number, method="wait")
        await raw.say(id=3, method="echo")
        assert await raw.hear_error() == (3, "busy")
        handlers.release.set()
        assert {(await raw.hear())["id"] for _ in range(3)} == {0, 1, 2}
        assert await _sound(raw)


# --- cancellation -------------------------------------------------------------------------------


async def test_cancelled_request_is_answered_as_cancelled() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, _):
        await raw.say(id=1, method="wait")
        await handlers.started.get()
        await raw.say(method="notifications/cancelled", params={"request": 1})
        assert await raw.hear_error() == (1, "cancelled")
        assert handlers.cancelled == [1]
        assert await _sound(raw)


async def test_cancelling_in_the_same_breath_is_answered_once() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, _):
        await raw.say_bytes(
            b'{"jsonrpc":"2.0","id":1,"method":"wait"}\n'
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"request":1}}\n'
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"request":1}}\n'
        )
        assert await raw.hear_error() == (1, "cancelled")
        assert await _sound(raw)


async def test_cancelling_after_the_reply_is_ignored() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, _):
        assert (await raw.ask(1, "echo", text="x"))["result"] == {"text": "x"}
        await raw.say(method="notifications/cancelled", params={"request": 1})
        assert await _sound(raw)


async def test_result_that_a_cancelled_handler_returns_stands() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, _):
        await raw.say(id=1, method="stubborn")
        await handlers.started.get()
        await raw.say(method="notifications/cancelled", params={"request": 1})
        assert (await raw.hear())["result"] == {"text": "finished all the same"}
        assert await _sound(raw)


@pytest.mark.parametrize(
    "params", [{"request": 99}, {"request": True}, {"request": 1.0}, {"request": [1]}, {}, []]
)
async def test_cancelling_what_is_not_known_cancels_nothing(params: object) -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, _):
        await raw.say(id=1, method="wait")
        await handlers.started.get()
        await raw.say(method="notifications/cancelled", params=params)
        assert await _sound(raw)
        handlers.release.set()
        assert (await raw.hear())["result"] == {"text": "waited"}


# --- calls of our own ---------------------------------------------------------------------------


async def test_call_returns_the_typed_reply() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(peer.call("ask", Ask(query="q"), Words), name="call")
        request = await raw.hear()
        assert request["method"] == "ask"
        assert request["params"] == {
            "query": "q",
            "slots": None,
            "thread": None,
            "detail": "views",
        }
        await raw.say(id=request["id"], result={"text": "answer"})
        assert await calling == Words(text="answer")


async def test_call_raises_the_named_error() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(_failure(peer.call("ask", Empty(), Words)), name="call")
        request = await raw.hear()
        error = {"code": -32003, "message": "Later.", "data": {"code": "busy"}}
        await raw.say(id=request["id"], error=error)
        failure = await calling
        assert isinstance(failure, Busy)
        assert str(failure) == "Later."


@pytest.mark.parametrize(
    "result", [{}, {"text": 5}, {"text": "zebra", "zebra": 1}, "zebra", None, []]
)
async def test_reply_of_another_type_is_an_internal_error(result: object) -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(_failure(peer.call("ask", Empty(), Words)), name="call")
        request = await raw.hear()
        await raw.say(id=request["id"], result=result)
        failure = await calling
        assert isinstance(failure, InternalError)
        assert "zebra" not in str(failure)


async def test_notifications_reach_the_call_they_name_in_order() -> None:
    heard: dict[str, list[object]] = {"a": [], "b": []}
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calls, numbers = {}, {}
        for name, pieces in heard.items():

            def note(_method: str, params: dict[str, Any], pieces: list[Any] = pieces) -> None:
                pieces.append(params["text"])

            calling = peer.call("ask", Ask(query=name), Words, on_notification=note)
            calls[name] = tasks.create_task(calling, name=name)
            numbers[name] = (await raw.hear())["id"]
        for name, text in [("b", "1"), ("a", "2"), ("b", "3"), ("a", "4")]:
            params = {"request": numbers[name], "text": text}
            await raw.say(method="notifications/progress", params=params)
        for number in (True, 99, "x", None):
            params = {"request": number, "text": "stray"}
            await raw.say(method="notifications/progress", params=params)
        for name, number in numbers.items():
            await raw.say(id=number, result={"text": name})
        await raw.say(method="notifications/progress", params={"request": 1, "text": "late"})
        assert await calls["a"] == Words(text="a")
        assert await calls["b"] == Words(text="b")
    assert heard == {"a": ["2", "4"], "b": ["1", "3"]}


async def test_failing_listener_fails_its_own_call_only() -> None:
    def explode(_method: str, _params: object) -> None:
        raise KeyError("the caller's own")

    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calling = peer.call("ask", Empty(), Words, on_notification=explode)
        task = tasks.create_task(_failure(calling), name="call")
        number = (await raw.hear())["id"]
        await raw.say(method="notifications/progress", params={"request": number, "text": "x"})
        assert isinstance(await task, KeyError)
        assert (await raw.hear())["params"] == {"request": number}
        assert await _sound(raw)


async def test_cancelling_the_caller_tells_the_other_side() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(peer.call("ask", Empty(), Words), name="call")
        number = (await raw.hear())["id"]
        calling.cancel()
        notice = await raw.hear()
        assert notice["method"] == "notifications/cancelled"
        assert notice["params"] == {"request": number}
        error = {"code": -32005, "message": "x", "data": {"code": "cancelled"}}
        await raw.say(id=number, error=error)
        assert await _sound(raw)


async def test_answered_call_is_not_withdrawn() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        tasks.create_task(peer.call("ask", Empty(), Words), name="call")
        await raw.say(id=(await raw.hear())["id"], result={"text": "x"})
        assert await _sound(raw)


async def test_call_without_a_reply_times_out_and_is_withdrawn() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer):
        with pytest.raises(IdleTimeout, match="`ask`"):
            await peer.call("ask", Empty(), Words, timeout=0.05)
        number = (await raw.hear())["id"]
        assert (await raw.hear())["params"] == {"request": number}
        assert await _sound(raw)


@pytest.mark.parametrize("number", [1, 99, "x", True])
async def test_reply_to_a_call_never_made_is_ignored(number: object) -> None:
    async with connected(Handlers(), _LIMITS) as (raw, _):
        await raw.say(id=number, result={"text": "zebra"})
        await raw.say(id=number, error={"code": 1, "message": "zebra"})
        await raw.say(id=None, error={"code": 1, "message": "zebra"})
        await raw.say(id=None, result={})
        assert await _sound(raw)


async def test_second_reply_is_ignored() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(peer.call("ask", Empty(), Words), name="call")
        number = (await raw.hear())["id"]
        await raw.say(id=number, result={"text": "first"})
        await raw.say(id=number, result={"text": "second"})
        assert await calling == Words(text="first")
        assert await _sound(raw)


async def test_error_without_id_fails_the_calls_that_wait() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(_failure(peer.call("ask", Empty(), Words)), name="call")
        await raw.hear()
        error = {"code": -32011, "message": "Stopping.", "data": {"code": "shutting_down"}}
        await raw.say(id=None, error=error)
        assert isinstance(await calling, ShuttingDown)


async def test_end_of_the_connection_fails_calls_by_name() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(_failure(peer.call("ask", Empty(), Words)), name="call")
        await raw.hear()
        raw.vanish()
        failure = await calling
        assert isinstance(failure, DaemonDown)
        assert "the tester" in str(failure)
        assert isinstance(await _failure(peer.call("ask", Empty(), Words)), DaemonDown)
        await peer.wait_ended()
        with pytest.raises(DaemonDown):
            await peer.notify("notifications/progress", Progress(request=1, text="x"))


async def test_gone_names_the_error_of_a_lost_connection() -> None:
    async with connected(Handlers(), _LIMITS, gone=Cancelled) as (raw, peer):
        raw.vanish()
        await peer.wait_ended()
        with pytest.raises(Cancelled):
            await peer.call("ask", Empty(), Words)


async def test_both_sides_can_ask_at_once() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(peer.call("ask", Empty(), Words), name="call")
        number = (await raw.hear())["id"]
        assert (await raw.ask(number, "echo", text="same id"))["result"] == {"text": "same id"}
        await raw.say(id=number, result={"text": "theirs"})
        assert await calling == Words(text="theirs")


async def _failure(call: Any) -> Exception:
    try:
        await call
    except Exception as error:  # noqa: BLE001 - the tests look at it
        return error
    raise AssertionError("The call should have failed.")


# --- the end ------------------------------------------------------------------------------------


async def test_vanishing_cancels_everything_and_leaves_no_task() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, peer):
        for number in range(3):
            await raw.say(id=number, method="wait")
            await handlers.started.get()
        raw.vanish()
        await peer.wait_ended()
        assert sorted(map(int, map(str, handlers.cancelled))) == [0, 1, 2]
    assert _no_other_tasks()


async def test_closing_tells_what_is_running_and_then_everybody_why() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, peer):
        await raw.say(id=1, method="wait")
        await handlers.started.get()
        async with asyncio.TaskGroup() as tasks:
            reason = ShuttingDown("The daemon is stopping. Try again later.")
            tasks.create_task(peer.close(reason), name="close")
            assert await raw.hear_error() == (1, "shutting_down")
            assert await raw.hear_error() == (None, "shutting_down")
            assert await raw.hear_end() == b""
            raw.finish()
        assert handlers.cancelled == [1]


async def test_closing_without_a_reason_just_ends() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer):
        await peer.close()
        assert await raw.hear_end() == b""
        await peer.close()


async def test_cancelling_the_peer_says_that_it_stops_and_leaves_no_task() -> None:
    handlers = Handlers()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    async with raw_side(ours) as raw:
        peer = Peer(*await open_streams(theirs, _LIMITS), handlers, _LIMITS, name="the tester")
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(peer.run(), name="running")
            await raw.say(id=1, method="wait")
            await handlers.started.get()
            running.cancel()
        assert await raw.hear_error() == (1, "shutting_down")
        assert await raw.hear_error() == (None, "shutting_down")
        assert await raw.hear_end() == b""
    assert running.cancelled()
    assert handlers.cancelled == [1]
    assert _no_other_tasks()


async def test_peer_that_never_ran_can_be_closed() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    async with raw_side(ours) as raw:
        peer = Peer(*await open_streams(theirs, _LIMITS), Handlers(), _LIMITS, name="the tester")
        await peer.close()
        await peer.run()
        assert await raw.hear_end() == b""


async def test_running_block_that_is_cancelled_at_once_closes_the_connection() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    async with raw_side(ours) as raw:
        peer = Peer(*await open_streams(theirs, _LIMITS), Handlers(), _LIMITS, name="the tester")
        with pytest.raises(asyncio.CancelledError):
            async with peer.running():
                raise asyncio.CancelledError
        assert await raw.hear_end() == b""


async def test_error_inside_the_running_block_comes_out_as_it_is() -> None:
    with pytest.raises(TactfulError, match="as it is"):
        async with connected(Handlers(), _LIMITS):
            raise NotFound("Here it is as it is.")
    assert _no_other_tasks()


async def test_client_that_never_reads_answers_is_disconnected() -> None:
    handlers = Handlers()
    async with connected(handlers, _LIMITS) as (raw, peer):
        raw.stop_reading()
        await raw.say(id=1, method="pour")
        await peer.wait_ended()
    assert handlers.cancelled == [1]
    assert _no_other_tasks()


async def test_client_that_never_reads_refusals_is_no_longer_heard() -> None:
    async with connected(Handlers(), _LIMITS) as (raw, peer), asyncio.TaskGroup() as tasks:
        raw.stop_reading()
        flood = tasks.create_task(raw.say_bytes(b"zebra\n" * 2_000_000), name="flood")
        await peer.wait_ended()
        flood.cancel()
