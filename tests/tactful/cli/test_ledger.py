"""`tactful ledger` shows accounts; `ledger restore` adds what another copy knows."""

from pathlib import Path

from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE


def test_a_ledger_that_cannot_be_read_says_so(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"unreadable": true}')
    result = made.run("ledger")
    assert result.status == 0
    assert "every attribute counts as used up" in " ".join(result.out.split())


def test_options_may_stand_between_the_two_words(profile_dir: Path, made: Tactful) -> None:
    folder = made.environment.pop("TACTFUL_PROFILE")
    made.environment["TACTFUL_PASSPHRASE"] = PASSPHRASE
    file = str(profile_dir / "copy.db")
    inside = made.run("ledger", "--profile", folder, "--json", "restore", file)
    after = made.run("ledger", "restore", file, "--profile", folder, "--json")
    assert inside == after
    assert after.data["file"] == file


def test_restoring_says_what_was_missing_and_what_it_comes_to(made: Tactful) -> None:
    result = made.run("ledger", "restore", "copy.db", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (result.status, result.err) == (0, "")
    text = " ".join(result.out.split())
    assert f"{Path('copy.db').absolute()} is a copy of this ledger." in text.replace("- ", "-")
    assert "2 entries of it were missing here and have been added." in text
    assert "Epoch 2, 7 entries debt 0.667 of 2.000 lifetime 2.667" in text
    data = made.json("ledger", "restore", "copy.db", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (data["appended"], data["entries"]) == (2, 7)


def test_restoring_an_older_copy_changes_nothing_and_notices_are_shown(made: Tactful) -> None:
    result = made.run("ledger", "restore", "old.db", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert result.status == 0
    assert "nothing was added" in " ".join(result.out.split())
    assert "! A notice about the ledger." in result.out


def test_restoring_asks_for_the_passphrase(made: Tactful) -> None:
    with made.terminal("ledger", "restore", "copy.db") as terminal:
        terminal.expect("Passphrase:")
        terminal.type("open salami")
        terminal.expect("The passphrase is wrong.")
        terminal.expect("Passphrase:")
        terminal.type(PASSPHRASE)
        terminal.expect("have been added")
        assert terminal.end() == 0
    result = made.run("ledger", "restore", "copy.db", "--json")
    assert (result.status, result.error["code"]) == (77, "passphrase_needed")


def test_a_refused_file_is_a_sentence(made: Tactful) -> None:
    wish = '{"fail": {"ledger-restore": "unusable"}}'
    result = made.run("ledger", "restore", "x", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=wish)
    assert (result.status, result.out) == (65, "")
    assert result.err == "tactful: ledger-restore was refused for a test.\n"


def test_its_help_says_that_backups_of_a_profile_are_not_this(made: Tactful) -> None:
    text = " ".join(made.run("ledger", "restore", "--help").out.split())
    assert "about the ledger alone: `tactful restore` restores a backup" in text
