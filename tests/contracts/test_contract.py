"""The real private memory interface keeps the contract: exact likelihood ratios on small policies.

Theorem 1, Lemma 1 and the sharper bound by realised losses (GUARANTEE §1), over all augmented
transcripts of up to four turns: overlapping, nested, equal and growing groups, two slots a turn,
adaptive queries, colluding apps, quotas, new epochs, contents that cannot be scored, and every
mechanism with every allocation rule.
"""

from fractions import Fraction
from functools import cache

import pytest
from tests.contracts.certified_exp import exp_at_most
from tests.contracts.checks import SINGLE_TURN_CHECKS, Check, unpaid_differences
from tests.contracts.enumeration import Course, System, Transcript, Tree, Turn, extremes
from tests.contracts.scenarios import MATRIX, RULES, SCENARIOS, SECRET, WORRY, Scenario
from tests.fakes.naming_scorer import UNSCORABLE
from tests.fakes.small_policies import COACH, DEBT, DIABETES, FINANCE, MEALS, figure_two

from tactful_core.entries import Charge, Mechanism
from tactful_core.interface import Source
from tactful_core.layout import Attribute
from tactful_core.ledger import Refusal, replay
from tactful_core.values import UNITS_PER_EPSILON, AttributeName, Position

EVERY = (*SCENARIOS, *MATRIX)
CASES = [
    pytest.param(scenario, attribute, id=f"{scenario.name}-{attribute.name}")
    for scenario in EVERY
    for attribute in scenario.attributes
]
BY_NAME = {scenario.name: scenario for scenario in EVERY}


def everything_seen(scenario: Scenario, name: AttributeName) -> Tree:
    """All transcripts, with their extremes over the stores of one adjacency class."""
    return extremes(System(), scenario.course, scenario.stores(name))


def transcripts(scenario: Scenario) -> tuple[Transcript, ...]:
    """All transcripts; which of them can happen is the same for every store, so one will do."""
    return _transcripts(scenario.name)


@cache
def _transcripts(name: str) -> tuple[Transcript, ...]:
    return tuple(extremes(System(), BY_NAME[name].course, ({},)))


@pytest.mark.parametrize(("scenario", "attribute"), CASES)
def test_likelihood_ratio_of_each_transcript_is_paid_for(
    scenario: Scenario, attribute: Attribute
) -> None:
    """At most `e^{L_a}` for the loss that the transcript's own ledger shows, and `L_a ≤ B_a`."""
    assert list(unpaid_differences(System(), scenario, attribute)) == []


@pytest.mark.parametrize("check", SINGLE_TURN_CHECKS, ids=lambda check: check.__name__)
def test_algorithm_1_passes(check: Check) -> None:
    assert list(check(System())) == []


# ---- Lemma 1 ------------------------------------------------------------------------------------


def _finance_only(history: Transcript) -> Turn:
    last = history[-1].releases[0].view.name if history else "start"
    return Turn((MEALS, COACH)[len(history) % 2], last, (FINANCE,))


_SOME_TEXTS = {
    Position(1): ("", "active"),
    Position(2): ("", "budget", UNSCORABLE),
    Position(3): ("", "low_sugar"),
    Position(4): ("", "saving", "generic frugal"),
    Position(5): ("", UNSCORABLE),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mechanism", Mechanism)
def test_an_attribute_that_is_never_charged_leaves_equal_rationals(
    mechanism: Mechanism, rule: str
) -> None:
    """Lemma 1: finance does not read diabetes, so its transcripts say nothing about it."""
    course = Course(figure_two(mechanism=mechanism, allocation=RULES[rule]), _finance_only, turns=3)
    scenario = Scenario("finance_only", course, _SOME_TEXTS)
    tree = everything_seen(scenario, DIABETES)
    assert len(tree) >= 2 * course.turns
    assert all(found.whole.highest == found.whole.lowest > 0 for found in tree.values())
    debt = everything_seen(scenario, DEBT)
    assert any(found.whole.highest != found.whole.lowest for found in debt.values())


# ---- the enumeration reaches what it should -----------------------------------------------------


def test_the_bound_is_nearly_reached_so_that_a_larger_loss_would_show() -> None:
    """More than `e^{0.85 B}`: with many views Eq. 7 loses almost the ε that it is charged."""
    scenario = BY_NAME["many_views_and_a_lopsided_query"]
    (worry,) = scenario.attributes
    found = everything_seen(scenario, worry.name).values()
    worst = max(reached.whole.highest / reached.whole.lowest for reached in found)
    assert worst > exp_at_most(Fraction(worry.cap, UNITS_PER_EPSILON) * Fraction(85, 100))


@pytest.mark.parametrize(
    "mechanism", [Mechanism.WEIGHTED_EXPONENTIAL, Mechanism.RANDOMIZED_RESPONSE]
)
def test_the_exact_mechanisms_reach_all_that_they_are_charged(mechanism: Mechanism) -> None:
    """Within a millionth: what is charged really can be lost, so no smaller charge would do."""
    scenario = BY_NAME[f"{mechanism}-standing"]
    worst = max(
        (
            replay(transcript[-1].entries).spent(attribute),
            reached.epoch.highest / reached.epoch.lowest,
        )
        for attribute in scenario.attributes
        if attribute.name == DIABETES
        for transcript, reached in everything_seen(scenario, DIABETES).items()
    )
    spent = Fraction(worst[0], UNITS_PER_EPSILON)
    assert worst[1] > exp_at_most(spent * (1 - Fraction(1, 10**6)))


def test_scenarios_reach_every_refusal_but_a_broken_ledger() -> None:
    refusals = {
        release.refusal
        for scenario in EVERY
        for transcript in transcripts(scenario)
        for seen in transcript
        for release in seen.releases
    }
    assert refusals == {None, *Refusal} - {Refusal.UNREADABLE, Refusal.FUSION}


def test_scenarios_reach_every_source_of_a_view() -> None:
    sources = {
        release.source
        for scenario in EVERY
        for transcript in transcripts(scenario)
        for seen in transcript
        for release in seen.releases
    }
    assert sources == set(Source)


@pytest.mark.parametrize("mechanism", Mechanism)
def test_the_matrix_releases_a_slot_twice_in_an_epoch(mechanism: Mechanism) -> None:
    scenario = BY_NAME[f"{mechanism}-standing_twice"]
    assert any(
        len(views) == 2
        for transcript in transcripts(scenario)
        for views in replay(transcript[-1].entries).released.values()
    )


def test_what_is_used_again_was_bought_in_the_same_epoch() -> None:
    """Never before its release, and never in a later epoch."""
    reused = [
        (release, replay(seen.entries))
        for scenario in MATRIX
        for transcript in transcripts(scenario)
        for seen in transcript[-1:]
        for release in seen.releases
        if release.source is Source.STANDING
    ]
    assert reused
    assert all(release.slot in ledger.released for release, ledger in reused)
    assert all(release.units == 0 and not release.charged for release, _ in reused)


def test_scenarios_fill_some_caps_to_the_last_unit() -> None:
    full = {
        attribute.name
        for scenario in EVERY
        for transcript in transcripts(scenario)
        for attribute in scenario.attributes
        if replay(transcript[-1].entries).spent(attribute) == attribute.cap
    }
    assert {DIABETES, DEBT, AttributeName("worry"), AttributeName("inner")} <= full


def test_groups_that_grow_are_closed_until_the_next_epoch() -> None:
    """`worry` is above its cap and `secret` was read openly, as the scenario is meant to show."""
    scenario = BY_NAME["groups_that_grow"]
    attributes = {a.name: a for a in scenario.attributes}
    seen_before = {tuple(t[-1].entries) for t in transcripts(scenario) if len(t) == 3}
    for entries in seen_before:
        ledger = replay(entries)
        assert ledger.spent(attributes[WORRY]) > attributes[WORRY].cap
        assert ledger.exposed(attributes[SECRET])
    last = [t[-1] for t in transcripts(scenario) if len(t) == 4]
    assert all(not replay(seen.entries).exposed(attributes[SECRET]) for seen in last)
    assert any(r.source is Source.DRAWN for seen in last for r in seen.releases)


@pytest.mark.parametrize("name", ["read_rules", "read_rules_standing"])
def test_read_rules_charge_what_covers_the_part_that_they_read(name: str) -> None:
    """Both kinds of reads happen, so the exact ratios above are about both."""
    entries = {entry for seen in transcripts(BY_NAME[name]) for entry in seen[-1].entries}
    charges = {(e.positions, e.charged) for e in entries if isinstance(e, Charge)}
    of_food = {each for each in charges if {2, 3} & each[0]}
    diet, groceries = frozenset({Position(2)}), frozenset({Position(3)})
    both = frozenset({DIABETES, DEBT})
    assert of_food == {
        (diet, frozenset({DIABETES})),
        (groceries, both),
        (diet | groceries, both),
    }
