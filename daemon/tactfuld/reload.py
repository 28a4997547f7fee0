"""Changes of settings.yaml and policy.yaml while the daemon runs.

Decides when the two files are looked at, what of the settings takes effect at once, and what the
owner is told. What is *not* here: what a file may say (`settings`, `policy.loading`, the same code
as at the start), how a setting takes effect (`unlocked`), and when the parts of a changed policy do
(`policy_in_force`).

The folder is watched, not the file: editors write a new file and rename it. Where nothing can be
watched, the files are looked at every `PERIOD` anyway.

Invariants:

- a file that is missing, emptied, half written or wrong changes nothing: what was read last stays
  in force, and a notice says what is wrong until it is mended;
- a file that is being written is left alone until it has been the same for `SETTLED`: the half of a
  policy can be a policy, one that takes everything away from every app;
- a policy that is taken over is kept as a version, so that the owner can go back to it;
- only settings marked `AtOnce`, and those of apps, change in a running daemon;
- what an app can observe of a change are public constants that the owner chose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structlog.typing import FilteringBoundLogger
from watchfiles import awatch

from tactful.profile import Profile
from tactfuld.notices import Notices
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import load_document
from tactfuld.policy_versions import keep_version
from tactfuld.problems import FileRefusedError
from tactfuld.settings import Settings, load_settings
from tactfuld.settings_table import all_settings
from tactfuld.yaml_file import read_text

PERIOD = 10.0
"""Seconds after which the files are looked at without a sign of a change."""

SETTLED = 0.5
"""Seconds for which a file that was changed has to stay the same."""


_Signs = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at both files found.

    Attributes:
        waiting: dotted settings that differ from those in force and wait for the next start.
        settings_problem: why the settings file was not taken over, as a sentence.
        policy_problem: why the policy file was not taken over, as a sentence.
        policy_waits: what of it waits for a tick or an epoch, as a sentence.
    """

    waiting: tuple[str, ...]
    settings_problem: str | None
    policy_problem: str | None
    policy_waits: str | None


class Reloading:
    """Looks after both files for as long as the daemon runs."""

    def __init__(
        self,
        profile: Profile,
        settings: Settings,
        apply: Callable[[Settings], None],
        take: Callable[[PolicyDocument], Awaitable[str | None]],
        notices: Notices,
        journal: FilteringBoundLogger,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            settings: those that the daemon was started with.
            apply: makes settings take effect of which only those `AtOnce` have changed.
            take: is given the policy as it is written; what is to be said about it.
        """
        self._profile = profile
        self._settings_file = profile.settings_file
        self._policy_file = profile.policy_file
        self._in_force = settings
        self._written = settings
        self._apply = apply
        self._take = take
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
                await self._changed()
                await self.look()
                await asyncio.sleep(PERIOD)

    async def look(self) -> Looked:
        """Reads both files and takes over what can be."""
        async with self._looking:
            self._seen = await asyncio.to_thread(self._signs)
            problem = await self._look_at_settings()
            read = await asyncio.to_thread(self._read_policy)
            waiting = differing(self._written, self._in_force)
            wrong = read if isinstance(read, str) else None
            self._tell(problem, waiting, wrong)
            waits = await self._take(read) if isinstance(read, PolicyDocument) else None
            return Looked(waiting, problem, wrong, waits)

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
            await self._changed()
            await self.look()
            async for _ in stream:
                if await self._changed():
                    await self.look()
                if await asyncio.to_thread(self._folders) != folders:
                    return

    async def _changed(self) -> bool:
        """Whether there is something new to see; returns once it does not change any more."""
        signs = await asyncio.to_thread(self._signs)
        before = self._seen
        while signs not in (before, self._seen):
            before = signs
            await asyncio.sleep(SETTLED)
            signs = await asyncio.to_thread(self._signs)
        return signs != self._seen

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

    def _read_policy(self) -> PolicyDocument | str:
        path = self._policy_file
        try:
            document = load_document(path)
        except PolicyError as error:
            return (
                f"{path.name} has problems, and the daemon would not start with it. The policy in "
                f"force stays as it is. {_first(error)}"
            )
        try:
            keep_version(self._profile)
        except OSError as problem:
            self._journal.warning("policy_version_not_kept", errno=problem.errno)
        return document

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
    tree["apps"] = written.apps
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
