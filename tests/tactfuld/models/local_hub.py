"""A server on this machine that speaks enough of the Hugging Face hub to fetch a model from it."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" + "0" * 34


@dataclass
class LocalHub:
    """One repository; what it holds, and how it misbehaves.

    Attributes:
        hashes: what it tells instead of a file's true SHA-256.
        status: answers every request for a file with this, instead of the file.
        cut_after: breaks the connection after so many bytes of a file, as often as `cuts` says.
        token: without it in the request, files are refused as those of a gated repository.
        seen: the requests: method, path, and the range that was asked for.
    """

    repository: str = "owner/tiny-GGUF"
    files: dict[str, bytes] = field(default_factory=dict)
    licence: str = "mit"
    hashes: dict[str, str] = field(default_factory=dict)
    missing: bool = False
    status: int | None = None
    cut_after: int = 0
    cuts: int = 0
    token: str | None = None
    endpoint: str = ""
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)

    def described(self) -> dict[str, object]:
        """What the hub's API says of the repository."""
        siblings: list[dict[str, object]] = [
            {
                "rfilename": name,
                "size": len(content),
                "lfs": {
                    "sha256": self.hashes.get(name, hashlib.sha256(content).hexdigest()),
                    "size": len(content),
                    "pointerSize": 130,
                },
            }
            for name, content in self.files.items()
        ]
        siblings.append({"rfilename": "README.md", "size": 3})
        card = {"license": self.licence}
        return {"id": self.repository, "sha": COMMIT, "siblings": siblings, "cardData": card}

    def fetches(self) -> list[str | None]:
        """The ranges of the requests for files."""
        return [part for _, path, part in self.seen if "/resolve/" in path]


@contextmanager
def serving(hub: LocalHub) -> Iterator[LocalHub]:
    """Serves during the block; `hub.endpoint` is its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.seen.append((self.command, self.path, self.headers["Range"]))
            hub.agents.append(str(self.headers["User-Agent"]))
            path = self.path.partition("?")[0]
            if path == f"/api/models/{hub.repository}" and not hub.missing:
                self.reply(200, json.dumps(hub.described()).encode(), {})
            elif path.startswith(f"/{hub.repository}/resolve/{COMMIT}/"):
                self.send_file(hub.files[path.rpartition("/")[2]])
            else:
                self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        def send_file(self, content: bytes) -> None:
            if hub.token and self.headers["Authorization"] != f"Bearer {hub.token}":
                self.reply(403, b"{}", {"X-Error-Code": "GatedRepo"})
                return
            if hub.status is not None:
                self.reply(hub.status, b"{}", {})
                return
            asked = self.headers["Range"]
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
            whole = len(content)
            ranged = {"Content-Range": f"bytes {start}-{whole - 1}/{whole}"} if asked else {}
            body = content[start:]
            if hub.cuts:
                hub.cuts -= 1
                self.reply(206 if asked else 200, body, ranged, cut=hub.cut_after)
            else:
                self.reply(206 if asked else 200, body, ranged)

        def reply(
            self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[:cut])
            self.close_connection = True

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its base's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
