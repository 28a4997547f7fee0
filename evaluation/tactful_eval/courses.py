"""What a mechanism and an allocation rule make of one profile: exact, by enumeration.

Decides the distribution of the views of eight target turns under M and under M'. Everything is
taken from the core: plans (`standing.plan_release`), prices, mechanisms, ledgers. What is *not*
here: how courses are compared (`comparison`).

A course is a list of independent `Part`s: under `Online` and `Preallocated` each charged turn is
one, under `Standing` each slot. The order of questions is public input; every profile is played
eight times, each time with another question first, and results are means over these rotations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np

from tactful_core.allocation import Allocation, Online, Preallocated, Standing
from tactful_core.entries import Charge, EntryId, EpochOpened, Mechanism, ViewReleased
from tactful_core.layout import Attribute, Layout, Slot
from tactful_core.ledger import Ledger, refusal, replay
from tactful_core.promises import Grant, Promises
from tactful_core.sampling import log_units_up
from tactful_core.standing import Draw, Reuse, plan_release
from tactful_core.values import AppId, AttributeName, Position, Units
from tactful_eval.adversary import Release, best_auc
from tactful_eval.benchmark import TARGET_TURNS, Case, Profile, Relevance
from tactfuld.interest import Interest

APP, FACT = AppId("asker"), AttributeName("fact")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One outcome of a part.

    Attributes:
        telling, neutral: its probability under M and under M'.
        right: in how many target turns the store's best view conditions the answer.
        missed: in how many another special view does.
    """

    telling: Fraction
    neutral: Fraction
    right: int
    missed: int


@dataclass(frozen=True, slots=True)
class Part:
    """Outcomes that are drawn independently of all other parts.

    Attributes:
        hits: in how many target turns the best view answers if its group is drawn.
        turns: how many target turns the part is about.
    """

    outcomes: tuple[Outcome, ...]
    hits: int
    turns: int


Course = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A mechanism with an allocation rule."""

    mechanism: Mechanism
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Result:
    """Means over rotations and profiles; shares are of target turns.

    Attributes:
        target, neutral: share on the store's best view under M and under M'.
        auc: of the best adversary.
        under_half: share of owners for whom the right view conditions fewer than half.
        hit_rate: share that is on the best view if draws come out right.
        other: share on a special view other than the best one, under M.
        loss: what the likelihood ratio of a transcript can come to in this benchmark, in units.
    """

    target: float
    neutral: float
    auc: float
    under_half: float
    hit_rate: float
    other: float
    loss: Units


def promises_for(profile: Profile, rule: Rule, cap: Units) -> Promises:
    """A policy with the profile's slots and one attribute that covers them all."""
    slots, first = [], 1
    for case in profile.cases:
        slots.append(_from_position(case.slot, first))
        first += len(case.slot.positions)
    positions = frozenset(map(Position, range(1, first)))
    return Promises(
        layout=Layout(tuple(slots), (Attribute(FACT, positions, cap),)),
        allocation=rule.allocation,
        mechanism=rule.mechanism,
        grants=(Grant(APP, frozenset(slot.name for slot in slots)),),
        digest="allocation",
    )


def courses(profile: Profile, rule: Rule, cap: Units) -> tuple[Course, ...]:
    """One course for each rotation of the questions."""
    promises = promises_for(profile, rule, cap)
    standing = isinstance(rule.allocation, Standing)
    return tuple(
        _standing_course(profile, promises, first)
        if standing
        else _drawn_course(profile, promises, first)
        for first in range(TARGET_TURNS)
    )


def result_of(profile: Profile, rule: Rule, cap: Units) -> Result:
    """Means over the rotations of one profile."""
    return mean([result_of_course(course) for course in courses(profile, rule, cap)])


def mean(results: Sequence[Result]) -> Result:
    """Of numbers; the worst of losses."""

    def of(number: Callable[[Result], float]) -> float:
        return sum(map(number, results)) / len(results)

    return Result(
        target=of(lambda r: r.target),
        neutral=of(lambda r: r.neutral),
        auc=of(lambda r: r.auc),
        under_half=of(lambda r: r.under_half),
        hit_rate=of(lambda r: r.hit_rate),
        other=of(lambda r: r.other),
        loss=Units(max(r.loss for r in results)),
    )


def result_of_course(course: Course) -> Result:
    """The numbers of one course."""
    outcomes = [outcome for part in course for outcome in part.outcomes]
    worst = Fraction(1)
    for part in course:
        ratios = [outcome.telling / outcome.neutral for outcome in part.outcomes]
        worst *= max(*ratios, *(1 / ratio for ratio in ratios))
    return Result(
        target=float(sum(o.telling * o.right for o in outcomes)) / TARGET_TURNS,
        neutral=float(sum(o.neutral * o.right for o in outcomes)) / TARGET_TURNS,
        auc=best_auc([_release(part) for part in course]),
        under_half=_under_half(course),
        hit_rate=sum(part.hits for part in course) / sum(part.turns for part in course),
        other=float(sum(o.telling * o.missed for o in outcomes)) / TARGET_TURNS,
        loss=log_units_up(worst),
    )


def _release(part: Part) -> Release:
    return Release(
        telling=np.array([float(outcome.telling) for outcome in part.outcomes]),
        neutral=np.array([float(outcome.neutral) for outcome in part.outcomes]),
    )


def _under_half(course: Course) -> float:
    """The probability, under M, that the right view conditions fewer than half of the turns."""
    counts = np.zeros(TARGET_TURNS + 1)
    counts[0] = 1.0
    for part in course:
        after = np.zeros_like(counts)
        for outcome in part.outcomes:
            kept = len(counts) - outcome.right
            after[outcome.right :] += float(outcome.telling) * counts[:kept]
        counts = after
    return float(counts[: TARGET_TURNS // 2].sum())


# ---- a draw each turn ----------------------------------------------------------------------------


def _drawn_course(profile: Profile, promises: Promises, first: int) -> Course:
    """Turns that the ledger admits draw from the whole vocabulary; the others are generic."""
    ledger, parts = _opened(), []
    for turn in range(TARGET_TURNS):
        case, question = _asked(profile, first, turn)
        slot = promises.layout.slot(case.slot.name)
        plan = plan_release(
            promises, slot, promises.epsilon(slot), case.relevance[question], ledger
        )
        if not isinstance(plan, Draw):
            raise TypeError("A rule that draws each turn has planned something else.")
        charge = _charge(promises, slot, plan)
        if refusal(ledger, charge, promises) is None:
            ledger = ledger.after(charge)
            parts.append(_turn(case, question, promises.mechanism, promises.epsilon(slot)))
    return tuple(parts)


@cache
def _turn(case: Case, question: int, mechanism: Mechanism, epsilon: Units) -> Part:
    """The draw of one turn; the same in every rotation and for every allocation of one ε."""
    relevance = case.relevance[question]
    rule = Rule(mechanism, Online(1))
    promises = promises_for(Profile(case.name, (case,)), rule, epsilon)
    slot = promises.layout.slot(case.slot.name)
    draw = plan_release(promises, slot, epsilon, relevance, _opened())
    if not isinstance(draw, Draw):
        raise TypeError("A rule that draws each turn has planned something else.")
    telling, neutral = _distributions(case, relevance, draw)
    return Part(
        outcomes=tuple(
            Outcome(p, q, right=int(view == case.best), missed=int(view not in (0, case.best)))
            for view, p, q in zip(draw.candidates, telling, neutral, strict=True)
        ),
        hits=1,
        turns=1,
    )


# ---- standing views ------------------------------------------------------------------------------


def _standing_course(profile: Profile, promises: Promises, first: int) -> Course:
    """Slots have shares of their own, so their releases are independent of each other."""
    asked = [_asked(profile, first, turn) for turn in range(TARGET_TURNS)]
    return tuple(
        _standing_part(case, [question for of, question in asked if of is case], promises)
        for case in profile.cases
    )


def _standing_part(case: Case, questions: Sequence[int], promises: Promises) -> Part:
    slot, interest, asked = promises.layout.slot(case.slot.name), Interest(), []
    for question in questions:
        alone = case.relevance[question]
        asked.append(interest.including(APP, slot.name, alone))
        interest.asked(APP, slot.name, alone)
    found = tuple(_played(case, slot, promises, asked, _opened()))
    return Part(
        outcomes=tuple(outcome for outcome, _ in found),
        hits=max(outcome.right for outcome, right in found if right),
        turns=len(questions),
    )


def _played(
    case: Case, slot: Slot, promises: Promises, asked: Sequence[Relevance], ledger: Ledger
) -> list[tuple[Outcome, bool]]:
    """All ways that the turns can go, each with whether every draw named the best view's group."""
    if not asked:
        return [(Outcome(Fraction(1), Fraction(1), right=0, missed=0), True)]
    plan = plan_release(promises, slot, promises.epsilon(slot), asked[0], ledger)
    if not isinstance(plan, Draw):
        view = plan.view if isinstance(plan, Reuse) else 0
        return [
            (_with_turn(case, outcome, view), right)
            for outcome, right in _played(case, slot, promises, asked[1:], ledger)
        ]
    ways = []
    telling, neutral = _distributions(case, asked[0], plan)
    for index, group in enumerate(plan.groups):
        after = _after(ledger, promises, slot, plan, index)
        for outcome, right in _played(case, slot, promises, asked[1:], after):
            drawn = replace(
                outcome,
                telling=outcome.telling * telling[index],
                neutral=outcome.neutral * neutral[index],
            )
            ways.append((_with_turn(case, drawn, group[0]), right and case.best in group))
    return ways


def _with_turn(case: Case, outcome: Outcome, view: int) -> Outcome:
    return replace(
        outcome,
        right=outcome.right + (view == case.best),
        missed=outcome.missed + (view not in (0, case.best)),
    )


def _after(ledger: Ledger, promises: Promises, slot: Slot, draw: Draw, index: int) -> Ledger:
    charge = _charge(promises, slot, draw)
    if refusal(ledger, charge, promises) is not None:
        raise ValueError("A standing view was planned that the ledger does not admit.")
    names = tuple(slot.vocabulary[view].name for view in draw.candidates)
    released = ViewReleased(
        id=EntryId("released"),
        epoch=charge.epoch,
        charge=charge.id,
        slot=slot.name,
        mechanism=charge.mechanism,
        candidates=names,
        view=names[index],
        units=charge.units,
    )
    return ledger.after(charge).after(released)


# ---- both ----------------------------------------------------------------------------------------


def _asked(profile: Profile, first: int, turn: int) -> tuple[Case, int]:
    """The slots take turns; each asks its questions in order, beginning with number `first`."""
    count = len(profile.cases)
    return profile.cases[turn % count], (first + turn // count) % TARGET_TURNS


def _distributions(
    case: Case, relevance: Relevance, draw: Draw
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    telling = draw.judged(case.scores(relevance, telling=True))
    neutral = draw.judged(case.scores(relevance, telling=False))
    return draw.mechanism.distribution(telling), draw.mechanism.distribution(neutral)


def _charge(promises: Promises, slot: Slot, draw: Draw) -> Charge:
    return Charge(
        id=EntryId("charge"),
        epoch=1,
        app=APP,
        slot=slot.name,
        mechanism=promises.mechanism,
        positions=frozenset(slot.positions),
        charged=promises.charge_set(slot),
        units=draw.mechanism.charge,
        policy=promises.digest,
    )


def _opened() -> Ledger:
    return replay([EpochOpened(EntryId("opened"), 1, 0)])


def _from_position(slot: Slot, first: int) -> Slot:
    (shelf,) = slot.shelves
    positions = tuple(map(Position, range(first, first + len(shelf.positions))))
    return replace(slot, shelves=(replace(shelf, positions=positions),))


def planned(turns: int = TARGET_TURNS) -> Preallocated:
    """The paper's second rule, for as many charges as there are target turns."""
    return Preallocated({FACT: turns})
