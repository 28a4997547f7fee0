"""`tactful config`: settings are seen and changed, with or without a daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE

TEXT = "# mine\nanswer:\n  max_tokens: 128 # short\n"


@pytest.fixture
def file(made: Tactful) -> Path:
    path = Path(made.environment["TACTFUL_PROFILE"]) / "config" / "settings.yaml"
    path.write_text(TEXT)
    return path


def test_every_setting_is_listed_with_its_value_and_origin(made: Tactful, file: Path) -> None:
    data = made.json("config", "list")
    rows = {row["key"]: row for row in data["settings"]}
    assert data["file"] == str(file)
    assert rows["answer.max_tokens"] == {
        "key": "answer.max_tokens",
        "value": 128,
        "default": 96,
        "origin": "settings.yaml:3",
        "takes": "a whole number, 1 to 4096",
        "meaning": "the most tokens of one answer",
        "at_once": True,
    }
    assert (rows["model.threads"]["value"], rows["model.threads"]["origin"]) == (None, "default")
    shown = made.run("config", "list").out
    assert "answer.max_tokens = 128   settings.yaml:3, default 96\n" in shown
    assert "model.threads = null   default\n" in shown
    assert all(key in shown for key in rows)


def test_settings_are_listed_before_there_is_a_profile(tactful: Tactful) -> None:
    assert {row["origin"] for row in tactful.json("config", "list")["settings"]} == {"default"}


@pytest.mark.parametrize(
    ("key", "value"), [("answer.max_tokens", "128"), ("model.threads", "null"), ("gpu", "auto")]
)
def test_get_prints_the_value_alone(made: Tactful, file: Path, key: str, value: str) -> None:
    assert file.exists()
    assert made.run("config", "get", key).out == f"{value}\n"
    assert made.json("config", "get", key)["key"] == key


def test_set_writes_the_file_and_keeps_the_rest(made: Tactful, file: Path) -> None:
    result = made.run("config", "set", "answer.max_tokens", "7")
    assert result.status == 0
    assert result.out == (
        "answer.max_tokens is 7. No daemon runs; it holds from the next start on.\n"
    )
    assert file.read_text() == TEXT.replace("128", "7")
    data = made.json("config", "set", "model.use", "~/a model.gguf")
    assert (data["value"], data["origin"]) == ("~/a model.gguf", "settings.yaml:5")
    assert data["effect"] == "at_start"
    assert file.read_text() == f"{TEXT.replace('128', '7')}model:\n  use: ~/a model.gguf\n"


def test_unset_goes_back_to_the_default(made: Tactful, file: Path) -> None:
    data = made.json("config", "unset", "answer.max_tokens")
    assert (data["value"], data["origin"]) == (96, "default")
    assert file.read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("wishes", "effect", "sentence"),
    [
        ({}, "now", "It holds now."),
        (
            {"waiting": ["answer.max_tokens"]},
            "at_start",
            "The daemon takes it over at its next start: tactful stop; tactful start",
        ),
        ({"settings_problem": "Line 9 is wrong."}, "refused", "Line 9 is wrong."),
    ],
)
def test_set_says_when_a_running_daemon_takes_it_over(
    made: Tactful, file: Path, wishes: dict[str, object], effect: str, sentence: str
) -> None:
    assert file.exists()
    found = {
        "waiting": [],
        "settings_problem": None,
        "policy_problem": None,
        "policy_waits": None,
        **wishes,
    }
    fake = json.dumps({"reloaded": found})
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=fake)
    shown = " ".join(made.run("config", "set", "answer.max_tokens", "7").out.split())
    assert shown.replace(" .venv/bin/tactful", " tactful").endswith(sentence)
    assert made.json("config", "set", "answer.max_tokens", "8")["effect"] == effect


def test_set_that_the_daemon_cannot_answer_for_says_so(made: Tactful, file: Path) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"die_on": "reload"}')
    data = made.json("config", "set", "answer.max_tokens", "7")
    assert data["effect"] in ("unknown", "at_start")
    assert file.read_text() == TEXT.replace("128", "7")
    (file.parents[1] / "run" / "owner.sock").unlink()


@pytest.mark.parametrize(
    ("arguments", "status", "code", "message"),
    [
        (
            ("set", "answer.max_tokn", "7"), 64, "usage",
            "There is no setting named answer.max_tokn; did you mean answer.max_tokens?",
        ),
        (
            ("get", "history"), 64, "usage",
            "history is a group of settings; name one of: history.turns, history.days.",
        ),
        (("unset", "x"), 64, "usage", "There is no setting named x."),
        (
            ("set", "answer.max_tokens", "many"), 78, "policy_refused",
            'answer.max_tokens: expected a whole number, found the text "many".',
        ),
        (
            ("set", "answer.max_tokens", ""), 78, "policy_refused",
            "answer.max_tokens: expected a whole number, found nothing.",
        ),
        (
            ("set", "answer.max_tokens", "[1, 2]"), 78, "policy_refused",
            "answer.max_tokens: expected a whole number, found a list.",
        ),
        (
            ("set", "model.use", "a\tb"), 78, "policy_refused",
            "model.use: there is a tab here; indent and separate with spaces.",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(
    made: Tactful, file: Path, arguments: tuple[str, ...], status: int, code: str, message: str
) -> None:
    result = made.run("config", *arguments, "--json")
    assert result.status == status
    assert (result.error["code"], result.error["message"]) == (code, message)
    assert file.read_text() == TEXT


def test_a_misspelt_key_in_the_file_is_told_with_its_line(made: Tactful, file: Path) -> None:
    file.write_text("# mine\nansver: {max_tokens: 5}\n")
    for arguments in (["list"], ["set", "gpu", "off"]):
        result = made.run("config", *arguments)
        assert result.status == 78
        assert result.err.endswith(
            f"{file}:2: ansver: there is no key named ansver here; did you mean answer?\n"
        )


def test_set_without_a_profile_makes_nothing(tactful: Tactful) -> None:
    result = tactful.run("config", "set", "gpu", "off")
    assert result.status == 66
    assert "make the profile with `tactful init`" in result.err
    assert not Path(tactful.environment["TACTFUL_PROFILE"]).exists()


def test_ctrl_c_while_a_setting_is_set_changes_nothing(made: Tactful, file: Path) -> None:
    with made.terminal(
        "config", "set", "gpu", "off", FAKE_TACTFULD='{"hang": "config-set"}'
    ) as terminal:
        terminal.expect("settings")
        terminal.press("C")
        terminal.expect("Interrupted.")
        assert terminal.end() == 130
    assert file.read_text() == TEXT
