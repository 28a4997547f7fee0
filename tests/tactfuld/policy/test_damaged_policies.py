"""Damaged policies: an error for the owner, or a policy that grants no more than is written.

The oracle is a second reader: ruamel's own safe loader, and the rules of the format in a few lines.
It shares no code with the product.
"""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from tests.tactfuld.policy.mutations import mutated
from tests.tactfuld.policy.texts import LATER, POLICY, STANDING

from tactful_core.allocation import Online, Preallocated, Standing
from tactful_core.promises import Promises
from tactful_policies import STARTERS, starter_text
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import parse_policy

DEMO = starter_text("demo")
UNITS = 720_720_000


def units(written: Any) -> Decimal:
    return Decimal(str(written)) * UNITS


def as_lines(written: Any) -> tuple[str, ...]:
    return tuple(line.strip() for line in written)


def assert_grants_no_more_than_written(promises: Promises, written: Any) -> None:
    apps = written.get("apps") or {}
    assert {grant.app for grant in promises.grants} == set(apps)
    for grant in promises.grants:
        app = apps[grant.app] or {}
        assert grant.slots == set(app.get("slots") or ())
        assert grant.quota == {name: units(share) for name, share in app.get("quota", {}).items()}


def assert_spends_as_written(promises: Promises, written: Any) -> None:
    assert promises.mechanism == written["selection"]["mechanism"]
    keys = dict(written["allocation"])
    match keys.pop("mode"):
        case "online":
            assert promises.allocation == Online(keys.pop("charges_per_cap"))
        case "preallocated":
            planned: int = keys.pop("planned")
            expected = dict.fromkeys(written.get("attributes", {}), planned)
            assert promises.allocation == Preallocated(expected)
        case "standing":
            candidates, releases = keys.pop("candidates", 2), keys.pop("releases", 1)
            weights = keys.pop("weights", {})
            assert promises.allocation == Standing(candidates, releases, weights)
    assert not keys, "every key that is written counts"
    slots = written["slots"].items()
    also = {name: set(slot["charge_also"]) for name, slot in slots if slot.get("charge_also")}
    assert promises.charge_also == also
    for slot in promises.layout.slots:
        part = written["slots"][slot.name]
        router = part.get("router", {})
        assert slot.words == as_lines(router.get("words", ()))
        assert slot.never == as_lines(router.get("never", ()))
        assert [(rule.when, rule.shelves) for rule in slot.reads] == [
            (as_lines(rule["when"]), tuple(f"{slot.name}.{name}" for name in rule["shelves"]))
            for rule in part.get("reads", ())
        ]
    epoch = written.get("epoch", {})
    hours, minutes = epoch.get("tick", "03:00").split(":")
    assert promises.epochs.tick == int(hours) * 60 + int(minutes)
    assert promises.epochs.renewal == epoch.get("renew", "manual")


def assert_protects_all_that_is_written(promises: Promises, written: Any) -> None:
    assert_spends_as_written(promises, written)
    shelves = [
        (f"{slot}.{name}", shelf)
        for slot, content in written["slots"].items()
        for name, shelf in content["shelves"].items()
    ]
    sizes = [(shelf.name, len(shelf.positions)) for shelf in promises.layout.shelves]
    assert sizes == [(name, shelf["positions"]) for name, shelf in shelves]
    attributes = written.get("attributes", {})
    assert {a.name: a.cap for a in promises.layout.attributes} == {
        name: units(content["cap"]) for name, content in attributes.items()
    }
    for shelf, (name, content) in zip(promises.layout.shelves, shelves, strict=True):
        covering = {
            attribute
            for attribute, protected in attributes.items()
            if {name, name.split(".")[0]} & set(protected["implied_by"])
        }
        assert all(promises.layout.covering(p) == covering for p in shelf.positions)
        assert bool(covering) != shelf.unprotected
        assert shelf.unprotected == content.get("unprotected", False)


def read_twice(text: str) -> bool:
    """Whether the text is a policy; if so, it must promise what the second reader sees."""
    try:
        promises = parse_policy(text, source="policy.yaml")
    except PolicyError as error:
        problems = error.problems
    else:
        written = YAML(typ="safe", pure=True).load(text)
        assert_grants_no_more_than_written(promises, written)
        assert_protects_all_that_is_written(promises, written)
        return True
    assert problems
    assert all(str(problem).startswith("policy.yaml:") for problem in problems)
    assert all(problem.sentence.endswith((".", "?")) for problem in problems)
    return False


@pytest.mark.parametrize("text", [POLICY, STANDING, LATER, *map(starter_text, STARTERS)])
def test_the_second_reader_agrees_on_whole_policies(text: str) -> None:
    assert read_twice(text)


@settings(max_examples=200)
@given(mutated(POLICY))
def test_a_damaged_policy_is_refused_or_grants_what_is_written(text: str) -> None:
    read_twice(text)


@settings(max_examples=200)
@given(mutated(LATER))
def test_a_damaged_standing_policy_is_refused_or_grants_what_is_written(text: str) -> None:
    read_twice(text)


@settings(max_examples=100)
@given(mutated(DEMO))
def test_a_damaged_demo_is_refused_or_grants_what_is_written(text: str) -> None:
    read_twice(text)


@pytest.mark.long
@settings(max_examples=20_000)
@given(mutated(POLICY) | mutated(LATER))
@pytest.mark.timeout(3600)
def test_many_damaged_policies_are_refused_or_grant_what_is_written(text: str) -> None:
    read_twice(text)


@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        parse_policy(text, source="policy.yaml")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=200)
@given(st.data())
def test_any_value_in_any_place_is_refused_or_grants_what_is_written(data: st.DataObject) -> None:
    """Shapes that hand-made damage seldom makes: a list for a mapping, a mapping for a number."""
    policy = YAML(typ="safe", pure=True).load(data.draw(st.sampled_from([POLICY, LATER])))
    here = policy
    while True:
        key = data.draw(
            st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here)))
        )
        if not isinstance(here[key], dict | list) or data.draw(st.booleans()):
            break
        here = here[key]
    here[key] = data.draw(VALUES)
    read_twice(json.dumps(policy, indent=1))
