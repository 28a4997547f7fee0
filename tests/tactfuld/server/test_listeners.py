"""Who is who on a socket: the owner by a secret, programs by tokens, hosted apps by connection."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_site import (
    GUEST,
    MEALS,
    Site,
    dialled,
    hosting_apps,
    listening,
    site,
    until,
)
from tests.fakes.raw_connection import RawConnection, raw_side
from tests.fakes.recording_engine import RecordingEngine

from tactful.peer import Limits, open_streams
from tactful.wire import Empty, Event, EventKind, HostedMethod
from tactfuld.server import listeners
from tactfuld.server.listeners import APP_LIMITS, MOST_CONNECTIONS, OWNER_LIMITS, write_owner_secret
from tactfuld.server.session import Patience, Session

DOCUMENT = Path(__file__).parents[3] / "docs" / "protocol.md"


@pytest.fixture
def hold() -> asyncio.Event:
    """Set to let answers begin."""
    return asyncio.Event()


@asynccontextmanager
async def open_site(folder: Path, engine: RecordingEngine | None = None) -> AsyncIterator[Site]:
    """A site with both sockets served."""
    async with site(folder, engine=engine) as at, hosting_apps(at) as host, listening(at, host):
        yield at


async def known(raw: RawConnection, token: str) -> dict[str, Any]:
    return await raw.ask("in", "authenticate", token=token)


def code(reply: dict[str, Any]) -> str:
    found: str = reply["error"]["data"]["code"]
    return found


# --- the owner's secret -------------------------------------------------------------------------


def test_owner_secret_is_in_a_private_file_and_new_each_time(tmp_path: Path) -> None:
    path = tmp_path / "owner.secret"
    secrets = {write_owner_secret(path) for _ in range(8)}
    assert len(secrets) == 8
    assert path.read_text() in secrets
    assert path.stat().st_mode & 0o777 == 0o600
    assert all(len(secret) == 43 for secret in secrets)  # 256 bits
    assert [entry.name for entry in tmp_path.iterdir()] == ["owner.secret"]


def test_owner_secret_replaces_what_was_left_behind(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "owner.secret", tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    path.write_text("old")
    path.chmod(0o644)
    (tmp_path / "owner.secret.new").symlink_to(elsewhere)
    secret = write_owner_secret(path)
    assert path.read_text() == secret
    assert path.stat().st_mode & 0o777 == 0o600
    assert elsewhere.read_text() == "untouched"


async def test_owner_is_known_by_the_secret_in_the_file(profile_dir: Path) -> None:
    async with open_site(profile_dir) as at, dialled(at.profile.owner_socket) as raw:
        secret = at.profile.owner_secret_file.read_text()
        assert (await known(raw, secret))["result"] == {}
        assert (await raw.ask(1, "ledger"))["result"]["epoch"] == 1
        assert secret not in at.log.getvalue()


@pytest.mark.parametrize("token", ["wrong", "ünïcode", "\x00", "x" * 200])
async def test_owner_socket_refuses_anything_else(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    hurry(monkeypatch)
    async with open_site(profile_dir) as at:
        async with dialled(at.profile.owner_socket) as raw:
            assert code(await known(raw, token)) == "not_authenticated"
            assert await raw.hear_end() == b""
        meals = await asyncio.to_thread(at.tokens.issue, MEALS)
        async with dialled(at.profile.owner_socket) as raw:
            assert code(await known(raw, meals)) == "not_authenticated"


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong token waits for a moment only."""
    patience = Patience(refusal_seconds=0.01)

    class Hurried(Session):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, patience=patience, **options)

    monkeypatch.setattr(listeners, "Session", Hurried)


# --- tokens -------------------------------------------------------------------------------------


async def test_program_is_known_by_its_token(profile_dir: Path) -> None:
    async with open_site(profile_dir) as at:
        token = await asyncio.to_thread(at.tokens.issue, GUEST)
        async with dialled(at.profile.app_socket) as raw:
            assert (await known(raw, token))["result"] == {}
            assert code(await raw.ask(1, "ask", query="q", slots=["finance"])) == "denied"
            reply = await raw.ask(2, "ask", query="q", slots=[])
            while "id" not in reply:
                reply = await raw.hear()
            assert reply["result"]["views"] == []
        await until(lambda: "request_refused" in at.log.getvalue())
        assert token not in at.log.getvalue()
        assert '"identity": "guest"' in at.log.getvalue()


@pytest.mark.parametrize("kind", ["never issued", "revoked", "replaced", "the owner's secret"])
async def test_token_that_is_not_valid_is_refused(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    hurry(monkeypatch)
    async with open_site(profile_dir) as at:
        token = await asyncio.to_thread(at.tokens.issue, GUEST)
        if kind == "never issued":
            token = "a" * len(token)
        elif kind == "revoked":
            await asyncio.to_thread(at.tokens.revoke, GUEST)
        elif kind == "replaced":
            await asyncio.to_thread(at.tokens.issue, GUEST)
        else:
            token = at.profile.owner_secret_file.read_text()
        async with dialled(at.profile.app_socket) as raw:
            assert code(await known(raw, token)) == "not_authenticated"
            assert await raw.hear_end() == b""


async def test_revoking_ends_the_connections_of_that_token_at_once(
    profile_dir: Path, hold: asyncio.Event
) -> None:
    engine = RecordingEngine(gate=hold)
    async with open_site(profile_dir, engine) as at:
        tokens = [await asyncio.to_thread(at.tokens.issue, app) for app in (GUEST, MEALS)]
        async with (
            dialled(at.profile.app_socket) as one,
            dialled(at.profile.app_socket) as two,
            dialled(at.profile.app_socket) as other,
            dialled(at.profile.app_socket) as stranger,
        ):
            for raw, token in ((one, tokens[0]), (two, tokens[0]), (other, tokens[1])):
                assert (await known(raw, token))["result"] == {}
            await one.say(id=1, method="ask", params={"query": "q", "slots": []})
            await until(lambda: len(engine.prompts) == 1)
            at.doors.revoked(GUEST)
            assert await one.hear_error() == (1, "not_authenticated")
            for raw in (one, two):
                assert await raw.hear_error() == (None, "not_authenticated")
                assert await raw.hear_end() == b""
            assert engine.ended == 1
            hold.set()
            await other.say(id=1, method="ask", params={"query": "q", "slots": []})
            assert "error" not in await other.hear()
            assert code(await stranger.ask(1, "ask")) == "not_authenticated"


async def test_revoking_says_what_to_do_next(profile_dir: Path) -> None:
    async with open_site(profile_dir) as at:
        token = await asyncio.to_thread(at.tokens.issue, GUEST)
        async with dialled(at.profile.app_socket) as raw:
            await known(raw, token)
            at.doors.revoked(GUEST)
            message = (await raw.hear())["error"]["message"]
            assert "revoked" in message
            assert "owner" in message


async def test_connection_that_has_ended_is_forgotten(profile_dir: Path) -> None:
    async with open_site(profile_dir) as at:
        token = await asyncio.to_thread(at.tokens.issue, GUEST)
        for _ in range(3):
            async with dialled(at.profile.app_socket) as raw:
                await known(raw, token)
        await until(lambda: at.log.getvalue().count("session_ended") == 3)
        await until(lambda: not at.doors._outside)


# --- hosted apps --------------------------------------------------------------------------------


@asynccontextmanager
async def hosted(at: Site) -> AsyncIterator[tuple[RawConnection, Any]]:
    """The other end of a hosted app's connection, and the daemon's side of it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    peer = at.doors.hosted(MEALS, *await open_streams(theirs, APP_LIMITS))
    async with raw_side(ours) as raw, peer.running():
        yield raw, peer


async def test_hosted_app_is_known_by_its_connection(profile_dir: Path) -> None:
    async with site(profile_dir) as at, hosted(at) as (raw, _):
        await raw.say(id=1, method="ask", params={"query": "q", "slots": ["health", "finance"]})
        reply = await raw.hear()
        while "id" not in reply:
            reply = await raw.hear()
        assert [view["slot"] for view in reply["result"]["views"]] == ["health", "finance"]
        token = await asyncio.to_thread(at.tokens.issue, GUEST)
        assert code(await known(raw, token)) == "unknown_method"
        assert '"identity": "meals"' in at.log.getvalue()


async def test_hosted_app_is_told_of_events(profile_dir: Path) -> None:
    async with site(profile_dir) as at, hosted(at) as (raw, peer), asyncio.TaskGroup() as tasks:
        event = Event(kind=EventKind.MESSAGE, text="hello")
        calling = tasks.create_task(peer.call(HostedMethod.EVENT, event, Empty), name="event")
        request = await raw.hear()
        assert Event.model_validate(request["params"]) == event
        await raw.say(id=request["id"], result={})
        assert await calling == Empty()


async def test_revoking_a_token_leaves_the_hosted_app_alone(profile_dir: Path) -> None:
    async with site(profile_dir) as at, hosted(at) as (raw, _):
        at.doors.revoked(MEALS)
        await raw.say(id=1, method="ask", params={"query": "q", "slots": []})
        assert "error" not in await raw.hear()


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["app_socket", "owner_socket"])
async def test_line_that_is_never_ended_is_given_up(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.setattr(listeners, "APP_LIMITS", Limits(line_seconds=0.1))
    monkeypatch.setattr(listeners, "OWNER_LIMITS", Limits(line_seconds=0.1))
    async with open_site(profile_dir) as at:
        async with dialled(getattr(at.profile, door)) as raw:
            await raw.say_bytes(b'{"jsonrpc":"2.0","id":')
            assert await raw.hear_error() == (None, "idle_timeout")
            assert await raw.hear_end() == b""
        async with dialled(at.profile.owner_socket) as raw:
            assert "result" in await known(raw, at.profile.owner_secret_file.read_text())


@pytest.mark.parametrize(
    ("door", "most"),
    [("app_socket", APP_LIMITS.line_bytes), ("owner_socket", OWNER_LIMITS.line_bytes)],
)
async def test_line_of_the_greatest_length_is_read_and_a_longer_one_is_not(
    profile_dir: Path, door: str, most: int
) -> None:
    async with open_site(profile_dir) as at, dialled(getattr(at.profile, door)) as raw:
        await raw.say_bytes(b" " * (most - 3) + b"{}\n")
        assert await raw.hear_error() == (None, "invalid_request")
        await raw.say_bytes(b" " * (most - 2) + b"{}\n")
        assert await raw.hear_error() == (None, "line_too_long")
        assert await raw.hear_end() == b""


def test_limits_are_those_of_the_protocol_document() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (.+?) \| (.+? \| .+?) \|$", document, re.MULTILINE))
    patience = Patience()
    for row, app, owner in (
        ("bytes in a line, with its newline", APP_LIMITS.line_bytes, OWNER_LIMITS.line_bytes),
        ("arrays and objects around a value", APP_LIMITS.depth, OWNER_LIMITS.depth),
        ("requests in flight on a connection", APP_LIMITS.in_flight, OWNER_LIMITS.in_flight),
        ("connections open at a time", MOST_CONNECTIONS, MOST_CONNECTIONS),
        (
            "seconds to authenticate",
            patience.authenticate_seconds,
            patience.authenticate_seconds,
        ),
        (
            "seconds from the first byte of a line to its newline",
            APP_LIMITS.line_seconds,
            OWNER_LIMITS.line_seconds,
        ),
        (
            "seconds in which the client must make room for a line",
            APP_LIMITS.write_seconds,
            OWNER_LIMITS.write_seconds,
        ),
    ):
        assert rows[row] == f"{app:,.0f} | {owner:,.0f}", row
