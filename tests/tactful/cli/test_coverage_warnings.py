"""A text that seems to imply what does not cover its shelf is stored only if the owner agrees."""

import pytest
from tests.tactful.cli.command_line import Tactful

from tactful.cli.coverage_warnings import told
from tactful.owner_wire import CoverageWarning

WARNING = "This seems to imply diabetes, which does not cover finance.bills."


def stored(tactful: Tactful) -> dict[str, str]:
    return {item["text"]: item["shelf"] for item in tactful.json("memory", "list")["items"]}


@pytest.fixture
def billed(running: Tactful) -> Tactful:
    running.json("remember", "The rent is paid.", "--shelf", "finance.bills")
    return running


@pytest.mark.parametrize(
    ("likely", "possible", "sentence"),
    [
        (("debt",), (), "This seems to imply debt, which does not cover a.b."),
        ((), ("debt",), "This may imply debt, which does not cover a.b."),
        (("debt",), ("x",), "This seems to imply debt and may imply x, which do not cover a.b."),
        (("debt", "x"), (), "This seems to imply debt and x, which do not cover a.b."),
    ],
)
def test_a_warning_says_how_sure_it_is(
    likely: tuple[str, ...], possible: tuple[str, ...], sentence: str
) -> None:
    assert told(CoverageWarning(likely=likely, possible=possible, better=None), "a.b") == sentence


def test_yes_is_typed_to_file_it_all_the_same(running: Tactful) -> None:
    with running.terminal("remember", "My metformin bill", "--shelf", "finance.bills") as terminal:
        terminal.expect(WARNING)
        terminal.expect("Type yes to do it all the same, or the name of another shelf")
        terminal.type("yes")
        terminal.expect("Remembered in finance.bills")
        assert terminal.end() == 0
    assert stored(running) == {"My metformin bill": "finance.bills"}


def test_another_shelf_is_named_instead_and_is_looked_at_too(running: Tactful) -> None:
    with running.terminal("remember", "My metformin bill", "--shelf", "finance.bills") as terminal:
        terminal.expect(WARNING)
        terminal.type("finance.accounts")
        terminal.expect("which does not cover finance.accounts.")
        terminal.type("health.condition")
        terminal.expect("Remembered in health.condition")
        assert terminal.end() == 0


@pytest.mark.parametrize("typed", ["", "y", "no"])
def test_anything_else_gives_up(running: Tactful, typed: str) -> None:
    with running.terminal("remember", "My metformin bill", "--shelf", "finance.bills") as terminal:
        terminal.expect("Type yes")
        terminal.type(typed)
        terminal.expect("Nothing was remembered.")
        assert terminal.end() == 64
    assert stored(running) == {}


def test_where_nobody_can_be_asked_only_yes_agrees(running: Tactful) -> None:
    words = ("remember", "My metformin bill", "--shelf", "finance.bills")
    refused = running.run(*words, "--json")
    assert (refused.status, refused.error["code"]) == (64, "usage")
    assert WARNING in refused.error["message"]
    assert "--yes" in refused.error["message"]
    assert "metformin" not in refused.error["message"]
    assert stored(running) == {}
    done = running.run(*words, "--yes")
    assert done.status == 0
    assert WARNING in done.out


def test_the_warning_is_in_the_reply(running: Tactful) -> None:
    data = running.json("remember", "My metformin bill", "--shelf", "finance.bills", "--yes")
    assert data["warning"]["likely"] == ["diabetes"]


def test_a_covered_text_is_filed_without_a_word(running: Tactful) -> None:
    result = running.run("remember", "I take metformin", "--shelf", "health.condition")
    assert (result.status, result.out) == (0, "Remembered in health.condition, position 1.\n")


def test_an_edit_is_looked_at_before_it_is_written(billed: Tactful) -> None:
    refused = billed.run("memory", "edit", "5", "Metformin: metformin bill", "--json")
    assert (refused.status, refused.error["code"]) == (64, "usage")
    assert "Nothing was changed." in refused.error["message"]
    assert stored(billed) == {"The rent is paid.": "finance.bills"}
    done = billed.run("memory", "edit", "5", "The metformin bill", "--yes")
    assert done.status == 0
    assert "is written anew. This seems to imply diabetes" in " ".join(done.out.split())


def test_an_edit_at_a_terminal_asks(billed: Tactful) -> None:
    for typed, status in (("no", 64), ("yes", 0)):
        with billed.terminal("memory", "edit", "5", "-") as terminal:
            terminal.type("The metformin bill")
            terminal.press("D")
            terminal.expect("Type yes to do it all the same: ")
            terminal.type(typed)
            assert terminal.end() == status
    assert stored(billed) == {"The metformin bill": "finance.bills"}


def test_an_edited_file_is_looked_at(billed: Tactful) -> None:
    script = "sh -c 'echo The metformin bill > \"$0\"'"
    with billed.terminal("memory", "edit", "5", VISUAL=script) as terminal:
        terminal.expect("Type yes to do it all the same: ")
        terminal.type("no")
        assert terminal.end() == 64
    assert stored(billed) == {"The rent is paid.": "finance.bills"}


def test_lint_lists_what_is_filed_outside(running: Tactful) -> None:
    assert "Nothing outside their shelves" in running.run("policy", "lint").out
    running.json("remember", "My metformin bill", "--shelf", "finance.bills", "--yes")
    running.json("remember", "I take metformin", "--shelf", "health.condition")
    running.json("remember", "I use coupons", "--shelf", "hobbies.music", "--yes")
    data = running.json("policy", "lint")
    assert [each["item"]["position"] for each in data["findings"]] == [5, 6]
    assert data["findings"][1]["warning"]["possible"] == ["debt"]
    assert (data["looked_for"], data["unknown"]) == (["diabetes", "debt"], ["mood"])
    shown = running.run("policy", "lint").out
    assert "My metformin bill" in shown
    assert "debt?" in shown
    assert "I take metformin" not in shown
    assert "memory move N SLOT.SHELF" in " ".join(shown.split())
    assert "implied_by" in shown
    assert "It does not know mood." in shown
