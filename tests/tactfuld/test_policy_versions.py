"""Which policies are kept to go back to: those that were in order, the newest ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tactful.profile import Profile
from tactful_policies import starter_text
from tactfuld import policy_versions
from tactfuld.policy_versions import keep_version, versions

DEMO = starter_text("demo")
STRICT = starter_text("strict")


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """A profile of which only the policy is there."""
    at = Profile.at(tmp_path / "p")
    at.config.mkdir(parents=True)
    at.policy_file.write_text(DEMO)
    return at


def kept(profile: Profile) -> list[str]:
    return [version.file.read_text() for version in versions(profile)]


def test_a_version_is_kept_once(profile: Profile) -> None:
    for text in (DEMO, DEMO, STRICT, DEMO):
        profile.policy_file.write_text(text)
        keep_version(profile)
    assert kept(profile) == [DEMO, STRICT, DEMO]
    assert [version.number for version in versions(profile)] == [1, 2, 3]


def test_versions_are_the_owners_alone(profile: Profile) -> None:
    keep_version(profile)
    (version,) = versions(profile)
    assert version.file.stat().st_mode & 0o777 == 0o600
    assert version.file.parent.stat().st_mode & 0o777 == 0o700


def test_a_policy_that_is_not_in_order_is_no_version(profile: Profile) -> None:
    profile.policy_file.write_text("version: 2\n")
    keep_version(profile)
    profile.policy_file.write_bytes(b"\xff")
    keep_version(profile)
    profile.policy_file.unlink()
    keep_version(profile)
    assert versions(profile) == ()


def test_the_oldest_versions_go(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_versions, "MOST_VERSIONS", 3)
    for number in range(5):
        profile.policy_file.write_text(f"{DEMO}# {number}\n")
        keep_version(profile)
    assert [version.number for version in versions(profile)] == [3, 4, 5]
    assert kept(profile)[-1].endswith("# 4\n")
