"""The enumeration of draws, checked against brute force over every ticket."""

from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.branching import SMALL_LIMIT, Branching, Ticket, branches, distribution_of
from tests.fakes.fixed_randomness import ChosenTickets

from tactful_core.sampling import Randomness, draw

small_weights = st.lists(st.integers(1, 60), min_size=1, max_size=6)
large_weights = st.lists(st.integers(1, 1 << 140), min_size=2, max_size=8)


@given(small_weights)
def test_one_draw_agrees_with_trying_every_ticket(weights: list[int]) -> None:
    total = sum(weights)
    tried = Counter(draw(weights, ChosenTickets([ticket])) for ticket in range(total))
    expected = {index: Fraction(count, total) for index, count in tried.items()}
    assert distribution_of(lambda path: draw(weights, path)) == expected


@given(large_weights)
def test_one_large_draw_agrees_with_its_weights(weights: list[int]) -> None:
    total = sum(weights)
    expected = {index: Fraction(weight, total) for index, weight in enumerate(weights)}
    assert distribution_of(lambda path: draw(weights, path)) == expected


@given(large_weights)
def test_a_sampler_that_bisects_is_enumerated_as_well(weights: list[int]) -> None:
    """Enumeration does not rest on the order in which a sampler compares."""
    bounds = list(accumulate(weights))

    def bisecting(randomness: Randomness) -> int:
        return bisect_right(bounds, randomness.below(bounds[-1]))

    found = distribution_of(bisecting)
    assert found == {i: Fraction(weight, bounds[-1]) for i, weight in enumerate(weights)}


@given(small_weights, small_weights)
def test_later_draws_may_depend_on_earlier_ones(first: list[int], second: list[int]) -> None:
    def two_draws(randomness: Randomness) -> tuple[int, int]:
        one = draw(first, randomness)
        return one, draw(second if one == 0 else first, randomness)

    found = distribution_of(two_draws)
    total = sum(first)
    assert sum(found.values()) == 1
    for (one, two), chance in found.items():
        then = second if one == 0 else first
        assert chance == Fraction(first[one], total) * Fraction(then[two], sum(then))


def test_small_limits_may_index_a_list() -> None:
    deck = "abc"
    found = distribution_of(lambda path: deck[path.below(3)])
    assert found == dict.fromkeys("abc", Fraction(1, 3))


def test_every_comparison_cuts_in_the_right_place() -> None:
    limit = 10 * SMALL_LIMIT

    def compared(path: Branching) -> tuple[bool, bool, bool, bool]:
        ticket = path.below(limit) + 5
        return ticket < 105, ticket <= 205, ticket > 305, ticket >= 405

    # The ticket is uniform on 5..limit+4.
    assert distribution_of(compared) == {
        (True, True, False, False): Fraction(100, limit),
        (False, True, False, False): Fraction(101, limit),
        (False, False, False, False): Fraction(100, limit),
        (False, False, True, False): Fraction(99, limit),
        (False, False, True, True): Fraction(limit - 400, limit),
    }


def test_chained_comparison_with_the_ticket_on_the_right() -> None:
    found = distribution_of(lambda path: 0 <= path.below(1000) < 250)
    assert found == {True: Fraction(1, 4), False: Fraction(3, 4)}


@pytest.mark.parametrize(
    "use",
    [
        lambda ticket: ticket % 2,
        lambda ticket: ticket // 2,
        lambda ticket: ticket == 3,
        lambda ticket: 7 - ticket,
        lambda ticket: ticket & 1,
        bool,
        hash,
        str,
        lambda ticket: f"{ticket}",
        lambda ticket: divmod(ticket, 2),
        lambda ticket: ticket >> 1,
        lambda ticket: -ticket,
    ],
)
def test_other_uses_of_a_ticket_are_noticed(use: object) -> None:
    assert callable(use)
    with pytest.raises(TypeError, match="cannot be enumerated"):
        use(Branching().below(1000))


def test_a_ticket_used_as_an_index_is_noticed() -> None:
    with pytest.raises(IndexError):
        _ = "views"[Branching().below(1000)]


def test_a_ticket_is_an_integer_for_type_checkers_and_says_so() -> None:
    assert isinstance(Branching().below(1000), Ticket)


def test_probabilities_of_all_branches_sum_to_one() -> None:
    chances = [chance for _, chance in branches(lambda path: draw([3, 5, 1 << 130], path))]
    assert len(chances) == 3
    assert sum(chances) == 1
