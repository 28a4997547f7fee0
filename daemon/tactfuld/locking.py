"""One daemon for each data folder.

Decides whether this process may use a data folder. What is *not* here: sockets, which have their
own proof of life (`tactfuld.server`).

Invariants:

- the lock is a held `flock` on `<data>/lock`, which the kernel releases when the holder dies; the
  file's existence and content mean nothing, and it is never removed;
- children never inherit it: the descriptor closes on exec.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tactful.errors import AlreadyRunning, Unusable
from tactfuld.refusals import refusal

LOCK_FILE = "lock"

_HELD = (errno.EWOULDBLOCK, errno.EACCES)


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Holds the data folder until the block ends.

    Raises:
        AlreadyRunning: another process holds it.
        Unusable: there is no such folder, or its file system has no locks.
        NoPermission: the lock file may not be opened.
    """
    descriptor = _open(folder)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(folder / LOCK_FILE, flags, 0o600)
    except FileNotFoundError as problem:
        raise Unusable(
            f"There is no data folder {folder}; make the profile with `tactful init`."
        ) from problem
    except OSError as problem:
        raise refusal(
            problem,
            f"The lock of the data folder {folder} could not be opened ({problem.strerror}); "
            "check that the folder and the file `lock` in it belong to you.",
        ) from problem


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in _HELD:
            raise AlreadyRunning(
                f"Another tactful process holds the data folder {folder}; "
                "stop it with `tactful stop`, or choose another --profile."
            ) from problem
        raise Unusable(
            f"The data folder {folder} cannot be locked ({problem.strerror}); "
            "put the profile on a local file system."
        ) from problem
