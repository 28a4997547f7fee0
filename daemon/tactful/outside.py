"""An app that runs outside the daemon's care, over as many connections as it takes.

Decides when to connect again. What is *not* here: one connection (`app_client`), and what an app's
author holds (`agent`, which takes this as its asker).

Invariants:

- what only looks (`budget`, `quote`, `vocabulary`) is asked again if the connection went while it
  was asked; what may have been charged, or was told somebody, is not: the error is raised;
- a token that was revoked is not tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from tactful.app_client import AppClient
from tactful.errors import DaemonDown, ShuttingDown, TactfulError
from tactful.profile import Profile
from tactful.wire import Answer, Budget, Detail, Vocabulary

PATIENCE_SECONDS = 30.0
"""For how long a daemon that is not there is waited for, at each call."""

_PAUSES = (0.1, 0.3, 1.0)
_GONE = (DaemonDown, ShuttingDown)

R = TypeVar("R")


class OutsideApp:
    """Asks as one app, and connects again when the daemon was restarted."""

    def __init__(
        self, group: asyncio.TaskGroup, profile: Profile, token: str, patience: float
    ) -> None:
        self._group = group
        self._profile = profile
        self._token = token
        self._patience = patience
        self._client: AppClient | None = None
        self._leaving = asyncio.Event()
        self._connecting = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def connected(
        cls, profile: Profile, token: str, patience: float = PATIENCE_SECONDS
    ) -> AsyncIterator[OutsideApp]:
        """An app that is connected when it first asks, and whenever it has to be again.

        Args:
            token: what `tactful apps grant` showed.
            patience: seconds for which each call waits for a daemon that is not there.
        """
        async with asyncio.TaskGroup() as group:
            app = cls(group, profile, token, patience)
            try:
                yield app
            finally:
                app._leaving.set()

    async def ask(
        self,
        query: str,
        *,
        slots: Sequence[str] | None = None,
        thread: str | None = None,
        detail: Detail = "views",
        on_text: Callable[[str], None] | None = None,
    ) -> Answer:
        """As `AppClient.ask`; `DaemonDown` if the connection went meanwhile: it may be charged."""
        client = await self._connected()
        return await client.ask(query, slots=slots, thread=thread, detail=detail, on_text=on_text)

    async def budget(self) -> Budget:
        """As `AppClient.budget`."""
        return await self._looked(AppClient.budget)

    async def quote(
        self, query: str, *, slots: Sequence[str] | None = None, thread: str | None = None
    ) -> Budget:
        """As `AppClient.quote`."""
        return await self._looked(lambda client: client.quote(query, slots=slots, thread=thread))

    async def vocabulary(self) -> Vocabulary:
        """As `AppClient.vocabulary`."""
        return await self._looked(AppClient.vocabulary)

    async def notify(self, text: str, title: str = "") -> None:
        """As `AppClient.notify`."""
        await (await self._connected()).notify(text, title)

    async def propose(self, text: str, slot: str) -> None:
        """As `AppClient.propose`."""
        await (await self._connected()).propose(text, slot)

    async def send(self, app: str, text: str) -> None:
        """As `AppClient.send`."""
        await (await self._connected()).send(app, text)

    async def _looked(self, call: Callable[[AppClient], Awaitable[R]]) -> R:
        try:
            return await call(await self._connected())
        except _GONE:
            return await call(await self._connected())

    async def _connected(self) -> AppClient:
        """A connection that has not ended, as far as is known.

        Raises:
            DaemonDown, ShuttingDown: there was none for as long as the patience lasted.
            NotAuthenticated: the token is unknown or was revoked.
        """
        clock = asyncio.get_running_loop().time
        until, pauses = clock() + self._patience, iter(_PAUSES)
        async with self._connecting:
            while self._client is None or self._client.ended:
                try:
                    self._client = await self._begun()
                except _GONE:
                    if clock() >= until:
                        raise
                    await asyncio.sleep(next(pauses, _PAUSES[-1]))
            return self._client

    async def _begun(self) -> AppClient:
        begun: asyncio.Future[AppClient] = asyncio.get_running_loop().create_future()
        self._group.create_task(self._hold(begun), name="outside connection")
        return await begun

    async def _hold(self, begun: asyncio.Future[AppClient]) -> None:
        """Keeps one connection until it ends, or until nobody needs any."""
        try:
            async with AppClient.connect(self._profile, self._token) as client:
                if not begun.done():
                    begun.set_result(client)
                await self._until_over(client)
        except TactfulError as error:
            if not begun.done():
                begun.set_exception(error)

    async def _until_over(self, client: AppClient) -> None:
        async with asyncio.TaskGroup() as group:
            ends = [
                group.create_task(client.wait_ended(), name="connection ended"),
                group.create_task(self._leaving.wait(), name="nobody needs it"),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
