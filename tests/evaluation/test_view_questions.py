"""The questions are twenty a slot, and the checks tell an answer that shows its view."""

import pytest

from tactful_eval.view_questions import ViewCheck, slots
from tactful_policies import starter_text
from tactfuld.policy.loading import parse_policy

EVERYDAY = starter_text("everyday")


def check(view: str) -> ViewCheck:
    (found,) = [each for slot in slots(EVERYDAY) for each in slot.checks if each.view == view]
    return found


def test_every_special_view_of_the_policy_has_a_check_with_its_own_guidance() -> None:
    expected = {
        (slot.name, view.name, view.guidance)
        for slot in parse_policy(EVERYDAY, source="everyday.yaml").layout.slots
        for view in slot.vocabulary[1:]
    }
    found = {(s.slot, c.view, c.guidance) for s in slots(EVERYDAY) for c in s.checks}
    assert found == expected


def test_every_slot_has_twenty_questions_and_tunes_on_others() -> None:
    for slot in slots(EVERYDAY):
        assert len(set(slot.reported)) == len(slot.reported) == 20
        assert slot.tuning
        assert not set(slot.reported) & set(slot.tuning)


def test_no_question_shows_a_view_by_itself() -> None:
    given = [
        (each.view, question)
        for slot in slots(EVERYDAY)
        for each in slot.checks
        for question in (*slot.reported, *slot.tuning)
        if each.shows(question)
    ]
    assert given == []


@pytest.mark.parametrize(
    ("view", "answer"),
    [
        ("steady_energy", "Eat at regular times, and take a short\nwalk after each meal."),
        ("gentle_movement", "Stretch for ten minutes."),
        ("check_medicines", "Ask your Pharmacist first."),
        ("blood_sugar", "A lentil soup with low-glycaemic vegetables."),
        ("blood_sugar", "Something low-glycaemic."),
        ("clear_words", 'You could say, "I would like to finish my point."'),
        ("costs_nothing", "Go to the park."),
    ],
)
def test_an_answer_that_follows_its_view_shows_it(view: str, answer: str) -> None:
    assert check(view).shows(answer)


@pytest.mark.parametrize(
    ("view", "answer"),
    [
        ("steady_energy", "Drink enough water."),
        ("gentle_movement", "Stretch, then lift weights at the gym."),
        ("plants_only", "Rice with vegetables and chicken."),
        ("quick_meal", "Pasta with tomatoes, which takes 150 minutes."),
        ("costs_nothing", "Use your free time for a concert."),
        ("sleep_first", "Spend the rest of the day outside."),
    ],
)
def test_an_answer_that_does_not_follow_its_view_does_not_show_it(view: str, answer: str) -> None:
    assert not check(view).shows(answer)


def test_naming_what_a_view_forbids_is_a_breach() -> None:
    assert check("blood_sugar").breached("Lentils are right for people with Diabetes.")
    assert check("new_arrival").breached("Get things ready for the baby.")


def test_neither_other_words_nor_other_views_breach() -> None:
    assert not check("blood_sugar").breached("Lentils with air-conditioned salad.")
    assert not check("new_arrival").breached("Prepare early for the birthday.")
    assert not check("quick_meal").breached("An omelette for somebody with diabetes.")
