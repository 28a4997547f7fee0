"""The real private memory interface keeps the contract: exact likelihood ratios on small policies.

Theorem 1, Lemma 1 and the sharper bound by realised losses (GUARANTEE §1), over all augmented
transcripts of up to four turns: overlapping, nested and equal groups, two slots a turn, adaptive
queries, colluding apps, quotas, contents that cannot be scored.
"""

from collections.abc import Iterable
from fractions import Fraction

import pytest
from tests.contracts.certified_exp import exp_at_most
from tests.contracts.checks import SINGLE_TURN_CHECKS, Check, unpaid_differences
from tests.contracts.enumeration import Extremes, System, Transcript, Turn, extremes
from tests.contracts.scenarios import SCENARIOS, Scenario
from tests.fakes.small_policies import COACH, DEBT, DIABETES, FINANCE, MEALS, figure_two

from tactful_core.layout import Attribute
from tactful_core.ledger import Refusal, replay
from tactful_core.values import UNITS_PER_EPSILON, AttributeName

CASES = [
    pytest.param(scenario, attribute, id=f"{scenario.name}-{attribute.name}")
    for scenario in SCENARIOS
    for attribute in scenario.promises.layout.attributes
]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def everything_seen(scenario: Scenario, name: AttributeName) -> dict[Transcript, Extremes]:
    """All transcripts, with their extremes over the stores of one adjacency class."""
    stores = scenario.stores(name)
    return extremes(System(), scenario.strategy, stores, scenario.promises, scenario.turns)


def transcripts(scenario: Scenario) -> Iterable[Transcript]:
    """All transcripts; which of them can happen is the same for every store, so one will do."""
    return extremes(System(), scenario.strategy, ({},), scenario.promises, scenario.turns)


@pytest.mark.parametrize(("scenario", "attribute"), CASES)
def test_likelihood_ratio_of_each_transcript_is_paid_for(
    scenario: Scenario, attribute: Attribute
) -> None:
    """At most `e^{L_a}` for the loss that the transcript's own ledger shows, and `L_a ≤ B_a`."""
    assert list(unpaid_differences(System(), scenario, attribute)) == []


@pytest.mark.parametrize("check", SINGLE_TURN_CHECKS, ids=lambda check: check.__name__)
def test_algorithm_1_passes(check: Check) -> None:
    assert list(check(System())) == []


def test_an_attribute_that_is_never_charged_leaves_equal_rationals() -> None:
    """Lemma 1: finance does not read diabetes, so its transcripts say nothing about it."""

    def finance_only(history: Transcript) -> Turn:
        last = history[-1].releases[0].view.name if history else "start"
        return Turn((MEALS, COACH)[len(history) % 2], last, (FINANCE,))

    scenario = Scenario(
        "finance_only", figure_two(), finance_only, BY_NAME["one_slot_a_turn"].texts
    )
    tree = everything_seen(scenario, DIABETES)
    assert len(tree) > 4 * 3
    assert all(found.highest == found.lowest > 0 for found in tree.values())
    assert any(found.highest != found.lowest for found in everything_seen(scenario, DEBT).values())


def test_the_bound_is_nearly_reached_so_that_a_larger_loss_would_show() -> None:
    """More than `e^{0.85 B}`: with many views Eq. 7 loses almost the ε that it is charged."""
    scenario = BY_NAME["many_views_and_a_lopsided_query"]
    (worry,) = scenario.promises.layout.attributes
    worst = max(f.highest / f.lowest for f in everything_seen(scenario, worry.name).values())
    assert worst > exp_at_most(Fraction(worry.cap, UNITS_PER_EPSILON) * Fraction(85, 100))


def test_scenarios_reach_every_refusal_but_a_broken_ledger() -> None:
    refusals = {
        release.refusal
        for scenario in SCENARIOS
        for transcript in transcripts(scenario)
        for seen in transcript
        for release in seen.releases
    }
    assert refusals == {None, Refusal.CAP, Refusal.QUOTA}


def test_scenarios_fill_some_caps_to_the_last_unit() -> None:
    full = {
        attribute.name
        for scenario in SCENARIOS
        for transcript in transcripts(scenario)
        for attribute in scenario.promises.layout.attributes
        if replay(transcript[-1].entries).spent(attribute) == attribute.cap
    }
    assert {DIABETES, DEBT, AttributeName("worry"), AttributeName("inner")} <= full
