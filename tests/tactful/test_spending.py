"""What is left is said in words; a bar is full exactly where nothing is left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful.owner_wire import LedgerLine, Selection
from tactful.spending import Alarm, alarm, cost, filled, left_in_words


def line(
    spent: float, cap: float = 2.0, *, closed: bool = False, exposed: bool = False
) -> LedgerLine:
    return LedgerLine(
        attribute="diabetes",
        spent=spent,
        cap=cap,
        promised=max(spent, cap),
        lifetime=spent,
        closed=closed,
        exposed=exposed,
    )


@given(st.floats(0.0, 2.0), st.integers(1, 200))
def test_a_bar_is_full_only_when_everything_is_spent(spent: float, width: int) -> None:
    cells = filled(line(spent), width)
    assert 0 <= cells <= width
    assert (cells == width) == (spent == 2.0)


def test_a_cap_lowered_below_what_was_spent_does_not_burst_the_bar() -> None:
    assert filled(line(3.0), 24) == 24


@pytest.mark.parametrize(
    ("account", "level"),
    [
        (line(0.0), Alarm.CALM),
        (line(1.0), Alarm.CALM),
        (line(1.1), Alarm.HALF_SPENT),
        (line(2.0), Alarm.NOTHING_LEFT),
        (line(1.9, closed=True), Alarm.NOTHING_LEFT),
        (line(0.0, exposed=True), Alarm.NOTHING_LEFT),
    ],
)
def test_a_ledger_that_can_pay_for_nothing_more_is_told_apart(
    account: LedgerLine, level: Alarm
) -> None:
    assert alarm(account) is level


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (line(0.0), "untouched"),
        (line(0.3), "most is left"),
        (line(2 / 3), "about two thirds left"),
        (line(1.0), "about half left"),
        (line(4 / 3), "about a third left"),
        (line(1.9), "little left"),
        (line(1.9, closed=True), "closed until the next epoch"),
        (line(2.0, closed=True), "used up"),
        (line(3.0, closed=True), "closed: more was spent than the cap now allows"),
        (line(1.0, exposed=True), "no promise in this epoch"),
    ],
)
def test_what_is_left_is_said_in_words(account: LedgerLine, words: str) -> None:
    assert left_in_words(account) == words


def test_who_paid_is_said_in_words() -> None:
    wide = Selection(
        slot="food", view="mild", epsilon=2 / 3, charged=("diabetes", "debt"), fallback=False
    )
    spent = Selection(
        slot="food", view="generic", epsilon=0.0, charged=(), fallback=True,
        reason="the budget of this topic is used up",
    )  # fmt: skip
    free = Selection(
        slot="plans", view="soon", epsilon=0.0, charged=(), fallback=False,
        reason="this view was drawn earlier in the epoch",
    )  # fmt: skip
    assert cost(wide) == "ε 0.667 charged to diabetes and debt"
    assert cost(spent) == "no charge: the budget of this topic is used up"
    assert cost(free) == "no charge: this view was drawn earlier in the epoch"
