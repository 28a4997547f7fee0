"""`tactful policy diff`, with the real `tactfuld`."""

from pathlib import Path

import pytest
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful_policies import starter_text
from tactfuld.policy.loading import parse_document
from tactfuld.policy.record import RECORD_FILE, InEpoch, write_record


@pytest.fixture
def tactful(profile_dir: Path) -> Tactful:
    """A profile of which only the policy file is there: 1.0 for diabetes, no debt, another app."""
    file = profile_dir / "p" / "config" / "policy.yaml"
    file.parent.mkdir(parents=True)
    text = starter_text("demo").replace("cap: 2.0", "cap: 1.0", 1)
    file.write_text(f"{text}  guest: {{slots: [food]}}\n")
    return Tactful(INSTALLED, {"TACTFUL_PROFILE": str(profile_dir / "p")})


def test_the_policy_in_force_is_compared_with_the_written_one(
    tactful: Tactful, profile_dir: Path
) -> None:
    missing = tactful.run("policy", "diff", "--json")
    assert (missing.status, missing.error["code"]) == (66, "not_found")
    document = parse_document(starter_text("demo"), source="")
    (profile_dir / "p" / "state").mkdir()
    write_record(profile_dir / "p" / "state" / RECORD_FILE, [InEpoch(1, 1, False, document)])
    data = tactful.json("policy", "diff")
    assert [(c["key"], c["direction"], c["when"]) for c in data["changes"]] == [
        ("attributes.diabetes.cap", "tighter", "tick"),
        ("apps.guest", "looser", "tick"),
    ]
    shown = tactful.run("policy", "diff").out
    assert shown.startswith("looser  guest is let in as an app. (from the next daily tick on)\n")
    assert "tighter All apps together may spend ε 1.000 on diabetes" in shown


def test_two_files_can_be_named(tactful: Tactful, tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text(starter_text("demo"))
    same = str(tmp_path / "old.yaml")
    assert tactful.json("policy", "diff", same, same)["changes"] == []
    assert tactful.run("policy", "diff", same, same).out == "Both promise and grant the same.\n"
    assert len(tactful.json("policy", "diff", same)["changes"]) == 2


def test_a_policy_with_problems_is_not_compared(tactful: Tactful, tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("version: 2\n")
    refused = tactful.run("policy", "diff", str(tmp_path / "old.yaml"), "--json")
    assert (refused.status, refused.error["code"]) == (78, "policy_refused")
