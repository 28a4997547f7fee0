"""`tactful ledger --watch` shows each change, and outlives the daemon."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE


@contextmanager
def watching(tactful: Tactful, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Watches without a terminal; ended after the block by Ctrl-C, which is no error."""
    child = tactful.popen("ledger", "--watch", *arguments)
    with child:
        try:
            yield child
        finally:
            os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=tactful.patience)
        assert (child.returncode, out, err) == (0, "", "")


def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def told(child: subprocess.Popen[str]) -> dict[str, Any]:
    return dict(json.loads(line_of(child)))


def test_programs_get_a_line_at_each_change_and_when_the_daemon_goes(running: Tactful) -> None:
    with watching(running, "--json") as child:
        assert told(child)["data"] == running.json("ledger")
        running.json("tell", "meals", "dinner?")
        assert told(child)["data"] == running.json("ledger")
        running.json("stop")
        assert told(child)["error"]["code"] == "daemon_down"
        running.json("start", TACTFUL_PASSPHRASE=PASSPHRASE)
        assert told(child)["data"] == running.json("ledger")


def test_in_a_pipe_there_is_a_line_for_each_attribute_that_changed(running: Tactful) -> None:
    with watching(running) as child:
        first = [line_of(child), line_of(child)]
        assert "diabetes 0.000 of 2.000, untouched" in first[0]
        assert "debt 0.000 of 2.000" in first[1]
        running.json("tell", "meals", "a budget?")
        assert "debt 0.667 of 2.000, about two thirds left" in line_of(child)
        running.json("stop")
        assert "The daemon does not answer." in line_of(child)


def test_on_a_terminal_the_figures_move_and_outlive_the_daemon(running: Tactful) -> None:
    with running.terminal("ledger", "--watch") as terminal:
        terminal.expect("0.000 of 2.000")
        terminal.expect("Ctrl-C ends.")
        running.json("tell", "meals", "dinner?")
        terminal.expect("0.667 of 2.000")
        running.json("stop")
        terminal.expect("0.667 of 2.000")
        terminal.expect("The daemon does not answer.")
        running.json("start", TACTFUL_PASSPHRASE=PASSPHRASE)
        terminal.expect("0.000 of 2.000")
        terminal.press("C")
        assert terminal.end() == 0
        assert "Interrupted" not in terminal.text
        assert "Traceback" not in terminal.text
        assert terminal.seen.rindex("\x1b[?25h") > terminal.seen.rindex("\x1b[?25l"), "no cursor"


def test_a_ledger_that_cannot_be_read_is_shown_as_used_up(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"unreadable": true}')
    with made.terminal("ledger", "--watch") as terminal:
        terminal.expect("counts as used up")
        terminal.press("C")
        assert terminal.end() == 0
    with watching(made) as child:
        assert "counts as used up" in line_of(child)


def test_a_daemon_that_is_not_there_at_the_beginning_is_an_error(made: Tactful) -> None:
    result = made.run("ledger", "--watch", "--json")
    assert (result.status, result.error["code"]) == (69, "daemon_down")


def test_a_reader_that_goes_away_ends_it(running: Tactful) -> None:
    child = running.popen("ledger", "--watch", "--json")
    with child:
        line_of(child)
        assert child.stdout is not None
        child.stdout.close()
        running.json("tell", "meals", "dinner?")
        assert child.wait(running.patience) == 141
        assert child.stderr is not None
        assert child.stderr.read() == ""


def test_it_watches_ledgers_and_nothing_else(running: Tactful) -> None:
    result = running.run("ledger", "--watch", "restore", "copy.db")
    assert result.status == 64
    assert "leave it out" in result.err
