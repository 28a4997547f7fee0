"""The allocation benchmark is what its description says."""

from collections import Counter

from tactful_core.layout import GENERIC
from tactful_eval.benchmark import TARGET_TURNS, Case, cases, profiles, totals


def best_when_neutral(case: Case) -> int:
    every = [totals(case.scores(relevance, telling=False)) for relevance in case.relevance]
    sums = [sum(total[view] for total in every) for view in range(len(case.slot.vocabulary))]
    return sums.index(max(sums))


def test_a_telling_memory_makes_a_special_view_best_and_a_neutral_one_the_generic_view() -> None:
    assert [case.name for case in cases() if case.best == 0] == []
    assert [case.name for case in cases() if best_when_neutral(case) != 0] == []


def test_every_case_has_eight_questions() -> None:
    assert {len(case.relevance) for case in cases()} == {TARGET_TURNS}
    assert {case.slot.vocabulary[0].name for case in cases()} == {GENERIC}


def test_vocabularies_have_three_to_eight_views() -> None:
    assert {len(case.slot.vocabulary) for case in cases()} == set(range(3, 9))


def test_attributes_are_read_by_one_slot_or_by_three() -> None:
    assert all(len(profile.cases) == 1 for profile in profiles(1))
    several = profiles(3)
    assert len(several) == sum(n == 3 for n in Counter(c.topic for c in cases()).values()) > 0
    assert all(len({c.slot.name for c in profile.cases}) == 3 for profile in several)
