"""`tactful restore` with the real daemon's program: what is asked, told and left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.tactful.cli.command_line import INSTALLED, Tactful

OWN = "the backup's own"


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


@pytest.fixture
def option(tmp_path: Path) -> tuple[str, str]:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text(f"{OWN}\n")
    return "--backup-passphrase-file", str(file)


@pytest.fixture
def backup(tactful: Tactful, tmp_path: Path, option: tuple[str, str]) -> str:
    file = str(tmp_path / "b")
    tactful.json("backup", file, *option, TACTFUL_PASSPHRASE=PASSPHRASE)
    return file


def test_replacing_memory_is_confirmed(
    tactful: Tactful, backup: str, option: tuple[str, str]
) -> None:
    unconfirmed = tactful.run("restore", backup, *option, "--json", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (unconfirmed.status, unconfirmed.error["code"]) == (64, "usage")
    with tactful.terminal("restore", backup, *option) as terminal:
        terminal.expect("Type yes to replace memory:")
        terminal.type("yes")
        terminal.expect("Passphrase:")
        terminal.type(PASSPHRASE)
        terminal.expect("The ledger lacked nothing.")
        assert terminal.end() == 0


def test_an_empty_place_gets_a_profile_and_a_phrase(
    tactful: Tactful, backup: str, option: tuple[str, str]
) -> None:
    shutil.rmtree(tactful.environment["TACTFUL_PROFILE"])
    data = tactful.json("restore", backup, *option, TACTFUL_PASSPHRASE="new one")
    assert (data["place"], data["exhausted"]) == ("empty", True)
    assert len(data["recovery_phrase"].split()) == 12
    assert "new epoch" in data["notices"][0]
    told = tactful.run("restore", backup, *option, "--ledger-only", TACTFUL_PASSPHRASE="new one")
    assert (told.status, told.out.splitlines()[0]) == (0, "The ledger lacked nothing.")
