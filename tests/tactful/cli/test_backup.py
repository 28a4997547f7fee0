"""`tactful backup` with the real daemon's program: what is asked, told and left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.daemon_process import PASSPHRASE, make_profile
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld.unlocking import unlock

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
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text(f"{OWN}\n")
    return file


def test_it_is_written_and_verified(tactful: Tactful, tmp_path: Path, secret: Path) -> None:
    file = str(tmp_path / "b")
    option = ("--backup-passphrase-file", str(secret))
    made = tactful.run("backup", file, *option, TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (made.status, made.err) == (0, "")
    assert "0 memories, 1 ledger entry, 0 turns" in made.out
    assert "its own passphrase" in made.out
    verified = tactful.run("backup", "verify", file, *option)
    assert verified.status == 0
    assert "is whole" in verified.out
    assert tactful.json("backup", "verify", file, *option)["entries"] == 1
    again = tactful.run("backup", file, *option, "--json", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (again.status, again.error["code"]) == (73, "already_exists")


def test_a_wrong_passphrase_and_a_damaged_file_are_told_apart(
    tactful: Tactful, tmp_path: Path, secret: Path
) -> None:
    file = tmp_path / "b"
    option = ("--backup-passphrase-file", str(secret))
    tactful.json("backup", str(file), *option, TACTFUL_PASSPHRASE=PASSPHRASE)
    wrong = tactful.run("backup", "verify", str(file), "--json", stdin="another\n")
    assert (wrong.status, wrong.error["code"]) == (77, "key_unavailable")
    file.write_bytes(file.read_bytes()[:-1])
    cut = tactful.run("backup", "verify", str(file), *option)
    assert cut.status == 65
    assert "was cut off" in cut.err


def test_a_profile_with_a_phrase_asks_for_no_other_secret(tactful: Tactful, tmp_path: Path) -> None:
    folder = Path(tactful.environment["TACTFUL_PROFILE"])
    phrase = unlock(Profile.at(folder), Secret(PASSPHRASE)).renew_recovery().reveal()
    made = tactful.run("backup", str(tmp_path / "b"), TACTFUL_PASSPHRASE=PASSPHRASE)
    assert "your recovery phrase" in made.out
    verified = tactful.run("backup", "verify", str(tmp_path / "b"), stdin=f"{phrase}\n")
    assert (verified.status, "is whole" in verified.out) == (0, True)


def test_on_a_terminal_a_profile_without_a_phrase_asks_for_a_passphrase(
    tactful: Tactful, tmp_path: Path
) -> None:
    with tactful.terminal("backup", str(tmp_path / "b")) as terminal:
        terminal.expect("gets a passphrase of its own")
        terminal.expect("New passphrase:")
        terminal.type(OWN)
        terminal.expect("The same again:")
        terminal.type(OWN)
        terminal.expect("Passphrase:")
        terminal.type(PASSPHRASE)
        terminal.expect("is written")
        assert terminal.end() == 0


def test_it_names_one_file(tactful: Tactful) -> None:
    for words in (("verify",), ("a", "b"), ("verify", "a", "b")):
        result = tactful.run("backup", *words, "--json")
        assert (result.status, result.error["code"]) == (64, "usage")
