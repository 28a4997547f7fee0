"""The table of settings names each once, in words that its validation keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tactfuld.settings import Settings, parse_settings
from tactfuld.settings_table import Setting, all_settings, settings_now


@pytest.mark.parametrize("setting", all_settings(), ids=lambda setting: setting.key)
def test_every_setting_says_what_it_takes_and_means(setting: Setting) -> None:
    assert setting.meaning
    assert setting.takes
    assert setting.value_in(Settings()) == setting.default
    *sections, last = setting.key.split(".")
    assert len(sections) <= 1
    assert last


def test_no_setting_is_named_twice_and_groups_are_none() -> None:
    keys = [setting.key for setting in all_settings()]
    assert len(set(keys)) == len(keys)
    assert {"sandbox", "gpu", "model.use", "answer.max_tokens"} <= set(keys)
    assert "model" not in keys


def test_ranges_are_those_that_are_kept() -> None:
    for setting in all_settings():
        if not setting.takes.startswith("a whole number"):
            continue
        least, most = (
            int(word) for word in setting.takes.replace(",", "").split() if word.isdigit()
        )
        section, _, key = setting.key.rpartition(".")
        for inside in (least, most):
            assert setting.value_in(Settings.model_validate({section: {key: inside}})) == inside
        for outside in (least - 1, most + 1):
            with pytest.raises(ValidationError):
                Settings.model_validate({section: {key: outside}})


def test_origin_is_the_line_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    text = "# c\nmodel:\n\n  threads: 2\nturn: {deadline_ms: 9}\nanswer: {max_tokens: 5}\n"
    path.write_text(text.replace("\n", "\r\n"))
    lines = {now.setting.key: now.line for now in settings_now(path) if now.line}
    assert lines == {"model.threads": 4, "turn.deadline_ms": 5, "answer.max_tokens": 6}
    values = {now.setting.key: now.value for now in settings_now(path)}
    assert values["model.threads"] == parse_settings(path.read_text(), source="").model.threads


def test_where_there_is_no_file_all_are_defaults(tmp_path: Path) -> None:
    found = settings_now(tmp_path / "settings.yaml")
    assert {now.line for now in found} == {0}
    assert all(now.value == now.setting.default for now in found)
