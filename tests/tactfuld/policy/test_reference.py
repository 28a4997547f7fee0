"""docs/policy.md: every key appears, its example loads, its error is the real one."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from tactfuld.policy import document
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


def test_there_are_keys_to_look_for() -> None:
    assert {"charges_per_cap", "implied_by", "unprotected", "quota", "generic"} <= keys()


@pytest.mark.parametrize("key", sorted(keys()))
def test_every_key_is_in_the_reference(key: str) -> None:
    assert f"`{key}`" in REFERENCE


def test_the_example_of_the_reference_is_a_policy() -> None:
    (example,) = fenced("yaml")
    assert parse_policy(example, source="policy.yaml").grants


def test_the_errors_of_the_reference_are_those_of_its_example_with_three_mistakes() -> None:
    (example,) = fenced("yaml")
    wrong = example.replace("[health, food]", "[helth, food]")
    wrong = wrong.replace("cap: 1.5", "cap: 1.5555").replace("guidance: Keep", "guidence: Keep")
    with pytest.raises(PolicyError) as caught:
        parse_policy(wrong, source="policy.yaml")
    assert len(caught.value.problems) == 3
    assert f"{caught.value}\n" in fenced("text")
