"""Rules that are not in the product, for comparison with those that are.

Decides what three of them come to: an oracle that knows which view suits the target questions, a
rule without any memory, and the rule that the first question of the epoch decides. What is *not*
here: the product's own rules (`courses`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from tactful_core.allocation import Standing
from tactful_core.entries import Mechanism
from tactful_core.selection import RandomizedResponse
from tactful_core.values import Units, units_from_epsilon
from tactful_eval.benchmark import TARGET_TURNS, Case, Profile, Relevance
from tactful_eval.courses import (
    Course,
    Outcome,
    Part,
    Result,
    Rule,
    courses,
    mean,
    result_of_course,
)


def with_oracle(profile: Profile) -> Profile:
    """The profile with questions that name the store's best view: a hit rate of one."""
    return Profile(profile.name, tuple(map(_with_oracle, profile.cases)))


def without_memory(profile: Profile) -> Result:
    """The view that the questions ask for, whatever is remembered: free, and as wrong as right."""
    rule = Rule(Mechanism.RANDOMIZED_RESPONSE, Standing(candidates=2))
    return mean([_certain(course) for course in courses(profile, rule, units_from_epsilon(1))])


def _certain(course: Course) -> Result:
    """What is left of a course if its draws always name the group of special views."""
    certain = tuple(
        Part((Outcome(Fraction(1), Fraction(1), part.hits, _missed(part)),), part.hits, part.turns)
        for part in course
    )
    return result_of_course(certain)


def _missed(part: Part) -> int:
    return max(outcome.missed for outcome in part.outcomes)


def first_question_decides(profile: Profile, epsilon: Units, count: int) -> Result:
    """`count` views are candidates, those most relevant to the first question of the epoch.

    Randomized response names one of them, by whole scores; it is kept, and used for each question
    that it is at least as relevant to as the generic view.
    """
    (case,) = profile.cases
    courses = [_kept_course(case, first, epsilon, count) for first in range(TARGET_TURNS)]
    return mean([result_of_course(course) for course in courses])


def _with_oracle(case: Case) -> Case:
    generic = case.relevance[0][0]
    views = range(len(case.slot.vocabulary))
    named: Relevance = (generic, *(float(view == case.best) for view in views[1:]))
    return replace(case, relevance=(named,) * TARGET_TURNS)


def _kept_course(case: Case, first: int, epsilon: Units, count: int) -> Course:
    questions = [case.relevance[(first + turn) % TARGET_TURNS] for turn in range(TARGET_TURNS)]
    candidates = _most_relevant(questions[0], count)
    groups = tuple((view,) for view in candidates)
    telling, neutral = (
        RandomizedResponse(epsilon).distribution(
            case.scores(questions[0], telling=which).of_groups(groups)
        )
        for which in (True, False)
    )
    outcomes = tuple(
        _kept(case, questions, view, p, q)
        for view, p, q in zip(candidates, telling, neutral, strict=True)
    )
    hits = _fitting(questions, case.best) if case.best in candidates else 0
    return (Part(outcomes, hits, TARGET_TURNS),)


def _kept(
    case: Case, questions: Sequence[Relevance], view: int, telling: Fraction, neutral: Fraction
) -> Outcome:
    fitting = _fitting(questions, view)
    return Outcome(
        telling,
        neutral,
        right=fitting if view == case.best else 0,
        missed=fitting if view not in (0, case.best) else 0,
    )


def _fitting(questions: Sequence[Relevance], view: int) -> int:
    """Turns that a kept view answers; the first one was drawn for."""
    later = sum(relevance[view] >= relevance[0] for relevance in questions[1:])
    return 1 + later


def _most_relevant(relevance: Relevance, count: int) -> tuple[int, ...]:
    ranked = sorted(range(len(relevance)), key=lambda view: (-relevance[view], view))
    return tuple(sorted(ranked[:count]))
