"""A profile is locked, unlocked, rotated, its passphrase lost and recovered: with real programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile, root_of
from tests.model_fixture import embedded_model
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful.profile import Profile

__all__ = ["embedded_model"]

NEW = "another horse entirely"
MEMORY = "I avoid sweets."


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    return make_profile(profile_dir / "p")


@pytest.fixture
def tactful(profile: Profile, embedded_model: Path) -> Tactful:
    assert embedded_model.exists()
    return Tactful(INSTALLED, {"TACTFUL_PROFILE": str(root_of(profile))})


def remembered(tactful: Tactful) -> list[str]:
    return [item["text"] for item in tactful.json("memory", "list")["items"]]


def test_memory_outlives_locking_rotation_and_a_lost_passphrase(
    tactful: Tactful, profile: Profile, tmp_path: Path
) -> None:
    file = tmp_path / "new passphrase"
    file.touch(0o600)
    file.write_text(NEW)
    new = ("--new-passphrase-file", str(file))
    phrase = tactful.json("key", "recovery", TACTFUL_PASSPHRASE=PASSPHRASE)["recovery_phrase"]
    tactful.json("start", TACTFUL_PASSPHRASE=PASSPHRASE)
    tactful.json("remember", MEMORY, "--shelf", "food.diet")
    tactful.json("lock")
    assert tactful.run("memory", "list", "--json").error["code"] == "locked"
    assert tactful.json("status")["locked"]
    tactful.json("unlock", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert remembered(tactful) == [MEMORY]
    assert tactful.json("key", "rotate") == {"rotated": ["memory", "ledger", "history"]}
    assert remembered(tactful) == [MEMORY]
    assert tactful.run("key", "change", *new, "--json").error["code"] == "passphrase_needed"
    tactful.json("stop")
    recovery = tactful.run("recover", *new, "--json", stdin=f"{phrase}\n")
    assert recovery.data == {"description": "passphrase"}
    refused = tactful.run("start", "--json", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (refused.status, refused.error["code"]) == (77, "key_unavailable")
    tactful.json("start", TACTFUL_PASSPHRASE=NEW)
    assert remembered(tactful) == [MEMORY]
    assert tactful.json("ledger")["readable"]
    tactful.json("stop")
    assert not (profile.state / "attempts.json").exists()
