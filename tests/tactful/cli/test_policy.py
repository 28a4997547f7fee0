"""`tactful policy check` says what a policy comes to, or all that is wrong with it.

With the real `tactfuld`, which reads a policy here as it does when it starts.
"""

import json
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful_policies import STARTERS, starter_text
from tactfuld.policy.schema import policy_schema


@pytest.fixture
def tactful(profile_dir: Path) -> Tactful:
    return Tactful(INSTALLED, {"TACTFUL_PROFILE": str(profile_dir / "p")})


@pytest.fixture
def policy(profile_dir: Path) -> Path:
    """The policy file of the profile; nothing else is there."""
    file = profile_dir / "p" / "config" / "policy.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(starter_text("demo"))
    return file


@pytest.mark.parametrize("starter", STARTERS)
def test_every_starter_is_in_order(tactful: Tactful, policy: Path, starter: str) -> None:
    policy.write_text(starter_text(starter))
    result = tactful.run("policy", "check")
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith(f"{policy} is in order.\n")
    assert "diabetes" in result.out


def test_a_good_policy_is_summed_up(tactful: Tactful, policy: Path) -> None:
    data = tactful.json("policy", "check")
    assert (data["file"], data["positions"]) == (str(policy), 5)
    assert data["slots"][1] == {
        "slot": "food",
        "shelves": ["food.diet", "food.groceries"],
        "positions": 2,
        "views": 4,
    }
    assert data["attributes"] == [
        {"attribute": "diabetes", "cap": 2.0, "positions": 3},
        {"attribute": "debt", "cap": 2.0, "positions": 3},
    ]
    assert data["apps"] == [{"app": "meals", "slots": ["health", "food", "finance"]}]
    result = tactful.run("policy", "check")
    assert "food      2 positions, 4 views" in result.out
    assert "may ask about health, food, finance" in result.out


def test_another_file_can_be_named(tactful: Tactful, tmp_path: Path) -> None:
    (tmp_path / "-other.yaml").write_text(starter_text("demo"))
    named = str(tmp_path / "-other.yaml")
    assert tactful.json("policy", "check", named)["file"] == named


def test_a_policy_without_attributes_and_apps_says_so(tactful: Tactful, policy: Path) -> None:
    policy.write_text("version: 1\n")
    assert tactful.run("policy", "check").status == 78
    text = starter_text("demo")
    policy.write_text(text[: text.index("\napps:")] + "\napps: {}\n")
    assert "It names no apps, so none may ask anything." in tactful.run("policy", "check").out


def test_every_problem_is_told_with_file_line_and_key(tactful: Tactful, policy: Path) -> None:
    text = starter_text("demo").replace("charges_per_cap", "charges_per_cup")
    policy.write_text(text.replace("food.groceries", "food.grocery"))
    lines = policy.read_text().splitlines()
    result = tactful.run("policy", "check")
    assert (result.status, result.out) == (78, "")
    heading, *told = result.err.splitlines()
    assert heading == f"tactful: There are {len(told)} problems:"
    assert all(line.startswith(f"{policy}:") for line in told)
    refused = tactful.run("policy", "check", "--json")
    assert (refused.status, refused.error["code"]) == (78, "policy_refused")
    problems = refused.problems
    assert refused.error["message"].splitlines() == told
    keys = {problem["key"]: problem for problem in problems}
    assert "no shelf named food.grocery" in keys["attributes.debt.implied_by[0]"]["message"]
    for problem in problems:
        assert problem["file"] == str(policy)
        at = lines[problem["line"] - 1][problem["column"] - 1 :]
        assert at.startswith(("charges_per_cup", "food.grocery", "{mode")), at


def test_what_a_policy_tells_is_a_warning(tactful: Tactful, policy: Path) -> None:
    policy.write_text(starter_text("demo").replace("meals, dinner,", "my meals,"))
    data = tactful.json("policy", "check")
    assert data["starter"] == "demo"
    assert [each["key"] for each in data["warnings"]] == ["slots.food.description"]
    assert "warning “my” reads like a fact about you." in tactful.run("policy", "check").out


def test_the_schema_is_printed_as_it_is(tactful: Tactful) -> None:
    assert json.loads(tactful.run("policy", "schema").out) == policy_schema()
    assert tactful.json("policy", "schema") == policy_schema()


def test_a_missing_policy_is_66(tactful: Tactful, tmp_path: Path) -> None:
    for arguments in ((), (str(tmp_path / "none.yaml"),)):
        result = tactful.run("policy", "check", *arguments, "--json")
        assert (result.status, result.error["code"]) == (66, "not_found")
        assert "tactful init" in result.error["message"]


def test_start_tells_the_same_problems(tactful: Tactful, policy: Path) -> None:
    policy.write_text(starter_text("demo").replace("charges_per_cap", "charges_per_cup"))
    checked = tactful.run("policy", "check", "--json")
    started = tactful.run("start", "--json")
    assert started == checked


def test_keys_that_are_not_used_yet_are_named(tactful: Tactful, policy: Path) -> None:
    groups = "documents: {groups: {PERSON: {epsilon: 8.0}}}\n"
    text = starter_text("demo") + "    document_groups: [PERSON]\n" + groups
    policy.write_text(text)
    assert tactful.json("policy", "check")["unused"] == ["documents", "apps.meals.document_groups"]
    told = tactful.run("policy", "check").out
    assert "This version does not use" in told
    assert "apps.meals.document_groups" in told
    policy.write_text(starter_text("demo"))
    assert tactful.json("policy", "check")["unused"] == []
    assert "does not use" not in tactful.run("policy", "check").out
