"""Whether what a backup holds can be used: every row opened, the ledger followed to its end.

Decides what a usable backup is; one is looked at so when it is made, verified and restored. What is
*not* here: the file around it (`container`), and what stores check (`store`).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tactful.errors import Unusable
from tactful_core.entries import Entry, UnreadableEntry
from tactful_core.layout import Layout
from tactful_core.promises import Promises
from tactful_core.sealing import Memory
from tactful_core.values import Position
from tactfuld.backup.contents import Contents
from tactfuld.keys.values import StoreKeys
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import parse_policy
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerPlace, LedgerStore
from tactfuld.store.memory import MemoryPlace, MemoryStore
from tactfuld.store.released_turn import Retention

_EVERYTHING = Retention(turns=2**31, days=2**16)


@dataclass(frozen=True, slots=True)
class Examined:
    """What a backup turned out to hold.

    Attributes:
        turns: how many turns of released history; None where it was left out.
    """

    promises: Promises
    memories: tuple[tuple[Position, Memory], ...]
    entries: tuple[Entry, ...]
    turns: int | None

    @property
    def counts(self) -> dict[str, object]:
        """What the owner is told."""
        return {
            "memories": len(self.memories),
            "entries": len(self.entries),
            "turns": self.turns,
        }


def examined(contents: Contents, store_id: bytes, origin: str) -> Examined:
    """Opens everything in copies that are removed afterwards.

    Args:
        origin: names what is looked at in errors.

    Raises:
        Unusable: something in it cannot be used.
    """
    promises = policy_of(contents, origin)
    with tempfile.TemporaryDirectory(prefix="tactful-") as folder:
        return asyncio.run(
            _opened(contents, contents.store_keys(store_id), promises, Path(folder), origin)
        )


def policy_of(contents: Contents, origin: str) -> Promises:
    """The promises of the policy in a backup.

    Raises:
        Unusable: this version does not read it.
    """
    try:
        return parse_policy(contents.files["policy.yaml"].decode(), source="policy.yaml")
    except (PolicyError, UnicodeDecodeError) as problem:
        raise Unusable(
            f"The policy of {origin} has problems: {problem}"
            if isinstance(problem, PolicyError)
            else f"The policy of {origin} is not UTF-8 text."
        ) from problem


def put_file(path: Path, data: bytes) -> None:
    """A new file of mode 0600, durably.

    Raises:
        OSError: the operating system refuses, or there is one.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


async def _opened(
    contents: Contents, keys: StoreKeys, promises: Promises, folder: Path, origin: str
) -> Examined:
    for name, data in contents.files.items():
        if name.endswith(".db"):
            await asyncio.to_thread(put_file, folder / name, data)
    return Examined(
        promises,
        await _memories(folder, promises.layout, keys, origin),
        await _entries(folder, keys, origin),
        await _turns(folder, keys, origin) if HISTORY_FILE in contents.files else None,
    )


async def _memories(
    folder: Path, layout: Layout, keys: StoreKeys, origin: str
) -> tuple[tuple[Position, Memory], ...]:
    place = MemoryPlace(folder / "memory.db", folder / "no.witness")
    try:
        async with MemoryStore.open(place, layout, keys, _unheard) as store:
            return await store.listing()
    except Unusable as problem:
        raise Unusable(
            f"Memory of {origin} cannot be opened, or its policy has other shelves than memory was "
            "made for. `tactful doctor` and `tactful policy check` say more."
        ) from problem


async def _entries(folder: Path, keys: StoreKeys, origin: str) -> tuple[Entry, ...]:
    place = LedgerPlace(folder / "ledger.db", folder / "no.mark")
    try:
        async with LedgerStore.open(place, keys, (), _unheard) as store:
            return await store.entries()
    except (UnreadableEntry, Unusable) as problem:
        raise Unusable(
            f"The ledger of {origin} cannot be read from its first entry to its last."
        ) from problem


async def _turns(folder: Path, keys: StoreKeys, origin: str) -> int:
    notices: list[str] = []
    path = folder / HISTORY_FILE
    async with HistoryStore.open(path, keys, _EVERYTHING, 0, notices.append) as store:
        found = len(await store.listing(None, None, 2**31))
    if notices:
        _no_history(origin)
    return found


def _no_history(origin: str) -> NoReturn:
    raise Unusable(
        f"Released history of {origin} has turns that cannot be opened. A backup without it can be "
        "made with --without-history."
    )


def _unheard(_notice: str) -> None:
    """A copy has neither mark nor witness; what else is wrong is an error."""
