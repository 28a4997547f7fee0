"""Somebody's first day, typed on a terminal and sent by a program.

Against the stand-in daemon; `tests/end_to_end/test_first_day.py` does the same with the real one.
"""

from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE


def test_a_first_day_on_a_terminal(tactful: Tactful) -> None:
    with tactful.terminal("init", "--starter", "demo", "--no-recovery") as terminal:
        terminal.expect("Make it?")
        terminal.type("")
        for prompt in ("New passphrase:", "The same again:"):
            terminal.expect(prompt)
            terminal.type(PASSPHRASE)
        terminal.expect("What to type next:")
        assert terminal.end() == 0
    with tactful.terminal("start") as terminal:
        terminal.expect("Passphrase:")
        terminal.type(PASSPHRASE)
        terminal.expect("The daemon is running")
        assert terminal.end() == 0
    with tactful.terminal("remember", "--shelf", "food.diet") as terminal:
        terminal.expect("What shall I remember?")
        terminal.type("I avoid sugary food.")
        terminal.expect("Remembered in food.diet, position 2.")
        assert terminal.end() == 0
    for command, words in (
        (("memory", "list"), "I avoid sugary food."),
        (("tell", "meals", "What", "is for dinner?"), "charged to diabetes and debt"),
        (("ask", "What", "do I avoid?"), "From the one memory that there is."),
        (("ledger",), "about two thirds left"),
        (("ask", "--as", "meals", "What is for dinner?"), "charged to diabetes and debt"),
        (("ledger",), "about a third left"),
        (("apps", "list"), "running"),
        (("apps", "grant", "meals"), "t0ken"),
        (("apps", "revoke", "meals"), "no longer valid"),
        (("status",), "toy ready"),
        (("paths",), "policy.yaml"),
        (("stop",), "The daemon has stopped."),
    ):
        with tactful.terminal(*command) as terminal:
            terminal.expect(words)
            assert terminal.end() == 0


def test_a_first_day_of_a_program(tactful: Tactful) -> None:
    tactful.environment["TACTFUL_PASSPHRASE"] = PASSPHRASE
    tactful.json("init", "--starter", "demo", "--yes")
    pid = tactful.json("start")["pid"]
    assert tactful.json("status", "--wait")["pid"] == pid
    stored = tactful.json("remember", "I avoid sugary food.", "--shelf", "food.diet")
    assert stored == {"positions": [2], "shelf": "food.diet", "warning": None}
    listed = tactful.json("memory", "list")
    assert [item["text"] for item in listed["items"]] == ["I avoid sugary food."]
    turns = tactful.json("tell", "meals", "What is for dinner?")["turns"]
    assert turns[0]["selections"][0]["charged"] == ["diabetes", "debt"]
    spent = {line["attribute"]: line["spent"] for line in tactful.json("ledger")["lines"]}
    assert spent == {"diabetes": 2 / 3, "debt": 2 / 3}
    assert tactful.json("apps", "list")["apps"][0]["app"] == "meals"
    granted = tactful.json("apps", "grant", "meals")
    assert granted["token"] == "t0ken"
    assert granted["socket"].endswith("app.sock")
    assert tactful.json("apps", "revoke", "meals") == {"revoked": "meals"}
    assert tactful.json("stop") == {"stopped": True, "pid": pid}


def test_a_text_may_come_from_standard_input(running: Tactful) -> None:
    """So that it does not stay in the history of a shell."""
    for arguments in (("--shelf", "food.diet"), ("-", "--shelf", "food.groceries")):
        result = running.run("remember", *arguments, stdin="From a pipe.\n")
        assert result.status == 0, result
    texts = [item["text"] for item in running.json("memory", "list")["items"]]
    assert texts == ["From a pipe.", "From a pipe."]


def test_refusals_of_the_daemon_reach_the_owner(running: Tactful) -> None:
    refused = running.run("remember", "x", "--shelf", "food.cellar", "--json")
    assert (refused.status, refused.error["code"]) == (66, "not_found")
    refused = running.run("tell", "meals", "forbidden")
    assert (refused.status, refused.err) == (77, "tactful: The policy does not grant this.\n")
    refused = running.run("apps", "grant", "nobody", "--json")
    assert (refused.status, refused.error["code"]) == (66, "not_found")


def test_a_message_waits_for_the_model(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"loading": 3}')
    assert made.json("tell", "meals", "What is for dinner?")["turns"][0]["answer"]


def test_an_app_that_asks_nothing_is_no_error(running: Tactful) -> None:
    result = running.run("tell", "meals", "nothing")
    assert result.status == 0
    assert "asked nothing" in result.out
    assert running.json("tell", "meals", "nothing") == {"turns": []}
