"""What the contract forbids really breaks the promise: the constructions of Proposition 1, exactly.

Each takes one part of the contract away from an interface that is right in all other ways, and
shows how far the transcripts of two adjacent stores come apart: twice infinitely, twice by
`e^{Nε/2}` after N releases, whatever the ledger says. With two views at opposite extremes of
the score, one release of Eq. 7 differs by exactly `1 / w` where `w` is the integer weight that
stands for `e^{-ε/2}`; N of them by `w^{-N}`.
"""

from fractions import Fraction

import pytest
from tests.contracts.broken_draws import argmax
from tests.contracts.broken_stores import ChargesInTurn, NoCap
from tests.contracts.broken_turns import (
    drawing,
    offers_what_memory_supports,
    omits_one_attribute,
)
from tests.contracts.certified_exp import exp_at_least, exp_at_most
from tests.contracts.enumeration import (
    Course,
    Extremes,
    System,
    Transcript,
    Tree,
    Turn,
    extremes,
)
from tests.fakes.in_memory_charges import FIRST_EPOCH
from tests.fakes.in_memory_rows import Contents
from tests.fakes.kept_notices import KeptNotices
from tests.fakes.running import run_now
from tests.fakes.small_policies import FOOD, MEALS, attribute, figure_two, promises_for, slot

from tactful_core.allocation import Online
from tactful_core.interface import Ports, Source
from tactful_core.layout import GENERIC, Attribute, Layout
from tactful_core.ledger import replay
from tactful_core.promises import Promises
from tactful_core.sampling import ONE, SystemRandomness, exp_weight
from tactful_core.values import UNITS_PER_EPSILON, AttributeName, Position, SlotName, Units

ONLY = SlotName("only")
CAP = "2"
CHARGES = 2
EPSILON = Fraction(2, CHARGES)
RELEASES = [1, 2, 3, 4]
WORRY, SHADOW = AttributeName("worry"), AttributeName("shadow")

STORES: tuple[Contents, ...] = ({Position(1): "chosen"}, {Position(1): GENERIC})
"""Two stores that differ at position 1 alone, each speaking for one of the two views."""


def promises(*others: Attribute) -> Promises:
    """One slot with two views; `worry`, and perhaps others, cover its only position."""
    layout = Layout((slot(ONLY, (1,), ("chosen",)),), (attribute(WORRY, (1,), CAP), *others))
    return promises_for(layout, allocation=Online(CHARGES))


def ask_again(history: Transcript) -> Turn:
    """The same question, whatever was seen; both views are as relevant to it as can be."""
    return Turn(MEALS, f"chosen {GENERIC}", (ONLY,))


def transcripts(system: System, promises: Promises, turns: int) -> Tree:
    """The transcripts of exactly so many turns, with their extremes over the two stores."""
    tree = extremes(system, Course(promises, ask_again, turns=turns), STORES)
    return {transcript: found for transcript, found in tree.items() if len(transcript) == turns}


def worst(tree: Tree) -> Extremes:
    """The extremes that lie furthest apart."""
    ratios = [found.whole for found in tree.values()]
    certain = [found for found in ratios if found.lowest == 0]
    return certain[0] if certain else max(ratios, key=lambda f: f.highest / f.lowest)


def ratio_of_releases(count: int) -> Fraction:
    """What `count` releases of the exponential mechanism differ by, from its integer weights."""
    return Fraction(ONE, exp_weight(EPSILON / 2)) ** count


def test_the_exact_ratio_stands_for_the_real_one() -> None:
    """`w^{-N}` is `e^{Nε/2}` within 2^-100."""
    for count in RELEASES:
        ratio, exponent = ratio_of_releases(count), count * EPSILON / 2
        assert ratio <= exp_at_most(exponent)
        assert ratio >= exp_at_least(exponent) * (1 - Fraction(1, 1 << 100))


# ---- with the contract --------------------------------------------------------------------------


@pytest.mark.parametrize("turns", RELEASES)
def test_with_the_contract_the_ratio_ends_where_the_cap_is_full(turns: int) -> None:
    found = worst(transcripts(System(), promises(), turns))
    assert found.highest / found.lowest == ratio_of_releases(min(turns, CHARGES))


# ---- without one part of it ---------------------------------------------------------------------


def test_a_vocabulary_that_depends_on_the_store_makes_the_ratio_infinite() -> None:
    """Proposition 1 (i), against C1: a view that one store does not have gives the other away."""
    found = worst(transcripts(System(run_turn=offers_what_memory_supports), promises(), 1))
    assert found.lowest == 0 < found.highest


@pytest.mark.parametrize("turns", RELEASES)
def test_an_omitted_attribute_loses_half_of_epsilon_with_each_release(turns: int) -> None:
    """Proposition 1 (ii), against C2: its ledger shows nothing, whatever its cap."""
    shadow = attribute(SHADOW, (1,), "0.001")
    system = System(run_turn=omits_one_attribute)
    # `worry` pays for all of it, so its own cap is made large enough for N releases.
    wide = Layout((slot(ONLY, (1,), ("chosen",)),), (attribute(WORRY, (1,), "4"), shadow))
    tree = transcripts(system, promises_for(wide, allocation=Online(4)), turns)
    found = worst(tree)
    assert found.highest / found.lowest == ratio_of_releases(turns)
    named = [
        entry
        for transcript in tree
        for entry in transcript[-1].entries
        if SHADOW in getattr(entry, "charged", ())
    ]
    assert named == []


def test_an_argmax_makes_the_ratio_infinite() -> None:
    """Proposition 1 (iii), against C3: CappedArgmax, charged as if it had been drawn."""
    found = worst(transcripts(System(run_turn=drawing(argmax)), promises(), 1))
    assert found == Extremes(Fraction(1), Fraction(0))


@pytest.mark.parametrize("turns", RELEASES)
def test_without_a_cap_the_ratio_grows_with_each_release(turns: int) -> None:
    """Proposition 1 (iv), against C5: the charges are written and nobody looks at them."""
    tree = transcripts(System(charges=NoCap), promises(), turns)
    found = worst(tree)
    assert found.highest / found.lowest == ratio_of_releases(turns)
    (worry,) = promises().layout.attributes
    spent = {replay(transcript[-1].entries).spent(worry) for transcript in tree}
    assert spent == {turns * EPSILON * UNITS_PER_EPSILON}


# ---- the reference numbers of GUARANTEE §4 ------------------------------------------------------


def after_eight_questions(system: System) -> tuple[list[Units], list[Units]]:
    """Eight questions that read `I_a ∩ I_b`, at B = 2 and three charges per cap.

    What the ledger shows for both attributes, and what each question that was drawn really cost.
    """
    promises = figure_two()
    charges = system.charges(FIRST_EPOCH)
    ports = Ports(charges, system.memory({}), system.scorer, SystemRandomness(), KeptNotices())
    question = Turn(MEALS, "dinner", (FOOD,))
    drawn = [
        release.units
        for _ in range(8)
        for release in run_now(system.run_turn(question, (), promises, ports))
        if release.source is Source.DRAWN
    ]
    shown = [replay(charges.entries).spent(a) for a in promises.layout.attributes]
    return shown, drawn


def test_online_comes_to_two() -> None:
    shown, drawn = after_eight_questions(System())
    assert shown == [2 * UNITS_PER_EPSILON] * 2
    assert sum(drawn) == 2 * UNITS_PER_EPSILON


def test_incomplete_charge_shows_two_and_comes_to_four() -> None:
    """The ledger is checked and charged for a and b in turn, so six questions are admitted."""
    shown, drawn = after_eight_questions(System(charges=ChargesInTurn))
    assert shown == [2 * UNITS_PER_EPSILON] * 2
    assert sum(drawn) == 4 * UNITS_PER_EPSILON


def test_no_cap_comes_to_sixteen_thirds() -> None:
    _, drawn = after_eight_questions(System(charges=NoCap))
    assert sum(drawn) == Fraction(16, 3) * UNITS_PER_EPSILON
