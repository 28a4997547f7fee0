"""`tactful demo` on the real thing: real daemon, real sockets, real model, an app of its own.

Takes minutes on a slow machine; waits for what happens, and times nothing.
"""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.processes import MINUTES, processes_naming, short_folder
from tests.tactful.cli.command_line import INSTALLED, Result, Tactful

CAP = 2.0
CHARGE = 0.666667

pytestmark = pytest.mark.timeout(20 * MINUTES)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The temporary folder of every demo in this file."""
    with short_folder() as path:
        yield path


@pytest.fixture(scope="module")
def tactful(folder: Path) -> Tactful:
    return Tactful(INSTALLED, {"TMPDIR": str(folder)}, patience=15 * MINUTES)


@pytest.fixture(scope="module")
def told(tactful: Tactful, folder: Path) -> dict[str, Any]:
    """What `tactful demo --json` prints."""
    result = tactful.run("demo", "--json")
    assert (result.status, result.err) == (0, ""), result
    assert result.out.replace("\n", "").isprintable()
    assert list(folder.iterdir()) == []
    assert processes_naming(folder) == []
    return result.data


@pytest.fixture(scope="module")
def shown(tactful: Tactful, folder: Path) -> Result:
    """What `tactful demo` prints into a pipe."""
    result = tactful.run("demo")
    assert (result.status, result.err) == (0, ""), result
    assert list(folder.iterdir()) == []
    assert processes_naming(folder) == []
    return result


def selections(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Every selection, in the order in which they were made."""
    return [chosen for turn in told["turns"] for chosen in turn["selections"]]


def test_there_are_about_ten_turns_and_each_has_an_answer(told: dict[str, Any]) -> None:
    assert 8 <= len(told["turns"]) <= 14
    assert [turn["turn"] for turn in told["turns"]] == list(range(1, len(told["turns"]) + 1))
    for turn in told["turns"]:
        assert turn["query"]
        assert turn["answer"].strip()
        assert turn["selections"]


def test_each_topic_charges_the_attributes_that_it_may_imply(told: dict[str, Any]) -> None:
    expected = {"health": ["diabetes"], "food": ["diabetes", "debt"], "finance": ["debt"]}
    charged = [chosen for chosen in selections(told) if not chosen["fallback"]]
    assert {chosen["slot"] for chosen in charged} == set(expected)
    for chosen in charged:
        assert chosen["charged"] == expected[chosen["slot"]]
        assert chosen["epsilon"] == CHARGE


def test_a_fallback_is_the_generic_view_and_costs_nobody_anything(told: dict[str, Any]) -> None:
    fallbacks = [chosen for chosen in selections(told) if chosen["fallback"]]
    assert fallbacks
    for chosen in fallbacks:
        assert (chosen["view"], chosen["epsilon"], chosen["charged"]) == ("generic", 0.0, [])


def test_a_view_falls_back_exactly_when_the_next_charge_would_not_fit(
    told: dict[str, Any],
) -> None:
    read = {"health": ["diabetes"], "food": ["diabetes", "debt"], "finance": ["debt"]}
    charges = {"diabetes": 0, "debt": 0}
    for chosen in selections(told):
        fits = all(charges[attribute] < 3 for attribute in read[chosen["slot"]])
        assert chosen["fallback"] is not fits
        for attribute in chosen["charged"]:
            charges[attribute] += 1
    assert charges == {"diabetes": 3, "debt": 3}


def test_both_caps_are_spent_exactly(told: dict[str, Any]) -> None:
    assert told["ledgers"] == {
        "diabetes": {"spent": CAP, "cap": CAP},
        "debt": {"spent": CAP, "cap": CAP},
    }


def test_diabetes_is_used_up_first_while_finance_is_still_fresh(told: dict[str, Any]) -> None:
    """The paper's situation: food is generic, finance still releases and charges debt alone."""
    flat = selections(told)
    third = [at for at, chosen in enumerate(flat) if "diabetes" in chosen["charged"]][2]
    later = flat[third + 1 :]
    assert any(chosen["slot"] == "food" and chosen["fallback"] for chosen in later)
    fresh = [at for at, chosen in enumerate(later) if chosen["charged"] == ["debt"]]
    assert fresh
    generic = [at for at, chosen in enumerate(later) if chosen["slot"] == "food"]
    assert generic[0] < fresh[-1], "food was not generic before finance was fresh"


def test_at_least_one_turn_activates_two_topics_at_once(told: dict[str, Any]) -> None:
    assert any(len(turn["selections"]) >= 2 for turn in told["turns"])


def test_what_is_remembered_is_in_no_query_view_or_ledger(told: dict[str, Any]) -> None:
    without_answers = json.dumps(
        [{k: v for k, v in turn.items() if k != "answer"} for turn in told["turns"]]
    )
    for words in ("diagnosed", "avoid sugary", "on offer", "overdrawn", "three months behind"):
        assert words not in without_answers


def test_in_a_pipe_it_is_plain_text_of_80_columns(shown: Result) -> None:
    assert shown.out.replace("\n", "").isprintable()
    assert max(len(line) for line in shown.out.splitlines()) <= 80


def test_the_screen_tells_the_whole_story(shown: Result, told: dict[str, Any]) -> None:
    text = " ".join(shown.out.split())
    for turn in told["turns"]:
        assert turn["query"] in text
    assert "ε 0.667 charged to diabetes and debt" in text
    assert "no charge: the budget of this topic is used up" in text
    assert len(re.findall(r"█{24} +2\.000 of 2\.000 +used up", shown.out)) == 2
    assert (
        "moves the odds between two memories that differ only in what is filed under `diabetes` "
        "by at most ×7.4: from 10 % to at most 46 %" in text
    )
    assert re.search(r"sandbox +(required|off)", shown.out)
    for command in ("init", "start", "remember", "tell meals"):
        assert f"tactful {command}" in text


def test_interrupted_it_leaves_nothing(tactful: Tactful, folder: Path) -> None:
    with tactful.popen("demo") as child:
        assert child.stdout is not None
        assert any("meals asks" in line for line in child.stdout)
        child.send_signal(signal.SIGINT)
        _, complaints = child.communicate(timeout=5 * MINUTES)
    assert child.returncode == 130, complaints
    assert complaints.strip() == "tactful: Interrupted."
    assert list(folder.iterdir()) == []
    assert processes_naming(folder) == []


def test_on_a_terminal_the_answers_stream_within_its_width(tactful: Tactful) -> None:
    with tactful.terminal("demo") as terminal:
        terminal.expect("What is remembered")
        terminal.expect("meals asks")
        terminal.expect("charged to")
        terminal.press("C")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text
