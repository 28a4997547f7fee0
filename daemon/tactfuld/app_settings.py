"""The apps' own settings, in the owner's settings file.

Decides how a value is kept and given to an app. What is *not* here: which settings an app has,
which it says itself (`tactful.manifest.Setting`), and other settings (`settings_file`).
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path

from tactful.errors import UsageError
from tactful.manifest import Setting, SettingValue
from tactful.wire import SettingGiven
from tactfuld.owners_file import edit_entry, typed_value
from tactfuld.problems import shown, suggestion
from tactfuld.settings import AppValue, Settings, SettingsError, parse_settings
from tactfuld.yaml_edit import with_value, without


def settings_given(settings: Settings, app: str) -> tuple[SettingGiven, ...]:
    """What the owner set of an app's settings, as the app is told."""
    return tuple(
        SettingGiven(key=key, value=plain(value))
        for key, value in settings.apps.get(app, {}).items()
    )


def plain(value: AppValue) -> SettingValue:
    """A value of the file as an app takes it: what is no whole number becomes a float."""
    return float(value) if isinstance(value, Decimal) else value


def set_app_setting(
    path: Path, app: str, settings: tuple[Setting, ...], key: str, text: str
) -> None:
    """Sets one of an app's settings in the file at `path`.

    Args:
        settings: those that the app has.
        text: the value, as YAML writes it.

    Raises:
        UsageError: the app has no such setting, or it cannot have this value.
        SettingsError: the text is no value, or the file has problems.
        OSError: the file cannot be written; it is as it was.
    """
    keys = ("apps", app, key)
    setting = _named(app, settings, key)
    value = typed_value(text, ".".join(keys), SettingsError)
    if isinstance(setting.default, str) and not isinstance(value, str):
        value = text
    refusal = "must be one value"
    if isinstance(value, bool | int | Decimal | str):
        refusal = setting.refusal(plain(value)) or ""
    if refusal:
        raise UsageError(f"The setting {key} of the app {app} {refusal}.")
    change = partial(with_value, keys=keys, value=value, source=str(path))
    edit_entry(path, keys, change, partial(parse_settings, source=str(path)), SettingsError)


def unset_app_setting(path: Path, app: str, key: str) -> None:
    """Takes a setting of an app out of the file, so that the app's own default holds.

    The app need not have such a setting, nor be installed.
    """
    keys = ("apps", app, key)
    change = partial(without, keys=keys, source=str(path))
    edit_entry(path, keys, change, partial(parse_settings, source=str(path)), SettingsError)


def _named(app: str, settings: tuple[Setting, ...], key: str) -> Setting:
    known = {setting.key: setting for setting in settings}
    if not known:
        raise UsageError(f"The app {app} has no settings.")
    if key not in known:
        raise UsageError(f"The app {app} has no setting {shown(key)}{suggestion(key, known)}")
    return known[key]
