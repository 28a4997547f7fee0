"""Who may connect to which socket, and how a connection becomes somebody's.

Decides identities: the owner by the secret, an outside program by its token, a hosted app by its
connection. What is *not* here: what each may call (`owner_methods`, `app_methods`).

Invariants:

- the owner's secret is made anew at each start and compared in constant time;
- revoking a token ends its connections at once.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from tactful.errors import NotAuthenticated
from tactful.peer import Limits, Peer
from tactful_core.values import AppId
from tactfuld.apps.tokens import AppTokens
from tactfuld.server.session import OWNER, Identity, MethodTable, Session

MOST_CONNECTIONS = 64
"""Open at a time on each socket."""

OWNER_LIMITS = Limits(line_bytes=256 * 1024)
APP_LIMITS = Limits(lines_a_second=50.0)


def write_owner_secret(path: Path) -> str:
    """A new secret in a file of mode 0600, written as a whole."""
    secret = secrets.token_urlsafe(32)
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret)
    beside.replace(path)
    return secret


class OwnerDoor:
    """Serves connections to `owner.sock`."""

    def __init__(self, secret: str, table: MethodTable, journal: FilteringBoundLogger) -> None:
        self._secret = secret.encode()
        self._table = table
        self._journal = journal.bind(socket="owner")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Session(
            reader,
            writer,
            table=self._table,
            authenticate=self._identify,
            identity=None,
            limits=OWNER_LIMITS,
            log=self._journal,
        ).run()

    async def _identify(self, token: str) -> Identity | None:
        return OWNER if hmac.compare_digest(token.encode(), self._secret) else None


class AppDoor:
    """Serves connections of apps: outside programs on `app.sock`, and hosted children."""

    def __init__(
        self, tokens: AppTokens, table: MethodTable, journal: FilteringBoundLogger
    ) -> None:
        self._tokens = tokens
        self._table = table
        self._journal = journal.bind(socket="app")
        self._outside: dict[Session, AppId] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves an outside program until its connection ends."""

        async def identify(token: str) -> Identity | None:
            app = self._tokens.verify(token)
            if app is not None:
                self._outside[session] = app
            return app

        session = Session(
            reader,
            writer,
            table=self._table,
            authenticate=identify,
            identity=None,
            limits=APP_LIMITS,
            log=self._journal,
        )
        try:
            await session.run()
        finally:
            self._outside.pop(session, None)

    def hosted(
        self, app: AppId, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Peer:
        """The daemon's side of a child's connection, not yet running."""
        return Session(
            reader,
            writer,
            table=self._table,
            authenticate=None,
            identity=app,
            limits=APP_LIMITS,
            log=self._journal.bind(identity=app),
        ).peer

    def revoked(self, app: AppId) -> None:
        """Ends every connection that was made with the app's token."""
        for session, holder in list(self._outside.items()):
            if holder == app:
                session.peer.end(
                    NotAuthenticated(
                        "The token was revoked; the connection is closed. "
                        "Ask the owner for a new one."
                    )
                )
