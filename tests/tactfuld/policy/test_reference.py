"""docs/policy.md: every key appears, its example loads, its error is the real one."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from tactful_core.allocation import Standing
from tactful_core.entries import Mechanism
from tactful_core.promises import EpochRule, Renewal
from tactful_policies import starter_text
from tactfuld.policy import document
from tactfuld.policy.document import ALLOCATION_KEYS
from tactfuld.policy.errors import PolicyError
from tactfuld.policy.loading import parse_policy

REFERENCE = (Path(__file__).parents[3] / "docs" / "policy.md").read_text(encoding="utf-8")


def keys() -> set[str]:
    models = [
        m for m in vars(document).values() if isinstance(m, type) and issubclass(m, BaseModel)
    ]
    return {name for model in models for name in model.model_fields}


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", REFERENCE, re.MULTILINE | re.DOTALL)


def test_the_line_for_editors_is_that_of_the_starters() -> None:
    assert starter_text("everyday").partition("\n")[0] + "\n" in fenced("text")


def test_there_are_keys_to_look_for() -> None:
    assert {"charges_per_cap", "implied_by", "unprotected", "quota", "generic"} <= keys()


@pytest.mark.parametrize("key", sorted(keys()))
def test_every_key_is_in_the_reference(key: str) -> None:
    assert f"`{key}`" in REFERENCE


@pytest.mark.parametrize("word", [*ALLOCATION_KEYS, *Mechanism, *Renewal])
def test_every_rule_mechanism_and_renewal_is_in_the_reference(word: str) -> None:
    assert f"`{word}`" in REFERENCE


def test_each_rule_is_said_to_need_what_it_needs() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", REFERENCE, re.MULTILINE))
    for mode, (required, optional) in ALLOCATION_KEYS.items():
        assert all(f"`{mode}` needs it" in rows[name] for name in required)
        assert all(f"`{mode}` only" in rows[name] for name in optional)


def test_the_defaults_of_a_rule_are_the_real_ones() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", REFERENCE, re.MULTILINE))
    assert f"{Standing().candidates} (default)" in rows["candidates"]
    assert f"{Standing().releases} (default)" in rows["releases"]
    assert EpochRule().tick == 180
    assert '`"03:00"` is the default' in rows["tick"]
    assert f"`{EpochRule().renewal}` (default)" in rows["renew"]


def test_the_example_of_the_reference_is_a_policy() -> None:
    example, *_others = fenced("yaml")
    assert parse_policy(example, source="policy.yaml").grants


def test_the_errors_of_the_reference_are_those_of_its_example_with_three_mistakes() -> None:
    example, *_others = fenced("yaml")
    wrong = example.replace("[health, food]", "[helth, food]")
    wrong = wrong.replace("cap: 1.5", "cap: 1.5555").replace("guidance: Keep", "guidence: Keep")
    with pytest.raises(PolicyError) as caught:
        parse_policy(wrong, source="policy.yaml")
    assert len(caught.value.problems) == 3
    assert f"{caught.value}\n" in fenced("text")
