"""How a passphrase reaches the daemon when nobody is there to type it.

Decides which of a file descriptor, a file and the environment is used, and what counts as the
passphrase. What is *not* here: prompting (the command line), and what a passphrase opens (`keys`).

Invariants:

- the variable leaves the environment before anything else happens, so that no child inherits it;
  what the process was started with stays visible to the same user in `/proc`, as for any program;
- no error, and no cause of one, carries a passphrase.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import BinaryIO

from tactful.errors import KeyUnavailable
from tactful_core.values import Secret

PASSPHRASE_VARIABLE = "TACTFUL_PASSPHRASE"  # noqa: S105 - a name, not a passphrase

_MAX_BYTES = 4096


class Handed:
    """A passphrase that is taken once, so that nobody holds it for longer than it is needed."""

    def __init__(self, passphrase: Secret[str] | None) -> None:
        self._passphrase = passphrase

    def take(self) -> Secret[str] | None:
        """The passphrase; nothing from then on."""
        taken, self._passphrase = self._passphrase, None
        return taken


def passphrase_from(
    environ: MutableMapping[str, str], descriptor: int | None = None, file: Path | None = None
) -> Secret[str] | None:
    """The passphrase from a file descriptor, else a file, else the environment.

    The variable leaves the environment in any case, before anything else can fail or be started.
    Of a descriptor or file the first line counts, without its end; nothing else is stripped.

    Raises:
        KeyUnavailable: unreadable, empty, too long or not UTF-8, or a file that others may read.
    """
    from_environment = environ.pop(PASSPHRASE_VARIABLE, None)
    if descriptor is not None:
        return from_descriptor(descriptor)
    if file is not None:
        return _from_file(file)
    if from_environment is None:
        return None
    if not from_environment or not _encodable(from_environment):
        raise KeyUnavailable(f"{PASSPHRASE_VARIABLE} is empty or not UTF-8; set it anew.")
    return Secret(from_environment)


def from_descriptor(descriptor: int) -> Secret[str]:
    """The first line of a descriptor, which is closed then.

    Raises:
        KeyUnavailable: unreadable, empty, too long or not UTF-8.
    """
    try:
        with open(descriptor, "rb") as stream:
            return _first_line(stream, f"File descriptor {descriptor}")
    except OSError as problem:
        raise KeyUnavailable(
            f"The passphrase could not be read from file descriptor {descriptor} "
            f"({problem.strerror}); pass an open one."
        ) from problem


def _from_file(file: Path) -> Secret[str]:
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if mode & 0o077:
                raise KeyUnavailable(
                    f"The passphrase file {file} may be used by others (mode {mode & 0o777:04o}); "
                    f"run `chmod 600 {file}` and try again."
                )
            return _first_line(stream, f"The file {file}")
    except OSError as problem:
        raise KeyUnavailable(
            f"The passphrase file {file} could not be read ({problem.strerror}); name another."
        ) from problem


def _first_line(stream: BinaryIO, origin: str) -> Secret[str]:
    line = stream.readline(_MAX_BYTES + 1)
    if len(line) > _MAX_BYTES:
        raise KeyUnavailable(f"{origin} holds more than {_MAX_BYTES} bytes in a line.")
    text = _decoded(line.removesuffix(b"\n").removesuffix(b"\r"))
    if not text:
        raise KeyUnavailable(f"{origin} holds no passphrase, or one that is not UTF-8.")
    return Secret(text)


def _decoded(line: bytes) -> str | None:
    # Without a chained cause: a codec's error carries the passphrase along.
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
