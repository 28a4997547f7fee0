"""What the owner sets of an app's own settings is of the kind that the app says, and reaches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tactful.errors import UsageError
from tactful.manifest import Setting, SettingValue
from tactful.wire import SettingGiven
from tactfuld.app_settings import set_app_setting, settings_given, unset_app_setting
from tactfuld.reload import differing, with_at_once
from tactfuld.settings import Settings, SettingsError, load_settings, parse_settings

SETTINGS = (
    Setting(key="people", title="How many eat", default=2),
    Setting(key="pace", title="How fast", default=0.5),
    Setting(key="greeting", title="What it says", default="hello"),
    Setting(key="style", title="Kitchen", default="any", choices=("any", "simple")),
    Setting(key="loud", title="Whether it speaks", default=False),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text("# mine\nsandbox: off # for now\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("people", "5", 5),
        ("pace", "1.25", 1.25),
        ("pace", "2", 2),
        ("greeting", "good day: everybody", "good day: everybody"),
        ("greeting", "5", "5"),
        ("greeting", "true", "true"),
        ("style", "simple", "simple"),
        ("loud", "true", True),
    ],
)
def test_value_is_kept_as_the_app_takes_it_and_comments_stay(
    file: Path, key: str, text: str, value: SettingValue
) -> None:
    before = file.read_text(encoding="utf-8")
    set_app_setting(file, "meals", SETTINGS, key, text)
    settings = load_settings(file)
    assert settings_given(settings, "meals") == (SettingGiven(key=key, value=value),)
    assert settings_given(settings, "other") == ()
    assert file.read_text(encoding="utf-8").startswith(before)
    unset_app_setting(file, "meals", key)
    assert file.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("people", "many", "must be a whole number"),
        ("people", "[1]", "must be one value"),
        ("people", "2.5", "must be a whole number"),
        ("style", "grand", "must be one of any, simple"),
        ("loud", "1", "must be true or false"),
        ("peopel", "1", "Did you mean people"),
    ],
)
def test_value_or_key_that_the_app_does_not_take_is_refused_and_nothing_is_written(
    file: Path, key: str, text: str, said: str
) -> None:
    before = file.read_bytes()
    with pytest.raises(UsageError, match=r"(?i)" + said):
        set_app_setting(file, "meals", SETTINGS, key, text)
    assert file.read_bytes() == before


def test_app_without_settings_and_text_that_is_no_value_are_refused(file: Path) -> None:
    with pytest.raises(UsageError, match="has no settings"):
        set_app_setting(file, "meals", (), "people", "1")
    with pytest.raises(SettingsError):
        set_app_setting(file, "meals", SETTINGS, "people", "{")


def test_settings_of_apps_hold_at_once_and_wait_for_no_start() -> None:
    written = parse_settings("apps: {meals: {people: 5}}\nsandbox: off\n", source="")
    merged = with_at_once(Settings(), written)
    assert merged.apps == written.apps
    assert merged.sandbox == "required"
    assert "apps" not in differing(written, Settings())
