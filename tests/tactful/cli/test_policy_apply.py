"""What of a changed policy waits is told; nothing is put in force at once but on purpose."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE

AT_ONCE = ("policy", "apply", "--at-once", "--confirm", "at once")
STAGED = {"at_tick": ["attributes.debt.cap"], "at_epoch": ["attributes.diabetes.implied_by"]}


def start(made: Tactful, **wishes: object) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=json.dumps(wishes))


def told(tactful: Tactful, *words: str) -> str:
    result = tactful.run(*words)
    assert (result.status, result.err) == (0, ""), result
    return " ".join(result.out.split())


def test_nothing_waits(running: Tactful) -> None:
    assert told(running, "policy", "apply") == "All that the policy file says is in force."
    data = running.json("policy", "apply")
    assert (data["at_tick"], data["at_epoch"], data["at_once"]) == ([], [], False)


def test_what_waits_is_told_with_its_moment(made: Tactful) -> None:
    start(made, staged=STAGED)
    text = told(made, "policy", "apply")
    assert "From the next tick on, 2027-01-15" in text
    assert (
        "attributes.debt.cap In a new epoch only (tactful epoch new): attributes.diabetes" in text
    )
    assert "From the next tick on" in told(made, "epoch", "show")


def test_other_shelves_are_told(made: Tactful) -> None:
    start(made, staged={"other_shelves": True, **STAGED})
    text = told(made, "policy", "apply")
    assert text == "The policy file has other shelves than memory, so it is not in force."


def test_a_new_epoch_says_what_it_puts_in_force(made: Tactful) -> None:
    start(made, staged=STAGED)
    text = told(made, "epoch", "new", "--confirm", "new epoch")
    assert (
        "The policy file then holds as it is written: attributes.debt.cap, "
        "attributes.diabetes.implied_by." in text
    )


def test_at_once_is_named_as_outside_of_the_promise(made: Tactful) -> None:
    start(made, staged=STAGED)
    text = told(made, *AT_ONCE)
    assert "A change at once is outside of the promise." in text
    assert "All that the policy file says is in force." in text
    assert "put in force at once in this epoch, which is outside of the promise" in text
    assert "outside of the promise" in told(made, "epoch", "show")
    assert made.json("policy", "apply")["at_once"] is True


def test_on_a_terminal_it_wants_to_be_typed(made: Tactful) -> None:
    start(made, staged=STAGED)
    with made.terminal("policy", "apply", "--at-once") as terminal:
        terminal.expect("A change at once is outside of the promise.")
        terminal.expect("Type at once to put it in force:")
        assert made.json("policy", "apply")["at_once"] is False
        terminal.type("yes")
        assert terminal.end() == 64
    assert made.json("policy", "apply")["at_once"] is False


@pytest.mark.parametrize("more", [(), ("--confirm", "yes")])
def test_without_the_words_nothing_is_put_in_force(made: Tactful, more: tuple[str, ...]) -> None:
    start(made, staged=STAGED)
    refused = made.run("policy", "apply", "--at-once", *more)
    assert refused.status == 64
    assert made.json("policy", "apply")["at_once"] is False


def test_a_policy_with_problems_is_refused_with_them(made: Tactful) -> None:
    sentence = "policy.yaml has problems. policy.yaml:3: slots: expected keys."
    nothing: dict[str, Any] = {"waiting": [], "settings_problem": None, "policy_waits": None}
    start(made, reloaded={**nothing, "policy_problem": sentence})
    refused = made.run("policy", "apply")
    assert refused.status == 78
    assert sentence in " ".join(refused.err.split())
