"""One request to an OpenAI-compatible endpoint, over HTTP/1.1, streamed back as it is written.

Decides which bytes are sent and which are believed: the body, the headers, what counts as an
answer, and the sentence for each way to fail. Not here: what is asked, and whether it may be
(remote); where the key is kept (`tactfuld.remote_key`).

The standard library's client is used on a thread of its own: it follows no redirect, takes no proxy
from the environment, keeps no connection, and sends the headers that stand here.

Invariants
- Sent are the model's name, the prompt's texts, public constants and the key; nothing else.
- Nothing that the endpoint says of an error is repeated: it may hold the prompt or the key.
- An answer is bounded in bytes, in characters and in time, whatever the endpoint does.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from tactful_core.values import Secret
from tactfuld.inference.errors import EngineBusy, InferenceError, RemoteFailed
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.sampling import Sampling

CONNECT_SECONDS: Final = 10.0
READ_SECONDS: Final = 60.0
MOST_LINE: Final = 1 << 16
MOST_BYTES: Final = 1 << 22
CHARACTERS_PER_TOKEN: Final = 32
"""No tokenizer writes more for one token, so what goes beyond was not asked for."""

Send = Callable[[str | InferenceError | None], None]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where answers come from.

    Attributes:
        url: its base, to which `/chat/completions` belongs; http only to this machine.
        model: the name that the endpoint knows it by.
        key: obtains the key, or None where it wants none; blocks, raises `RemoteFailed`.
    """

    url: str
    model: str
    key: Callable[[], Secret[str] | None] = field(repr=False)

    @property
    def host(self) -> str:
        """For people: whom answers come from."""
        return urlsplit(self.url).netloc


class Exchange:
    """A request on its way: `run` belongs to one thread, `cancel` may be called by any."""

    def __init__(self, endpoint: Endpoint, body: bytes, most_characters: int, send: Send) -> None:
        self._endpoint = endpoint
        self._body = body
        self._most = most_characters
        self._send = send
        self._guard = threading.Lock()
        self._cancelled = False
        self._socket: socket.socket | None = None

    def cancel(self) -> None:
        """End it soon; what was sent was sent."""
        with self._guard:
            self._cancelled = True
            if self._socket is not None:
                with suppress(OSError):
                    # Of the plain socket: an encrypted one would wait for the other side.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def run(self) -> None:
        """Send the request and hand on the pieces of the answer, then None or an error."""
        try:
            for piece in self._pieces():
                self._send(piece)
            self._send(None)
        except InferenceError as error:
            self._send(error.with_traceback(None))
        except (OSError, http.client.HTTPException) as error:
            self._send(RemoteFailed(self._endpoint.host, _broken(error)))
        except Exception as error:  # noqa: BLE001 - a reader must never wait for ever
            why = f"there was an internal error ({type(error).__name__})"
            self._send(RemoteFailed(self._endpoint.host, why))

    def _pieces(self) -> Iterator[str]:
        key = self._endpoint.key()
        connection = _connection(self._endpoint.url)
        try:
            connection.connect()
            self._hold(connection.sock)
            headers = _headers(key)
            connection.request("POST", _path(self._endpoint.url), self._body, headers)
            with connection.getresponse() as reply:
                self._refuse(reply.status)
                streamed = reply.headers.get_content_type() == "text/event-stream"
                texts = self._streamed(reply) if streamed else self._whole(reply)
                yield from _bounded(texts, self._most)
        finally:
            with self._guard:
                self._socket = None
            connection.close()

    def _hold(self, connected: socket.socket) -> None:
        with self._guard:
            if self._cancelled:
                raise OSError("cancelled")
            self._socket = connected
        connected.settimeout(READ_SECONDS)

    def _refuse(self, status: int) -> None:
        if status == http.HTTPStatus.OK:
            return
        if status == http.HTTPStatus.TOO_MANY_REQUESTS:
            raise EngineBusy("The remote endpoint has too many requests. Ask again in a moment.")
        raise RemoteFailed(self._endpoint.host, _STATUS.get(status, f"it answered {status}"))

    def _streamed(self, reply: http.client.HTTPResponse) -> Iterator[str]:
        """The pieces of server-sent events; raises if they break off."""
        left = MOST_BYTES
        while True:
            line = reply.readline(min(MOST_LINE, left) + 1)
            left -= len(line)
            if len(line) > MOST_LINE or left < 0:
                raise self._too_much()
            if not line:
                raise RemoteFailed(self._endpoint.host, "it broke off in the middle")
            name, _, data = line.strip().partition(b":")
            if name != b"data":
                continue
            if data.strip() == b"[DONE]":
                return
            yield from self._read(_Chunk, data).texts()

    def _whole(self, reply: http.client.HTTPResponse) -> Iterator[str]:
        """The answer of an endpoint that does not stream."""
        data = reply.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise self._too_much()
        yield from self._read(_Completion, data).texts()

    def _read(self, kind: type[_Told], data: bytes) -> _Told:
        try:
            return kind.model_validate_json(data)
        except ValidationError:
            why = "what it sent is no chat completion"
            raise RemoteFailed(self._endpoint.host, why) from None

    def _too_much(self) -> RemoteFailed:
        return RemoteFailed(self._endpoint.host, "it sent more than an answer can be")


def body_of(endpoint: Endpoint, prompt: Prompt, max_tokens: int, sampling: Sampling) -> bytes:
    """What is sent for a prompt. Its opening is for models that go on with it; this one is not."""
    messages = [{"role": "system", "content": prompt.system}]
    for turn in prompt.earlier:
        messages.append({"role": "user", "content": turn.query})
        messages.append({"role": "assistant", "content": turn.answer})
    messages.append({"role": "user", "content": prompt.user})
    asked = {
        "model": endpoint.model,
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "stream": True,
    }
    return json.dumps(asked).encode("ascii")


class _Told(BaseModel):
    """What an endpoint sends; it may send more than is looked at."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    def texts(self) -> Iterator[str]:
        """The pieces of the answer."""
        raise NotImplementedError


class _Text(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)
    content: str | None = None


class _Delta(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)
    delta: _Text


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)
    message: _Text


class _Chunk(_Told):
    choices: list[_Delta]

    def texts(self) -> Iterator[str]:
        return (each.delta.content or "" for each in self.choices[:1])


class _Completion(_Told):
    choices: list[_Message]

    def texts(self) -> Iterator[str]:
        return (each.message.content or "" for each in self.choices[:1])


_STATUS: Final = {
    400: "it refused the request (400); the model's name may be wrong, or the question too long",
    401: "it refused the key (401)",
    403: "it refused the key (403)",
    404: "it has no such model or address (404)",
    413: "the question is too long for it (413)",
}


def _bounded(texts: Iterator[str], most: int) -> Iterator[str]:
    """What is not empty of `texts`, of `most` characters together at most."""
    for text in texts:
        kept = text[:most]
        most -= len(kept)
        if kept:
            yield kept
        if most <= 0:
            return


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=CONNECT_SECONDS)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, parts.port, timeout=CONNECT_SECONDS, context=context)


def _path(url: str) -> str:
    return f"{urlsplit(url).path.rstrip('/')}/chat/completions"


def _headers(key: Secret[str] | None) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "User-Agent": "tactful",
        "Connection": "close",
    }
    if key is not None:
        headers["Authorization"] = f"Bearer {key.reveal()}"
    return headers


def _broken(error: Exception) -> str:
    """Why there was no answer, in words that hold nothing of it."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not valid ({error.verify_message})"
        case ssl.SSLError():
            return "no encrypted connection could be made"
        case TimeoutError():
            return "it did not answer in time"
        case socket.gaierror():
            return "its name is not known here"
        case ConnectionRefusedError():
            return "nobody listens there"
        case http.client.RemoteDisconnected():
            return "it ended the connection without an answer"
        case OSError():
            return f"the connection failed ({error.strerror or type(error).__name__})"
        case _:
            return "what it sent is no HTTP"
