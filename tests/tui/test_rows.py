"""Rows fit their width, say everything without colours, and steer no terminal."""

import unicodedata
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.tui.samples import APPS, HOSTILE, LINES, line

from tactful.odds import sentence
from tactful.owner_wire import AppStatus, FusedLine, LedgerLine
from tactful_tui.app_rows import app_rows
from tactful_tui.ledger_rows import ledger_rows
from tactful_tui.row import Row, cut, fitted

WIDTHS = st.integers(0, 200)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)
LEDGERS = st.lists(
    st.builds(line, TEXTS, st.floats(0, 4), cap=st.sampled_from([0.5, 2.0])), max_size=4
)
APP_LISTS = st.lists(
    st.builds(
        AppStatus,
        app=TEXTS,
        slots=st.tuples(TEXTS),
        state=TEXTS,
        problem=st.none() | TEXTS,
    ),
    max_size=4,
)


def plain(rows: Sequence[Row]) -> list[str]:
    return [row.shown.plain for row in rows]


def told(row: Row) -> str:
    """What the row's sheet says."""
    assert row.whole is not None
    return row.whole.plain


@given(TEXTS, WIDTHS)
def test_cut_text_is_never_wider_than_asked(text: str, cells: int) -> None:
    assert cell_len(cut(text, cells)) <= cells
    assert cell_len(fitted(text, cells)) == cells


def test_what_is_cut_ends_in_an_ellipsis_between_wide_characters_too() -> None:
    assert cut("What can I cook?", 9) == "What can…"
    assert cut("漢字漢字", 4) == "漢…"
    assert cut("漢字", 4) == "漢字"
    assert cut("word", 0) == ""


@given(LEDGERS, WIDTHS)
def test_ledgers_fit_every_terminal(lines: list[LedgerLine], cells: int) -> None:
    assert all(cell_len(row) <= cells for row in plain(ledger_rows(lines, cells)))


@given(APP_LISTS, WIDTHS)
def test_apps_fit_every_terminal(apps: list[AppStatus], cells: int) -> None:
    assert all(cell_len(row) <= cells for row in plain(app_rows(apps, cells)))


@pytest.mark.parametrize("cells", [78, 118, 158])
def test_ledgers_stand_in_columns(cells: int) -> None:
    rows = plain(ledger_rows(LINES, cells))
    assert len({row.index(" of ") for row in rows}) == 1


def test_every_figure_is_there_in_words_and_digits() -> None:
    spent, debt, fresh = plain(ledger_rows(LINES, 78))
    assert "diabetes" in spent
    assert "2.000 of 2.000  used up" in spent
    assert "1.333 of 2.000  about a third left" in debt
    assert "0.000 of 2.000  untouched" in fresh
    assert "lifetime 0.500" in plain(ledger_rows(LINES, 118))[2]


def test_a_bar_is_as_long_as_the_share_that_is_spent() -> None:
    rows = plain(ledger_rows(LINES, 118))
    full = rows[0].count("█")
    assert [row.count("█") for row in rows] == [full, round(full * 2 / 3), 0]
    assert all(row.count("█") + row.count("░") == full for row in rows)


def test_a_narrow_terminal_goes_without_bars_but_not_without_figures() -> None:
    for row in plain(ledger_rows(LINES, 34)):
        assert "█" not in row
        assert " of 2.000" in row


def test_a_whole_ledger_says_what_its_figures_mean() -> None:
    account = line("debt", 4 / 3, lifetime=3.0)
    (row,) = ledger_rows([account], 78)
    assert sentence(account) in told(row)
    assert "ε 3.000" in told(row)
    assert row.title == "Ledger of debt"


def test_a_whole_ledger_says_what_fused_text_cost_and_what_both_are_promised_at() -> None:
    fused = FusedLine(
        delta=1e-5,
        spent=3.0,
        epsilon=8.0,
        promised=8.0,
        lifetime=4.0,
        odds=3.5,
        promised_odds=8.5,
        lifetime_odds=4.5,
        draws_left=1203,
    )
    (row,) = ledger_rows([line("debt", 1.0).model_copy(update={"fused": fused})], 78)
    words = " ".join(told(row).split())
    assert "fused text ε 3.000 of 8.000 at δ 1e-05, 1,203 tokens left" in words
    assert "fused in all epochs ε 4.000 at δ 1e-05" in words
    assert "promised together (ε 10.000, δ 1e-05)" in words
    assert "except with a probability of at most 1e-05" in told(row)


def test_nothing_is_promised_for_an_exposed_attribute() -> None:
    (row,) = ledger_rows([line("debt", 0.5, exposed=True)], 78)
    assert "no promise in this epoch" in row.shown.plain
    assert "promised for this epoch nothing" in told(row)


def test_an_app_shows_its_state_and_what_it_may_ask_or_what_is_wrong() -> None:
    meals, letters, shim = plain(app_rows(APPS, 78))
    assert meals == "meals    running  food, finance, health"
    assert letters == "letters  parked   It ended three times."
    assert shim == "shim     outside  no slots: it may ask nothing"
    assert "may ask about" in told(app_rows(APPS, 78)[1])
    assert "plans" in told(app_rows(APPS, 78)[1])


MAKERS: tuple[Callable[[int], list[Row]], ...] = (
    lambda cells: ledger_rows([line(HOSTILE)], cells),
    lambda cells: app_rows(
        [AppStatus(app=HOSTILE, slots=(HOSTILE,), state=HOSTILE, problem=HOSTILE)], cells
    ),
    lambda cells: app_rows([AppStatus(app="x", slots=(HOSTILE,), state="running")], cells),
)


@pytest.mark.parametrize("rows", MAKERS)
def test_what_others_wrote_cannot_steer_the_terminal(rows: Callable[[int], list[Row]]) -> None:
    for row in rows(200):
        for text in (row.shown.plain, told(row).replace("\n", ""), row.title):
            unsafe = [c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}]
            assert not unsafe, ascii(text)
