"""Tokens of outside programs: issued once, kept only as hashes.

Decides who holds a token. What is *not* here: the delay after a wrong one and the end of live
connections when one is revoked (`tactfuld.server`), and what an app may do (the policy).

Invariants:

- a token has 256 random bits; the file holds its SHA-256, which needs no salt because nothing
  shorter than the token can be guessed;
- every stored hash is compared, in constant time each, whatever the others gave;
- an app has at most one token; issuing another ends the old one;
- the file is replaced as a whole, durably, before a change counts; a damaged one admits nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful.errors import NotFound, Unusable
from tactful.wire import Name
from tactful_core.values import AppId

FILE_NAME = "app-tokens.json"
_TOKEN_BYTES = 32
_LARGEST_FILE = 1024 * 1024


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    sha256: dict[Name, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]


class AppTokens:
    """The tokens of one profile. `issue` and `revoke` write, so they never run on the event loop;
    `verify` and `apps` only look at what is in memory."""

    def __init__(self, path: Path, hashes: Mapping[AppId, bytes]) -> None:
        self._path = path
        self._hashes = MappingProxyType(dict(hashes))
        self._writing = threading.Lock()

    @classmethod
    def load(cls, path: Path) -> AppTokens:
        """The tokens in a file; none if there is no such file.

        Raises:
            Unusable: the file cannot be read or is damaged.
        """
        try:
            with path.open("rb") as file:
                text = file.read(_LARGEST_FILE)
        except FileNotFoundError:
            return cls(path, {})
        except OSError as error:
            raise Unusable(f"The file {path} could not be read: {error.strerror}.") from error
        try:
            stored = _File.model_validate_json(text)
        except ValidationError as error:
            raise Unusable(
                f"The file {path} is damaged, so no outside program can be recognised. Delete it "
                "and grant each program again with `tactful apps grant`."
            ) from error
        return cls(path, {AppId(app): bytes.fromhex(h) for app, h in stored.sha256.items()})

    @property
    def apps(self) -> frozenset[AppId]:
        """The apps that hold a token."""
        return frozenset(self._hashes)

    def issue(self, app: AppId) -> str:
        """A new token for the app: urlsafe text, to be shown once.

        Raises:
            Unusable: the file could not be written; the old token, if any, still counts.
        """
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._writing:
            self._replace({**self._hashes, app: _hash(token)})
        return token

    def revoke(self, app: AppId) -> None:
        """Ends the app's token.

        Raises:
            NotFound: it has none.
            Unusable: the file could not be written; the token still counts.
        """
        with self._writing:
            if app not in self._hashes:
                raise NotFound(f"The app {app} has no token, so there is nothing to revoke.")
            self._replace({name: h for name, h in self._hashes.items() if name != app})

    def verify(self, token: str) -> AppId | None:
        """The app that holds this token."""
        given = _hash(token)
        holder: AppId | None = None
        for app, known in self._hashes.items():
            if hmac.compare_digest(given, known):
                holder = app
        return holder

    def _replace(self, hashes: dict[AppId, bytes]) -> None:
        stored = _File(sha256={app: h.hex() for app, h in sorted(hashes.items())})
        try:
            _write_durably(self._path, stored.model_dump_json(indent=1).encode() + b"\n")
        except OSError as error:
            raise Unusable(
                f"The file {self._path} could not be written: {error.strerror}. Nothing changed."
            ) from error
        self._hashes = MappingProxyType(hashes)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _write_durably(path: Path, content: bytes) -> None:
    """Replaces a file; `mkstemp` makes the new one readable by its owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
