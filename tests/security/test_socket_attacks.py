"""Attacks on the daemon's sockets, each over a real socket and a real session.

What an attacker sends is planted with a marker. Whatever happens, the marker is in no log record
and in no line that comes back, and everybody else is served as before.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fakes.kept_log import KeptLog
from tests.fakes.raw_connection import RawConnection, raw_side

from tactful.owner_wire import MemoryList, MemoryOf, OwnerMethod, Remember, Remembered
from tactful.peer import Limits
from tactful.wire import Answer, AppMethod, Ask
from tactful_core.values import AppId
from tactfuld.server.session import (
    OWNER,
    Caller,
    Identity,
    Method,
    MethodTable,
    Patience,
    Session,
)
from tactfuld.server.sockets import bind_unix, release_unix, serve_socket

_MARKER = "zebra7731"
_TOKEN = "the right token"
_LIMITS = Limits(line_bytes=8192, depth=16, in_flight=4, line_seconds=0.3, write_seconds=0.3)
_PATIENCE = Patience(authenticate_seconds=30.0, refusal_seconds=0.01)
_MOST = 16


class Methods:
    """What both tables do: `ask` waits for `release` if the query is `hold`."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.cancelled: asyncio.Queue[Identity] = asyncio.Queue()

    @property
    def apps(self) -> MethodTable:
        return {AppMethod.ASK: Method(Ask, self._ask)}

    @property
    def owner(self) -> MethodTable:
        return {
            OwnerMethod.REMEMBER: Method(Remember, self._remember),
            OwnerMethod.MEMORY_LIST: Method(MemoryOf, self._memory_list),
        }

    async def _ask(self, caller: Caller, question: Ask) -> Answer:
        if question.query == "hold":
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancelled.put_nowait(caller.identity)
                raise
        if question.query == "pour":
            while True:
                await caller.progress("x" * 4000)
        if question.query == _MARKER:
            raise ValueError(f"A careless message about {question.query}")
        return Answer(text="An answer.", views=(), policy="abc")

    async def _remember(self, _caller: Caller, request: Remember) -> Remembered:
        return Remembered(positions=(1,), shelf=request.shelf[:4])

    async def _memory_list(self, _caller: Caller, _request: MemoryOf) -> MemoryList:
        return MemoryList(items=(), shelves=())


@dataclass(frozen=True, slots=True)
class Daemon:
    """A listening daemon, its methods and its log."""

    path: Path
    methods: Methods
    kept: KeptLog

    @asynccontextmanager
    async def stranger(self) -> AsyncIterator[RawConnection]:
        """A connection that is nobody's yet."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(os.fspath(self.path))
        async with raw_side(sock) as raw:
            yield raw

    @asynccontextmanager
    async def insider(self) -> AsyncIterator[RawConnection]:
        """A connection with a good token."""
        async with self.stranger() as raw:
            assert (await raw.ask("in", "authenticate", token=_TOKEN))["result"] == {}
            yield raw

    async def sound(self) -> bool:
        """Whether somebody else is served, as soon as there is room."""
        while True:
            with suppress(ConnectionError, AssertionError, KeyError):
                async with self.insider() as raw:
                    return await _answered(raw)


async def _answered(raw: RawConnection) -> bool:
    reply = await raw.ask("sound", "ask", query="dinner?")
    assert reply["id"] == "sound"
    answered: bool = reply["result"]["text"] == "An answer."
    return answered


@asynccontextmanager
async def _daemon(
    folder: Path, *, owner: bool = False, patience: Patience = _PATIENCE
) -> AsyncIterator[Daemon]:
    kept, methods = KeptLog(), Methods()
    who: Identity = OWNER if owner else AppId("meals")

    async def identify(token: str) -> Identity | None:
        return who if token == _TOKEN else None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Session(
            reader,
            writer,
            table=methods.owner if owner else methods.apps,
            authenticate=identify,
            identity=None,
            limits=_LIMITS,
            log=kept.log,
            patience=patience,
        ).run()

    path = folder / "run" / "app.sock"
    listener = await asyncio.to_thread(bind_unix, path)
    try:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(
                serve_socket(listener, serve, limits=_LIMITS, most=_MOST, log=kept.log),
                name="daemon",
            )
            try:
                yield Daemon(path, methods, kept)
            finally:
                serving.cancel()
    finally:
        await asyncio.to_thread(release_unix, listener, path)
    assert asyncio.all_tasks() == {asyncio.current_task()}


# --- a marker in every field --------------------------------------------------------------------


def _line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


_M = _MARKER
_PLANTED = {
    "no JSON": _M.encode() + b"\n",
    "half an object": b'{"jsonrpc":"2.0","id":1,"method":"' + _M.encode() + b"\n",
    "a text": b'"' + _M.encode() + b'"\n',
    "a batch": json.dumps([{"jsonrpc": "2.0", "id": 1, "method": _M}]).encode() + b"\n",
    "deep nesting": b'{"a":' + b"[" * 40 + b'"' + _M.encode() + b'"' + b"]" * 40 + b"}\n",
    "a key twice": b'{"' + _M.encode() + b'":1,"' + _M.encode() + b'":2}\n',
    "half a pair": b'{"id":"' + _M.encode() + b'\\ud800"}\n',
    "not UTF-8": b'{"id":"' + _M.encode() + b'\xff"}\n',
    "too long": b'{"id":"' + _M.encode() * 2000 + b'"}\n',
    "too long, no end": _M.encode() * 2000,
    "half a line": b'{"id":"' + _M.encode(),
    "version": b'{"jsonrpc":"' + _M.encode() + b'","id":1,"method":"ask"}\n',
    "envelope key": _line(id=1, method="ask", **{_M: 1}),
    "long id": _line(id=_M * 20, method="ask"),
    "list id": _line(id=[_M], method="ask"),
    "method": _line(id=1, method=_M),
    "method of a notification": _line(method=_M, params={"request": _M}),
    "cancelled request": _line(method="notifications/cancelled", params={"request": _M}),
    "progress of nothing": _line(method="notifications/progress", params={"text": _M}),
    "params text": _line(id=1, method="ask", params=_M),
    "params array": _line(id=1, method="ask", params=[_M]),
    "param name": _line(id=1, method="ask", params={"query": "q", _M: 1}),
    "param value": _line(id=1, method="ask", params={"query": {"text": _M}}),
    "slot name": _line(id=1, method="ask", params={"query": "q", "slots": [_M.upper()]}),
    "long query": _line(id=1, method="ask", params={"query": _M * 400}),
    "query that makes a method fail": _line(id=1, method="ask", params={"query": _M}),
    "token": _line(id=1, method="authenticate", params={"token": _M}),
    "long token": _line(id=1, method="authenticate", params={"token": _M * 40}),
    "protocol": _line(id=1, method="authenticate", params={"token": "t", "protocol": _M}),
    "result of nothing": _line(id=1, result={"text": _M}),
    "error of nothing": _line(id=None, error={"code": 1, "message": _M, "data": {"code": _M}}),
}


@pytest.mark.parametrize("known", [False, True], ids=["stranger", "insider"])
@pytest.mark.parametrize("case", _PLANTED)
async def test_planted_marker_is_neither_logged_nor_answered(
    profile_dir: Path,
    case: str,
    known: bool,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    async with _daemon(profile_dir) as daemon:
        async with daemon.insider() if known else daemon.stranger() as raw:
            with suppress(ConnectionError):
                await raw.say_bytes(_PLANTED[case])
                if not case.endswith(("half a line", "no end", "too long", "UTF-8")):
                    await raw.say(id="after", method="ask", params={"query": "dinner?"})
            await asyncio.sleep(0.01)
            raw.finish()
            heard = await raw.hear_end()
        assert await daemon.sound()
    logged = json.dumps(daemon.kept.records) + caplog.text + "".join(capfd.readouterr())
    assert _MARKER not in heard.decode().lower()
    assert _MARKER not in logged.lower()
    for line in heard.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"


async def test_marker_that_the_owner_sends_is_not_logged_either(profile_dir: Path) -> None:
    async with _daemon(profile_dir, owner=True) as daemon, daemon.insider() as raw:
        params = {"text": _MARKER, "shelf": f"food.{_MARKER}"}
        assert (await raw.ask(1, "remember", **params))["result"] == {
            "positions": [1],
            "shelf": "food",
            "warning": None,
        }
        assert "error" in await raw.ask(2, "remember", text=_MARKER * 2000, shelf="")
    assert _MARKER not in json.dumps(daemon.kept.records)


# --- reaching what is not one's own -------------------------------------------------------------


@pytest.mark.parametrize("method", [m for m in OwnerMethod if m != OwnerMethod.AUTHENTICATE])
async def test_app_calls_a_method_of_the_owner(profile_dir: Path, method: str) -> None:
    async with _daemon(profile_dir) as daemon, daemon.insider() as raw:
        reply = await raw.ask(1, method)
        assert reply["error"]["data"] == {"code": "unknown_method"}
        assert method not in reply["error"]["message"]
        assert await _answered(raw)


async def test_app_cancels_a_request_of_another_connection(profile_dir: Path) -> None:
    async with _daemon(profile_dir) as daemon, daemon.insider() as victim, daemon.insider() as raw:
        await victim.say(id=1, method="ask", params={"query": "hold"})
        for number in (1, "1", "in"):
            await raw.say(method="notifications/cancelled", params={"request": number})
        assert await _answered(raw)
        daemon.methods.release.set()
        assert (await victim.hear())["result"]["text"] == "An answer."
        assert daemon.methods.cancelled.empty()


async def test_stranger_guesses_tokens_on_one_connection(profile_dir: Path) -> None:
    async with _daemon(profile_dir) as daemon, daemon.stranger() as raw:
        for number in range(4):
            await raw.say(id=number, method="authenticate", params={"token": f"guess {number}"})
        await raw.say(id=4, method="authenticate", params={"token": _TOKEN})
        heard = [json.loads(line) for line in (await raw.hear_end()).splitlines()]
        assert all("error" in reply for reply in heard)
        assert "authenticated" not in daemon.kept.events
        assert await daemon.sound()


async def test_stranger_asks_before_authenticating_and_again_in_the_same_packet(
    profile_dir: Path,
) -> None:
    ask = _line(id=1, method="ask", params={"query": "dinner?"})
    authenticate = _line(id=2, method="authenticate", params={"token": "wrong"})
    async with _daemon(profile_dir) as daemon, daemon.stranger() as raw:
        await raw.say_bytes(ask + authenticate + ask + ask)
        heard = [json.loads(line) for line in (await raw.hear_end()).splitlines()]
        assert all(reply["error"]["data"]["code"] == "not_authenticated" for reply in heard)


# --- wearing the daemon out ---------------------------------------------------------------------


async def test_strangers_occupy_every_connection_and_say_nothing(profile_dir: Path) -> None:
    patience = Patience(authenticate_seconds=0.2, refusal_seconds=0.01)
    async with _daemon(profile_dir, patience=patience) as daemon:
        strangers = [daemon.stranger() for _ in range(_MOST)]
        raws = [await stranger.__aenter__() for stranger in strangers]
        async with daemon.stranger() as late:
            assert await late.hear_error() == (None, "busy")
        for raw in raws:
            assert await raw.hear_error() == (None, "idle_timeout")
        assert await daemon.sound()
        for stranger in strangers:
            await stranger.__aexit__(None, None, None)


async def test_insiders_begin_lines_and_never_end_them(profile_dir: Path) -> None:
    async with _daemon(profile_dir) as daemon, daemon.insider() as good:
        async with daemon.insider() as one, daemon.insider() as two:
            for raw in (one, two):
                await raw.say_bytes(b'{"jsonrpc":')
            assert await _answered(good)
            for raw in (one, two):
                assert await raw.hear_error() == (None, "idle_timeout")
        assert await _answered(good)


async def test_insider_asks_and_never_reads(profile_dir: Path) -> None:
    async with _daemon(profile_dir) as daemon, daemon.insider() as good, daemon.insider() as raw:
        raw.stop_reading()
        await raw.say(id=1, method="ask", params={"query": "pour"})
        assert await _answered(good)
        await daemon.kept.wait_for("session_ended")
        assert await _answered(good)


async def test_insider_sends_more_than_may_run(profile_dir: Path) -> None:
    async with _daemon(profile_dir) as daemon, daemon.insider() as good, daemon.insider() as raw:
        for number in range(100):
            await raw.say(id=number, method="ask", params={"query": "hold"})
        for number in range(4, 100):
            assert await raw.hear_error() == (number, "busy")
        assert await _answered(good)
        daemon.methods.release.set()
        assert {(await raw.hear())["id"] for _ in range(4)} == {0, 1, 2, 3}
        assert await _answered(raw)


async def test_flood_of_nonsense_does_not_hold_up_others(profile_dir: Path) -> None:
    flood = 5_000
    async with _daemon(profile_dir) as daemon, daemon.insider() as good, daemon.insider() as raw:
        async with asyncio.TaskGroup() as tasks:
            draining = tasks.create_task(raw.hear_end(), name="draining")
            flooding = tasks.create_task(raw.say_bytes(b"x\n" * flood), name="flooding")
            await daemon.kept.wait_for("line_refused")
            assert await _answered(good)
            assert daemon.kept.events.count("line_refused") < flood
            await flooding
            raw.finish()
            await draining
        assert await _answered(good)


async def test_thousand_quick_connections(profile_dir: Path) -> None:
    async with _daemon(profile_dir) as daemon:
        for number in range(1000):
            async with daemon.stranger() as raw:
                if number % 3 == 1:
                    raw.vanish()
                elif number % 3 == 2:
                    await raw.say_bytes(b'{"jsonrpc":')
        assert await daemon.sound()


async def test_insider_vanishes_while_requests_run(profile_dir: Path) -> None:
    async with _daemon(profile_dir) as daemon:
        async with daemon.insider() as raw:
            for number in range(4):
                await raw.say(id=number, method="ask", params={"query": "hold"})
            await raw.say(id=4, method="ask", params={"query": "hold"})
            assert await raw.hear_error() == (4, "busy")
            raw.vanish()
        for _ in range(4):
            assert await daemon.methods.cancelled.get() == AppId("meals")
        assert await daemon.sound()
