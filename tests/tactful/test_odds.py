"""Bounds in words are never smaller than the bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactful.odds import (
    bound,
    either_way,
    largest_factor,
    largest_percent,
    sentence,
    sentences,
    smallest_percent,
)
from tactful.owner_wire import LedgerLine


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


def test_the_papers_cap_reads_as_in_the_guarantee() -> None:
    assert sentence(line(2.0)) == (
        "Everything that all apps together have seen in this epoch moves the odds between two "
        "memories that differ only in what is filed under `diabetes` by at most ×7.4: "
        "from 10 % to at most 46 %."
    )


def number(shown: str) -> float:
    """What a factor says, also as a power of ten."""
    return float(shown.replace(",", "").replace("10^", "1e"))


@given(st.floats(0.001, 700.0))
def test_what_is_shown_is_never_short_of_the_bound(loss: float) -> None:
    factor = math.exp(loss)
    assert number(largest_factor(loss)) >= factor * (1 - 1e-9)
    assert float(largest_percent(loss)) >= 100 * factor / (9 + factor) * (1 - 1e-9)
    assert float(smallest_percent(loss)) <= 100 / (9 * factor + 1) * (1 + 1e-9)


@given(st.floats(0.001, 4.0))
def test_what_is_shown_is_at_most_one_step_beyond_the_bound(loss: float) -> None:
    factor = math.exp(loss)
    assert number(largest_factor(loss)) < factor + 0.1 + 1e-6
    assert float(largest_percent(loss)) < 100 * factor / (9 + factor) + 1 + 1e-6
    assert float(smallest_percent(loss)) > 100 / (9 * factor + 1) - 0.1 - 1e-6


@pytest.mark.parametrize("loss", [15.0, 100.0, 10_000.0])
def test_a_long_life_has_bounds_that_can_be_read(loss: float) -> None:
    assert largest_factor(loss) == f"10^{math.ceil(loss / math.log(10))}"
    assert float(largest_percent(loss)) <= 100
    assert float(smallest_percent(loss)) >= 0


def test_certainty_is_never_claimed_for_a_loss_a_cap_can_allow() -> None:
    assert float(largest_percent(8.0)) < 100


def test_a_bound_is_said_in_one_breath() -> None:
    assert bound(4.0) == "at most ×54.6: from 10 % to at most 86 %"
    assert either_way(2.0) == "at most ×7.4, up or down: at most 46 %, at least 1.4 %"
    assert either_way(0.0) == "nothing: it stays 10 %"


def test_nothing_spent_is_nothing_seen_in_this_epoch() -> None:
    assert sentence(line(0.0)) == (
        "In this epoch all apps together have seen nothing that depends on what is filed under "
        "`diabetes`."
    )


def test_no_bound_is_given_where_none_holds() -> None:
    told = sentence(line(1.0, exposed=True))
    assert "Nothing is promised" in told
    assert "×" not in told


def test_only_the_first_bound_is_spelled_out() -> None:
    first, second, third = sentences([line(0.0), line(2.0), line(1.0)])
    assert "nothing" in first
    assert "Everything that all apps together" in second
    assert third.startswith("For `diabetes`, likewise: by at most ×2.8: from 10 % to at most 24 %")
