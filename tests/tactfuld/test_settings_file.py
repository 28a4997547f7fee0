"""Editing the settings file: the owner's words stay, and a bad edit or a full disk changes none."""

from __future__ import annotations

import errno
import os
import re
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tactful.errors import NotFound, UsageError
from tactfuld import owners_file
from tactfuld.settings import Settings, SettingsError, load_settings, parse_settings
from tactfuld.settings_file import set_setting, unset_setting
from tactfuld.settings_table import all_settings
from tactfuld.yaml_file import read_text

TEXT = """\
# mine
sandbox: off   # I know

model:
    threads: 2  # of four
    # context: 512
answer: {max_tokens: 128} # short
"""

NAME_OR_PATH = "a name that `tactful model list` shows, or a whole path, beginning with / or ~/"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(TEXT)
    return path


def value_at(loaded: Settings, key: str) -> object:
    value: object = loaded
    for step in key.split("."):
        value = getattr(value, step)
    return value


def comments(text: str) -> list[str]:
    return re.findall("#.*", text)


def test_a_setting_is_set_and_the_rest_of_the_file_stays(file: Path) -> None:
    set_setting(file, "model.context", 4096)
    assert file.read_text() == TEXT.replace("of four\n", "of four\n    context: 4096\n")


def test_a_setting_is_unset_and_the_rest_of_the_file_stays(file: Path) -> None:
    unset_setting(file, "model.threads")
    assert file.read_text() == TEXT.replace("model:\n    threads: 2  # of four\n", "")


def test_unsetting_what_is_not_set_leaves_the_file(file: Path) -> None:
    before = file.stat()
    unset_setting(file, "turn.deadline_ms")
    assert file.stat() == before


def test_a_file_that_is_not_there_is_made_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    set_setting(path, "model.use", "/models/a b.gguf")
    assert path.read_text() == "model:\n  use: /models/a b.gguf\n"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("answer.max_tokens", "many", 'expected a whole number, found the text "many".'),
        ("answer.max_tokens", 0, "expected at least 1, found the number 0."),
        ("answer.max_tokens", (1, 2), "expected a whole number, found a list."),
        ("sandbox", "of", "expected 'required' or 'off', found the text \"of\"."),
        (
            "model.use",
            "qwen.gguf",
            f"write {NAME_OR_PATH}.",
        ),
    ],
)
def test_a_wrong_value_is_refused_as_loading_refuses_it(
    file: Path, key: str, value: object, sentence: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        set_setting(file, key, value)
    assert str(caught.value) == f"{key}: {sentence}"
    assert file.read_text() == TEXT


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("model.us", "There is no setting named model.us; did you mean model.use?"),
        ("max_tokens", "There is no setting named max_tokens; did you mean answer.max_tokens?"),
        ("zzz", "There is no setting named zzz."),
        ("", 'There is no setting named "".'),
    ],
)
def test_an_unknown_setting_is_refused_with_the_likely_one(
    file: Path, key: str, sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        set_setting(file, key, 1)
    assert str(caught.value) == sentence
    with pytest.raises(UsageError) as caught:
        unset_setting(file, key)
    assert str(caught.value) == sentence
    assert file.read_text() == TEXT


def test_a_group_is_not_a_setting(file: Path) -> None:
    with pytest.raises(UsageError, match=r"model is a group of settings; .*: model\.use, "):
        set_setting(file, "model", None)


def test_other_problems_of_the_file_are_told_where_they_are(file: Path) -> None:
    file.write_text(TEXT.replace("sandbox:", "sandbx:"))
    with pytest.raises(SettingsError, match=r"settings\.yaml:2: sandbx: there is no key"):
        set_setting(file, "answer.max_tokens", 5)


def test_a_wrong_value_in_the_file_is_mended(file: Path) -> None:
    file.write_text(TEXT.replace("off", "maybe"))
    set_setting(file, "sandbox", "required")
    assert file.read_text() == TEXT.replace("off", "required")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a: \xff\n", "settings.yaml:1: the file is not UTF-8"),
        (b"\tsandbox: off\n", "settings.yaml:1: there is a tab here"),
        (b"sandbox: [\n", "settings.yaml:2: this is not valid YAML"),
    ],
)
def test_an_unreadable_file_is_not_edited(file: Path, content: bytes, sentence: str) -> None:
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        set_setting(file, "sandbox", "required")
    assert file.read_bytes() == content


def test_marks_of_other_editors_stay(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf# c\r\nsandbox: off\r\n")
    set_setting(file, "answer.max_tokens", 5)
    assert file.read_bytes() == (
        b"\xef\xbb\xbf# c\r\nsandbox: off\r\nanswer:\r\n  max_tokens: 5\r\n"
    )


def test_the_mode_stays(file: Path) -> None:
    file.chmod(0o640)
    set_setting(file, "sandbox", "required")
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_stays_and_its_target_is_replaced(file: Path, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    link = tmp_path / "config" / "settings.yaml"
    link.symlink_to(Path("..") / file.name)
    set_setting(link, "sandbox", "required")
    assert link.is_symlink()
    assert load_settings(file).sandbox == "required"
    assert [path.name for path in link.parent.iterdir()] == ["settings.yaml"]


def test_without_a_profile_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="make the profile with `tactful init`"):
        set_setting(tmp_path / "config" / "settings.yaml", "sandbox", "off")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
def test_a_full_disk_loses_nothing(file: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target: object = Path if step == "replace" else os
    monkeypatch.setattr(target, step, full)
    with pytest.raises(OSError, match="No space left") as caught:
        set_setting(file, "sandbox", "required")
    assert caught.value.filename == str(file)
    assert file.read_text() == TEXT
    assert list(file.parent.iterdir()) == [file]


def test_programs_that_edit_at_once_lose_no_edit(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins when the first has read; unless it is kept waiting, the first undoes it."""
    second = threading.Thread(target=set_setting, args=(file, "turn.deadline_ms", 9))

    def read_and_let_the_other_in(path: Path) -> str:
        text = read_text(path)
        if second.ident is None:
            second.start()
            second.join(0.5)
        return text

    monkeypatch.setattr(owners_file, "read_text", read_and_let_the_other_in)
    set_setting(file, "model.context", 1024)
    second.join()
    loaded = load_settings(file)
    assert (loaded.turn.deadline_ms, loaded.model.context) == (9, 1024)
    assert comments(file.read_text()) == comments(TEXT)


no_hash = st.characters(codec="utf-8", exclude_characters="#")
lines = st.sampled_from(
    ["# sandbox: off", "", "  # deep", "sandbox: off # why", "turn: {deadline_ms: 9} # t: {",
     "logging: {} # none", "logging:\n    # l\n    level:   'debug' # m\n    # n",
     "answer:\n  max_tokens: 5 # a", "model: {use: smollm2, # p\n  threads: 2, # q\n  }",
     "model:\n  use: >-\n    /a b\n  # after\n  threads: 3 # t", '"turn":\n  "deadline_ms": 77'],
)  # fmt: skip
pairs = (
    st.tuples(st.just("sandbox"), st.sampled_from(["required", "off"]))
    | st.tuples(
        st.just("model.use"),
        st.just("qwen2.5") | st.text(no_hash, max_size=20).map(lambda t: f"/{t}"),
    )
    | st.tuples(st.just("model.threads"), st.none() | st.integers(1, 1024))
    | st.tuples(st.just("turn.deadline_ms"), st.integers(1, 60_000))
    | st.tuples(st.just("answer.max_tokens"), st.integers(1, 4096))
    | st.tuples(st.just("logging.level"), st.sampled_from(["debug", "error"]))
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(lines, max_size=6), st.sampled_from(["\n", "\r\n"]), pairs)
def test_what_is_set_is_loaded_and_every_comment_stays(
    file: Path, written: list[str], newline: str, pair: tuple[str, object]
) -> None:
    text = "".join(f"{line}\n" for line in written).replace("\n", newline)
    try:
        before = parse_settings(text, source="")
    except SettingsError:
        return
    key, value = pair
    file.write_bytes(text.encode())
    set_setting(file, key, value)
    after = load_settings(file)
    assert value_at(after, key) == value
    assert comments(file.read_bytes().decode()) == comments(text)
    others = [setting.key for setting in all_settings() if setting.key != key]
    assert [value_at(after, name) for name in others] == [value_at(before, name) for name in others]
    unset_setting(file, key)
    assert value_at(load_settings(file), key) == value_at(Settings(), key)
