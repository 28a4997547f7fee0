"""`tactful purge` asks for the profile's name, and says what is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.daemon_process import make_profile
from tests.tactful.cli.command_line import INSTALLED, Tactful


@pytest.fixture
def tactful(profile_dir: Path) -> Tactful:
    """The installed command, with a real profile."""
    make_profile(profile_dir / "p")
    return Tactful(
        program=INSTALLED,
        environment={
            "TACTFUL_PROFILE": str(profile_dir / "p"),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        },
    )


def test_the_name_is_typed(tactful: Tactful) -> None:
    data = Path(tactful.environment["TACTFUL_PROFILE"]) / "data"
    with tactful.terminal("purge") as terminal:
        terminal.expect("Type the profile's name, p:")
        terminal.type("yes")
        terminal.expect("nothing was changed")
        assert terminal.end() == 64
    assert (data / "keys.json").exists()
    with tactful.terminal("purge") as terminal:
        terminal.expect("Type the profile's name, p:")
        terminal.type("p")
        terminal.expect("Out of reach:")
        assert terminal.end() == 0
    assert not data.exists()


def test_without_a_terminal_it_wants_yes(tactful: Tactful) -> None:
    refused = tactful.run("purge", "--json")
    assert (refused.status, refused.error["code"]) == (64, "usage")
    told = tactful.json("purge", "--yes", "--with-config")
    assert (told["kept"], told["config_kept"]) == ([], False)
    again = tactful.run("purge", "--yes", "--json")
    assert (again.status, again.error["code"]) == (66, "not_found")
