"""`one-shot config-list`, `config-set` and `config-unset`: the settings file, without a daemon.

Decides what each tells. What is *not* here: reading and editing (`settings_table`,
`settings_file`). None takes the daemon's lock, so all work while it runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from tactful.profile import Profile
from tactfuld.owners_file import typed_value
from tactfuld.settings import SettingsError
from tactfuld.settings_file import set_setting, setting_named, unset_setting
from tactfuld.settings_table import SettingNow, settings_now

AddParser = Callable[[str, str], argparse.ArgumentParser]


def add_config_commands(add: AddParser) -> None:
    """Their arguments; `add` makes a command from its name and help."""
    shown = add("config-list", "show settings")
    shown.add_argument("--key", default=None)
    changed = add("config-set", "set a setting")
    changed.add_argument("--key", required=True)
    changed.add_argument("--value", required=True)
    dropped = add("config-unset", "go back to a setting's default")
    dropped.add_argument("--key", required=True)


def run_config_command(profile: Profile, arguments: argparse.Namespace) -> dict[str, object]:
    """What the command tells.

    Raises:
        TactfulError: see `set_setting`.
    """
    path = profile.settings_file
    match arguments.one_shot:
        case "config-set":
            set_setting(path, arguments.key, _written_value(arguments.key, arguments.value))
        case "config-unset":
            unset_setting(path, arguments.key)
    return _told(path, arguments.key)


def _written_value(key: str, text: str) -> object:
    """A value as it would stand in the file."""
    setting_named(key)
    return typed_value(text, key, SettingsError)


def _told(path: Path, key: str | None) -> dict[str, object]:
    if key is not None:
        setting_named(key)
    rows = [_row(now, path) for now in settings_now(path) if key in (None, now.setting.key)]
    return {"file": str(path), "settings": rows}


def _row(now: SettingNow, path: Path) -> dict[str, object]:
    setting = now.setting
    return {
        "key": setting.key,
        "value": now.value,
        "default": setting.default,
        "origin": f"{path.name}:{now.line}" if now.line else "default",
        "takes": setting.takes,
        "meaning": setting.meaning,
        "at_once": setting.at_once,
    }
