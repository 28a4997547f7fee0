"""Memory gets other shelves in an epoch with answers: nothing more is drawn in that epoch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile, root_of
from tests.model_fixture import embedded_model
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful.profile import Profile

__all__ = ["embedded_model"]

QUESTION = ("ask", "--as", "meals", "What can I cook for dinner tomorrow?")


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    return make_profile(profile_dir / "p")


@pytest.fixture
def tactful(profile: Profile, embedded_model: Path) -> Tactful:
    assert embedded_model.exists()
    around = {"TACTFUL_PROFILE": str(root_of(profile)), "TACTFUL_PASSPHRASE": PASSPHRASE}
    return Tactful(INSTALLED, around)


def spent(tactful: Tactful) -> dict[str, tuple[float, bool]]:
    lines = tactful.json("ledger")["lines"]
    return {line["attribute"]: (line["spent"], line["closed"]) for line in lines}


def started(tactful: Tactful) -> None:
    tactful.json("start")
    tactful.json("status", "--wait")


def test_the_epoch_is_closed_and_the_next_one_answers_from_the_new_shelves(
    tactful: Tactful, profile: Profile
) -> None:
    started(tactful)
    tactful.json("remember", "I avoid sweets.", "--shelf", "food.diet", "--yes")
    (first,) = tactful.json(*QUESTION)["selections"]
    assert not first["fallback"]
    before = spent(tactful)
    tactful.json("stop")

    text = profile.policy_file.read_text()
    small = "diet: {positions: 1, tokens: 48}"
    assert text.count(small) == 1
    profile.policy_file.write_text(text.replace(small, "diet: {positions: 6, tokens: 48}"))
    assert tactful.run("start", "--json").error["code"] == "unusable"
    assert tactful.json("memory", "migrate", "--yes")["exhausts"]

    started(tactful)
    (closed,) = tactful.json(*QUESTION)["selections"]
    assert (closed["view"], closed["fallback"], closed["charged"]) == ("generic", True, [])
    after = spent(tactful)
    assert all(after[name][0] >= units for name, (units, _) in before.items())
    assert all(is_closed for _, is_closed in after.values())

    tactful.json("epoch", "new", "--confirm", "new epoch")
    (fresh,) = tactful.json(*QUESTION)["selections"]
    assert not fresh["fallback"]
    assert [item["text"] for item in tactful.json("memory", "list")["items"]] == ["I avoid sweets."]
    tactful.json("remember", "I like beans.", "--shelf", "food.diet", "--yes")
    tactful.json("stop")
