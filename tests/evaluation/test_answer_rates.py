"""Rates count what the checks find, with the same questions and seeds for view and generic view."""

import pytest

from tactful_eval.answer_faults import Fault
from tactful_eval.answer_rates import Rate, rates
from tactful_eval.view_questions import SlotQuestions, slots
from tactful_policies import starter_text
from tactfuld.inference.prompt import FORM, Prompt

FOOD = next(slot for slot in slots(starter_text("everyday")) if slot.slot == "food")


def two(slot: SlotQuestions) -> tuple[str, ...]:
    return slot.reported[:2]


def test_wilson_intervals_are_those_of_the_textbook() -> None:
    assert Rate(0, 10).interval == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert Rate(10, 10).interval == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert Rate(8, 20).interval == pytest.approx((0.2188, 0.6134), abs=1e-4)


def test_a_model_that_obeys_shows_every_view_and_no_view_where_it_is_generic() -> None:
    obedient = {
        "blood_sugar": "Lentils.",
        "strict_budget": "Something cheap.",
        "well_cooked": "A stew.",
        "quick_meal": "An omelette.",
        "plants_only": "Tofu.",
    }
    guidance = {check.guidance.split(";")[0]: obedient[check.view] for check in FOOD.checks}

    def answer(prompt: Prompt, _seed: int) -> str:
        text = f"{prompt.system} {prompt.user}"
        return next((words for start, words in guidance.items() if start in text), "Soup.")

    found = rates((FOOD,), two, answer)
    assert found.shown == Rate(10, 10)
    assert found.generic == Rate(0, 10)
    assert found.answers == 12
    assert sum(found.faults.values()) == 0


def test_breaches_and_faults_are_counted() -> None:
    found = rates((FOOD,), two, lambda _prompt, _seed: "Lentils, for your diabetes, and")
    assert {view.view for view in found.views if view.breaches == 2} == {"blood_sugar"}
    assert found.faults[Fault.UNFINISHED] == found.answers
    assert found.faults[Fault.ROLE] == 0
    assert found.words == 5


def test_saying_how_it_was_to_answer_is_parroting() -> None:
    found = rates((FOOD,), two, lambda _prompt, _seed: f"Tofu. {FORM}")
    assert found.faults[Fault.PARROT] == found.answers


def test_a_view_and_the_generic_view_answer_from_the_same_seeds() -> None:
    asked: list[tuple[str, int]] = []

    def answer(prompt: Prompt, seed: int) -> str:
        asked.append((next(q for q in FOOD.reported if q in prompt.user), seed))
        return "Soup."

    rates((FOOD,), two, answer)
    assert asked == [(FOOD.reported[0], 0), (FOOD.reported[1], 1)] * 6
