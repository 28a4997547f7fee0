"""Granted folders: which apps hear of which change.

Decides which folders are looked after, and what is told of many changes at once. What is *not*
here: who was granted a folder (`grants`), and telling (`bus`).

Invariants:

- an app hears of changes in folders that it was granted, and of no others;
- a folder that contains one of the profile's folders, or lies in one, is looked after for nobody:
  what is written there follows from memory;
- at most `MOST_AT_ONCE` changes of one folder are told one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from structlog.typing import FilteringBoundLogger
from watchfiles import Change, awatch

from tactful.wire import EventKind, FileChange
from tactful_core.values import AppId
from tactfuld.events.grants import EventGrants

MOST_AT_ONCE = 32
PERIOD = 10.0
"""Seconds after which folders that were missing are looked for again."""

_CHANGES = {
    Change.added: FileChange.ADDED,
    Change.modified: FileChange.MODIFIED,
    Change.deleted: FileChange.DELETED,
}


@dataclass(frozen=True, slots=True)
class Watched:
    """A folder that an app hears of; `real` is where it lies, symbolic links resolved."""

    app: AppId
    folder: Path
    real: Path


@dataclass(frozen=True, slots=True)
class Told:
    """A change that an app hears of, under the folder's name in the policy."""

    app: AppId
    path: str
    change: FileChange


def watched(grants: EventGrants, private: Iterable[Path]) -> tuple[Watched, ...]:
    """The folders that are there and may be looked after; reads, so call it in a thread."""
    hidden = _forms(private)
    return tuple(
        Watched(app, folder, real)
        for app, grant in grants.items()
        if grant.takes(EventKind.FILE)
        for folder in grant.folders
        if folder.is_dir() and not _touches(real := folder.resolve(), hidden)
    )


def told(
    changes: Iterable[tuple[Change, str]], folders: Iterable[Watched], private: Iterable[Path]
) -> Iterator[Told]:
    """What the apps hear of these changes, in an order that the paths give."""
    hidden = tuple(private)
    found: dict[str, set[FileChange]] = {}
    for raw, name in changes:
        found.setdefault(name, set()).add(_CHANGES[raw])
    public = [
        (Path(name), _in_one(found[name])) for name in sorted(found) if not _lies_in(name, hidden)
    ]
    for each in folders:
        inside = [(p, c) for p, c in public if p.is_relative_to(each.real)]
        if len(inside) > MOST_AT_ONCE:
            yield Told(each.app, str(each.folder), FileChange.MANY)
            continue
        for path, change in inside:
            yield Told(each.app, str(each.folder / path.relative_to(each.real)), change)


def _in_one(changes: set[FileChange]) -> FileChange:
    """What several changes of one file come to; in which order they were is not known."""
    if changes >= {FileChange.ADDED, FileChange.DELETED}:
        return FileChange.MODIFIED
    for change in (FileChange.ADDED, FileChange.DELETED):
        if change in changes:
            return change
    return FileChange.MODIFIED


class FolderWatch:
    """Looks after the granted folders for as long as the daemon runs."""

    def __init__(
        self,
        grants: Callable[[], EventGrants],
        tell: Callable[[AppId, str, FileChange], None],
        private: tuple[Path, ...],
        journal: FilteringBoundLogger,
    ) -> None:
        """Nothing is looked after yet.

        Args:
            private: the profile's folders.
        """
        self._grants = grants
        self._tell = tell
        self._private = private
        self._journal = journal
        self._changed = asyncio.Event()

    def look_again(self) -> None:
        """The grants are others now."""
        self._changed.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self._private = await asyncio.to_thread(_forms, self._private)
        while True:
            self._changed.clear()
            folders = await asyncio.to_thread(watched, self._grants(), self._private)
            try:
                await self._watch(folders)
            except (OSError, RuntimeError) as problem:
                # The system has no watches left, or a folder went away meanwhile.
                self._journal.warning("folders_not_watched", error=type(problem).__name__)
                await asyncio.sleep(PERIOD)

    async def _watch(self, folders: tuple[Watched, ...]) -> None:
        """Tells of every change, until the folders to look after are others."""
        if not folders:
            await self._wait_for_others()
            return
        changes = awatch(
            *{each.real for each in folders},
            watch_filter=None,
            stop_event=self._changed,
            rust_timeout=int(PERIOD * 1000),
            yield_on_timeout=True,
        )
        async with aclosing(changes) as stream:
            async for batch in stream:
                for each in told(batch, folders, self._private):
                    self._tell(each.app, each.path, each.change)
                if await asyncio.to_thread(watched, self._grants(), self._private) != folders:
                    return

    async def _wait_for_others(self) -> None:
        try:
            async with asyncio.timeout(PERIOD):
                await self._changed.wait()
        except TimeoutError:
            return


def _forms(folders: Iterable[Path]) -> tuple[Path, ...]:
    """As they are named, and with symbolic links resolved."""
    return tuple({form for path in folders for form in (path, path.resolve())})


def _touches(folder: Path, hidden: tuple[Path, ...]) -> bool:
    return any(folder.is_relative_to(path) or path.is_relative_to(folder) for path in hidden)


def _lies_in(path: str, hidden: tuple[Path, ...]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in hidden)
