"""What a policy tells about its owner is warned of, and starters tell nothing."""

from __future__ import annotations

import pytest

from tactful_policies import STARTERS, starter_text
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.loading import parse_document
from tactfuld.policy.telling import nearest_starter, telling

DOCUMENTS = {name: parse_document(starter_text(name), source=name) for name in STARTERS}


def edited(old: str, new: str, starter: str = "everyday") -> PolicyDocument:
    text = starter_text(starter)
    assert old in text
    return parse_document(text.replace(old, new, 1), source="")


def warned(document: PolicyDocument) -> dict[str, str]:
    name = nearest_starter(document, DOCUMENTS)
    assert name is not None
    return {each.key: each.sentence for each in telling(document, DOCUMENTS[name])}


@pytest.mark.parametrize("name", STARTERS)
def test_a_starter_is_its_own_nearest_and_tells_nothing(name: str) -> None:
    assert nearest_starter(DOCUMENTS[name], DOCUMENTS) == name
    assert telling(DOCUMENTS[name], DOCUMENTS[name]) == ()


def test_a_policy_of_other_slots_and_attributes_has_no_starter() -> None:
    own = parse_document(
        "version: 1\nselection: {mechanism: exponential}\n"
        "allocation: {mode: online, charges_per_cap: 1}\n"
        "slots: {boats: {description: boats, shelves: {all: {positions: 1, tokens: 8, "
        "unprotected: true}}, views: {generic: {guidance: Name a boat.}}}}\n",
        source="",
    )
    assert nearest_starter(own, DOCUMENTS) is None
    assert telling(own, None) == ()


def test_attributes_that_the_starter_has_not_or_only_it_has() -> None:
    text = starter_text("everyday")
    found = text.index("  separation:\n    cap")
    until = text.index("\n\n", found)
    without = parse_document(text[:found] + text[until + 1 :], source="")
    assert "does not concern you" in warned(without)["attributes.separation"]
    more = edited("  separation:\n", "  asthma: {cap: 2.0, implied_by: [health]}\n  separation:\n")
    assert "may concern you" in warned(more)["attributes.asthma"]


@pytest.mark.parametrize(
    ("old", "new", "key", "word"),
    [
        ("meals, breakfast,", "meals for my kidneys,", "slots.food.description", "my"),
        (
            "Suggest a simple meal such as",
            "I like pasta; suggest",
            "slots.food.views.generic.guidance",
            "I",
        ),
        (
            "I count the carbohydrates",
            "With Anna I count",
            "slots.food.views.blood_sugar.supports",
            "Anna",
        ),
    ],
)
def test_facts_and_names_in_public_texts(old: str, new: str, key: str, word: str) -> None:
    found = warned(edited(old, new))
    assert list(found) == [key]
    assert f"“{word}”" in found[key]


def test_a_support_in_the_first_person_is_what_supports_are_for() -> None:
    assert warned(edited("I count the carbohydrates", "I weigh the bread")) == {}


def test_places_that_the_starter_has_and_this_has_not() -> None:
    found = warned(edited("implied_by: [health, food]", "implied_by: [health, food.diet]"))
    assert "food.groceries" in found["attributes.diabetes.implied_by"]
    wider = edited("implied_by: [health, food]", "implied_by: [health, food, plans]")
    assert warned(wider) == {}


@pytest.mark.parametrize(("cap", "stands_out"), [("0.5", True), ("1.5", False), ("4.0", True)])
def test_a_cap_that_is_far_from_the_others(cap: str, stands_out: bool) -> None:
    found = warned(edited("cap: 2.0", f"cap: {cap}"))
    assert ("attributes.diabetes.cap" in found) is stands_out


def test_a_quota_of_one_attribute_alone() -> None:
    slots = "    slots: [food, finance, health]\n"
    assert "apps.meals.quota" in warned(edited(slots, f"{slots}    quota: {{debt: 1.0}}\n"))
    each = ", ".join(f"{name}: 1.0" for name in DOCUMENTS["everyday"].attributes)
    assert warned(edited(slots, f"{slots}    quota: {{{each}}}\n")) == {}


def test_a_text_that_everybody_has_tells_nothing() -> None:
    named = edited("meals, breakfast,", "meals as in Rome, my breakfast,")
    assert telling(named, named) == ()
    assert [each.key for each in telling(named, None)] == ["slots.food.description"]
