"""One process of one app: how it is started, spoken to, and ended.

Decides how a child begins and ends. What is *not* here: its walls (`sandbox`), and when it is
started or given up (`host`).

Invariants:

- a child inherits three things: `/dev/null`, its log, and its end of a socket pair;
- a child leads its own session, and what is left of that session dies with it;
- ending is always complete: asked by closing the connection, then SIGTERM, then SIGKILL.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tactful.peer import Limits as WireLimits
from tactful.peer import open_streams
from tactful_core.values import AppId
from tactfuld.apps.folders import OpenFolder
from tactfuld.apps.installed import InstalledApp
from tactfuld.apps.limits import UNCONFINED_PROCESSES, Limits, limited
from tactfuld.apps.sandbox import (
    Bubblewrap,
    Unconfined,
    filter_of_system_calls,
    minimal_environment,
    refuse_exposure,
    sandbox_command,
    with_filter,
)
from tactfuld.apps.sdk import refresh

_LARGEST_LOG = 1024 * 1024
_LAST_WORDS = 4096
_LONGEST_REASON = 400


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything a child is started with, except its socket.

    Attributes:
        command: what to run; `--fd N` is appended.
        sandboxed: whether it is behind walls.
        environment: all of its variables.
        folder: the app's own folder, its working directory.
        log: where its standard output and error go.
    """

    app: AppId
    command: tuple[str, ...]
    sandboxed: bool
    environment: Mapping[str, str]
    folder: Path
    log: Path


def prepare(
    app: InstalledApp,
    confinement: Bubblewrap | Unconfined,
    *,
    state: Path,
    private: tuple[Path, ...],
    limits: Limits,
    granted: tuple[OpenFolder, ...] = (),
) -> Launch:
    """Makes the app's folders and its command; touches the disk, so never on the event loop.

    Args:
        state: the profile's state folder.
        private: folders that no app may read: the owner's home and the profile's.
        granted: folders that the owner's policy opens to the app.

    Raises:
        SandboxError: the app's sources lie where a private folder would be exposed.
    """
    folder, logs = state / "apps" / app.name, state / "logs"
    for made in (state, folder.parent, folder, logs):
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
    if app.library is not None:
        refresh(app.library)
    environment = minimal_environment(folder, app.folders)
    command = app.command()
    sandboxed = isinstance(confinement, Bubblewrap)
    if isinstance(confinement, Bubblewrap):
        refuse_exposure(app.read_only, private)
        command = sandbox_command(
            limited(command, limits),
            sandbox=confinement,
            read_only=app.read_only,
            state=folder,
            environment=environment,
            folders=granted,
        )
    else:
        command = limited(command, replace(limits, processes=UNCONFINED_PROCESSES))
    log = logs / f"{app.name}.log"
    return Launch(app.name, tuple(command), sandboxed, environment, folder, log)


class Child:
    """A running child and the daemon's end of its connection."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.process = process
        self.reader = reader
        self.writer = writer

    @classmethod
    async def start(cls, launch: Launch, wire: WireLimits) -> Child:
        """Starts the child.

        Raises:
            OSError: the program could not be started, or the log not be written.
        """
        with ExitStack() as opened:
            log, filtering = await asyncio.to_thread(_opened, launch, opened)
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    process = await _spawn(launch, log, filtering, theirs)
                except BaseException:
                    ours.close()
                    raise
        reader, writer = await open_streams(ours, wire)
        return cls(process, reader, writer)

    @property
    def hung_up(self) -> bool:
        """Whether the child has closed its end of the connection, or ours is closing."""
        return self.reader.at_eof() or self.writer.is_closing()

    async def wait(self) -> None:
        """Returns when the process has ended."""
        await self.process.wait()

    async def end(self, grace: float) -> int:
        """The exit status, once the child and what it left in its session are gone.

        Args:
            grace: seconds that it has to end, once its connection is closed and again after
                SIGTERM.
        """
        try:
            for request in (None, signal.SIGTERM):
                if request is not None:
                    self._signal(request)
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace):
                        return await self.process.wait()
        finally:
            self._signal(signal.SIGKILL)
        return await self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # The session's group may outlive its leader. While anything in it runs, the kernel gives
        # its number to nobody else.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


async def _spawn(
    launch: Launch, log: int, filtering: int | None, theirs: socket.socket
) -> asyncio.subprocess.Process:
    command = with_filter(launch.command, filtering)
    inherited = [theirs.fileno(), *(() if filtering is None else (filtering,))]
    return await asyncio.create_subprocess_exec(
        *command,
        "--fd",
        str(theirs.fileno()),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=inherited,
        env=dict(launch.environment),
        cwd=launch.folder,
        start_new_session=True,
        umask=0o077,
    )


def _opened(launch: Launch, opened: ExitStack) -> tuple[int, int | None]:
    """Descriptors of the log and, in a sandbox, of the filter; the stack closes them."""
    log = _open_log(launch.log)
    opened.callback(os.close, log)
    return log, opened.enter_context(filter_of_system_calls()) if launch.sandboxed else None


def _open_log(path: Path) -> int:
    """A descriptor to append to the log; a long one is put aside first."""
    if path.exists() and path.stat().st_size > _LARGEST_LOG:
        path.replace(path.with_suffix(".log.1"))
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def last_words(log: Path) -> str:
    """The last line of a log, safe to show. Reads, so never on the event loop."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        if lines:
            return safe_to_show(lines[-1])
    return ""


def safe_to_show(text: str) -> str:
    """What an app wrote, short and without control characters, for the owner's screen."""
    return "".join(c if c.isprintable() else "?" for c in text[:_LONGEST_REASON])
