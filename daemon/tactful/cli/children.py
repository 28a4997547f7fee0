"""Child processes that are never lost: started, waited for, ended.

Decides what happens to a child when we are asked to end. What is *not* here: which programs are run
and what they say (`process`).

Invariants:

- a request to end us that comes while a child is started waits until somebody looks after it;
- whatever ends us early (Ctrl-C, an error) ends a child whose block is not over.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from tactful.errors import Busy
from tactful.profile import Profile

STOP_SECONDS = 15.0
END_SECONDS = 60.0


@contextlib.contextmanager
def started(
    argv: Sequence[str],
    *,
    pass_fds: tuple[int, ...],
    stdout: IO[bytes] | int,
    stderr: IO[bytes] | int,
    start_new_session: bool = False,
    process_group: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a child; whatever ends the block early ends the child."""
    child = None
    try:
        with _undisturbed():
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=pass_fds,
                start_new_session=start_new_session,
                process_group=process_group,
            )
        yield child
    except BaseException:
        if child is not None:
            stop_child(child)
        raise
    finally:
        if child is not None and child.stdout is not None:
            child.stdout.close()


def stop_child(child: subprocess.Popen[bytes]) -> None:
    """Asks a child to end, and ends it if it does not; returns when it is gone."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextlib.contextmanager
def passing_on_signals(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """The first request to end us goes to the child instead, during the block.

    The first only: a second one could meet a child that no longer handles it.
    """
    asked = False

    def pass_on(_number: int, _frame: object) -> None:
        nonlocal asked
        if not asked:
            asked = True
            child.terminate()

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def exit_status(child: subprocess.Popen[bytes]) -> int:
    """Waits for a child to end; one that a signal ended has a status as in a shell."""
    status = child.wait()
    return status if status >= 0 else 128 - status


def await_end(pid: int, profile: Profile) -> None:
    """Returns when a daemon that was asked to stop is gone.

    Raises:
        Busy: it still runs after a minute.
    """
    deadline = time.monotonic() + END_SECONDS
    while _is_running(pid):
        if time.monotonic() > deadline:
            raise Busy(
                f"The daemon was asked to stop and process {pid} still runs; its log is "
                f"{profile.log_file}. Wait, or end it with: kill {pid}"
            )
        time.sleep(0.05)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Holds requests to end us back until after the block, so that no child is started and lost."""
    held: list[int] = []
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {
        number: signal.signal(number, lambda given, _frame: held.append(given))
        for number in numbers
    }
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
    for given in held[:1]:
        signal.raise_signal(given)


def _is_running(pid: int) -> bool:
    """Whether a process still runs; one that ended and was not yet reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return fields.rpartition(")")[2].split()[0] != "Z"
    return True
