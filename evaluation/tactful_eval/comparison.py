"""Which mechanism and allocation rule serve the owner best, at what price.

Decides the table of `python -m tactful_eval allocation` and the three points at which rules are
compared: equal certificate (the same cap), equal AUC of the best adversary, equal share of wrong
answers. What is *not* here: the exact numbers of one rule (`courses`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tactful_core.allocation import Allocation, Online, Standing
from tactful_core.entries import Mechanism
from tactful_core.values import Units, epsilon_of, units_from_epsilon
from tactful_eval.alternatives import first_question_decides, with_oracle, without_memory
from tactful_eval.benchmark import Profile, profiles
from tactful_eval.courses import Result, Rule, mean, planned, result_of

CAPS = (1, 2, 4, 8)
SLOTS = (1, 3)
CANDIDATES = (2, 3, 4)
CHARGES_PER_CAP = 3

OURS = Rule(Mechanism.RANDOMIZED_RESPONSE, Standing(candidates=2))
"""The default of the product (docs/decisions/0004)."""

PAPER_ONLINE = Rule(Mechanism.EXPONENTIAL, Online(CHARGES_PER_CAP))
PAPER_PREALLOCATED = Rule(Mechanism.EXPONENTIAL, planned())

GOAL_CAP = units_from_epsilon(2)
_SMALLEST_CAP, _LARGEST_CAP = units_from_epsilon("0.001"), units_from_epsilon(16)
_CLOSE = units_from_epsilon("0.001") // 10


@dataclass(frozen=True, slots=True)
class Row:
    """One rule under one cap."""

    rule: str
    mechanism: str
    candidates: int | None
    slots: int
    cap: int
    result: Result


@dataclass(frozen=True, slots=True)
class EqualPoint:
    """Ours, at caps that make it equal to another rule in one respect, and the other rule at 2.

    Attributes:
        epsilon: the mean of ours' caps.
        worse: profiles for which ours gains less, target minus neutral.
    """

    ours: Result
    other: Result
    epsilon: float
    worse: tuple[str, ...]


def rows(processes: int | None = None) -> tuple[Row, ...]:
    """The whole table; takes minutes, less on more processors."""
    points = [(slots, cap) for slots in SLOTS for cap in CAPS]
    if processes == 1:
        return tuple(row for slots, cap in points for row in rows_at(slots, cap))
    with ProcessPoolExecutor(processes) as pool:
        found = pool.map(rows_at, *zip(*points, strict=True))
        return tuple(row for several in found for row in several)


def rows_at(slots: int, cap: int) -> tuple[Row, ...]:
    """The rows for attributes that so many slots read, under one cap."""
    return (*_product_rows(slots, cap), *_other_rows(slots, cap))


def certificate(rule: Rule, people: Sequence[Profile]) -> Result:
    """One rule at the cap of the goal."""
    return mean([result_of(profile, rule, GOAL_CAP) for profile in people])


def equal_auc(other: Rule, people: Sequence[Profile]) -> EqualPoint:
    """Ours, for each profile with the cap at which the best adversary does as well."""
    return _equal(other, people, lambda result: result.auc)


def equal_neutral(other: Rule, people: Sequence[Profile]) -> EqualPoint:
    """Ours with caps at which as many neutral owners get the wrong view as under the other rule."""
    return _equal(other, people, lambda result: -result.neutral)


def _product_rows(slots: int, cap: int) -> Iterator[Row]:
    rules: list[tuple[str, int | None, Allocation]] = [
        ("online", None, Online(CHARGES_PER_CAP)),
        ("preallocated", None, planned()),
        *(("standing", count, Standing(candidates=count)) for count in CANDIDATES),
    ]
    people = profiles(slots)
    for mechanism in Mechanism:
        for name, count, allocation in rules:
            rule = Rule(mechanism, allocation)
            result = mean([result_of(each, rule, units_from_epsilon(cap)) for each in people])
            yield Row(name, mechanism.value, count, slots, cap, result)


def _other_rows(slots: int, cap: int) -> Iterator[Row]:
    people, units = profiles(slots), units_from_epsilon(cap)
    for mechanism in Mechanism:
        rule = Rule(mechanism, OURS.allocation)
        result = mean([result_of(with_oracle(each), rule, units) for each in people])
        yield Row("standing_oracle", mechanism.value, 2, slots, cap, result)
    result = mean([without_memory(each) for each in people])
    yield Row("no_memory", "none", None, slots, cap, result)
    if slots == 1:
        for count in CANDIDATES:
            result = mean([first_question_decides(each, units, count) for each in people])
            response = Mechanism.RANDOMIZED_RESPONSE.value
            yield Row("first_question", response, count, slots, cap, result)


def _equal(other: Rule, people: Sequence[Profile], grows: Callable[[Result], float]) -> EqualPoint:
    """`grows` is a number of ours that grows with its cap."""
    theirs = [result_of(each, other, GOAL_CAP) for each in people]
    caps = [
        _cap_with(each, grows(result), grows) for each, result in zip(people, theirs, strict=True)
    ]
    ours = [result_of(each, OURS, cap) for each, cap in zip(people, caps, strict=True)]
    return EqualPoint(
        ours=mean(ours),
        other=mean(theirs),
        epsilon=sum(map(epsilon_of, caps)) / len(caps),
        worse=tuple(
            each.name
            for each, mine, their in zip(people, ours, theirs, strict=True)
            if mine.target - mine.neutral < their.target - their.neutral
        ),
    )


def _cap_with(profile: Profile, wanted: float, grows: Callable[[Result], float]) -> Units:
    """The largest cap, to a ten-thousandth, at which ours is not above `wanted`."""
    low, high = int(_SMALLEST_CAP), int(_LARGEST_CAP)
    while high - low > _CLOSE:
        middle = (low + high) // 2
        above = grows(result_of(profile, OURS, Units(middle))) > wanted
        low, high = (low, middle) if above else (middle, high)
    return Units(low)
