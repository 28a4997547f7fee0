"""Exact results obey the promise, and the rules order themselves as the mathematics says."""

import itertools
import math
from fractions import Fraction

import pytest

from tactful_core.allocation import Allocation, Online, Standing
from tactful_core.entries import Mechanism
from tactful_core.values import epsilon_of, units_from_epsilon
from tactful_eval.alternatives import first_question_decides, with_oracle, without_memory
from tactful_eval.benchmark import Profile, profiles
from tactful_eval.comparison import (
    OURS,
    PAPER_ONLINE,
    PAPER_PREALLOCATED,
    certificate,
    equal_auc,
    equal_neutral,
)
from tactful_eval.courses import Rule, courses, planned, result_of

TWO = units_from_epsilon(2)
ALLOCATIONS: dict[str, Allocation] = {
    "online": Online(3),
    "preallocated": planned(),
    "standing": Standing(candidates=2),
    "standing of three": Standing(candidates=3),
    "standing twice": Standing(candidates=2, releases=2),
}


@pytest.fixture(params=[(1, 0), (1, 9), (1, 18), (1, 27), (3, 0)])
def profile(request: pytest.FixtureRequest) -> Profile:
    slots, number = request.param
    found: Profile = profiles(slots)[number]
    return found


@pytest.fixture(params=Mechanism)
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    found: Mechanism = request.param
    return found


@pytest.fixture(params=ALLOCATIONS)
def rule(request: pytest.FixtureRequest, mechanism: Mechanism) -> Rule:
    return Rule(mechanism, ALLOCATIONS[request.param])


@pytest.mark.parametrize("cap", [1, 2])
def test_no_rule_costs_more_than_the_cap(profile: Profile, rule: Rule, cap: int) -> None:
    """Every transcript's ratio, and with it every share's odds and every adversary, is bounded."""
    units = units_from_epsilon(cap)
    result = result_of(profile, rule, units)
    worst = math.exp(epsilon_of(units)) * (1 + 1e-9)
    assert result.loss <= units
    assert result.target <= worst * result.neutral
    assert 1 - result.neutral <= worst * (1 - result.target)
    assert 0.5 <= result.auc <= worst / (1 + worst)


def test_probabilities_are_whole(profile: Profile, rule: Rule) -> None:
    for course in courses(profile, rule, TWO):
        for part in course:
            assert sum((o.telling for o in part.outcomes), Fraction(0)) == 1
            assert sum((o.neutral for o in part.outcomes), Fraction(0)) == 1
            assert all(o.telling > 0 for o in part.outcomes)
            assert all(o.right + o.missed <= part.turns for o in part.outcomes)


def test_online_draws_three_turns_and_preallocated_all(profile: Profile) -> None:
    assert {len(course) for course in courses(profile, PAPER_ONLINE, TWO)} == {3}
    assert {len(course) for course in courses(profile, PAPER_PREALLOCATED, TWO)} == {8}


def test_an_oracle_reaches_the_limit_of_any_two_dp_mechanism() -> None:
    limit = math.exp(2) / (1 + math.exp(2))
    for profile in profiles(1):
        result = result_of(with_oracle(profile), OURS, TWO)
        assert result.hit_rate == 1.0
        assert result.target == pytest.approx(limit, abs=1e-6)
        assert result.neutral == pytest.approx(1 - limit, abs=1e-6)
        assert result.auc == pytest.approx(limit, abs=1e-6)


@pytest.mark.parametrize("slots", [1, 3])
def test_a_larger_cap_serves_better_and_tells_more(slots: int) -> None:
    profile = profiles(slots)[0]
    results = [result_of(profile, OURS, units_from_epsilon(cap)) for cap in (1, 2, 4, 8)]
    for less, more in itertools.pairwise(results):
        assert less.target < more.target
        assert less.neutral > more.neutral
        assert less.auc < more.auc


def test_without_memory_owners_are_all_alike() -> None:
    for profile in profiles(1)[::5]:
        free, ours = without_memory(profile), result_of(profile, OURS, TWO)
        assert free.target == free.neutral == pytest.approx(ours.hit_rate)
        assert free.auc == 0.5
        assert free.loss == 0


def test_the_first_question_finds_the_right_view_less_often() -> None:
    """Why the questions asked so far decide, and not the first one alone."""
    people = profiles(1)
    ours = certificate(OURS, people)
    first = [first_question_decides(profile, TWO, 2) for profile in people]
    assert sum(result.hit_rate for result in first) / len(first) < ours.hit_rate
    assert sum(result.target for result in first) / len(first) < ours.target


def test_ours_serves_more_and_misleads_less_at_equal_certificate() -> None:
    people = profiles(1)
    ours, paper = certificate(OURS, people), certificate(PAPER_PREALLOCATED, people)
    assert ours.neutral <= 0.15
    assert ours.target > 3 * paper.target
    assert ours.neutral < paper.neutral


def test_ours_gains_no_less_at_equal_auc() -> None:
    point = equal_auc(PAPER_PREALLOCATED, profiles(1)[::9])
    assert point.ours.auc == pytest.approx(point.other.auc, abs=1e-4)
    assert point.ours.target - point.ours.neutral >= point.other.target - point.other.neutral


def test_ours_serves_more_at_equal_neutral_share() -> None:
    point = equal_neutral(PAPER_PREALLOCATED, profiles(1)[::9])
    assert point.ours.neutral <= point.other.neutral + 1e-4
    assert point.ours.target > point.other.target
