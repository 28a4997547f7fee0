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
    lifetime,
    promised,
    seen,
    sentence,
    sentences,
    smallest_percent,
    together,
)
from tactful.owner_wire import FusedLine, LedgerLine


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


FUSED = FusedLine(
    delta=1e-5,
    spent=3.0,
    epsilon=8.0,
    promised=8.0,
    lifetime=4.0,
    odds=3.5,
    promised_odds=8.5,
    lifetime_odds=4.5,
    draws_left=700,
)


def test_fused_text_adds_to_the_odds_and_says_that_it_may_fail() -> None:
    """`e^{L_a}` for views, `e^{ρ_a + ln(1/δ)/(α−1)}` except with probability δ: GUARANTEE §1."""
    both = line(1.0).model_copy(update={"fused": FUSED})
    assert (seen(both), promised(both), lifetime(both)) == (4.5, 10.5, 5.5)
    assert sentence(both).endswith(f"by {bound(4.5)}, except with a probability of at most 1e-05.")
    assert together(both) == "(ε 10.000, δ 1e-05)"


def test_fused_text_alone_is_not_nothing() -> None:
    alone = line(0.0).model_copy(update={"fused": FUSED})
    assert sentences([alone, alone])[1] == (
        f"For `diabetes`, likewise: by {bound(3.5)}, except with a probability of at most 1e-05."
    )


def test_where_no_text_was_fused_the_bound_has_no_exception() -> None:
    none_yet = FUSED.model_copy(update={"spent": 0.0, "odds": 0.0})
    quiet = line(1.0).model_copy(update={"fused": none_yet})
    assert sentence(quiet) == sentence(line(1.0))
    assert together(quiet) == "(ε 10.000, δ 1e-05)"
    assert together(line(1.0)) == "ε 2.000"


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
