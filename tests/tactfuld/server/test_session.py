"""A session answers nobody before they are known, and then only their own methods."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.fakes.kept_log import KeptLog
from tests.fakes.raw_connection import RawConnection, raw_side

from tactful.errors import NotFound
from tactful.lines import drop
from tactful.peer import Limits, open_streams
from tactful.wire import Ask, Empty, Event, EventKind, Message
from tactful_core.values import AppId
from tactfuld.server.session import (
    OWNER,
    Authenticator,
    Caller,
    Identity,
    Method,
    MethodTable,
    Patience,
    Session,
)

_LIMITS = Limits(line_bytes=4096, in_flight=4, line_seconds=5.0, write_seconds=1.0)
_PATIENCE = Patience(authenticate_seconds=30.0, refusal_seconds=0.01)


class Words(Message):
    """A reply of the methods below."""

    text: str


async def _who(caller: Caller, _request: Empty) -> Words:
    return Words(text="owner" if caller.identity is OWNER else str(caller.identity))


async def _ask(caller: Caller, question: Ask) -> Words:
    await caller.progress("pie")
    return Words(text=f"{caller.request_id}: {question.query}")


async def _explode(_caller: Caller, _request: Empty) -> Words:
    raise ValueError("zebra")


async def _refuse(_caller: Caller, _request: Empty) -> Words:
    raise NotFound("There is no such thing. Name another.")


_TABLE: MethodTable = {
    "who": Method(Empty, _who),
    "ask": Method(Ask, _ask),
    "explode": Method(Empty, _explode),
    "refuse": Method(Empty, _refuse),
}

_TOKENS: dict[str, Identity] = {"owner's": OWNER, "meals'": AppId("meals")}


async def _known(token: str) -> Identity | None:
    return _TOKENS.get(token)


@asynccontextmanager
async def _session(
    *,
    authenticate: Authenticator | None = _known,
    identity: Identity | None = None,
    patience: Patience = _PATIENCE,
) -> AsyncIterator[tuple[RawConnection, KeptLog, Session]]:
    kept = KeptLog()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    session = Session(
        *await open_streams(theirs, _LIMITS),
        table=_TABLE,
        authenticate=authenticate,
        identity=identity,
        limits=_LIMITS,
        log=kept.log,
        patience=patience,
    )
    async with raw_side(ours) as raw, asyncio.TaskGroup() as tasks:
        tasks.create_task(session.run(), name="session")
        try:
            yield raw, kept, session
        finally:
            session.peer.end()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def _authenticated(raw: RawConnection, token: str = "meals'") -> bool:
    reply = await raw.ask("auth", "authenticate", token=token)
    return reply == {"jsonrpc": "2.0", "id": "auth", "result": {}}


def _code(reply: dict[str, Any]) -> str:
    code: str = reply["error"]["data"]["code"]
    return code


# --- before anybody is known --------------------------------------------------------------------


@pytest.mark.parametrize("method", ["who", "ask", "no_such_method", ""])
async def test_nothing_but_authenticate_is_answered_first(method: str) -> None:
    async with _session() as (raw, _, _rest):
        assert _code(await raw.ask(1, method)) == "not_authenticated"
        assert await _authenticated(raw)
        assert (await raw.ask(2, "who"))["result"] == {"text": "meals"}


async def test_request_sent_along_with_authenticate_does_not_slip_through() -> None:
    gate = asyncio.Event()

    async def slow(token: str) -> Identity | None:
        await gate.wait()
        return await _known(token)

    async with _session(authenticate=slow) as (raw, _, _rest):
        await raw.say(id=1, method="authenticate", params={"token": "meals'"})
        assert _code(await raw.ask(2, "who")) == "not_authenticated"
        gate.set()
        assert (await raw.hear())["result"] == {}


@pytest.mark.parametrize("token", ["wrong", "meals", "meals' ", "MEALS'", "x" * 200])
async def test_wrong_token_is_refused_and_ends_the_connection(token: str) -> None:
    async with _session() as (raw, kept, _rest):
        assert _code(await raw.ask(1, "authenticate", token=token)) == "not_authenticated"
        assert await raw.hear_end() == b""
        raw.finish()
    assert "authenticated" not in kept.events


async def test_wrong_token_cannot_be_followed_by_another_while_it_waits() -> None:
    async with _session(patience=Patience(30.0, refusal_seconds=0.2)) as (raw, _, _rest):
        await raw.say(id=1, method="authenticate", params={"token": "wrong"})
        assert _code(await raw.ask(2, "authenticate", token="meals'")) == "invalid_request"
        assert _code(await raw.ask(3, "who")) == "not_authenticated"
        assert await raw.hear_error() == (1, "not_authenticated")
        assert await raw.hear_end() == b""


async def test_cancelling_the_wait_of_a_wrong_token_ends_the_connection_all_the_same() -> None:
    async with _session(patience=Patience(30.0, refusal_seconds=30.0)) as (raw, _, _rest):
        await raw.say(id=1, method="authenticate", params={"token": "wrong"})
        await raw.say(method="notifications/cancelled", params={"request": 1})
        assert await raw.hear_error() == (1, "cancelled")
        assert await raw.hear_end() == b""


@pytest.mark.parametrize(
    "params", [{}, {"token": ""}, {"token": 5}, {"token": "x" * 201}, {"token": "a", "zebra": 1}]
)
async def test_malformed_authenticate_is_no_attempt(params: dict[str, object]) -> None:
    async with _session() as (raw, _, _rest):
        reply = await raw.ask(1, "authenticate", **params)
        assert _code(reply) == "invalid_params"
        assert "zebra" not in str(reply)
        assert await _authenticated(raw)


async def test_another_version_of_the_protocol_is_refused() -> None:
    async with _session() as (raw, _, _rest):
        reply = await raw.ask(1, "authenticate", token="meals'", protocol=2)
        assert _code(reply) == "invalid_params"
        assert "`protocol`" in reply["error"]["message"]


async def test_nobody_stays_unknown_for_long() -> None:
    patience = Patience(authenticate_seconds=0.05, refusal_seconds=0.01)
    async with _session(patience=patience) as (raw, kept, _rest):
        assert _code(await raw.ask(1, "who")) == "not_authenticated"
        assert await raw.hear_error() == (None, "idle_timeout")
        assert await raw.hear_end() == b""
        raw.finish()
    assert "authentication_timed_out" in kept.events


async def test_whoever_is_known_may_be_silent_for_longer() -> None:
    patience = Patience(authenticate_seconds=0.05, refusal_seconds=0.01)
    async with _session(patience=patience) as (raw, _, _rest):
        assert await _authenticated(raw)
        await asyncio.sleep(0.15)
        assert (await raw.ask(1, "who"))["result"] == {"text": "meals"}


# --- methods ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("token", "name"), [("owner's", "owner"), ("meals'", "meals")])
async def test_methods_are_told_who_calls(token: str, name: str) -> None:
    async with _session() as (raw, _, _rest):
        assert await _authenticated(raw, token)
        assert (await raw.ask(1, "who"))["result"] == {"text": name}


async def test_identity_is_fixed_once() -> None:
    async with _session() as (raw, _, _rest):
        assert await _authenticated(raw)
        assert _code(await raw.ask(1, "authenticate", token="owner's")) == "invalid_request"
        assert (await raw.ask(2, "who"))["result"] == {"text": "meals"}


async def test_progress_belongs_to_the_request() -> None:
    async with _session() as (raw, _, _rest):
        assert await _authenticated(raw)
        await raw.say(id="q", method="ask", params={"query": "dinner?"})
        assert (await raw.hear())["params"] == {"request": "q", "text": "pie"}
        assert (await raw.hear())["result"] == {"text": "q: dinner?"}


async def test_unknown_method_is_refused_with_the_names_there_are() -> None:
    async with _session() as (raw, kept, _rest):
        assert await _authenticated(raw)
        reply = await raw.ask(1, "memory.zebra")
        assert _code(reply) == "unknown_method"
        assert "ask, explode, refuse, who" in reply["error"]["message"]
        assert "zebra" not in reply["error"]["message"]
        assert kept.records[-1] == {
            "event": "request_refused",
            "level": "info",
            "identity": "meals",
            "method": "unknown",
            "code": "unknown_method",
        }


@pytest.mark.parametrize(
    "params",
    [{}, {"query": ""}, {"query": "x" * 2001}, {"query": 5}, {"query": "a", "zebra": "b"}],
)
async def test_wrong_params_are_refused_by_field(params: dict[str, object]) -> None:
    async with _session() as (raw, _, _rest):
        assert await _authenticated(raw)
        reply = await raw.ask(1, "ask", **params)
        assert _code(reply) == "invalid_params"
        assert "`query`" in reply["error"]["message"]
        assert "zebra" not in str(reply)


async def test_named_error_of_a_method_is_the_answer() -> None:
    async with _session() as (raw, _, _rest):
        assert await _authenticated(raw)
        assert _code(await raw.ask(1, "refuse")) == "not_found"


async def test_defect_of_a_method_is_logged_by_place_and_never_by_text() -> None:
    async with _session() as (raw, kept, _rest):
        assert await _authenticated(raw)
        reply = await raw.ask(1, "explode")
        assert _code(reply) == "internal_error"
        assert "zebra" not in str(reply)
        record = kept.records[-1]
        assert record["event"] == "request_failed"
        assert record["method"] == "explode"
        assert record["error"].startswith("ValueError:test_session.py:")


# --- hosted apps --------------------------------------------------------------------------------


async def test_hosted_connection_is_its_identity() -> None:
    async with _session(authenticate=None, identity=AppId("meals")) as (raw, _, _rest):
        assert (await raw.ask(1, "who"))["result"] == {"text": "meals"}
        assert _code(await raw.ask(2, "authenticate", token="owner's")) == "unknown_method"
        assert (await raw.ask(3, "who"))["result"] == {"text": "meals"}


async def test_hosted_app_can_be_called() -> None:
    async with (
        _session(authenticate=None, identity=AppId("meals")) as (raw, _, session),
        asyncio.TaskGroup() as tasks,
    ):
        event = Event(kind=EventKind.MESSAGE, text="hello")
        calling = tasks.create_task(session.peer.call("event", event, Empty), name="event")
        request = await raw.hear()
        assert Event.model_validate(request["params"]) == event
        await raw.say(id=request["id"], result={})
        assert await calling == Empty()


async def test_session_has_exactly_one_way_to_an_identity() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    async with raw_side(ours):
        reader, writer = await open_streams(theirs, _LIMITS)
        for authenticate, identity in [(_known, AppId("meals")), (None, None)]:
            with pytest.raises(ValueError, match="identity"):
                Session(
                    reader,
                    writer,
                    table=_TABLE,
                    authenticate=authenticate,
                    identity=identity,
                    limits=_LIMITS,
                    log=KeptLog().log,
                )
        drop(writer)
        await writer.wait_closed()
