"""An endpoint is sent what an app was shown anyway, and believed as far as an answer goes.

These tests talk to a server on this machine.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import json
import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.fakes.daemon_site import until
from tests.fakes.recording_endpoint import (
    DONE,
    RecordingEndpoint,
    event,
    recording_endpoint,
    response,
    saying,
    sending,
)
from tests.fakes.recording_engine import RecordingEngine
from tests.tactfuld.inference.engine_contract import (
    GROUP,
    MAX_WAITING,
    ORDINARY,
    EngineContract,
    MakeEngine,
)

from tactful_core.values import Secret
from tactfuld.inference import endpoint as module
from tactfuld.inference.endpoint import CHARACTERS_PER_TOKEN, MOST_LINE, Endpoint
from tactfuld.inference.engine import Engine, EngineState
from tactfuld.inference.errors import (
    EngineBusy,
    EngineClosed,
    EngineLoading,
    EnginePaused,
    InferenceError,
    ModelError,
    RemoteFailed,
)
from tactfuld.inference.prompt import EarlierTurn, Prompt
from tactfuld.inference.remote import Remote, RemoteEngine
from tactfuld.inference.requests import Source
from tactfuld.inference.scripted import ScriptedEngine

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

KEY = "sk-0123456789abcdef"
PROMPT = Prompt(
    "Be brief.", "What to cook?", (EarlierTurn("Hello?", "Hello."),), opening="I suggest"
)
Told = dict[str, str | None]


class TestWithoutAnEndpoint(EngineContract):
    """It keeps the contract of the engine on this machine."""

    @pytest.fixture
    def make_engine(self, told: Told) -> MakeEngine:
        def make() -> Engine:
            local = ScriptedEngine("word " * 500, streams=1, max_waiting=MAX_WAITING)
            return RemoteEngine(local, None, told.__setitem__)

        return make


@pytest.fixture
def server() -> Iterator[RecordingEndpoint]:
    with recording_endpoint() as serving:
        yield serving


@pytest.fixture
def told() -> Told:
    return {}


def remote_at(url: str, **limits: Any) -> Remote:
    return replace(Remote(Endpoint(url, "big-model", lambda: Secret(KEY))), **limits)


def engine_at(url: str, told: Told, **limits: Any) -> RemoteEngine:
    local = RecordingEngine("word " * 500)
    engine = RemoteEngine(local, remote_at(url, **limits), told.__setitem__)
    engine.start()
    return engine


@pytest.fixture
def engine(server: RecordingEndpoint, told: Told) -> RemoteEngine:
    return engine_at(server.url, told)


async def read(engine: RemoteEngine, max_tokens: int = 8, prompt: Prompt = PROMPT) -> list[str]:
    return [piece async for piece in engine.generate(prompt, max_tokens=max_tokens)]


# ---- what is sent


async def test_sent_are_exactly_these_bytes(
    server: RecordingEndpoint, engine: RemoteEngine
) -> None:
    await read(engine)
    head, _, body = bytes(server.received).partition(b"\r\n\r\n")
    first, *headers = head.decode("ascii").split("\r\n")
    assert first == "POST /v1/chat/completions HTTP/1.1"
    assert dict(line.split(": ", 1) for line in headers) == {
        "Host": server.host,
        "Accept-Encoding": "identity",
        "Content-Length": str(len(body)),
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "User-Agent": "tactful",
        "Connection": "close",
        "Authorization": f"Bearer {KEY}",
    }
    assert json.loads(body) == {
        "model": "big-model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello?"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "What to cook?"},
        ],
        "max_tokens": 8,
        "temperature": pytest.approx(engine._sampling.temperature),
        "top_p": pytest.approx(engine._sampling.top_p),
        "stream": True,
    }


async def test_the_oldest_turns_that_do_not_fit_are_not_sent(
    server: RecordingEndpoint, told: Told
) -> None:
    engine = engine_at(server.url, told, context=108)
    turns = tuple(EarlierTurn(f"{n} {'x' * 96}", "y") for n in range(5))
    await read(engine, 8, Prompt("s", "u", turns))
    (body,) = server.bodies()
    sent = json.dumps(body["messages"])
    assert [f'"{n} x' in sent for n in range(5)] == [False, False, True, True, True]


async def test_a_proxy_of_the_environment_is_not_used(
    server: RecordingEndpoint, engine: RemoteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recording_endpoint() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy.host}")
        assert await read(engine)
        assert proxy.connections == 0
    assert server.connections == 1


async def test_a_redirect_is_not_followed(server: RecordingEndpoint, engine: RemoteEngine) -> None:
    with recording_endpoint() as elsewhere:
        server.behave = sending(
            response(b"", status="307 Temporary", extra=f"Location: {elsewhere.url}\r\n")
        )
        with pytest.raises(RemoteFailed, match="it answered 307"):
            await read(engine)
        assert elsewhere.connections == 0


async def test_a_certificate_that_nobody_vouches_for_is_refused_before_a_word_is_said(
    tmp_path: Path, told: Told
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    with recording_endpoint(context) as server:
        engine = engine_at(server.url.replace("http://", "https://"), told)
        with pytest.raises(RemoteFailed, match="certificate is not valid"):
            await read(engine)
        assert server.received == b""


async def test_with_a_certificate_that_is_trusted_the_answer_comes(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The positive control of the test above."""
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    make = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: make(cafile=str(certificate)))
    with recording_endpoint(context) as server:
        engine = engine_at(server.url.replace("http://", "https://"), told)
        assert await read(engine) == ["Lentil ", "soup."]


def self_signed(folder: Path) -> Path:
    """A certificate of this machine's address, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


# ---- what is believed


def chunked(*parts: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


HALF = b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\n'
"""Half of a character."""
WHOLE = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Soup."}}]}).encode()
TWO = [b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n', event("Soup"), event("."), DONE]


@pytest.mark.parametrize(
    ("reply", "pieces"),
    [
        (response(b"".join(TWO)), ["Soup", "."]),
        (chunked(*TWO), ["Soup", "."]),
        (chunked(*(bytes([byte]) for byte in b"".join(TWO))), ["Soup", "."]),
        (response(b"".join(TWO).replace(b"\n", b"\r\n")), ["Soup", "."]),
        (response(b": ping\n\nevent: x\nid: 1\n\n" + b"".join(TWO)), ["Soup", "."]),
        (response(event("A") + b'data: {"choices":[],"usage":{}}\n\n' + DONE), ["A"]),
        (response(event("") + DONE), []),
        (response(event("grün \U0001f331") + DONE), ["grün \U0001f331"]),
        (response(WHOLE, kind="application/json"), ["Soup."]),
        (response(event("A") + DONE + event("B")), ["A"]),
    ],
)
async def test_what_an_endpoint_may_say(
    server: RecordingEndpoint, engine: RemoteEngine, reply: bytes, pieces: list[str]
) -> None:
    server.behave = sending(reply)
    assert await read(engine) == pieces


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (response(KEY.encode(), status="401 Unauthorized"), "refused the key"),
        (response(KEY.encode(), status="404 Not Found"), "no such model"),
        (response(KEY.encode(), status="400 Bad Request"), "refused the request"),
        (response(KEY.encode(), status="500 Oh"), "it answered 500"),
        (response(event("A")), "broke off"),
        (
            response(b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\n'),
            "no chat completion",
        ),
        (b"", "without an answer"),
        (b"SSH-2.0-OpenSSH\r\n", "no HTTP"),
        (response(b"data: sk-0123\n\n"), "no chat completion"),
        (response(b'data: {"error": {"message": "What to cook?"}}\n\n'), "no chat completion"),
        (response(b'data: {"choices":[{"delta":{"content":7}}]}\n\n'), "no chat completion"),
        (response(b'data: {"choices":[{"delta":{"content":"x"\n\n'), "no chat completion"),
        (response(b"<html>", kind="text/html"), "no chat completion"),
        (response(b"data: " + b"x" * (MOST_LINE + 1)), "more than an answer"),
        (response(b"[" * 60_000, kind="application/json"), "no chat completion"),
    ],
)
async def test_what_it_may_not_say_is_told_to_the_owner_in_our_words(
    server: RecordingEndpoint, engine: RemoteEngine, told: Told, reply: bytes, reason: str
) -> None:
    server.behave = sending(reply)
    with pytest.raises(RemoteFailed, match=reason) as caught:
        await read(engine)
    assert told["remote"] == str(caught.value)
    assert server.host in str(caught.value)
    assert "config unset remote.url" in str(caught.value)
    for secret in (KEY, "What to cook?", "sk-0123"):
        assert secret not in str(caught.value)
    server.behave = saying("Soup.")
    assert await read(engine) == ["Soup."]
    assert told["remote"] is None


async def test_an_endless_stream_of_nothing_is_ended(
    server: RecordingEndpoint, engine: RemoteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    server.behave = sending(response(b": ping\n" * 10_000))
    with pytest.raises(RemoteFailed, match="more than an answer"):
        await read(engine)


async def test_an_endpoint_that_writes_on_is_cut(
    server: RecordingEndpoint, engine: RemoteEngine
) -> None:
    server.behave = saying(*["x" * 20] * 100)
    assert len("".join(await read(engine, 3))) == 3 * CHARACTERS_PER_TOKEN


async def test_too_many_requests_are_called_busy(
    server: RecordingEndpoint, engine: RemoteEngine
) -> None:
    server.behave = sending(response(b"", status="429 Too Many Requests"))
    with pytest.raises(EngineBusy):
        await read(engine)


async def test_nobody_there_is_told(told: Told) -> None:
    with recording_endpoint() as gone:
        url = gone.url
    with pytest.raises(RemoteFailed, match="nobody listens"):
        await read(engine_at(url, told))


async def test_a_key_that_is_not_there_is_told_and_nothing_is_sent(
    server: RecordingEndpoint, told: Told
) -> None:
    def missing() -> Secret[str] | None:
        raise RemoteFailed("models.example", "there is no key in the keyring")

    endpoint = Endpoint(server.url, "m", missing)
    engine = RemoteEngine(RecordingEngine(), Remote(endpoint), told.__setitem__)
    engine.start()
    with pytest.raises(RemoteFailed, match="no key"):
        await read(engine)
    assert server.connections == 0


async def test_nothing_shows_the_key(server: RecordingEndpoint, engine: RemoteEngine) -> None:
    assert KEY not in repr(Endpoint(server.url, "m", lambda: Secret(KEY)))
    assert KEY not in repr(vars(engine))


# ---- time and bounds


async def test_an_endpoint_that_says_nothing_is_not_waited_for(
    server: RecordingEndpoint, told: Told
) -> None:
    server.behave = server.say_nothing
    engine = engine_at(server.url, told, seconds=0.2)
    with pytest.raises(RemoteFailed, match="in time"):
        await read(engine)
    await until(server.ended.is_set)


async def test_the_readers_own_time_is_not_the_endpoints(
    server: RecordingEndpoint, told: Told
) -> None:
    server.behave = saying(*["x"] * 3)
    engine = engine_at(server.url, told, seconds=50)
    loop = asyncio.get_running_loop()
    now, skipped = loop.time, 0.0
    loop.time = lambda: now() + skipped  # type: ignore[method-assign]
    read_so_far = []
    async for piece in engine.generate(PROMPT, max_tokens=9):
        read_so_far.append(piece)
        skipped += 1000
    assert read_so_far == ["x"] * 3


async def begin(engine: RemoteEngine) -> AsyncGenerator[str, None]:
    reply = engine.generate(PROMPT, max_tokens=8)
    assert await anext(reply) == "Lentil "
    return reply


async def test_closing_a_reply_ends_the_connection(
    server: RecordingEndpoint, engine: RemoteEngine
) -> None:
    server.behave = server.hold
    reply = await begin(engine)
    assert not server.ended.is_set()
    await reply.aclose()
    await until(server.ended.is_set)


async def test_a_cancelled_reader_ends_the_connection(
    server: RecordingEndpoint, engine: RemoteEngine
) -> None:
    server.behave = server.hold
    begun = asyncio.Event()

    async def reading() -> None:
        async with aclosing(engine.generate(PROMPT, max_tokens=8)) as reply:
            async for _ in reply:
                begun.set()

    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(reading(), name="reader")
        await begun.wait()
        reader.cancel()
    await until(server.ended.is_set)


async def test_one_app_has_only_so_many_answers_at_once_and_others_theirs(
    server: RecordingEndpoint, told: Told
) -> None:
    engine = engine_at(server.url, told, of_one_app=1)
    async with engine.place(Source("meals")) as place:
        with pytest.raises(EngineBusy, match="1 requests are being answered"):
            async with engine.place(Source("meals")):
                pass
        async with engine.place(Source("guest")):
            assert await read(engine)
        reply = engine.generate(PROMPT, max_tokens=8, place=place)
        assert [piece async for piece in reply]
    async with engine.place(Source("meals")):
        pass


async def test_an_answer_without_a_place_takes_one(server: RecordingEndpoint, told: Told) -> None:
    server.behave = server.hold
    engine = engine_at(server.url, told, of_one_app=1)
    reply = await begin(engine)
    with pytest.raises(EngineBusy):
        await read(engine)
    await reply.aclose()
    server.behave = saying("Soup.")
    assert await read(engine) == ["Soup."]


async def test_close_ends_what_is_on_its_way(
    server: RecordingEndpoint, engine: RemoteEngine
) -> None:
    server.behave = server.hold
    reply = await begin(engine)
    await engine.close()
    with pytest.raises(EngineClosed):
        [piece async for piece in reply]
    with pytest.raises(EngineClosed):
        await read(engine)
    with pytest.raises(EngineClosed):
        await engine.admit()
    await until(server.ended.is_set)


async def test_a_reply_of_no_tokens_is_refused(engine: RemoteEngine) -> None:
    with pytest.raises(ValueError, match="max_tokens is 0"):
        await read(engine, 0)


# ---- another endpoint, or none


async def test_without_an_endpoint_all_is_answered_here_at_once(
    server: RecordingEndpoint, engine: RemoteEngine, told: Told
) -> None:
    server.behave = server.hold
    begun = await begin(engine)
    engine.change(None)
    assert engine.answers_from is None
    assert await read(engine, 2) == ["word ", "word "]
    async with engine.place(Source("meals")) as place:
        reply = engine.generate(PROMPT, max_tokens=1, place=place)
        assert [piece async for piece in reply] == ["word "]
    assert server.connections == 1
    assert told["remote"] is None
    local = engine._local
    assert isinstance(local, RecordingEngine)
    local.enter(EngineState.PAUSED)
    with pytest.raises(EnginePaused):
        await engine.admit()
    await begun.aclose()


async def test_another_endpoint_answers_from_then_on(
    server: RecordingEndpoint, engine: RemoteEngine
) -> None:
    with recording_endpoint() as other:
        engine.change(remote_at(other.url))
        assert await read(engine)
        assert (server.connections, other.connections) == (0, 1)


# ---- what stays here


@pytest.mark.parametrize("state", [EngineState.LOADING, EngineState.FAILED, EngineState.PAUSED])
async def test_apps_are_answered_without_the_model_here(
    server: RecordingEndpoint, engine: RemoteEngine, state: EngineState
) -> None:
    local = engine._local
    assert isinstance(local, RecordingEngine)
    local.enter(state)
    await engine.admit()
    assert await read(engine)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (EngineState.LOADING, EngineLoading),
        (EngineState.FAILED, ModelError),
        (EngineState.PAUSED, EnginePaused),
    ],
)
async def test_what_shows_memory_waits_for_the_model_here(
    engine: RemoteEngine, state: EngineState, error: type[InferenceError]
) -> None:
    """As fused text does, also on battery."""
    local = engine._local
    assert isinstance(local, RecordingEngine)
    local.enter(state)
    with pytest.raises(error):
        await engine.admit(here=True)


async def test_the_owner_is_answered_here(server: RecordingEndpoint, engine: RemoteEngine) -> None:
    prompt = Secret(Prompt("My notes: kumquat.", "What do I like?"))
    await engine.admit(owner=True)
    assert await engine.room(prompt, max_tokens=4) > 0
    assert [piece async for piece in engine.generate_for_owner(prompt, max_tokens=4)]
    assert await engine.count_tokens("kumquat marmalade") == 2
    group = engine.generate_group(Secret(GROUP), lambda _logits: ORDINARY, max_tokens=2)
    assert [piece async for piece in group]
    assert server.connections == 0
    assert engine.answers_from == server.host
