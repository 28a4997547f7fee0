"""The owner's settings file, edited by a program.

Decides when an edit is written: only if the file that it makes would be loaded. What is *not* here:
what settings there are (`settings`), where in the text they stand (`yaml_edit`), how a file is
replaced (`owners_file`).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tactful.errors import UsageError
from tactfuld.owners_file import edit_entry
from tactfuld.problems import shown, suggestion
from tactfuld.settings import SettingsError, parse_settings
from tactfuld.settings_table import Setting, all_settings
from tactfuld.yaml_edit import Keys, with_value, without


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
    change = partial(with_value, keys=keys, value=value, source=str(path))
    edit_entry(path, keys, change, partial(parse_settings, source=str(path)), SettingsError)


def unset_setting(path: Path, key: str) -> None:
    """Takes `key` out of the file at `path`, so that its default holds; raises as `set_setting`."""
    keys = _keys(setting_named(key))
    change = partial(without, keys=keys, source=str(path))
    edit_entry(path, keys, change, partial(parse_settings, source=str(path)), SettingsError)


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
