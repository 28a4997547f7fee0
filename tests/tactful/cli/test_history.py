"""Turns are listed and shown to the owner, and forgotten only when that is meant."""

import pytest
from tests.tactful.cli.command_line import Tactful


@pytest.fixture
def asked(running: Tactful) -> Tactful:
    """Three turns of meals: one alone, one of a thread, one that broke off."""
    for question in ("dinner?", "cook what this evening?", "broken dinner?"):
        assert running.run("tell", "meals", question).status == 0
    return running


def kept(tactful: Tactful, *options: str) -> list[int]:
    return [turn["id"] for turn in tactful.json("history", "list", *options)["turns"]]


# --- looking ------------------------------------------------------------------------------------


def test_list_shows_questions_views_and_how_answers_begin(asked: Tactful) -> None:
    shown = asked.run("history", "list")
    assert (shown.status, shown.err) == (0, "")
    lines = [line.strip() for line in shown.out.splitlines()]
    assert lines[0].startswith("3  meals")
    assert lines[1:4] == ["broken dinner?", "no answer", "food: food_view  broke off"]
    assert lines[4].startswith("2  meals in evening")
    assert "cook what this evening?" in lines[5]
    assert lines[6].startswith("An answer to that,")
    assert "\x1b" not in shown.out


def test_list_in_json_is_newest_first_filtered_and_bounded(asked: Tactful) -> None:
    assert kept(asked) == [3, 2, 1]
    assert kept(asked, "--limit", "2") == [3, 2]
    assert kept(asked, "--app", "meals") == [3, 2, 1]
    assert kept(asked, "--app", "meals", "--thread", "evening") == [2]
    assert kept(asked, "--app", "guest") == []
    (turn,) = asked.json("history", "list", "--app", "meals", "--thread", "evening")["turns"]
    assert turn["views"] == [{"slot": "food", "view": "food_view", "fallback": False}]
    assert (turn["thread"], turn["complete"]) == ("evening", True)


def test_empty_history_says_so(running: Tactful) -> None:
    assert running.run("history", "list").out == "No turns are kept.\n"


def test_show_has_the_whole_answer(asked: Tactful) -> None:
    shown = asked.run("history", "show", "2")
    assert shown.status == 0
    assert " ".join(shown.out.split()).endswith("until here.")
    assert "\x1b" not in shown.out
    assert asked.json("history", "show", "2")["answer"].endswith("until here.")
    broken = asked.run("history", "show", "3").out
    assert "There was no answer." in broken
    assert "broke off" in broken


def test_turn_that_is_not_kept_is_no_input(asked: Tactful) -> None:
    assert asked.run("history", "show", "99").status == 66


# --- forgetting ---------------------------------------------------------------------------------


def test_forgets_what_is_named_and_says_that_ledgers_stay(asked: Tactful) -> None:
    before = asked.json("ledger")
    for what, left, told in (
        (("--app", "guest"), [3, 2, 1], "0 turns are forgotten."),
        (("1", "99"), [3, 2], "1 turn is forgotten. 1 of those you named were not kept."),
        (("--app", "meals", "--thread", "evening"), [3], "1 turn is forgotten."),
        (("--app", "meals"), [], "1 turn is forgotten."),
    ):
        done = asked.run("history", "forget", *what, "--yes")
        assert (done.status, done.err) == (0, "")
        assert " ".join(done.out.split()) == f"{told} The ledgers stay as they are."
        assert kept(asked) == left
    assert asked.json("ledger") == before


def test_forgets_everything(asked: Tactful) -> None:
    assert asked.json("history", "forget", "--all", "--yes") == {"forgotten": 3}
    assert kept(asked) == []


def test_on_a_terminal_it_says_what_it_means_and_asks(asked: Tactful) -> None:
    with asked.terminal("history", "forget", "--app", "meals") as terminal:
        terminal.expect("Type yes to forget:")
        assert "gives no budget back" in " ".join(terminal.text.split())
        assert kept(asked) == [3, 2, 1], "it was forgotten before it was confirmed"
        terminal.type("yes")
        terminal.expect("3 turns are forgotten.")
        assert terminal.end() == 0
    assert kept(asked) == []


@pytest.mark.parametrize("word", ["", "y"])
def test_another_word_forgets_nothing(asked: Tactful, word: str) -> None:
    with asked.terminal("history", "forget", "--all") as terminal:
        terminal.expect("Type yes to forget:")
        terminal.type(word)
        assert terminal.end() == 64
        assert "nothing was forgotten" in " ".join(terminal.text.split())
    assert kept(asked) == [3, 2, 1]


def test_without_a_terminal_and_in_json_it_wants_yes(asked: Tactful) -> None:
    assert asked.run("history", "forget", "--all").status == 64
    assert asked.run("history", "forget", "--all", "--json").error["code"] == "usage"
    assert kept(asked) == [3, 2, 1]
    assert asked.json("history", "forget", "2", "--yes") == {"forgotten": 1}


def test_call_that_says_no_one_thing_is_refused(asked: Tactful) -> None:
    for arguments in (
        ("forget", "--yes"),
        ("forget", "1", "--all", "--yes"),
        ("forget", "1", "--app", "meals", "--yes"),
        ("forget", "--all", "--app", "meals", "--yes"),
        ("forget", "1", "--thread", "evening", "--yes"),
        ("forget", "one", "--yes"),
        ("list", "--thread", "evening"),
        ("list", "--limit", "0"),
        ("show",),
    ):
        assert asked.run("history", *arguments).status == 64, arguments
    assert kept(asked) == [3, 2, 1]
