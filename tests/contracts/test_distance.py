"""Stores that differ in several groups, and parts of what was seen: bounds beside Theorem 1.

Corollary 1 (`κ`, by a cover of attributes), the sharper sum over what was really read, and why
`L_a` belongs to the whole augmented transcript while `B_a` holds for any part of it (GUARANTEE §1).
How `tactful audit distance` finds the cheapest cover is in `tests/tactfuld/test_audit.py`.
"""

from collections.abc import Callable, Hashable
from fractions import Fraction
from itertools import product

import pytest
from tests.contracts.certified_exp import exp_at_least
from tests.contracts.enumeration import (
    Course,
    Extremes,
    Seen,
    System,
    Transcript,
    Tree,
    Turn,
    extremes,
)
from tests.contracts.scenarios import MATRIX, SCENARIOS, Scenario
from tests.fakes.in_memory_rows import Contents
from tests.fakes.small_policies import MEALS, attribute, promises_for, slot

from tactful_core.entries import Charge, UnprotectedRead
from tactful_core.layout import GENERIC, Attribute, Layout
from tactful_core.ledger import replay
from tactful_core.values import UNITS_PER_EPSILON, Position, SlotName, Units

BY_NAME = {scenario.name: scenario for scenario in (*SCENARIOS, *MATRIX)}
SOME = [
    BY_NAME[name]
    for name in (
        "one_slot_a_turn",
        "two_slots_a_turn",
        "weighted_exponential-online",
        "randomized_response-standing_twice",
    )
]
DIFFERING = [{1}, {4}, {1, 4}, {2, 5}, {3}, {1, 2, 3, 4, 5}]


def stores_differing_at(scenario: Scenario, where: frozenset[Position]) -> tuple[Contents, ...]:
    """Stores that are arbitrary, among a few texts, at these positions and equal elsewhere."""
    choices = [
        (texts[0], texts[-1]) if position in where else texts[:1]
        for position, texts in scenario.texts.items()
    ]
    return tuple(dict(zip(scenario.texts, chosen, strict=True)) for chosen in product(*choices))


def within(found: Extremes, units: int) -> bool:
    return found.highest <= exp_at_least(Fraction(units, UNITS_PER_EPSILON)) * found.lowest


def read_there(seen: Seen, where: frozenset[Position], epoch: int) -> int:
    """`Σ {ε_t : R_t ∩ D ≠ ∅}` over the charges of one epoch."""
    return sum(
        entry.units
        for entry in seen.entries
        if isinstance(entry, Charge) and entry.epoch == epoch and entry.positions & where
    )


@pytest.mark.parametrize("differing", DIFFERING, ids=str)
@pytest.mark.parametrize("scenario", SOME, ids=lambda s: s.name)
def test_stores_come_as_far_apart_as_what_was_read_where_they_differ(
    scenario: Scenario, differing: set[int]
) -> None:
    """Afterwards: each entry whose read set meets `D` adds its ε, and no other one anything."""
    where = frozenset(Position(p) for p in differing)
    tree = extremes(System(), scenario.course, stores_differing_at(scenario, where))
    for transcript, found in tree.items():
        last = transcript[-1]
        assert not any(isinstance(entry, UnprotectedRead) for entry in last.entries)
        assert within(found.epoch, read_there(last, where, replay(last.entries).epoch))


@pytest.mark.parametrize("differing", DIFFERING, ids=str)
@pytest.mark.parametrize("scenario", SOME, ids=lambda s: s.name)
def test_stores_come_no_further_apart_than_the_caps_of_a_cover(
    scenario: Scenario, differing: set[int]
) -> None:
    """Corollary 1, beforehand: for every set of attributes whose groups contain `D`."""
    where = frozenset(Position(p) for p in differing)
    tree = extremes(System(), scenario.course, stores_differing_at(scenario, where))
    covers = [cover for cover in subsets(scenario.attributes) if where <= covered(cover)]
    assert covers
    for cover in covers:
        kappa = sum(attribute.cap for attribute in cover)
        assert all(within(found.epoch, kappa) for found in tree.values())


def subsets(attributes: tuple[Attribute, ...]) -> list[tuple[Attribute, ...]]:
    chosen = product((False, True), repeat=len(attributes))
    return [
        tuple(a for a, taken in zip(attributes, which, strict=True) if taken) for which in chosen
    ]


def covered(attributes: tuple[Attribute, ...]) -> frozenset[Position]:
    return frozenset[Position]().union(*(a.positions for a in attributes))


# ---- odds: the whole of what was seen, and parts of it ------------------------------------------


def chances(
    tree: Tree, turns: int, part: Callable[[Transcript], Hashable]
) -> dict[Hashable, Fraction]:
    """How likely each value of a part of the transcript is, under one store."""
    found: dict[Hashable, Fraction] = {}
    for transcript, reached in tree.items():
        if len(transcript) == turns:
            value = part(transcript)
            found[value] = found.get(value, Fraction(0)) + reached.whole.highest
    return found


def _everything(transcript: Transcript) -> Hashable:
    return transcript


def _last_view(transcript: Transcript) -> Hashable:
    return transcript[-1].releases[-1].view


def _views_without_their_prices(transcript: Transcript) -> Hashable:
    return tuple(release.view.name for seen in transcript for release in seen.releases)


def _whether_anything_was_refused(transcript: Transcript) -> Hashable:
    return any(release.refusal for seen in transcript for release in seen.releases)


PARTS = [_everything, _last_view, _views_without_their_prices, _whether_anything_was_refused]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__.strip("_"))
@pytest.mark.parametrize("scenario", SOME[:2], ids=lambda s: s.name)
def test_any_part_of_what_was_seen_moves_the_odds_by_the_cap_at_most(
    scenario: Scenario, part: Callable[[Transcript], Hashable]
) -> None:
    """Fixed stores, and events that are unions of transcripts: `e^{B_a}` holds for all of them."""
    course = scenario.course
    for protected in scenario.attributes:
        bound = exp_at_least(Fraction(protected.cap, UNITS_PER_EPSILON))
        stores = scenario.stores(protected.name)
        few = [stores[0], stores[len(stores) // 2], stores[-1]]
        under = [chances(extremes(System(), course, (store,)), course.turns, part) for store in few]
        for one, other in product(under, repeat=2):
            assert set(one) == set(other)
            assert all(chance <= bound * other[value] for value, chance in one.items())


def test_the_realised_loss_bounds_the_whole_transcript_and_not_its_parts() -> None:
    """Why odds for a part are told with `B_a`: the view seen last hides how it came about.

    The first view decides whether `beta` is read at all. A transcript in which it is not costs
    `beta` nothing, and its odds do not move; the view with which it ends does move them.
    """
    left, right = SlotName("left"), SlotName("right")
    layout = Layout(
        (slot(left, (1,), ("v",)), slot(right, (2,), ("v",))),
        (attribute("alpha", (1,), "2"), attribute("beta", (2,), "2")),
    )

    def ask(history: Transcript) -> Turn:
        seen_v = bool(history) and history[0].releases[0].view.name == "v"
        return Turn(MEALS, "dinner", (right if seen_v else left,))

    course = Course(promises_for(layout), ask, turns=2)
    stores: tuple[Contents, ...] = ({Position(2): "v"}, {Position(2): GENERIC})
    (_, beta) = layout.attributes
    whole = extremes(System(), course, stores)
    ending_in_v = {
        replay(transcript[-1].entries).spent(beta): found.whole
        for transcript, found in whole.items()
        if len(transcript) == 2 and transcript[-1].releases[0].view.name == "v"
    }
    assert ending_in_v[Units(0)].highest == ending_in_v[Units(0)].lowest
    one, other = (chances(extremes(System(), course, (s,)), 2, _last_view) for s in stores)
    assert one[layout.slots[0].vocabulary[1]] > other[layout.slots[0].vocabulary[1]]
