"""The owner's settings file, edited by a program.

Decides when an edit is written: only if the file that it makes would be loaded. What is *not* here:
what settings there are (`settings`), where in the text they stand (`yaml_edit`).

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

from tactful.errors import NotFound, Problem, UsageError
from tactfuld.problems import FileRefusedError, dotted, shown, suggestion
from tactfuld.settings import SettingsError, parse_settings
from tactfuld.settings_table import Setting, all_settings
from tactfuld.yaml_edit import Keys, with_value, without
from tactfuld.yaml_file import read_text


def set_setting(path: Path, key: str, value: object) -> None:
    """Sets `key` (dotted, such as `model.use`) to `value` in the file at `path`.

    Args:
        value: as YAML gives it: `None`, `bool`, `int`, `Decimal`, `str`, or a tuple of them.

    Raises:
        UsageError: there is no such setting.
        SettingsError: the value is not one that the setting takes, or the file has problems.
        NotFound: there is no profile.
        OSError: the file cannot be written; it is as it was.
    """
    keys = _keys(setting_named(key))
    _edit(path, keys, lambda text: with_value(text, keys, value, source=str(path)))


def unset_setting(path: Path, key: str) -> None:
    """Takes `key` out of the file at `path`, so that its default holds; raises as `set_setting`."""
    keys = _keys(setting_named(key))
    _edit(path, keys, lambda text: without(text, keys, source=str(path)))


def setting_named(key: str) -> Setting:
    """The setting of this dotted name.

    Raises:
        UsageError: there is none; the sentence names the likely one.
    """
    known = {setting.key: setting for setting in all_settings()}
    if key in known:
        return known[key]
    below = [name for name in known if name.startswith(f"{key}.")]
    if below:
        raise UsageError(f"{key} is a group of settings; name one of: {', '.join(below)}.")
    raise UsageError(f"There is no setting named {shown(key)}{suggestion(key, known)}")


def _keys(setting: Setting) -> Keys:
    return tuple(setting.key.split("."))


def _edit(path: Path, keys: Keys, edit: Callable[[str], str]) -> None:
    target = path.resolve()
    with _alone_in(target.parent):
        try:
            before = read_text(path)
        except FileNotFoundError:
            before = ""
        except FileRefusedError as error:
            raise SettingsError(error.problems) from error
        after = _checked(before, edit, keys, source=str(path))
        if after != before:
            _replace(target, after)


def _checked(before: str, edit: Callable[[str], str], keys: Keys, *, source: str) -> str:
    """The edited text, if it would be loaded."""
    try:
        after = edit(before)
        parse_settings(after, source=source)
    except FileRefusedError as error:
        raise SettingsError(_as_asked(error.problems, keys)) from error
    return after


def _as_asked(problems: tuple[Problem, ...], keys: Keys) -> tuple[Problem, ...]:
    """What is wrong with the new value is on no line yet; the rest is where the file has it."""
    key = dotted(keys)
    own = tuple(Problem("", 0, 0, key, p.sentence) for p in problems if p.key == key)
    return own or problems


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
