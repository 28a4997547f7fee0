"""Settings: defaults that protect, and the same way of telling problems as the policy."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from tests.tactfuld.policy.mutations import mutated

from tactfuld.settings import Settings, SettingsError, load_settings, parse_settings

FULL = """\
sandbox: off
gpu: required
scorer: model
model:
  use: ~/models/qwen.gguf
  context: 4096
  threads: 2
  streams: 3
  idle_unload: 30
  pause_on_battery: true
logging: {level: warning}
turn: {deadline_ms: 500}
answer: {max_tokens: 128, memory_tokens: 1024}
history: {turns: 0, days: 7}
remote:
  url: https://models.example/v1
  consent: answers to apps leave this machine
  model: big
  key: env:BIG_KEY
  seconds: 60
apps: {meals: {people: 5, style: simple}}
lock: {idle_minutes: 15}
notices: {desktop: true}
"""


def mistakes() -> list[tuple[str, str]]:
    """What the owner writes, and what is shown."""
    text = Path(__file__).with_name("settings_mistakes.txt").read_text(encoding="utf-8")
    found = re.findall(r"^\+ (.*)\n= (.*)$", text, re.MULTILINE)
    return [(wrong.replace("⏎", "\n") + "\n", line) for wrong, line in found]


def parse(text: str) -> Settings:
    return parse_settings(text, source="settings.yaml")


def test_a_missing_file_means_the_defaults(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "settings.yaml")
    assert settings == Settings()
    assert settings.model_dump() == {
        "sandbox": "required",
        "gpu": "auto",
        "scorer": "embedding",
        "model": {
            "use": "smollm2",
            "context": 2048,
            "threads": None,
            "streams": 8,
            "idle_unload": None,
            "pause_on_battery": False,
        },
        "logging": {"level": "info"},
        "turn": {"deadline_ms": 250},
        "answer": {"max_tokens": 96, "memory_tokens": 512},
        "history": {"turns": 50, "days": 90},
        "remote": {"url": None, "consent": None, "model": None, "key": None, "seconds": 120},
        "apps": {},
        "lock": {"idle_minutes": None},
        "notices": {"desktop": False},
    }


@pytest.mark.parametrize("text", ["", "# sandbox: off\n", "{}\n", "---\n"])
def test_an_empty_file_means_the_defaults(text: str) -> None:
    assert parse(text) == Settings()


def test_every_setting_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(FULL)
    assert load_settings(path).model_dump() == {
        "sandbox": "off",
        "gpu": "required",
        "scorer": "model",
        "model": {
            "use": "~/models/qwen.gguf",
            "context": 4096,
            "threads": 2,
            "streams": 3,
            "idle_unload": 30,
            "pause_on_battery": True,
        },
        "logging": {"level": "warning"},
        "turn": {"deadline_ms": 500},
        "answer": {"max_tokens": 128, "memory_tokens": 1024},
        "history": {"turns": 0, "days": 7},
        "remote": {
            "url": "https://models.example/v1",
            "consent": "answers to apps leave this machine",
            "model": "big",
            "key": "env:BIG_KEY",
            "seconds": 60,
        },
        "apps": {"meals": {"people": 5, "style": "simple"}},
        "lock": {"idle_minutes": 15},
        "notices": {"desktop": True},
    }


def test_settings_that_are_not_named_keep_their_defaults() -> None:
    assert parse("model: {threads: 1}\n").model.context == Settings().model.context


@pytest.mark.parametrize("word", ["on", "yes", "false", "no", "none", "'OFF'", "", "0"])
def test_no_word_but_off_turns_the_sandbox_off(word: str) -> None:
    with pytest.raises(SettingsError, match="expected 'required' or 'off'"):
        parse(f"sandbox: {word}\n")


@pytest.mark.parametrize(("text", "line"), mistakes())
def test_one_mistake_is_one_problem_with_its_line(text: str, line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(text)
    assert str(caught.value) == f"settings.yaml:{line}"


def test_an_unreadable_file_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().sandbox = "off"  # pyright: ignore[reportAttributeAccessIssue]


@given(mutated(FULL.replace("sandbox: off\n", "")))
def test_damaged_settings_are_refused_or_leave_the_sandbox_on(text: str) -> None:
    """No edit of the mutations writes `sandbox`, so none may turn it off."""
    try:
        settings = parse(text)
    except SettingsError:
        return
    assert settings.sandbox == "required"


# --- a remote endpoint ---------------------------------------------------------------------------

MEANT = "consent: answers to apps leave this machine, model: m"


@pytest.mark.parametrize(
    "url",
    [
        "https://models.example/v1",
        "https://models.example:8443",
        "http://127.0.0.1:8080/v1",
        "http://localhost:8080/v1",
        "'http://[::1]:8080/v1'",
    ],
)
def test_an_endpoint_is_accepted_with_the_words_that_mean_it(url: str) -> None:
    assert parse(f"remote: {{url: {url}, {MEANT}}}\n").remote.url == url.strip("'")


@pytest.mark.parametrize(
    "without",
    [
        "model: m",
        "model: m, consent: null",
        "model: m, consent: true",
        "model: m, consent: 'yes'",
        "model: m, consent: Answers to apps leave this machine",
        "consent: answers to apps leave this machine",
    ],
)
def test_no_endpoint_is_accepted_without_all_of_them(without: str) -> None:
    with pytest.raises(SettingsError):
        parse(f"remote: {{url: 'https://models.example/v1', {without}}}\n")


@pytest.mark.parametrize(
    "url",
    [
        "http://models.example/v1",
        "http://127.0.0.1.example/v1",
        "http://192.168.1.2:8080/v1",
        "http://localhost@models.example/v1",
        "https://user:secret@models.example/v1",
        "https://models.example/v1?key=secret",
        "https://models.example/v1#x",
        "https://models.example:99999/v1",
        "https:///v1",
        "https://models.example/v 1",
        "https://mödels.example/v1",
        "ftp://127.0.0.1/v1",
        "models.example/v1",
        "'https://models.example/v1\r\nX-Evil: 1'",
    ],
)
def test_an_address_that_is_not_encrypted_or_holds_more_is_refused(url: str) -> None:
    quoted = url.strip("'").encode("unicode_escape").decode("ascii")
    with pytest.raises(SettingsError, match=r"remote\.url") as caught:
        parse(f'remote: {{url: "{quoted}", {MEANT}}}\n')
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-0123456789", "env:", "env:A B", "file:/x", "keyring:x", ""])
def test_a_key_is_never_in_the_settings(key: str) -> None:
    with pytest.raises(SettingsError, match="never the key itself") as caught:
        parse(f"remote: {{key: '{key}'}}\n")
    assert "sk-0123456789" not in str(caught.value)
