"""Changes of settings.yaml and policy.yaml while the daemon runs.

Decides when the two files are looked at, what of a change takes effect at once, and what the owner
is told. What is *not* here: what a file may say (`settings`, `policy.loading`, the same code as at
the start), and how a setting takes effect (`lifecycle`).

The folder is watched, not the file: editors write a new file and rename it. Where nothing can be
watched, the files are looked at every `PERIOD` anyway.

Invariants:

- a file that is missing, emptied, half written or wrong changes nothing: what was read last stays
  in force, and a notice says what is wrong until it is mended;
- only settings marked `AtOnce` change in a running daemon; of the policy nothing does;
- what an app can observe of a change are public constants that the owner chose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structlog.typing import FilteringBoundLogger
from watchfiles import awatch

from tactful.profile import Profile
from tactful_core.promises import Promises
from tactfuld.notices import Notices
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import load_policy
from tactfuld.problems import FileRefusedError
from tactfuld.settings import Settings, load_settings
from tactfuld.settings_table import all_settings
from tactfuld.store.memory import layout_fingerprint
from tactfuld.yaml_file import read_text

PERIOD = 10.0
"""Seconds after which the files are looked at without a sign of a change."""


_Signs = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at both files found.

    Attributes:
        waiting: dotted settings that differ from those in force and wait for the next start.
        settings_problem: why the settings file was not taken over, as a sentence.
        policy_notice: what is to be said about the policy file, as a sentence.
    """

    waiting: tuple[str, ...]
    settings_problem: str | None
    policy_notice: str | None


class Reloading:
    """Looks after both files for as long as the daemon runs."""

    def __init__(
        self,
        profile: Profile,
        settings: Settings,
        promises: Promises,
        apply: Callable[[Settings], None],
        notices: Notices,
        journal: FilteringBoundLogger,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            settings: those that the daemon was started with.
            apply: makes settings take effect of which only those `AtOnce` have changed.
        """
        self._settings_file = profile.settings_file
        self._policy_file = profile.policy_file
        self._in_force = settings
        self._written = settings
        self._promises = promises
        self._apply = apply
        self._notices = notices
        self._journal = journal
        self._looking = asyncio.Lock()
        self._seen: _Signs = ()

    async def run(self) -> None:
        """Looks at once and after every change, until it is cancelled."""
        while True:
            folders = await asyncio.to_thread(self._folders)
            try:
                await self._watch(folders)
            except (OSError, RuntimeError):
                # There is no folder, or the system has no watches left: then by the clock.
                await self.look()
                await asyncio.sleep(PERIOD)

    async def look(self) -> Looked:
        """Reads both files and takes over what can be."""
        async with self._looking:
            self._seen = await asyncio.to_thread(self._signs)
            problem = await self._look_at_settings()
            policy = await asyncio.to_thread(self._policy_notice)
            waiting = differing(self._written, self._in_force)
            self._tell(problem, waiting, policy)
            return Looked(waiting, problem, policy)

    async def _watch(self, folders: frozenset[Path]) -> None:
        """Looks after every change in these folders, until they are others."""
        changes = awatch(
            *folders,
            watch_filter=None,
            recursive=False,
            rust_timeout=int(PERIOD * 1000),
            yield_on_timeout=True,
        )
        async with aclosing(changes) as stream:
            await self.look()
            async for _ in stream:
                if await asyncio.to_thread(self._signs) != self._seen:
                    await self.look()
                if await asyncio.to_thread(self._folders) != folders:
                    return

    def _signs(self) -> _Signs:
        """What changes whenever a file does."""
        return tuple(_sign(path) for path in (self._settings_file, self._policy_file))

    def _folders(self) -> frozenset[Path]:
        """Where a change can show: also beside the file that a symbolic link names."""
        files = (self._settings_file, self._policy_file)
        return frozenset(folder for f in files for folder in (f.parent, f.resolve().parent))

    async def _look_at_settings(self) -> str | None:
        """Takes the settings over; or why not."""
        read = await asyncio.to_thread(self._read_settings)
        if isinstance(read, str):
            return read
        if read != self._written:
            self._written = read
            self._in_force = with_at_once(self._in_force, read)
            self._apply(self._in_force)
            self._journal.info("settings_reloaded")
        return None

    def _read_settings(self) -> Settings | str:
        path = self._settings_file
        stays = "What it said before stays in force."
        try:
            if self._written != Settings() and not _has_text(path):
                return f"{path} is empty or gone. {stays}"
            return load_settings(path)
        except FileRefusedError as error:
            return f"{path.name} has problems. {stays} {_first(error)}"

    def _policy_notice(self) -> str | None:
        path = self._policy_file
        try:
            promises = load_policy(path)
        except PolicyError as error:
            return (
                f"{path.name} has problems, and the daemon would not start with it. The policy "
                f"that it was started with stays in force. {_first(error)}"
            )
        if promises.digest == self._promises.digest:
            return None
        if layout_fingerprint(promises.layout) != layout_fingerprint(self._promises.layout):
            return (
                f"{path.name} now has other shelves than the memory of this profile, and the "
                "daemon would not start with it. Take that back, or make a new profile."
            )
        return f"{path.name} was changed and is in order. It holds from the next start on."

    def _tell(self, problem: str | None, waiting: tuple[str, ...], policy: str | None) -> None:
        later = f"Settings that wait for the next start: {', '.join(waiting)}."
        self._notices.replace("settings", problem or (later if waiting else None))
        self._notices.replace("policy", policy)


def differing(written: Settings, in_force: Settings) -> tuple[str, ...]:
    """The settings, dotted, in which the two differ."""
    return tuple(
        setting.key
        for setting in all_settings()
        if setting.value_in(written) != setting.value_in(in_force)
    )


def with_at_once(in_force: Settings, written: Settings) -> Settings:
    """The settings in force, but for those that take effect at once as they are written now."""
    tree: dict[str, Any] = in_force.model_dump()
    for setting in all_settings():
        if setting.at_once:
            *sections, last = setting.key.split(".")
            place = tree
            for section in sections:
                place = place[section]
            place[last] = setting.value_in(written)
    return Settings.model_validate(tree)


def _sign(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _has_text(path: Path) -> bool:
    try:
        return bool(read_text(path).strip("\ufeff \r\n"))
    except FileNotFoundError:
        return False


def _first(error: FileRefusedError) -> str:
    """The first problem, and how many more there are."""
    more = len(error.problems) - 1
    return f"{error.problems[0]}" + (f" (And {more} more.)" if more else "")
