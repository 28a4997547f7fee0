"""Asking an app what it is called and asks for, without hosting it.

Decides how an app's code is run for a moment: in the same sandbox and under the same limits as when
it is hosted, without a connection to anything. What is *not* here: what the owner grants it.

Invariant: what an app answers is bounded in length and time, and is checked like any text of
strangers.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from tactful.errors import Unusable
from tactful.manifest import Description
from tactful.profile import Profile
from tactfuld.apps.child import last_words
from tactfuld.apps.installed import InstalledApp
from tactfuld.apps.limits import UNCONFINED_PROCESSES, Limits, limited
from tactfuld.apps.sandbox import (
    Bubblewrap,
    Confinement,
    NoSandbox,
    SandboxError,
    Unconfined,
    filter_of_system_calls,
    minimal_environment,
    refuse_exposure,
    sandbox_command,
    shared_interpreter,
    with_filter,
)

_LONGEST_ANSWER = 256 * 1024
_SECONDS = 60
_BUILD_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Look:
    """How apps of a profile may be looked at.

    Attributes:
        home: the owner's home folder, which no app may read.
    """

    profile: Profile
    home: Path
    confinement: Confinement

    @property
    def private(self) -> tuple[Path, ...]:
        """What no app may read."""
        profile = self.profile
        return (self.home, profile.config, profile.data, profile.state, profile.runtime)

    def describe(self, app: InstalledApp) -> Description:
        """What an app says of itself.

        Raises:
            Unusable: it cannot be loaded, or cannot be confined; the message says why.
        """
        answering, answer = os.pipe()
        with (
            os.fdopen(answering, "rb") as reading,
            tempfile.TemporaryDirectory(prefix="tactful-look-") as scratch,
        ):
            log = Path(scratch) / "log"
            folder = Path(scratch) / "app"
            folder.mkdir()
            argv = [*app.command(), "--describe", "--fd", str(answer)]
            try:
                process = self._started(argv, app, folder, log, answer)
            finally:
                os.close(answer)
            try:
                text = _bounded(reading, _SECONDS)
                status = process.wait(_SECONDS)
            except (TimeoutError, subprocess.TimeoutExpired) as error:
                raise Unusable(f"The app {app.name} does not say what it is in time.") from error
            finally:
                _end(process)
            return _checked(app, status, text, last_words(log))

    def _started(
        self, argv: Sequence[str], app: InstalledApp, folder: Path, log: Path, answer: int
    ) -> subprocess.Popen[bytes]:
        return _start(
            self,
            argv,
            read_only=app.read_only,
            import_folders=app.folders,
            folder=folder,
            log=log,
            inherited=(answer,),
        )


def run_in_sandbox(
    look: Look, arguments: Sequence[str], *, folder: Path, log: Path
) -> tuple[int, str]:
    """Runs the base interpreter with nothing but one folder, to its end.

    Args:
        folder: what it may write.

    Returns:
        Its status, and the last line of what it said.

    Raises:
        Unusable: there is no sandbox, or it took too long.
    """
    argv = [str(Path(sys.executable).resolve()), *arguments]
    process = _start(
        look,
        argv,
        read_only=shared_interpreter(),
        import_folders=(),
        folder=folder,
        log=log,
    )
    try:
        return process.wait(_BUILD_SECONDS), last_words(log)
    except subprocess.TimeoutExpired as error:
        raise Unusable(f"Building took longer than {_BUILD_SECONDS} seconds.") from error
    finally:
        _end(process)


def _start(
    look: Look,
    argv: Sequence[str],
    *,
    read_only: tuple[Path, ...],
    import_folders: tuple[Path, ...],
    folder: Path,
    log: Path,
    inherited: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    environment = minimal_environment(folder, import_folders)
    with filter_of_system_calls() as filtering, log.open("ab") as said:
        match look.confinement:
            case Bubblewrap() as sandbox:
                try:
                    refuse_exposure(read_only, look.private)
                except SandboxError as error:
                    raise Unusable(str(error)) from error
                walled = sandbox_command(
                    limited(argv, Limits()),
                    sandbox=sandbox,
                    read_only=read_only,
                    state=folder,
                    environment=environment,
                )
                command = with_filter(walled, filtering)
                inherited += () if filtering is None else (filtering,)
            case Unconfined():
                command = limited(argv, replace(Limits(), processes=UNCONFINED_PROCESSES))
            case NoSandbox(problem=problem):
                raise Unusable(problem)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=environment,
            cwd=folder,
            pass_fds=inherited,
            start_new_session=True,
        )


def _bounded(reading: IO[bytes], seconds: float) -> bytes:
    """All that comes until the other side closes, at most so much and for so long."""
    text, ends = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        while len(text) <= _LONGEST_ANSWER:
            if not selector.select(ends - time.monotonic()):
                raise TimeoutError
            piece = os.read(reading.fileno(), 65536)
            if not piece:
                break
            text += piece
    return text


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the process and its session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _checked(app: InstalledApp, status: int, text: bytes, last: str) -> Description:
    if status != 0:
        why = last or f"It ended with status {status}."
        raise Unusable(f"The app {app.name} cannot be used. {why}")
    try:
        found = Description.model_validate_json(text)
    except ValidationError as error:
        raise Unusable(
            f"The app {app.name} cannot be used: what it says of itself has another form."
        ) from error
    if found.manifest.name != app.name:
        raise Unusable(f"The app {app.name} cannot be used: it calls itself otherwise.")
    return found
