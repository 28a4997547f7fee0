"""Running `tactfuld`: as a daemon of its own, or for one command that needs no daemon.

Decides how a child is called and how its answers are read. What is *not* here: how it is ended
(`children`), what it does, and what the owner is told about it.

Invariants:

- a passphrase reaches a child through a pipe, never as an argument or in its environment;
- a child's error arrives as the same class of error here.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from tactful.cli.children import started
from tactful.cli.passphrase import Passphrase, to_bytes
from tactful.errors import Busy, InternalError, NotFound, from_description
from tactful.profile import Profile

READY_SECONDS = 180.0

Report = Callable[[str, int, int], None]

_NO_SECRETS: Mapping[str, Passphrase | None] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Target:
    """Which profile a child works on; `folder` is what `--profile` named, if anything."""

    profile: Profile
    folder: Path | None

    def arguments(self) -> list[str]:
        return ["--profile", str(self.folder)] if self.folder is not None else []


def daemon_command() -> list[str]:
    """How to run the `tactfuld` that was installed with this `tactful`, else one on the path.

    Raises:
        NotFound: there is none.
    """
    beside = Path(sys.executable).with_name("tactfuld")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("tactfuld")
    if found is None:
        raise NotFound(
            "The program tactfuld was not found. It is installed together with tactful: "
            "install the package again, or put the folder of its programs on the PATH."
        )
    return [found]


def one_shot(
    target: Target,
    command: Sequence[str],
    passphrase: Passphrase | None,
    report: Report,
    secrets: Mapping[str, Passphrase | None] = _NO_SECRETS,
) -> dict[str, object]:
    """Runs `tactfuld one-shot COMMAND` and returns its data.

    Args:
        secrets: more of them, by the option that takes a descriptor.

    Raises:
        TactfulError: the child's error; `InternalError` if it ended without an answer.
    """
    argv = [*daemon_command(), "one-shot", *command, *target.arguments()]
    offers = {"--passphrase-fd": passphrase, **secrets}
    with contextlib.ExitStack() as stack, tempfile.TemporaryFile() as complaints:
        pipes = [stack.enter_context(_offered(given, option)) for option, given in offers.items()]
        with started(
            [*argv, *(word for pipe in pipes for word in pipe.arguments())],
            pass_fds=tuple(number for pipe in pipes for number in pipe.descriptors()),
            stdout=subprocess.PIPE,
            stderr=complaints,
        ) as child:
            answer = _answer_of(child, report)
            child.wait()
        if answer is None:
            raise InternalError(
                f"tactfuld one-shot {command[0]} ended without an answer "
                f"(exit status {child.returncode}). {_last_line(complaints)}".strip()
            )
    return _data(answer)


def start_daemon(
    target: Target, passphrase: Passphrase | None, *, detached: bool
) -> subprocess.Popen[bytes]:
    """Starts `tactfuld serve` and returns once it is ready.

    Detached, it has its own session and writes to its log; else it writes to our standard error,
    and Ctrl-C on our terminal reaches only us (`children.passing_on_signals`).

    Raises:
        TactfulError: the daemon's error; `Busy` if it is not ready in time.
    """
    ready, told = os.pipe()
    with (
        os.fdopen(ready, "rb") as answer,
        os.fdopen(told, "wb") as announcement,
        _offered(passphrase) as pipe,
    ):
        argv = [*daemon_command(), "serve", "--ready-fd", str(told), *target.arguments()]
        with (
            _log(target.profile, detached) as log,
            started(
                [*argv, *pipe.arguments()],
                pass_fds=(told, *pipe.descriptors()),
                stdout=log,
                stderr=log,
                start_new_session=detached,
                process_group=None if detached else 0,
            ) as child,
        ):
            announcement.close()
            _await_ready(answer, target)
    return child


def own_name() -> str:
    """How the owner can call this program again from where they are."""
    ours = Path(sys.executable).with_name("tactful")
    on_path = shutil.which("tactful")
    if not ours.exists() or (on_path is not None and Path(on_path).resolve() == ours.resolve()):
        return "tactful"
    here = Path.cwd()
    return str(ours.relative_to(here)) if ours.is_relative_to(here) else str(ours)


@dataclass(frozen=True, slots=True)
class _Pipe:
    """The reading end of a pipe that holds a secret, or nothing."""

    descriptor: int | None
    option: str

    def arguments(self) -> list[str]:
        return [self.option, str(self.descriptor)] if self.descriptor is not None else []

    def descriptors(self) -> tuple[int, ...]:
        return (self.descriptor,) if self.descriptor is not None else ()


@contextlib.contextmanager
def _offered(passphrase: Passphrase | None, option: str = "--passphrase-fd") -> Iterator[_Pipe]:
    if passphrase is None:
        yield _Pipe(None, option)
        return
    content = to_bytes(passphrase)
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(content)
        yield _Pipe(reading, option)
    finally:
        os.close(reading)


@contextlib.contextmanager
def _log(profile: Profile, detached: bool) -> Iterator[IO[bytes] | int]:
    """Where a daemon's own output goes; a profile that is not made yet gets no folder for it."""
    if not detached:
        yield sys.stderr.fileno()
    elif not profile.state.is_dir():
        yield subprocess.DEVNULL
    else:
        descriptor = os.open(profile.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as log:
            yield log


def _await_ready(answer: IO[bytes], target: Target) -> None:
    deadline = time.monotonic() + READY_SECONDS
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([answer], [], [], left)[0]:
            raise Busy(
                f"The daemon was not ready within {READY_SECONDS:.0f} seconds and was stopped. "
                f"Its log is {target.profile.log_file}; try again when the machine is less busy."
            )
        piece = os.read(answer.fileno(), 65536)
        if not piece:
            break
        line += piece
    told = _parsed(line)
    if told is None or not told:
        raise InternalError(
            f"The daemon ended before it was ready. Its log is {target.profile.log_file}."
        )
    if "error" in told:
        _data(told)


def _answer_of(child: subprocess.Popen[bytes], report: Report) -> dict[str, object] | None:
    answer = None
    assert child.stdout is not None  # noqa: S101 - it was asked for as a pipe
    for line in child.stdout:
        told = _parsed(line)
        if told is None:
            continue
        progress = told.get("progress")
        if isinstance(progress, dict):
            report(str(progress["what"]), int(progress["done"]), int(progress["total"]))
        else:
            answer = told
    return answer


def _parsed(line: bytes) -> dict[str, object] | None:
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _data(answer: dict[str, object]) -> dict[str, object]:
    problem = answer.get("error")
    if isinstance(problem, dict):
        raise from_description(problem)
    data = answer.get("data")
    return data if isinstance(data, dict) else {}


def _last_line(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read()[-4000:].decode("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
