"""`tactful model` says what there is and what was done, and ends well whatever happens."""

import json
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful


def hanging(command: str) -> str:
    return json.dumps({"hang": command})


def failing(command: str, code: str) -> str:
    return json.dumps({"fail": {command: code}})


def test_list_shows_what_is_here_and_what_can_be_installed(tactful: Tactful) -> None:
    result = tactful.run("model", "list")
    here, offered = result.out.split("Can be installed by name")
    assert "toy   98.4 MB  in use  Apache-2.0" in here
    assert "mine  98.4 MB          licence not known" in here
    assert "larger" in offered
    assert "toy" not in offered
    assert "Gemma Terms of Use" in offered


def test_list_gives_programs_everything(tactful: Tactful) -> None:
    found = tactful.json("model", "list")
    assert found["use"] == "toy"
    assert [model["name"] for model in found["installed"]] == ["toy", "mine"]
    assert found["catalogue"][1]["terms"] == "Using it accepts terms."


def test_info_shows_a_model_without_what_steers_a_terminal(tactful: Tactful) -> None:
    result = tactful.run("model", "info", "toy")
    assert "toy  in use" in result.out
    assert f"sha256  {'ab' * 32} (pinned by tactful)" in result.out
    assert "2048 of 8192 tokens" in result.out
    assert "190.9 MB; free: 24.0 GB" in result.out
    assert "\x1b" not in result.out


def test_info_shows_why_a_model_cannot_be_used(tactful: Tactful) -> None:
    result = tactful.run("model", "info", "mine")
    assert (result.status, "put there by hand" in result.out) == (0, True)
    assert "The file is damaged." in result.out


@pytest.mark.parametrize("command", ["info", "use"])
def test_a_path_is_meant_from_where_one_is(tactful: Tactful, command: str) -> None:
    for given in ("./some.gguf", "some.gguf"):
        found = tactful.json("model", command, given)
        said = found["model"]["name"] if command == "info" else found["use"]
        assert said == str(Path.cwd() / "some.gguf")


def test_install_says_how_to_use_what_came(tactful: Tactful) -> None:
    result = tactful.run("model", "install", "larger")
    assert result.out.startswith("Installed larger (98.4 MB)\n")
    assert "model use larger" in result.out
    assert "Already here: toy" in tactful.run("model", "install", "toy").out


def test_pull_use_and_remove_say_what_they_did(tactful: Tactful) -> None:
    assert "Installed o/r/f.gguf" in tactful.run("model", "pull", "o/r/f.gguf").out
    assert "answers with mine from its next start" in tactful.run("model", "use", "mine").out
    assert tactful.run("model", "remove", "mine").out == "Removed mine (98.4 MB).\n"
    assert tactful.json("model", "remove", "mine")["size"] == 98_362_432


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("model_failed", 69), ("not_found", 66), ("in_use", 75), ("no_permission", 77),
        ("io_failed", 74), ("busy", 75), ("usage", 64), ("policy_refused", 78),
    ],
)  # fmt: skip
def test_what_was_refused_is_one_sentence_and_a_status(
    tactful: Tactful, code: str, status: int
) -> None:
    wish = failing("model-pull", code)
    result = tactful.run("model", "pull", "o/r", FAKE_TACTFULD=wish)
    assert (result.status, result.out) == (status, "")
    assert result.err == "tactful: model-pull was refused for a test.\n"
    told = tactful.run("model", "pull", "o/r", "--json", FAKE_TACTFULD=wish)
    assert (told.status, told.error["code"]) == (status, code)


@pytest.mark.parametrize(
    "words", [("install",), ("pull", "o/r"), ("use", "mine"), ("list",), ("info", "toy")]
)
def test_ctrl_c_at_a_progress_bar_ends_it(tactful: Tactful, words: tuple[str, ...]) -> None:
    wish = hanging(f"model-{words[0]}")
    with tactful.terminal("model", *words, FAKE_TACTFULD=wish) as terminal:
        terminal.expect("50%")
        terminal.press("C")
        assert terminal.end() == 130
    assert "Traceback" not in terminal.text
    assert "Interrupted." in terminal.text


def test_progress_is_for_terminals_only(tactful: Tactful) -> None:
    assert tactful.run("model", "install").err == ""
