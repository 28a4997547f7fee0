"""A press of the tab key, as bash, zsh and fish pass it on."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import INSTALLED, Tactful

TACTFUL = Tactful(INSTALLED)


def completed_by_bash(*words: str) -> list[str]:
    """What bash would offer, after the script that we print was sourced."""
    script = TACTFUL.run("completion", "bash").out
    asked = (
        f"{script}\n"
        f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n"
        '_tactful_completion tactful\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    path = f"{Path(INSTALLED[0]).parent}{os.pathsep}{os.environ['PATH']}"
    bash = shutil.which("bash")
    assert bash is not None
    run = subprocess.run(
        [bash, "--norc", "-c", asked],
        capture_output=True,
        text=True,
        env={"PATH": path},
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("tactful", "mem"), ["memory"]),
        (("tactful", "status", "--w"), ["--wait"]),
        (("tactful", "init", "--key", ""), ["keyring", "credential", "passphrase"]),
        (("tactful", "completion", ""), ["bash", "zsh", "fish"]),
        (("tactful", "epoch", "n"), ["new"]),
        (("tactful", "--version", "pat"), ["paths"]),
    ],
    ids=" ".join,
)
def test_bash_offers_commands_options_and_values(words: list[str], offered: list[str]) -> None:
    assert completed_by_bash(*words) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_answered_in_their_own_form(shell: str) -> None:
    result = TACTFUL.run(
        _TACTFUL_COMPLETE=f"complete_{shell}",
        _TYPER_COMPLETE_ARGS="tactful epoch n",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    assert (result.status, result.err) == (0, "")
    assert "new" in result.out
    assert "history" not in result.out
    assert "_TACTFUL_COMPLETE=complete_" in TACTFUL.run("completion", shell).out


def test_programs_get_the_script_in_one_line() -> None:
    data = TACTFUL.json("completion", "fish")
    assert data["shell"] == "fish"
    assert f"{data['script']}\n" == TACTFUL.run("completion", "fish").out


def test_a_shell_that_asks_in_no_known_form_is_told_nothing() -> None:
    result = TACTFUL.run("status", _TACTFUL_COMPLETE="nonsense")
    assert result.out == ""
    assert "Traceback" not in result.err
