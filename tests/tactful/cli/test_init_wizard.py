"""`tactful init` on a terminal: a few questions, each with a default, and nothing done before."""

import json
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful, Terminal
from tests.tactful.cli.fake_tactfuld import PASSPHRASE

from tactful.cli.init_wizard import DEFAULT_STARTER
from tactful_policies import STARTERS

EVERYTHING = json.dumps({"keyring": "Wallet", "model_missing": True})

INIT = ("init", "--no-recovery")
"""What is typed back of a recovery phrase is in `test_keys`."""


def profile_of(tactful: Tactful) -> Path:
    return Path(tactful.environment["TACTFUL_PROFILE"])


def starter_of(tactful: Tactful) -> str:
    return (profile_of(tactful) / "config" / "policy.yaml").read_text()


def answer(terminal: Terminal, **answers: str) -> None:
    """Types the answers, each when its question is there."""
    questions = {
        "policy": "Which policy do you want to begin with?",
        "key": "What shall unlock your memory?",
        "model": "Fetch it now?",
        "make": "Make it?",
        "passphrase": "New passphrase:",
        "again": "The same again:",
    }
    for name, typed in answers.items():
        terminal.expect(questions[name])
        terminal.type(typed)


def test_the_return_key_takes_every_default(tactful: Tactful) -> None:
    with tactful.terminal(*INIT, FAKE_TACTFULD=EVERYTHING) as terminal:
        answer(terminal, policy="", key="", model="", make="")
        terminal.expect("Your profile is made.")
        terminal.expect("What to type next:")
        assert terminal.end() == 0
    assert starter_of(tactful) == "starter: everyday\n"
    assert (profile_of(tactful) / "data" / "locked-by").read_text() == "the keyring's"
    assert "model install" not in terminal.text


@pytest.mark.parametrize("typed", ["2", "demo", "DEMO"])
def test_an_answer_is_a_number_or_a_name(tactful: Tactful, typed: str) -> None:
    with tactful.terminal(*INIT, FAKE_TACTFULD=EVERYTHING) as terminal:
        answer(terminal, policy=typed, key="2", model="", make="")
        answer(terminal, passphrase=PASSPHRASE, again=PASSPHRASE)
        assert terminal.end() == 0
    assert starter_of(tactful) == "starter: demo\n"
    assert (profile_of(tactful) / "data" / "locked-by").read_text() == PASSPHRASE


def test_what_is_no_answer_is_asked_again(tactful: Tactful) -> None:
    with tactful.terminal("init") as terminal:
        answer(terminal, policy="7")
        terminal.expect("Please answer with a number from 1 to 2.")
        terminal.expect("1 to 2")
        terminal.type("")
        answer(terminal, make="perhaps")
        terminal.expect("Please answer y or n.")
        answer(terminal, make="no")
        assert terminal.end() == 130
    assert not profile_of(tactful).exists()


def test_a_model_is_offered_with_its_size_and_can_come_later(tactful: Tactful) -> None:
    wishes = json.dumps({"model_missing": True, "fail": {"model-install": "model_failed"}})
    with tactful.terminal(*INIT, FAKE_TACTFULD=wishes) as terminal:
        answer(terminal, policy="")
        terminal.expect("93 MB")
        answer(terminal, model="n", make="", passphrase=PASSPHRASE, again=PASSPHRASE)
        terminal.expect("model install")
        assert terminal.end() == 0
        assert "refused" not in terminal.text


def test_what_an_option_says_is_not_asked(tactful: Tactful) -> None:
    options = ("--starter", "demo", "--key", "keyring", "--no-model")
    with tactful.terminal(*INIT, *options, FAKE_TACTFULD=EVERYTHING) as terminal:
        answer(terminal, make="")
        assert terminal.end() == 0
        assert "Which policy" not in terminal.text
        assert "What shall unlock" not in terminal.text
        assert "Fetch it now?" not in terminal.text
    assert starter_of(tactful) == "starter: demo\n"


def test_a_passphrase_that_was_given_unlocks_without_a_question(tactful: Tactful) -> None:
    with tactful.terminal(
        *INIT, FAKE_TACTFULD=EVERYTHING, TACTFUL_PASSPHRASE=PASSPHRASE
    ) as terminal:
        answer(terminal, policy="", model="", make="")
        assert terminal.end() == 0
    assert (profile_of(tactful) / "data" / "locked-by").read_text() == PASSPHRASE


def test_with_yes_nothing_is_asked(tactful: Tactful) -> None:
    with tactful.terminal("init", "--yes", TACTFUL_PASSPHRASE=PASSPHRASE) as terminal:
        terminal.expect("Your profile is made.")
        assert terminal.end() == 0
        assert "?" not in terminal.text.partition("What to type next")[0]


def test_without_a_model_none_is_fetched(tactful: Tactful) -> None:
    wishes = json.dumps({"fail": {"model-install": "model_failed"}})
    data = tactful.json("init", "--no-model", FAKE_TACTFULD=wishes, TACTFUL_PASSPHRASE=PASSPHRASE)
    assert data["model_problem"] is None


def test_over_a_profile_nothing_is_asked(made: Tactful) -> None:
    with made.terminal("init") as terminal:
        terminal.expect("A profile is there already.")
        assert terminal.end() == 73
        assert "Which policy" not in terminal.text


@pytest.mark.parametrize("key", ["C", "D"])
@pytest.mark.parametrize("asked", ["policy", "key", "model", "make"])
def test_leaving_any_question_is_130_and_makes_nothing(
    tactful: Tactful, asked: str, key: str
) -> None:
    prompts = {"policy": "everyday: ", "key": "keyring: ", "model": "now? [Y/n] ", "make": "it? ["}
    with tactful.terminal(*INIT, FAKE_TACTFULD=EVERYTHING) as terminal:
        for name, prompt in prompts.items():
            terminal.expect(prompt)
            if name == asked:
                break
            terminal.type("")
        terminal.press(key)
        assert terminal.end() == 130
        assert terminal.text.rstrip().endswith("Interrupted.")
        assert "Traceback" not in terminal.text
    assert not profile_of(tactful).exists()


def test_the_help_names_the_starters_that_there_are(tactful: Tactful) -> None:
    told = " ".join(tactful.run("init", "--help").out.split())
    default, *others, last = STARTERS
    assert default == DEFAULT_STARTER
    assert f"{default} (the default), {', '.join(others)} or {last}" in told
