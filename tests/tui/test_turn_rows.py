"""Turns are told shortly in their row and whole on their sheet."""

import unicodedata
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.tui.samples import HOSTILE, NOON, TURNS, turn, whole

from tactful.owner_wire import HistoryItem, HistoryView
from tactful_tui.turn_rows import said, turn_rows, whole_turn

TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)
HISTORIES = st.lists(
    st.builds(turn, st.integers(1, 9), TEXTS, app=TEXTS, complete=st.booleans()), max_size=4
)


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(minutes=3), "11:57"),
        (timedelta(hours=13), "Wed 23:00"),
        (timedelta(days=5), "Sat 12:00"),
        (timedelta(days=8), "25 Feb"),
        (timedelta(days=400), "2025-01-29"),
        (timedelta(days=-1), "6 Mar"),
    ],
)
def test_a_time_is_said_as_shortly_as_it_is_clear(ago: timedelta, words: str) -> None:
    assert said(int((NOON - ago).timestamp()), NOON) == words


def test_a_narrow_terminal_gets_question_and_views_below_each_other() -> None:
    first = turn_rows(TURNS, NOON, 78)[0].shown.plain.split("\n")
    assert first[0].split()[:4] == ["11:57", "meals", "What", "is"]
    assert first[0].endswith("…")
    assert first[1].strip() == "food: blood_sugar · finance: generic (no charge)"
    assert first[1].index("food") == first[0].index("What")


def test_a_wide_terminal_gets_one_line() -> None:
    for row in turn_rows(TURNS, NOON, 118):
        assert "\n" not in row.shown.plain
    assert (
        "food: blood_sugar · finance: generic (no charge)"
        in turn_rows(TURNS, NOON, 118)[0].shown.plain
    )


def test_an_answer_that_was_cut_short_says_so() -> None:
    assert "cut short" in turn_rows([turn(1, "x", complete=False)], NOON, 78)[0].shown.plain
    assert "cut short" in whole_turn(whole(complete=False), NOON).plain
    assert "cut short" not in whole_turn(whole(), NOON).plain


def test_a_turn_without_views_says_so() -> None:
    assert "no topic of the policy" in turn_rows([turn(1, "x", views=())], NOON, 78)[0].shown.plain


@given(HISTORIES, st.integers(0, 200))
def test_turns_fit_every_terminal(turns: list[HistoryItem], cells: int) -> None:
    for row in turn_rows(turns, NOON, cells):
        lines = row.shown.plain.split("\n")
        assert len(lines) == (1 if cells >= 110 else 2)
        assert all(cell_len(line) <= cells for line in lines)


def test_a_whole_turn_has_question_views_conversation_and_answer() -> None:
    told = whole_turn(whole(answer="Lentils.\n\nBread.", thread="dinner"), NOON).plain
    for part in (
        "11:57 by meals",
        "dinner",
        "food: blood_sugar",
        "What could",
        "Lentils.\n\nBread.",
    ):
        assert part in told


def test_what_others_wrote_cannot_steer_the_terminal() -> None:
    views = (HistoryView(slot=HOSTILE, view=HOSTILE, fallback=False),)
    row = turn_rows([turn(1, HOSTILE, app=HOSTILE, views=views)], NOON, 150)[0].shown.plain
    sheet = whole_turn(whole(query=HOSTILE, answer=HOSTILE, thread=HOSTILE), NOON).plain.replace(
        "\n", ""
    )
    for text in (row, sheet):
        assert not [c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}]
