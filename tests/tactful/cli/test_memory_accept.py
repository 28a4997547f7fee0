"""`tactful memory accept` takes memory as it is, once its owner has said so."""

from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE


def test_it_says_how_much_there_is(made: Tactful) -> None:
    result = made.run("memory", "accept", "--yes", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (result.status, result.err) == (0, "")
    assert result.out == "Memory is taken as it is, with 3 memories in it.\n"
    data = made.json("memory", "accept", "--yes", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert data == {"memories": 3}


def test_it_asks_first_and_then_for_the_passphrase(made: Tactful) -> None:
    with made.terminal("memory", "accept") as terminal:
        terminal.expect("what was forgotten since is there again")
        terminal.expect("Type yes to take it:")
        terminal.type("yes")
        terminal.expect("Passphrase:")
        terminal.type(PASSPHRASE)
        terminal.expect("with 3 memories in it")
        assert terminal.end() == 0


def test_anything_but_yes_changes_nothing(made: Tactful) -> None:
    with made.terminal("memory", "accept") as terminal:
        terminal.expect("Type yes to take it:")
        terminal.type("y")
        terminal.expect("nothing was changed")
        assert terminal.end() == 64


def test_without_a_terminal_it_wants_yes(made: Tactful) -> None:
    result = made.run("memory", "accept", "--json", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (result.status, result.error["code"]) == (64, "usage")
