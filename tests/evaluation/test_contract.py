"""The reference numbers of GUARANTEE §4 come from runs of the core, whatever the scenario."""

import math

import pytest

from tactful_core.interface import release_view
from tactful_core.ledger import Ledger
from tactful_core.values import epsilon_of
from tactful_eval.accountant import true_charge
from tactful_eval.contract import (
    TELLING,
    A,
    Charges,
    IncompleteCharge,
    NoCap,
    Scenario,
    ports_of,
    reference,
    score_channel_auc,
    true_cost,
)

PAPER = Scenario()
OTHER = Scenario(cap="3", charges_per_cap=5, target_turns=7)


@pytest.mark.parametrize(
    ("scenario", "online", "incomplete", "no_cap"),
    [(PAPER, 2.0, 4.0, 16 / 3), (OTHER, 3.0, 4.2, 4.2), (Scenario("1", 2, 2), 1.0, 1.0, 1.0)],
)
def test_true_charges_of_the_core_and_of_broken_ledgers(
    scenario: Scenario, online: float, incomplete: float, no_cap: float
) -> None:
    found = reference(scenario)
    assert found.online == pytest.approx(online, abs=1e-9)
    assert found.incomplete_charge == pytest.approx(incomplete, abs=1e-9)
    assert found.no_cap == pytest.approx(no_cap, abs=1e-9)
    assert found.capped_argmax == math.inf


async def test_an_incomplete_ledger_shows_half_of_what_it_cost() -> None:
    promises, charges = PAPER.promises(), IncompleteCharge()
    for _ in range(PAPER.target_turns):
        slot = promises.layout.slots[0]
        await release_view(
            promises.grants[0].app, "What now?", slot, promises, ports_of(charges, TELLING)
        )
    attribute = promises.layout.attribute(A)
    assert epsilon_of(true_charge(charges.entries, attribute)) == 4.0
    assert charges.shown(A) == attribute.cap


@pytest.mark.parametrize("charges", [Charges(), NoCap()])
def test_the_cores_accountant_agrees_with_this_one_on_complete_charges(charges: Charges) -> None:
    attribute = PAPER.promises().layout.attribute(A)
    cost = true_cost(PAPER, charges)
    ledger = charges.snapshot()
    assert isinstance(ledger, Ledger)
    assert epsilon_of(ledger.spent(attribute)) == cost


def test_a_top_score_would_tell_the_stores_apart() -> None:
    assert 0.5 < score_channel_auc() <= 1.0
