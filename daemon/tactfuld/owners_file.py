"""A file that the owner writes, edited by a program.

Decides how a file is replaced. What is *not* here: what a file may say, where in its text a key
stands (`yaml_edit`).

Invariants:

- a file is replaced whole or not at all, whatever fails: the new one is written beside it, forced
  to disk and renamed; its mode is kept, and a symbolic link stays one;
- two programs that edit at once do so one after the other;
- what the daemon holds (its data folder, its lock) is not touched, so it may run meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tactful.errors import NotFound, Problem, Unusable
from tactfuld.problems import FileRefusedError, dotted
from tactfuld.yaml_edit import Keys
from tactfuld.yaml_file import read_text
from tactfuld.yaml_text import read_yaml


def edit(path: Path, change: Callable[[str], str]) -> None:
    """Gives the file at `path` the text that `change` makes of it; of nothing, where it is missing.

    Raises:
        NotFound: there is no profile.
        FileRefusedError: the file cannot be read as text.
        OSError: the file cannot be written; it is as it was.
    """
    target = path.resolve()
    with _alone_in(target.parent):
        try:
            before = read_text(path)
        except FileNotFoundError:
            before = ""
        after = change(before)
        if after != before:
            _replace(target, after)


def replace(path: Path, text: str, *, instead_of: bytes | None = None) -> None:
    """Gives the file at `path` this text.

    Args:
        instead_of: what the text was made from, if it was made from what the file had.

    Raises:
        Unusable: the file is not what the text was made from.
        NotFound: there is no profile.
        OSError: the file cannot be written; it is as it was.
    """
    target = path.resolve()
    with _alone_in(target.parent):
        if instead_of is not None and instead_of != target.read_bytes():
            raise Unusable(f"{path} was changed meanwhile, so it was left as it is. Begin again.")
        _replace(target, text)


def edit_entry(
    path: Path,
    keys: Keys,
    change: Callable[[str], str],
    check: Callable[[str], object],
    refused: type[FileRefusedError],
) -> None:
    """Changes the entry at `keys` as `edit` does, if the check takes the text that this makes.

    Raises:
        FileRefusedError: as `refused`; what is wrong with the new value is on no line yet, the rest
            is where the file has it.
    """

    def checked(before: str) -> str:
        after = change(before)
        check(after)
        return after

    try:
        edit(path, checked)
    except FileRefusedError as error:
        key = dotted(keys)
        own = tuple(Problem("", 0, 0, key, p.sentence) for p in error.problems if p.key == key)
        raise refused(own or error.problems) from error


def typed_value(text: str, key: str, refused: type[FileRefusedError]) -> object:
    """What the owner typed as the value of a dotted key, as it would stand in the file.

    Raises:
        FileRefusedError: as `refused`; it is no value.
    """
    read = read_yaml(text, source="")
    if read.problems:
        raise refused(tuple(Problem("", 0, 0, key, p.sentence) for p in read.problems))
    return read.value


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Waits until no other program edits files of this folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError as error:
        sentence = f"There is no folder {folder}; make the profile with `tactful init`."
        raise NotFound(sentence) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(target: Path, text: str) -> None:
    """Writes the whole file anew, or leaves the old one and nothing beside it."""
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                _keep_mode(target, file.fileno())
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        except BaseException:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        _force_to_disk(target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error


def _keep_mode(target: Path, descriptor: int) -> None:
    with suppress(FileNotFoundError):
        os.fchmod(descriptor, target.stat().st_mode & 0o7777)


def _force_to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
