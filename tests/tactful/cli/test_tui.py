"""The terminal interface gets the terminal, or a sentence says why not."""

from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful


def test_without_a_terminal_it_says_what_to_use(made: Tactful) -> None:
    result = made.run("tui")
    assert (result.status, result.out) == (64, "")
    assert "needs a terminal" in result.err
    assert "`tactful status`" in result.err


def test_it_prints_no_json(made: Tactful) -> None:
    result = made.run("tui", "--json")
    assert (result.status, result.err) == (64, "")
    assert result.error["code"] == "usage"
    assert "prints no JSON" in result.error["message"]


def test_on_a_dumb_terminal_it_says_what_to_use(made: Tactful) -> None:
    with made.terminal("tui", TERM="dumb") as terminal:
        terminal.expect("TERM says")
        assert terminal.end() == 64


@pytest.mark.parametrize("key", ["C", "Q"])
def test_it_takes_the_terminal_and_ctrl_c_gives_it_back(running: Tactful, key: str) -> None:
    with running.terminal("tui") as terminal:
        terminal.expect("diabetes")
        terminal.press(key)
        assert terminal.end() == 0
        assert "Traceback" not in terminal.seen


def test_a_module_in_the_current_folder_is_not_taken_for_ours(
    running: Tactful, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tactful_tui.py").write_text("print('not ours')\n")
    monkeypatch.chdir(tmp_path)
    with running.terminal("tui") as terminal:
        terminal.expect("diabetes")
        terminal.press("C")
        assert terminal.end() == 0
        assert "not ours" not in terminal.seen
