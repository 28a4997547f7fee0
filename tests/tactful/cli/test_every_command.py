"""What holds for every command, also for one that is added tomorrow."""

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.tactful.cli.commands import arguments_of, groups, leaves

from tactful.cli.doctor import NOT_WELL
from tactful.cli.help_page import SECTIONS
from tactful.cli.main import run
from tactful.cli.reference import exit_statuses

LEAVES = leaves()
NARROWEST = 62
"""Columns that a summary has in `tactful --help` on a terminal of 80."""


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No profile, no daemon, no keyring, nothing typed, and a cache that cannot be written.

    Returns a folder that is not empty.
    """
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("TACTFUL_PROFILE", str(tmp_path / "p"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(file / "cache"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    return tmp_path


def called(name: str, folder: Path) -> list[str]:
    """A command line that a first reader of the help could type."""
    also = {"demo": ["--keep", str(folder)]}
    return [*name.split(), *arguments_of(LEAVES[name]), *also.get(name, [])]


@pytest.mark.parametrize("name", LEAVES)
def test_in_json_it_writes_one_line_and_ends_with_a_documented_status(
    capsys: pytest.CaptureFixture[str], bare_machine: Path, name: str
) -> None:
    status = run([*called(name, bare_machine), "--json"])
    out, err = capsys.readouterr()
    assert err == ""
    assert out.endswith("\n")
    assert out.count("\n") == 1
    told: dict[str, Any] = json.loads(out)
    assert status in exit_statuses()
    if status in (0, NOT_WELL):
        assert list(told) == ["data"]
    else:
        assert list(told) == ["error"]
        assert told["error"]["code"] in exit_statuses()[status]
        assert " " in told["error"]["message"]


@pytest.mark.parametrize("name", LEAVES)
def test_in_a_pipe_it_fails_in_words_and_on_standard_error_only(
    capsys: pytest.CaptureFixture[str], bare_machine: Path, name: str
) -> None:
    status = run(called(name, bare_machine))
    out, err = capsys.readouterr()
    assert status in exit_statuses()
    if status in (0, NOT_WELL):
        assert (bool(out), err) == (True, "")
    else:
        assert err.startswith("tactful: ")
        assert "Traceback" not in out + err
        assert "internal_error" not in out + err
        assert "defect" not in err
    assert (out + err).replace("\n", "").isprintable()


@pytest.mark.parametrize("name", [*LEAVES, *(group for group in groups() if group not in LEAVES)])
def test_its_help_fits_on_a_terminal_and_begins_with_how_it_is_called(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run([*name.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"Usage: tactful {name}".rstrip())
    assert "Show this message and exit." in out
    cut = re.search(r"[a-z,]\.\.\.$", out, re.MULTILINE)
    assert cut is None, cut


@pytest.mark.parametrize("name", LEAVES)
def test_its_summary_is_a_whole_sentence_that_fits(name: str) -> None:
    summary = LEAVES[name].get_short_help_str(NARROWEST)
    assert summary
    assert summary[0].isupper()
    assert summary.endswith(".")
    assert not summary.endswith("...")


def examples_of(name: str) -> list[str]:
    lines = (getattr(LEAVES[name], "epilog", None) or "").splitlines()[2:]
    return [line.strip() for line in lines]


@pytest.mark.parametrize("name", [name for name in LEAVES if examples_of(name)])
def test_its_examples_are_command_lines_that_are_understood(
    capsys: pytest.CaptureFixture[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for example in examples_of(name):
        assert example.startswith(f"tactful {name.partition(' ')[0]}")
        monkeypatch.setattr("sys.stdin", io.StringIO("from a file"))
        bare = example.partition(" < ")[0].partition(" > ")[0]
        words = shlex.split(bare.replace("DIR", "/dev/null/x"))
        assert run(words[1:]) not in {64, 70}, example
    assert "Examples:" in help_of(capsys, name)


def help_of(capsys: pytest.CaptureFixture[str], name: str) -> str:
    capsys.readouterr()
    run([*name.split(), "--help"])
    return capsys.readouterr().out


def test_every_command_stands_in_one_section_of_the_help() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted({name.partition(" ")[0] for name in LEAVES})


@pytest.mark.parametrize("name", groups())
def test_a_misspelt_command_gets_a_suggestion(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    meant = next(iter(groups()[name].commands))
    assert run([*name.split(), f"{meant}e"]) == 64
    assert f"Did you mean '{meant}'" in capsys.readouterr().err


@pytest.mark.parametrize("name", LEAVES)
def test_a_misspelt_option_gets_a_suggestion(capsys: pytest.CaptureFixture[str], name: str) -> None:
    for option in (each for parameter in LEAVES[name].params for each in parameter.opts):
        if not option.startswith("--"):
            continue
        assert run([*called(name, Path()), f"{option}e"]) == 64
        err = capsys.readouterr().err
        assert f"There is no option {option}e here; did you mean {option}?" in err, err
        assert f"See: tactful {name} --help" in err


def test_a_misspelt_value_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--key", "keyrin"]) == 64
    told = "keyrin is not one of keyring, credential, passphrase; did you mean keyring?"
    assert told in capsys.readouterr().err


def test_an_option_without_its_dashes_gets_a_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["status", "wait"]) == 64
    told = "There is one argument too many here, wait; did you mean --wait?"
    assert told in capsys.readouterr().err


def test_a_group_alone_lists_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["epoch"]) == 64
    assert "Name what to do: show, new, history." in capsys.readouterr().err
