"""A real daemon is looked over while it runs, while it is locked, and after it has stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile, root_of
from tests.model_fixture import embedded_model
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful.profile import Profile
from tactfuld.doctor.check import Name
from tactfuld.store.ledger import ledger_place

__all__ = ["embedded_model"]

WELL = ("ok", "not_applicable")


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    made = make_profile(profile_dir / "p")
    for file in (made.policy_file, made.settings_file):
        file.chmod(0o600)
    return made


@pytest.fixture
def tactful(profile: Profile, embedded_model: Path) -> Tactful:
    assert embedded_model.exists()
    return Tactful(INSTALLED, {"TACTFUL_PROFILE": str(root_of(profile))})


def not_well(tactful: Tactful, **environment: str) -> dict[str, str]:
    result = tactful.run("doctor", "--json", **environment)
    states = {check["name"]: check["state"] for check in result.data["checks"]}
    assert list(states) == list(Name)
    found = {name: state for name, state in states.items() if state not in WELL}
    assert (result.status, result.err) == (1 if found else 0, "")
    return found


def test_a_profile_is_well_running_and_stopped_and_what_is_broken_is_told(
    tactful: Tactful, profile: Profile
) -> None:
    assert not_well(tactful, TACTFUL_PASSPHRASE=PASSPHRASE) == {}
    tactful.json("start", TACTFUL_PASSPHRASE=PASSPHRASE)
    tactful.json("status", "--wait")
    tactful.json("remember", "I avoid sweets.", "--shelf", "food.diet")
    assert not_well(tactful) == {}
    mark = ledger_place(profile).mark.read_bytes()
    ledger_place(profile).mark.unlink()
    assert not_well(tactful) == {"ledger": "problem"}
    ledger_place(profile).mark.write_bytes(mark)
    tactful.json("lock")
    unknown = ("keys", "integrity", "ledger", "model", "gpu")
    assert not_well(tactful) == {
        **dict.fromkeys(unknown, "unknown"),
        "permissions": "problem",
    }, "the mark was put back with another mode"
    ledger_place(profile).mark.chmod(0o600)
    tactful.json("stop")
    assert not_well(tactful, TACTFUL_PASSPHRASE=PASSPHRASE) == {}
