"""`tactful apps quota` edits one entry of the policy, with the real `tactfuld`."""

from pathlib import Path

import pytest
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful_policies import starter_text

DEMO = starter_text("demo")


@pytest.fixture
def tactful(profile_dir: Path) -> Tactful:
    return Tactful(INSTALLED, {"TACTFUL_PROFILE": str(profile_dir / "p")})


@pytest.fixture
def policy(profile_dir: Path) -> Path:
    """The policy file of the profile; nothing else is there."""
    file = profile_dir / "p" / "config" / "policy.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(DEMO)
    return file


def test_a_quota_is_told_and_comments_stay(tactful: Tactful, policy: Path) -> None:
    data = tactful.json("apps", "quota", "meals", "debt", "0.5")
    assert data["quota"] == 0.5
    assert [(each["key"], each["when"]) for each in data["changes"]] == [
        ("apps.meals.quota.debt", "at_once")
    ]
    edited = policy.read_text()
    assert edited != DEMO
    assert edited.replace("    quota:\n      debt: 0.5\n", "") == DEMO
    assert tactful.json("apps", "quota", "meals", "debt", "--remove")["quota"] is None
    assert policy.read_text() == DEMO


def test_a_quota_that_is_no_number_is_78_and_names_its_key(tactful: Tactful, policy: Path) -> None:
    for value in ("much", "{", "3"):
        refused = tactful.run("apps", "quota", "meals", "debt", value, "--json")
        assert (refused.status, refused.error["code"]) == (78, "policy_refused")
        assert "apps.meals.quota.debt" in refused.error["message"]
    assert policy.read_text() == DEMO


def test_a_quota_is_a_value_or_its_removal(tactful: Tactful, policy: Path) -> None:
    for arguments in ((), ("0.5", "--remove")):
        refused = tactful.run("apps", "quota", "meals", "debt", *arguments, "--json")
        assert (refused.status, refused.error["code"]) == (64, "usage")
    assert policy.read_text() == DEMO
