"""`tactful ask`: for oneself from memory, as an app at its cost; with the stand-in daemon."""

import json

import pytest
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE, SHELVES

from tactful.cli.ask import fused_cost, sources
from tactful.owner_wire import FusedText, OwnersAnswer


def spent(tactful: Tactful) -> dict[str, float]:
    return {line["attribute"]: line["spent"] for line in tactful.json("ledger")["lines"]}


def test_an_answer_streams_as_plain_text_and_nothing_else(running: Tactful) -> None:
    result = running.run("ask", "Where", "are my keys?")
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("You asked:[31m Where are my keys? You told me this.")
    assert result.out.split()[-4:] == ["You", "told", "me", "this."]


def test_a_terminal_is_told_how_much_was_read(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=json.dumps({"read": 2}))
    for shelf in SHELVES[:3]:
        made.json("remember", "Something.", "--shelf", shelf)
    with made.terminal("ask", "What?") as terminal:
        terminal.expect("You told me this.")
        terminal.expect("From 2 of 3 memories")
        assert terminal.end() == 0


@pytest.mark.parametrize(
    ("read", "remembered", "words"),
    [
        (0, 0, "Nothing is remembered yet"),
        (1, 1, "From the one memory"),
        (12, 12, "From all 12 memories."),
        (30, 200, "From 30 of 200 memories"),
        (0, 3, "From 0 of 3 memories"),
    ],
)
def test_what_was_read_is_said_in_words(read: int, remembered: int, words: str) -> None:
    assert sources(OwnersAnswer(text="", read=read, remembered=remembered)).startswith(words)


def test_a_program_gets_one_envelope(running: Tactful) -> None:
    running.json("remember", "I avoid sugar.", "--shelf", "food.diet")
    reply = running.json("ask", "What do I avoid?")
    assert (reply["read"], reply["remembered"]) == (1, 1)
    assert "What do I avoid?" in reply["text"]


def test_a_question_for_oneself_costs_nothing(running: Tactful) -> None:
    running.json("ask", "What is for dinner?")
    assert spent(running) == {"diabetes": 0, "debt": 0}


def test_as_an_app_views_and_charges_are_shown(running: Tactful) -> None:
    result = running.run("ask", "--as", "meals", "What is for dinner?")
    assert (result.status, result.err) == (0, "")
    assert "meals asks: What is for dinner?" in result.out
    assert "ε 0.667 charged to diabetes and debt" in result.out
    assert spent(running) == {"diabetes": 2 / 3, "debt": 2 / 3}
    turn = running.json("ask", "--as", "meals", "What is for dinner?")
    assert (turn["app"], turn["turn"]) == ("meals", 2)
    assert turn["selections"][0]["charged"] == ["diabetes", "debt"]


def test_topics_can_be_named(running: Tactful) -> None:
    turn = running.json("ask", "--as", "meals", "Hm?", "--slot", "health", "--slot", "finance")
    assert [chosen["slot"] for chosen in turn["selections"]] == ["health", "finance"]


@pytest.mark.parametrize("option", ["--slot", "--thread"])
def test_topics_and_threads_are_for_apps(running: Tactful, option: str) -> None:
    result = running.run("ask", "Hm?", option, "food")
    assert result.status == 64
    assert f"{option} is for questions as an app" in result.err
    assert running.run("ask", "Hm?", option, "food", "--as", "meals").status == 0


def test_fused_text_is_for_apps(running: Tactful) -> None:
    result = running.run("ask", "Hm?", "--fused")
    assert result.status == 64
    assert "--fused is for questions as an app" in result.err


def test_fused_text_is_asked_for_and_reported(running: Tactful) -> None:
    plain = running.json("ask", "Hm?", "--as", "meals", "--slot", "food")
    fused = running.json("ask", "Hm?", "--as", "meals", "--slot", "food", "--fused")
    assert plain["fused"] is None
    assert fused["fused"].keys() == FusedText.model_fields.keys()


def test_a_terminal_is_told_what_fused_text_came_to(running: Tactful) -> None:
    with running.terminal("ask", "Hm?", "--as", "meals", "--slot", "food", "--fused") as terminal:
        terminal.expect("until here.")
        terminal.expect("40 of 64 reserved draws were charged to diabetes")
        assert terminal.end() == 0


def text(**others: object) -> FusedText:
    fields: dict[str, object] = {
        "cells": 2,
        "charged": ("diabetes", "debt"),
        "reserved": 60,
        "draws": 40,
        "free": 0,
        "seconds": 8.0,
    }
    return FusedText.model_validate(fields | others)


@pytest.mark.parametrize(
    ("fused", "words"),
    [
        (text(), "40 of 60 reserved draws were charged to diabetes, debt; 40 tokens, 5.0 tokens a"),
        (text(free=8), "charged to diabetes, debt, 8 more were free; 48 tokens, 6.0 tokens a"),
        (
            text(cells=0, charged=(), reserved=0, draws=0, free=16),
            "16 tokens (2.0 tokens a second)",
        ),
        (text(reason="the budget is used up"), "Nothing was fused: the budget is used up."),
        (text(seconds=0.0), "at once"),
    ],
)
def test_what_fused_text_cost_is_said_in_words(fused: FusedText, words: str) -> None:
    assert words in fused_cost(fused)


@pytest.mark.parametrize("words", [[], ["-"]])
def test_a_question_can_come_from_a_pipe(running: Tactful, words: list[str]) -> None:
    result = running.run("ask", *words, stdin="Where are\nmy keys?\n")
    assert result.status == 0
    assert "Where are" in result.out


@pytest.mark.parametrize("words", [[], ["-"], [" "]])
def test_no_question_is_a_sentence(running: Tactful, words: list[str]) -> None:
    result = running.run("ask", *words, stdin="  \n")
    assert result.status == 64
    assert "There is nothing to ask" in result.err


def test_a_terminal_is_asked_for_the_question(running: Tactful) -> None:
    with running.terminal("ask") as terminal:
        terminal.expect("What do you want to know?")
        terminal.type("Where are my keys?")
        terminal.expect("You asked:[31m Where")
        assert terminal.end() == 0


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (["--as", "stranger", "Dinner?"], "not_found", 66),
        (["--as", "meals", "forbidden"], "denied", 77),
        (["a novel"], "invalid_params", 64),
        (["x" * 8001], "invalid_params", 64),
        (["--as", "meals", "x" * 2001], "invalid_params", 64),
    ],
)
def test_what_is_refused_is_a_sentence(
    running: Tactful, words: list[str], code: str, status: int
) -> None:
    result = running.run("ask", *words, "--json")
    assert (result.status, result.error["code"]) == (status, code)
    assert running.run("ask", *words).status == status


def test_the_model_is_waited_for(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=json.dumps({"loading": 3}))
    assert made.json("ask", "What?")["text"]


def test_no_daemon_is_69(made: Tactful) -> None:
    result = made.run("ask", "What?", "--json")
    assert (result.status, result.error["code"]) == (69, "daemon_down")
