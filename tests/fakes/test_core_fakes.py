"""The other fakes of the trusted base's ports do what they say."""

from collections.abc import Coroutine, Generator
from fractions import Fraction

import pytest
from tests.contracts.charge_store import charge_for, read_of, view_for
from tests.fakes.event_log import EventLog
from tests.fakes.fixed_randomness import ChosenTickets, HighestTicket
from tests.fakes.in_memory_charges import InMemoryCharges
from tests.fakes.in_memory_rows import BrokenRows, InMemoryRows
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.naming_scorer import NamingScorer, UnscorableTextError
from tests.fakes.real_numbers import (
    chi_square_tail,
    exp_enclosure,
    ln_enclosure,
    normal_tail,
    solved_exponent,
)
from tests.fakes.running import Pause, interleave, run_now
from tests.fakes.small_policies import FOOD, figure_two

from tactful_core.errors import SealError
from tactful_core.interface import Ports
from tactful_core.values import Position, Secret

FOOD_SLOT = figure_two().layout.slot(FOOD)


def texts(*rows: str) -> Secret[tuple[str, ...]]:
    return Secret(rows)


def test_rows_come_in_order_and_empty_where_nothing_was_written() -> None:
    rows = InMemoryRows({Position(2): "two", Position(4): "four"})
    opened = run_now(rows.open_rows((Position(4), Position(3), Position(2))))
    assert opened.reveal() == ("four", "", "two")


def test_broken_rows_do_not_open() -> None:
    with pytest.raises(SealError):
        run_now(BrokenRows().open_rows((Position(1),)))


def test_a_query_is_relevant_to_the_views_it_names() -> None:
    scorer = NamingScorer()
    assert run_now(scorer.relevance("a budget dinner", FOOD_SLOT)) == (0.0, 0.0, 1.0)


def test_the_strongest_voice_of_all_rows_counts() -> None:
    rows = texts("low_sugar=0.5 generic=0.25", "low_sugar=0.75")
    evidence = run_now(NamingScorer().evidence(FOOD_SLOT, rows))
    assert evidence.compatibility.reveal() == (0.25, 0.75, 0.0)
    assert evidence.specificity.reveal() == (0.25, 0.75, 0.0)


def test_padding_speaks_for_no_view() -> None:
    evidence = run_now(NamingScorer().evidence(FOOD_SLOT, texts("", "")))
    assert evidence.compatibility.reveal() == (0.0, 0.0, 0.0)


def test_the_scorer_chokes_on_one_word_and_says_on_what() -> None:
    with pytest.raises(UnscorableTextError, match="a secret"):
        run_now(NamingScorer().evidence(FOOD_SLOT, texts("unscorable a secret", "")))


def test_tickets_come_in_the_order_chosen() -> None:
    tickets = ChosenTickets([3, 0])
    assert [tickets.below(5), tickets.below(7)] == [3, 0]
    assert tickets.limits == [5, 7]
    assert HighestTicket().below(9) == 8


def test_the_log_tells_the_order_of_all_ports() -> None:
    log, store = EventLog(), InMemoryCharges()
    ports = log.around(Ports(store, InMemoryRows(), NamingScorer(), HighestTicket(), KeptNotices()))
    ports.notices.scoring_failed(FOOD)
    ports.randomness.below(4)
    run_now(ports.memory.open_rows(()))
    run_now(ports.scorer.relevance("", FOOD_SLOT))
    run_now(ports.charges.record(view_for(charge_for(FOOD))))
    run_now(ports.charges.record(read_of(1)))
    assert ports.charges.snapshot() == store.snapshot()
    assert log.events == [
        "owner told",
        "view drawn",
        "rows opened",
        "relevance found",
        "view recorded",
        "read recorded",
    ]


async def count_steps(steps: int, name: str, done: list[str]) -> str:
    for _ in range(steps):
        await Pause()
        done.append(name)
    return name


def test_runs_to_the_end_over_pauses() -> None:
    done: list[str] = []
    assert run_now(count_steps(3, "a", done)) == "a"
    assert done == ["a"] * 3


def test_does_not_run_what_needs_an_event_loop() -> None:
    class Forever:
        def __await__(self) -> Generator[str, None, None]:
            yield "an event that never comes"

    async def waits() -> None:
        await Forever()

    with pytest.raises(RuntimeError, match="event loop"):
        run_now(waits())


def test_interleaves_in_the_given_order_and_finishes_all() -> None:
    done: list[str] = []
    both: list[Coroutine[object, None, object]] = [
        count_steps(2, "a", done),
        count_steps(2, "b", done),
    ]
    interleave(both, [0, 1, 1, 0])
    assert done == ["b", "a", "a", "b"]


def test_real_numbers_are_the_known_ones() -> None:
    low, high = exp_enclosure(Fraction(1), digits=40)
    e = Fraction("2.718281828459045235360287471352662497757247")
    assert low < e < high
    low, high = ln_enclosure(Fraction(2), digits=40)
    assert low < Fraction("0.693147180559945309417232121458176568075500") < high
    # Two views of equal weight lose x itself.
    found = solved_exponent(Fraction(3, 2), (1, 1), digits=30)
    assert abs(found - Fraction(3, 2)) <= Fraction(1, 10**30)
    # For μ = 1/9 and e^x = 2 the loss is ln[2 (1/9 + 16/9) / (2/9 + 8/9)] = ln 3.4.
    epsilon, _ = ln_enclosure(Fraction(34, 10), digits=40)
    x, _ = ln_enclosure(Fraction(2), digits=40)
    assert abs(solved_exponent(epsilon, (1, 8), digits=30) - x) < Fraction(1, 10**29)
    assert normal_tail(1.959963984540054) == pytest.approx(0.05)
    assert chi_square_tail(7.814727903251179, 3) == pytest.approx(0.05)
