"""What `policy explain` says of fused text: contexts, payers, how much an epoch buys, how long."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from tactful_core.entries import Cell, FusedReserved, new_entry_id
from tactful_core.ledger import Ledger, reservation_refusal
from tactful_core.promises import Promises
from tactful_core.values import AppId, ShelfName, SlotName
from tactful_policies import starter_text
from tactfuld.fused_explanation import FusedExplained, fused_explained
from tactfuld.fusing.cells import plan_cells
from tactfuld.policy.loading import parse_policy

MEALS = AppId("meals")
FUSED = "    fusion: {epsilon: 8.0}\n"


def demo(**changes: str) -> Promises:
    text = starter_text("demo")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return parse_policy(text, source="")


def about(promises: Promises, *names: str, tokens: int = 100) -> FusedExplained | None:
    slots = [promises.layout.slot(SlotName(name)) for name in names]
    return fused_explained(promises, MEALS, slots, tokens)


def test_an_answer_about_food_has_a_context_for_each_set_of_attributes() -> None:
    """`food.diet` implies diabetes, `food.groceries` debt as well: two cells, `k* = 2`."""
    told = about(demo(), "food")
    assert told is not None
    assert (told.contexts, told.left_out, told.tokens) == (2, (), 100)
    assert [(payer.attribute, payer.epsilon) for payer in told.payers] == [
        ("diabetes", 8.0),
        ("debt", 8.0),
    ]
    diabetes, debt = told.payers
    assert diabetes.answer > debt.answer  # of two contexts one touches debt


def test_an_epoch_buys_what_was_planned_and_the_ledger_admits_no_more() -> None:
    promises = demo()
    told = about(promises, "food")
    assert told is not None
    assert 2000 <= told.epoch_tokens < 2010
    parameters = promises.calibrated()
    assert parameters is not None
    food = promises.layout.slot(SlotName("food"))
    plan = plan_cells([food], promises, {a.name for a in promises.layout.attributes}, room=999,
                      around=0)  # fmt: skip
    cells = tuple(Cell(plan.positions(charged), charged) for charged in plan.cells)
    opened = Ledger(epoch=1, fused=Ledger().fused.opened(1, parameters))
    for draws, fits in ((told.epoch_tokens, True), (told.epoch_tokens + 1, False)):
        wanted = FusedReserved(
            new_entry_id(), 1, MEALS, frozenset({food.name}), cells, frozenset(), draws, "policy"
        )
        assert (reservation_refusal(opened, wanted, promises) is None) == fits


def test_a_first_answer_costs_what_theorem_2_says() -> None:
    promises = demo()
    told, parameters = about(promises, "health", tokens=50), promises.calibrated()
    assert told is not None
    assert parameters is not None
    alpha, delta = parameters.alpha, float(Fraction(1, 10**5))
    rho = 50 * math.log1p(float(parameters.divergence)) / (alpha - 1)
    epsilon = rho + math.log(1 - 1 / alpha) - math.log(delta * alpha) / (alpha - 1)
    assert told.payers[0].answer == pytest.approx(epsilon, abs=1e-6)


def test_a_shelf_with_an_attribute_that_has_no_budget_is_named_as_left_out() -> None:
    text = starter_text("demo")
    before, after = text.split("  debt:\n")
    promises = parse_policy(f"{before}  debt:\n{after.replace(FUSED, '', 1)}", source="")
    told = about(promises, "food")
    assert told is not None
    assert told.contexts == 1
    assert told.left_out == (ShelfName("food.groceries"),)
    assert about(promises, "finance") is None


def test_without_privacy_no_text_is_fused() -> None:
    assert about(demo(**{FUSED: ""}), "food") is None


def test_more_contexts_take_longer() -> None:
    few, many = about(demo(), "health"), about(demo(), "health", "food", "finance")
    assert few is not None
    assert many is not None
    assert few.contexts < many.contexts
    assert few.tokens_per_second > many.tokens_per_second
    assert few.seconds < many.seconds == pytest.approx(100 / many.tokens_per_second, rel=0.01)
