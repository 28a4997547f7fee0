"""What is open only while the profile is unlocked: keys, stores, the model, the gate.

Decides when all of it opens and closes, and what a request gets meanwhile. What is *not* here: how
keys are obtained (`unlocking`), what is opened (`lifecycle`), and when nobody needs it any more
(`idle_lock`).

| state    | entered                       | a request of the owner's or of an app's        |
| -------- | ----------------------------- | ---------------------------------------------- |
| locked   | at first; everything is closed | `Locked`, whatever it asks, the same for all  |
| open     | all parts are open            | runs                                           |
| closing  | the owner's `lock`; the end   | `Locked`; what runs is ended and gets that too |

Invariants:

- what a request gets while the profile is locked depends on the method's name alone;
- parts are closed after the last request that used them has ended, and by the task that opened
  them; no reference to a key is left here afterwards. Python cannot overwrite what it has freed:
  until it is used again, the process's memory may still hold it;
- what was charged stays charged (C5): an ended request is a cancelled one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ConfigDict

from tactful.errors import Locked
from tactful.wire import Message
from tactful_core.values import Secret
from tactfuld.keys.ring import KeyRing
from tactfuld.server.session import Caller, Method, MethodTable

LOCKED = "The profile is locked. Its owner can unlock it with `tactful unlock`."


@dataclass(slots=True, eq=False)
class Opened:
    """What can be asked while everything is open; a table gives way to another as a whole."""

    owner: MethodTable
    apps: MethodTable


Opening = Callable[[KeyRing], AbstractAsyncContextManager[Opened]]
Keys = Callable[[Secret[str] | None], KeyRing]


class Vault:
    """Opens and closes everything that needs keys."""

    def __init__(self, group: asyncio.TaskGroup, keys: Keys, opening: Opening) -> None:
        """Locked.

        Args:
            keys: obtains the keys, with a passphrase where one is needed; called in a thread.
            opening: opens all parts, and closes them after its block.
        """
        self._group = group
        self._keys = keys
        self._opening = opening
        self._opened: Opened | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._changing = asyncio.Lock()
        self._uses: set[asyncio.Timeout] = set()
        self._unused = asyncio.Event()

    def owner_table(self, always: MethodTable, names: frozenset[str]) -> MethodTable:
        """The owner's methods, of which `always` are there in any state."""
        return _Table(self, always, names, lambda opened: opened.owner)

    def app_table(self, names: frozenset[str]) -> MethodTable:
        """The methods of apps."""
        return _Table(self, {}, names, lambda opened: opened.apps)

    async def open(self, passphrase: Secret[str] | None) -> None:
        """Opens everything; does nothing where it is open.

        Raises:
            TactfulError: there are no keys, or a part could not be opened; nothing is open.
        """
        async with self._changing:
            if self._task is not None:
                return
            ready = asyncio.get_running_loop().create_future()
            self._leaving.clear()
            held = self._held(await asyncio.to_thread(self._keys, passphrase), ready)
            self._task = self._group.create_task(held, name="vault")
            await asyncio.shield(ready)

    async def lock(self) -> None:
        """Ends every request that uses a part, and closes all parts."""
        self._leaving.set()
        async with self._changing:
            if self._task is not None:
                await asyncio.wait([self._task])

    async def _held(self, ring: KeyRing, ready: asyncio.Future[None]) -> None:
        try:
            async with self._opening(ring) as opened:
                self._opened = opened
                ready.set_result(None)
                await self._leaving.wait()
                self._opened = None
                await self._end_uses()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            ready.cancel()
            self._opened, self._task = None, None

    async def _end_uses(self) -> None:
        now = asyncio.get_running_loop().time()
        for use in self._uses:
            use.reschedule(now)
        while self._uses:
            self._unused.clear()
            await self._unused.wait()

    @property
    def opened(self) -> Opened | None:
        """What can be asked now."""
        return self._opened

    def guarded(self, opened: Opened, method: Method[Any]) -> Method[Any]:
        """The method, which ends when the vault is locked."""
        return Method(method.request, partial(self._used, opened, method))

    async def _used(
        self, opened: Opened, method: Method[Any], caller: Caller, request: Message
    ) -> Message:
        if self._opened is not opened:
            raise Locked(LOCKED)
        use = asyncio.timeout(None)
        try:
            async with use:
                self._uses.add(use)
                return await method.run(caller, request)
        except TimeoutError as ended:
            if use.expired():
                raise Locked(LOCKED) from ended
            raise
        finally:
            self._uses.discard(use)
            self._unused.set()


class _Anything(Message):
    """Parameters that nobody looks at."""

    model_config = ConfigDict(extra="ignore", frozen=True)


async def _refuse(_caller: Caller, _request: Message) -> Message:
    raise Locked(LOCKED)


_REFUSED = Method(_Anything, _refuse)


class _Table(Mapping[str, Method[Any]]):
    """One socket's methods: always the same names, whatever the vault's state."""

    def __init__(
        self,
        vault: Vault,
        always: MethodTable,
        names: frozenset[str],
        chosen: Callable[[Opened], MethodTable],
    ) -> None:
        self._vault = vault
        self._always = always
        self._names = names | always.keys()
        self._chosen = chosen

    def __getitem__(self, name: str) -> Method[Any]:
        if name not in self._names:
            raise KeyError(name)
        opened = self._vault.opened
        if opened is None:
            return self._always.get(name, _REFUSED)
        table = self._chosen(opened)
        return self._vault.guarded(opened, table[name]) if name in table else self._always[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
