"""A real HTTP endpoint on this machine that keeps every byte it is sent, and answers as told."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Behave = Callable[[socket.socket], None]
"""What it does with a connection whose request it has read."""

DONE = b"data: [DONE]\n\n"


def event(text: str) -> bytes:
    """A server-sent event with a piece of an answer."""
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


def response(
    body: bytes, *, status: str = "200 OK", kind: str = "text/event-stream", extra: str = ""
) -> bytes:
    """A whole response; its end is the connection's."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{extra}Connection: close\r\n\r\n"
    return head.encode() + body


def saying(*pieces: str) -> Behave:
    """Streams these pieces."""
    return sending(response(b"".join(map(event, pieces)) + DONE))


def sending(data: bytes) -> Behave:
    """Sends these bytes."""
    return lambda connection: connection.sendall(data)


@dataclass(eq=False)
class RecordingEndpoint:
    """Serves one connection after the other.

    Attributes:
        received: every byte that came, of all connections.
        connections: how many there were.
        ended: set whenever the other side has ended a connection.
    """

    behave: Behave = field(default_factory=lambda: saying("Lentil ", "soup."))
    received: bytearray = field(default_factory=bytearray)
    connections: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def bodies(self) -> list[dict[str, object]]:
        """The JSON of each request."""
        parts = bytes(self.received).split(b"POST ")[1:]
        return [json.loads(part.partition(b"\r\n\r\n")[2]) for part in parts]

    def serve(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """Until the listener is closed."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            with suppress(OSError, ValueError), connection:
                if context is not None:
                    with context.wrap_socket(connection, server_side=True) as encrypted:
                        self._answer(encrypted)
                else:
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._heard(connection)
        head, _, body = data.partition(b"\r\n\r\n")
        (length,) = (
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        while len(body) < length:
            body += self._heard(connection)
        self.behave(connection)

    def _heard(self, connection: socket.socket) -> bytes:
        data = connection.recv(1 << 16)
        if not data:
            self.ended.set()
            raise ValueError("The client is gone.")
        self.received += data
        return data

    def hold(self, connection: socket.socket) -> None:
        """A behaviour: begins to answer, and waits until the other side ends the connection."""
        connection.sendall(response(event("Lentil ")))
        with suppress(OSError):
            while connection.recv(1 << 16):
                pass
        self.ended.set()

    def say_nothing(self, connection: socket.socket) -> None:
        """A behaviour: waits without a word until the other side ends the connection."""
        with suppress(OSError):
            while connection.recv(1 << 16):
                pass
        self.ended.set()


@contextmanager
def recording_endpoint(context: ssl.SSLContext | None = None) -> Iterator[RecordingEndpoint]:
    """An endpoint that is served during the block; encrypted if there is a context."""
    endpoint = RecordingEndpoint()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        endpoint.port = listener.getsockname()[1]
        serving = threading.Thread(target=endpoint.serve, args=(listener, context), daemon=True)
        serving.start()
        try:
            yield endpoint
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            serving.join()
