"""The JSON Schema: it is the models' own, and an editor marks with it what the daemon refuses."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from ruamel.yaml import YAML
from tests.tactfuld.policy.mutations import mutated
from tests.tactfuld.policy.texts import LATER, POLICY, STANDING

from tactful_policies import SCHEMA_FILE, STARTERS, schema_text, starter_text
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import parse_policy
from tactfuld.policy.schema import policy_schema
from tactfuld.policy.schema import schema_text as generated_text

MODELINE = f"# yaml-language-server: $schema=./{SCHEMA_FILE}\n"
NEWER_THAN_DRAFT_07 = {"$defs", "prefixItems", "dependentRequired", "unevaluatedProperties"}
SCHEMA = jsonschema.Draft7Validator(json.loads(schema_text()))


def passes(text: str) -> bool:
    return bool(SCHEMA.is_valid(YAML(typ="safe", pure=True).load(text)))


def loads(text: str) -> bool:
    try:
        parse_policy(text, source="policy.yaml")
    except PolicyError:
        return False
    return True


def test_the_shipped_schema_is_made_from_the_models() -> None:
    """If this fails: `python -m tactfuld.policy.schema > policies/tactful_policies/...json`."""
    assert schema_text() == generated_text()


def test_the_schema_is_a_schema_of_draft_07() -> None:
    jsonschema.Draft7Validator.check_schema(policy_schema())
    assert policy_schema()["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_the_schema_uses_nothing_that_draft_07_reads_otherwise() -> None:
    def walk(part: Any) -> None:
        if isinstance(part, dict):
            assert not NEWER_THAN_DRAFT_07 & set(part)
            assert "$ref" not in part or set(part) == {"$ref"}
        for inner in part.values() if isinstance(part, dict) else part:
            if isinstance(inner, dict | list):
                walk(inner)

    walk(policy_schema())


def test_every_key_is_described_to_who_edits() -> None:
    schema = policy_schema()
    parts = [schema, *schema["definitions"].values()]
    for part in parts:
        for name, key in part["properties"].items():
            assert key["description"], name


@pytest.mark.parametrize("name", STARTERS)
def test_every_starter_names_the_schema_and_passes_it(name: str) -> None:
    text = starter_text(name)
    assert text.startswith(MODELINE)
    assert passes(text)


@pytest.mark.parametrize("text", [POLICY, STANDING, LATER, POLICY.partition("attributes:")[0]])
def test_small_policies_pass(text: str) -> None:
    assert passes(text)


@pytest.mark.parametrize("written", ["apps:", "apps:\n  meals:", "apps:\n  meals:\n    slots:"])
def test_what_is_commented_out_passes_as_it_loads(written: str) -> None:
    text = POLICY.partition("apps:")[0] + written + "\n"
    assert loads(text)
    assert passes(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version: 1", "version: 2"),
        ("version: 1\n", ""),
        ("version: 1", "versoin: 1"),
        ("version: 1", "version: 1\nepoch: {renew: daily}"),
        ("version: 1", 'version: 1\nepoch: {tick: "3:00"}'),
        ("mechanism: exponential", "mechanism: laplace"),
        (", charges_per_cap: 3", ""),
        ("charges_per_cap: 3", "planned: 3"),
        ("charges_per_cap: 3", "charges_per_cap: 17"),
        ("mode: online", "mode: standing"),
        ("  news:", "  News:"),
        ("description: papers", "description: []"),
        ("positions: 2", "positions: 0"),
        ("positions: 2", "positions: '2'"),
        ("unprotected: true", "unprotected: yes"),
        ('generic: {guidance: "Name one paper."}', "other: {guidance: a, supports: [b]}"),
        ('supports: ["I must save."]', "supports: []"),
        ("cheap: {", "Cheap: {"),
        ("cap: 1.5", "cap: 0"),
        ("cap: 1.5", "cap: '1.5'"),
        ("cap: 1.5", "cap: 1.5\n    colour: red"),
        ("implied_by: [food]", "implied_by: []"),
        ("slots: [food]", "slots: food"),
        ("debt: 1.0", "debt: 101"),
    ],
)
def test_a_mistake_of_shape_is_refused_by_schema_and_daemon_alike(old: str, new: str) -> None:
    assert POLICY.count(old) == 1
    text = POLICY.replace(old, new)
    assert not passes(text)
    assert not loads(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("delta: 1.0e-5", "delta: 0.5"),
        ("planned_draws: 2000", "planned_draws: many"),
        ("fusion: {epsilon: 8.0}", "fusion: 8.0"),
        ("PERSON: {epsilon: 8.0}", "person: {epsilon: 8.0}"),
        ("/srv/lists: write", "/srv/lists: all"),
        ("events: [message]", "events: message"),
    ],
)
def test_a_mistake_in_a_key_of_a_later_version_is_refused_too(old: str, new: str) -> None:
    assert LATER.count(old) == 1
    text = LATER.replace(old, new)
    assert not passes(text)
    assert not loads(text)


@pytest.mark.parametrize("name", STARTERS)
@pytest.mark.parametrize(
    ("old", "new"),
    [("guidance:", "guidence:"), ("positions:", "size:"), ("    cap: ", "    cap: x")],
)
def test_a_mutated_starter_is_refused(name: str, old: str, new: str) -> None:
    assert not passes(starter_text(name).replace(old, new, 1))


@settings(max_examples=100)
@given(mutated(POLICY) | mutated(LATER))
def test_an_editor_marks_nothing_that_the_daemon_takes(text: str) -> None:
    if loads(text):
        assert passes(text)
