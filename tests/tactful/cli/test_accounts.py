"""Bars are full exactly where nothing is left."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tactful.cli.accounts import WIDTH, bar, show_accounts, show_odds
from tactful.owner_wire import FusedLine, LedgerLine

FUSED = FusedLine(
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


def line(spent: float, cap: float = 2.0) -> LedgerLine:
    return LedgerLine(
        attribute="debt",
        spent=spent,
        cap=cap,
        promised=max(spent, cap),
        lifetime=spent + 1,
        closed=spent > cap,
        exposed=False,
    )


def shown(account: LedgerLine, columns: int = 80) -> str:
    paper = io.StringIO()
    console = Console(file=paper, width=columns, color_system=None)
    show_accounts(console, [account], lifetime=True)
    show_odds(console, [account])
    return paper.getvalue()


@given(st.floats(0.0, 2.0))
def test_a_bar_is_full_only_when_everything_is_spent(spent: float) -> None:
    drawn = bar(line(spent)).plain
    assert len(drawn) == WIDTH
    assert (drawn == "█" * WIDTH) == (spent == 2.0)


def test_a_cap_lowered_below_what_was_spent_does_not_burst_the_bar() -> None:
    assert bar(line(3.0)).plain == "█" * WIDTH


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_accounts_fit_the_terminal(columns: int) -> None:
    drawn = shown(line(2 / 3), columns)
    assert max(len(row) for row in drawn.splitlines()) <= columns
    assert "0.667 of 2.000" in drawn
    assert "lifetime 1.667" in drawn
    assert "promised" not in drawn


def test_a_promise_that_is_no_longer_the_cap_is_shown_as_it_is() -> None:
    drawn = " ".join(shown(line(3.0)).split())
    assert "3.000 of 2.000" in drawn
    assert "closed: more was spent than the cap now allows" in drawn
    assert "promised 3.000, lifetime 4.000" in drawn


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_fused_text_is_shown_with_its_delta_and_what_both_are_promised_at(columns: int) -> None:
    drawn = shown(line(2 / 3).model_copy(update={"fused": FUSED}), columns)
    assert max(len(row) for row in drawn.splitlines()) <= columns
    told = " ".join(drawn.split())
    assert "Fused text, δ 1e-05 debt 3.000 of 8.000, 1,203 tokens left" in told
    assert "together (ε 10.000, δ 1e-05), lifetime 4.000" in told


def test_fused_text_that_the_policy_allows_no_more_is_still_shown() -> None:
    gone = FUSED.model_copy(update={"epsilon": None, "promised": 3.0, "draws_left": 0})
    told = " ".join(shown(line(0.5).model_copy(update={"fused": gone})).split())
    assert "debt 3.000, none left together (ε 5.000, δ 1e-05)" in told


def test_without_fused_text_there_is_no_word_of_it() -> None:
    assert "used text" not in shown(line(0.5))
