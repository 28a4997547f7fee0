"""`tactful memory migrate` shows what would change, asks, and then does it."""

from tests.tactful.cli.command_line import Tactful


def test_it_shows_what_changes_and_does_it_when_told_to(made: Tactful) -> None:
    result = made.run("memory", "migrate", "--yes")
    assert (result.status, result.err) == (0, "")
    assert "food.diet: 4 positions of 48 tokens → 8 positions of 48 tokens" in result.out
    assert "would lose the cover of diabetes" in result.out
    assert "generic answers until you open a new one" in " ".join(result.out.split())
    assert "all 3 memories" in result.out
    assert made.json("memory", "migrate", "--yes")["migrated"]


def test_anything_but_yes_changes_nothing(made: Tactful) -> None:
    with made.terminal("memory", "migrate") as terminal:
        terminal.expect("Type yes to do it:")
        terminal.type("y")
        terminal.expect("nothing was changed")
        assert terminal.end() == 64


def test_without_a_terminal_it_wants_yes(made: Tactful) -> None:
    result = made.run("memory", "migrate", "--json")
    assert (result.status, result.error["code"]) == (64, "usage")
