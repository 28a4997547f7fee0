"""An epoch is opened on purpose, by somebody who has read what it means, and once for each wish."""

import pytest
from tests.tactful.cli.command_line import Result, Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE

CAP = 2.0
THIRD = CAP / 3
OPEN = ("epoch", "new", "--confirm", "new epoch")


def told(result: Result) -> str:
    """What a command that succeeded printed, without its line breaks."""
    assert (result.status, result.err) == (0, ""), result
    return " ".join(result.out.split())


def open_epoch(tactful: Tactful) -> int:
    number = tactful.json("epoch", "show")["epoch"]
    assert isinstance(number, int)
    return number


def ask(tactful: Tactful) -> None:
    tactful.json("tell", "meals", "dinner?")


def test_the_open_epoch_shows_promises_and_lifetimes(running: Tactful) -> None:
    ask(running)
    shown = running.run("epoch", "show")
    text = told(shown)
    assert "Epoch 1 is open. It stays open until you open another one" in text
    (row,) = [line for line in shown.out.splitlines() if line.startswith("diabetes")]
    assert row.split()[:4] == ["diabetes", "0.667", "2.000", "2.000"]
    assert "at most ×7.4: from 10 % to at most 46 %" in text


def test_the_open_epoch_in_json(running: Tactful) -> None:
    ask(running)
    data = running.json("epoch", "show")
    assert (data["epoch"], data["renewal"]) == (1, "manual")
    assert data["lines"][0] == {
        "attribute": "diabetes",
        "lifetime_now": pytest.approx(CAP),
        "lifetime_after": pytest.approx(CAP + THIRD),
        "fused_now": 0.0,
        "fused_after": 0.0,
        "delta": 0.0,
        "spent": pytest.approx(THIRD),
        "cap": CAP,
        "promised": CAP,
        "closed": False,
        "exposed": False,
    }


def test_on_a_terminal_it_is_shown_what_it_means_and_wants_it_typed(running: Tactful) -> None:
    ask(running)
    with running.terminal("epoch", "new") as terminal:
        terminal.expect("closes epoch 1 and opens epoch 2")
        terminal.expect("Type new epoch to open it:")
        assert open_epoch(running) == 1, "it was opened before it was typed"
        terminal.type("new epoch")
        terminal.expect("Epoch 2 is open.")
        assert terminal.end() == 0
        text = " ".join(terminal.text.split())
    assert "now ε 2.000, at most ×7.4: from 10 % to at most 46 %" in text
    assert "after ε 2.667, at most ×14.4: from 10 % to at most 62 %" in text
    assert "What apps have seen stays seen." in text
    assert "it is outside the promise" in text
    assert open_epoch(running) == 2


@pytest.mark.parametrize("words", ["", "yes", "new", "epoch new", "New Epoch", "new  epoch"])
def test_another_word_opens_nothing(running: Tactful, words: str) -> None:
    with running.terminal("epoch", "new") as terminal:
        terminal.expect("Type new epoch")
        terminal.type(words)
        assert terminal.end() == 64
        assert "no epoch was opened" in " ".join(terminal.text.split())
    assert open_epoch(running) == 1


@pytest.mark.parametrize("key", ["C", "D"])
def test_leaving_the_question_opens_nothing(running: Tactful, key: str) -> None:
    with running.terminal("epoch", "new") as terminal:
        terminal.expect("Type new epoch")
        terminal.press(key)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text
    assert open_epoch(running) == 1


def test_without_a_terminal_the_words_are_an_option(running: Tactful) -> None:
    ask(running)
    text = told(running.run(*OPEN))
    assert "after ε 2.667, at most ×14.4" in text
    assert text.endswith("Epoch 2 is open.")


def test_words_from_a_pipe_do_not_count(running: Tactful) -> None:
    result = running.run("epoch", "new", stdin="new epoch\n")
    assert (result.status, result.out) == (64, "")
    assert open_epoch(running) == 1


@pytest.mark.parametrize("arguments", [[], ["--confirm", "yes"], ["--confirm", ""]])
def test_json_needs_the_words_too_also_on_a_terminal(
    running: Tactful, arguments: list[str]
) -> None:
    with running.terminal("epoch", "new", "--json", *arguments) as terminal:
        assert terminal.end() == 64
        assert '"code":"usage"' in terminal.text
    assert open_epoch(running) == 1


def test_opening_in_json_says_what_it_was_decided_on(running: Tactful) -> None:
    ask(running)
    before = running.json("epoch", "show")
    data = running.json(*OPEN)
    assert (data["epoch"], data["before"]["epoch"]) == (2, 1)
    assert data["before"]["lines"][0]["lifetime_after"] == before["lines"][0]["lifetime_after"]
    assert data["lines"][0]["lifetime_now"] == before["lines"][0]["lifetime_after"]


def test_an_epoch_that_is_not_the_one_that_was_shown_is_left_alone(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"rival": true}')
    result = made.run(*OPEN, "--json")
    assert (result.status, result.error["code"]) == (73, "already_exists")
    assert open_epoch(made) == 2


def test_a_new_epoch_does_not_hide_what_was_seen_before(running: Tactful) -> None:
    ask(running)
    running.json(*OPEN)
    shown = told(running.run("ledger"))
    assert "Epoch 2" in shown
    assert "lifetime 0.667" in shown
    assert "In this epoch all apps together have seen nothing" in shown


def test_history_is_a_table_of_epochs_and_attributes(running: Tactful) -> None:
    ask(running)
    running.json(*OPEN)
    running.json("tell", "meals", "sleep?")
    rows = [line.split() for line in running.run("epoch", "history").out.splitlines()]
    assert [row for row in rows if row] == [
        ["epoch", "diabetes", "debt"],
        ["1", "0.667", "0.667"],
        ["2", "0.667", "0.000"],
        ["lifetime", "1.333", "0.667"],
    ]
    data = running.json("epoch", "history")
    assert [sums["epoch"] for sums in data["epochs"]] == [1, 2]
    assert data["epochs"][1]["spent"] == {"diabetes": pytest.approx(THIRD), "debt": 0.0}
    assert data["lifetime"] == {"diabetes": pytest.approx(2 * THIRD), "debt": pytest.approx(THIRD)}


def test_no_bound_is_shown_where_none_holds(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"exposed": "debt"}')
    for command in (("epoch", "show"), OPEN):
        result = made.run(*command)
        shown = " ".join(result.out.split())
        assert "none: it was read without protection" in shown
        assert shown.count("at most ×") == (1 if command == ("epoch", "show") else 2)
