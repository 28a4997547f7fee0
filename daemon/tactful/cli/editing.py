"""Editing a text in the owner's editor, without leaving it on a disk.

Decides where the file may lie and which editor opens it. What is *not* here: what becomes of the
text.

Invariants:

- the file lies in a new folder of mode 0700, itself of mode 0600, in a file system that is kept in
  memory (`tmpfs`); where there is none, no file is written and the text is asked for;
- the folder, with all that an editor puts beside the file, is deleted before this returns or
  raises, also on Ctrl-C, SIGTERM and SIGHUP. What an editor keeps elsewhere, such as a history of
  what was typed or swapped, is beyond our reach.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tactful.cli.questions import answer
from tactful.errors import UsageError
from tactful.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console

_UNCHANGED = "Nothing was changed."
_MOUNTS = Path("/proc/self/mountinfo")
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_OCTAL = re.compile(r"\\([0-7]{3})")
"""How white space in the path of a mount is written."""


def edited(notes: Console, text: str) -> str:
    """What the owner makes of a text.

    Raises:
        UsageError: the editor could not be started or failed, or the text is empty afterwards.
    """
    editor, folder = editor_of(os.environ), folder_in_memory(os.environ)
    if editor is None or folder is None:
        lacking = (
            "There is no folder that is kept in memory (XDG_RUNTIME_DIR, /dev/shm) to edit it in"
            if folder is None
            else "Neither VISUAL nor EDITOR names an editor"
        )
        notes.print(f"{lacking}, so type the new text. It is now:")
        notes.print(visible(text, keep="\n"))
        new = answer(notes, "New text: ")
    else:
        new = _in_editor(editor, folder, text)
    if not new.strip():
        raise UsageError(f"The new text is empty. {_UNCHANGED}")
    return new


def editor_of(environ: Mapping[str, str]) -> list[str] | None:
    """The editor's command line.

    Raises:
        UsageError: what is named is no command line.
    """
    named = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        return shlex.split(named) or None
    except ValueError as problem:
        raise UsageError(f"VISUAL or EDITOR is no command line. {_UNCHANGED}") from problem


def folder_in_memory(environ: Mapping[str, str], mounts: Path = _MOUNTS) -> Path | None:
    """A folder to make ours in, in a file system that is never written to a disk but as swap."""
    for name in (environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):  # noqa: S108 - a 0700 folder in it
        folder = Path(name) if name else None
        if folder is not None and os.access(folder, os.W_OK) and _is_in_memory(folder, mounts):
            return folder
    return None


def _is_in_memory(folder: Path, mounts: Path) -> bool:
    """Whether the file system of a folder is one that is kept in memory."""
    try:
        listed = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    best = ("", "")
    where = folder.resolve()
    for line in listed:
        fields, _, about = line.partition(" - ")
        point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields.split(" ")[4])
        if where.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, about.split(" ")[0])
    return best[1] in _IN_MEMORY


def _in_editor(editor: list[str], folder: Path, text: str) -> str:
    with dying_orderly():
        private = Path(tempfile.mkdtemp(prefix="tactful-", dir=folder))
        try:
            file = private / "memory.txt"
            file.touch(mode=0o600, exist_ok=False)
            file.write_text(f"{text}\n", encoding="utf-8")
            run_editor(editor, file)
            return _without_last_line_feed(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as problem:
            raise UsageError(
                f"The file that was edited could not be read back. {_UNCHANGED}"
            ) from problem
        finally:
            shutil.rmtree(private, ignore_errors=True)


def run_editor(editor: list[str], file: Path) -> None:
    """Lets the owner edit a file.

    Raises:
        UsageError: the editor could not be started or failed.
    """
    try:
        status = subprocess.run([*editor, str(file)], check=False).returncode
    except OSError as problem:
        raise UsageError(f"The editor {editor[0]} could not be started. {_UNCHANGED}") from problem
    if status != 0:
        raise UsageError(f"The editor {editor[0]} ended with status {status}. {_UNCHANGED}")


def _without_last_line_feed(text: str) -> str:
    """Editors end the last line, as we did."""
    return text.removesuffix("\n")


@contextmanager
def dying_orderly() -> Iterator[None]:
    """Ctrl-C is the editor's; SIGTERM and SIGHUP end the program after cleaning up."""

    def go_on(_number: int, _frame: object) -> None:
        """Not `SIG_IGN`, which the editor would inherit."""

    def end(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = {
        number: signal.signal(number, handler)
        for number, handler in (
            (signal.SIGINT, go_on),
            (signal.SIGTERM, end),
            (signal.SIGHUP, end),
        )
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
