"""`tactful apps show`, `enable` and `disable` with the real `tactfuld`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.app_hosting import usable_sandbox
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful_policies import starter_text

WITHOUT_MEALS = starter_text("everyday")[: starter_text("everyday").index("\napps:")] + "\n"


@pytest.fixture
def tactful(profile_dir: Path) -> Tactful:
    return Tactful(INSTALLED, {"TACTFUL_PROFILE": str(profile_dir / "p")})


@pytest.fixture
def policy(profile_dir: Path) -> Path:
    """A policy that names no app; nothing else is there."""
    file = profile_dir / "p" / "config" / "policy.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(WITHOUT_MEALS)
    return file


def test_at_a_terminal_it_shows_what_the_app_asks_and_grants_what_is_agreed_to(
    tactful: Tactful, policy: Path
) -> None:
    usable_sandbox()
    with tactful.terminal("apps", "enable", "meals") as terminal:
        terminal.expect("It asks for:")
        for slot, word in (("health", "n"), ("food", "y"), ("finance", "n")):
            terminal.expect(f"Let it ask about {slot}")
            terminal.type(word)
        for kind, word in (("message", ""), ("timer", "n")):
            terminal.expect(f"Tell it of events of the kind {kind}")
            terminal.type(word)
        assert terminal.end() == 0
    written = policy.read_text()
    assert set(WITHOUT_MEALS.splitlines()) <= set(written.splitlines())
    assert "meals: {slots: [food], events: [message]}" in written
    shown = tactful.json("apps", "show", "meals")
    assert {wish["slot"]: wish["granted"] for wish in shown["asks"]["slots"]} == {
        "health": False,
        "food": True,
        "finance": False,
    }
    assert tactful.json("apps", "disable", "meals")["granted"] is None
    assert policy.read_text() == WITHOUT_MEALS


def test_without_a_terminal_nothing_is_granted_that_was_not_said(
    tactful: Tactful, policy: Path
) -> None:
    usable_sandbox()
    refused = tactful.run("apps", "enable", "meals", "--json")
    assert (refused.status, refused.error["code"]) == (64, "usage")
    assert policy.read_text() == WITHOUT_MEALS
    granted = tactful.json("apps", "enable", "meals", "--all")["granted"]
    assert set(granted["slots"]) == {"health", "food", "finance"}
    assert set(granted["events"]) == {"message", "timer"}
    assert tactful.json("apps", "enable", "meals", "--slot", "food")["granted"]["events"] == []


def test_folder_is_granted_by_its_whole_path(
    tactful: Tactful, policy: Path, tmp_path: Path
) -> None:
    told = tactful.json("apps", "enable", "scanner", "--folder", f"{tmp_path}:read")
    assert told["granted"]["folders"] == {str(tmp_path): "read"}
    refused = tactful.run("apps", "enable", "scanner", "--folder", str(tmp_path), "--json")
    assert (refused.status, refused.error["code"]) == (64, "usage")


def test_log_of_an_app_is_shown_without_what_could_move_the_cursor(
    tactful: Tactful, policy: Path, profile_dir: Path
) -> None:
    log = profile_dir / "p" / "state" / "logs" / "meals.log"
    log.parent.mkdir(parents=True)
    log.write_text("first\nsecond\033[31m line\nlast\n")
    lines = tactful.json("apps", "logs", "meals", "--lines", "2")["lines"]
    assert lines[-1] == "last"
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 2
    secret = profile_dir / "secret"
    secret.write_text("MARKER")
    log.unlink()
    log.symlink_to(secret)
    refused = tactful.run("apps", "logs", "meals", "--json")
    assert (refused.status, refused.error["code"]) == (66, "not_found")
    assert tactful.run("apps", "logs", "../x", "--json").status == 64
