"""What opens memory: shown, changed, replaced; and what a locked daemon says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful, Terminal
from tests.tactful.cli.fake_tactfuld import PASSPHRASE, PHRASE

NEW = "sesame, open"
INIT = ("init", "--starter", "demo", "--no-model")


@pytest.fixture
def new_file(tmp_path: Path) -> Path:
    file = tmp_path / "new passphrase"
    file.touch(0o600)
    file.write_text(f"{NEW}\n")
    return file


def typed_back(terminal: Terminal, phrase: str) -> None:
    """Reads the phrase off the screen, and types the words that are asked for."""
    words = dict(re.findall(r"(\d+)\. +([a-z]+)", terminal.text))
    assert [words[str(number)] for number in range(1, 13)] == phrase.split()
    for _ in range(3):
        terminal.expect("Type word ")
        terminal.expect("of it: ")
        (asked,) = re.findall(r"Type word (\d+) of it: $", terminal.text)
        terminal.type(words[asked])


# --- the recovery phrase --------------------------------------------------------------------------


def test_init_shows_the_phrase_once_and_has_words_of_it_typed_back(tactful: Tactful) -> None:
    with tactful.terminal(*INIT, TACTFUL_PASSPHRASE=PASSPHRASE) as terminal:
        terminal.expect("Make it?")
        terminal.type("")
        terminal.expect("Your recovery phrase, shown this once:")
        terminal.expect("Type word ")
        terminal._from = 0
        typed_back(terminal, PHRASE)
        terminal.expect("That is right.")
        assert terminal.end() == 0
        assert len(re.findall(r"12\. +twelve", terminal.text)) == 1


def test_wrong_word_is_asked_for_again(tactful: Tactful) -> None:
    with tactful.terminal(*INIT, TACTFUL_PASSPHRASE=PASSPHRASE) as terminal:
        terminal.expect("Make it?")
        terminal.type("")
        terminal.expect("of it: ")
        (asked,) = re.findall(r"Type word (\d+) of it: ", terminal.text)
        terminal.type("thirteen")
        terminal.expect(f"That is not word {asked}; look at your paper.")
        terminal.expect(f"Type word {asked} of it: ")
        terminal.press("C")
        assert terminal.end() == 130


def test_breaking_off_says_that_the_phrase_is_in_force_and_how_to_get_another(
    tactful: Tactful,
) -> None:
    with tactful.terminal(*INIT, TACTFUL_PASSPHRASE=PASSPHRASE) as terminal:
        terminal.expect("Make it?")
        terminal.type("")
        terminal.expect("of it: ")
        terminal.press("C")
        terminal.expect("key recovery")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text


def test_scripts_get_the_phrase_once_without_questions(tactful: Tactful) -> None:
    data = tactful.json("init", "--yes", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert data["recovery_phrase"] == PHRASE


def test_without_json_scripts_find_it_on_standard_error(tactful: Tactful) -> None:
    result = tactful.run("init", "--yes", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert result.status == 0
    assert "twelve" in result.err
    assert "twelve" not in result.out


def test_phrase_can_be_declined(tactful: Tactful) -> None:
    data = tactful.json("init", "--yes", "--no-recovery", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert data["recovery_phrase"] is None


def test_new_phrase_is_made_with_the_passphrase(made: Tactful) -> None:
    assert made.run("key", "recovery", "--yes", "--json").error["code"] == "passphrase_needed"
    data = made.json("key", "recovery", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert data == {"recovery_phrase": PHRASE}
    with made.terminal("key", "recovery") as terminal:
        terminal.expect("Passphrase: ")
        terminal.type(PASSPHRASE)
        terminal.expect("Type word ")
        terminal._from = 0
        typed_back(terminal, PHRASE)
        assert terminal.end() == 0
        assert PASSPHRASE not in terminal.text


def test_recover_takes_the_phrase_and_a_new_passphrase(made: Tactful, new_file: Path) -> None:
    wrong = made.run("recover", "--new-passphrase-file", str(new_file), stdin="no\n")
    assert wrong.status == 77
    right = made.run("recover", "--new-passphrase-file", str(new_file), stdin=f"{PHRASE}\n")
    assert (right.status, right.out) == (0, "Memory is now opened by: passphrase.\n")
    made.json("start", TACTFUL_PASSPHRASE=NEW)


def test_recover_asks_without_showing_what_is_typed(made: Tactful) -> None:
    with made.terminal("recover") as terminal:
        terminal.expect("Recovery phrase: ")
        terminal.type(PHRASE)
        terminal.expect("New passphrase: ")
        terminal.type(NEW)
        terminal.expect("The same again: ")
        terminal.type(NEW)
        assert terminal.end() == 0
        assert "twelve" not in terminal.text
        assert NEW not in terminal.text


@pytest.mark.parametrize("command", [("recover",), ("key", "change"), ("key", "recovery")])
def test_control_c_at_the_first_prompt_ends_quietly(
    made: Tactful, command: tuple[str, ...]
) -> None:
    with made.terminal(*command) as terminal:
        terminal.expect("phrase: ")
        terminal.press("C")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text


# --- the key --------------------------------------------------------------------------------------


def test_show_says_where_the_key_is_and_what_it_has_sealed(made: Tactful) -> None:
    shown = made.run("key", "show")
    assert shown.status == 0
    assert "passphrase[31m" in shown.out
    assert "is being replaced" in shown.out
    assert "30 rows of 4,294,967,296" in shown.out
    assert made.json("key", "show")["source"] == "passphrase"


def test_change_asks_for_the_old_passphrase_and_twice_for_the_new(made: Tactful) -> None:
    with made.terminal("key", "change") as terminal:
        terminal.expect("Passphrase: ")
        terminal.type("wrong")
        terminal.expect("New passphrase: ")
        terminal.type(NEW)
        terminal.expect("The same again: ")
        terminal.type(NEW)
        terminal.expect("The passphrase is wrong.")
        terminal.expect("Passphrase: ")
        terminal.type(PASSPHRASE)
        assert terminal.end() == 0
    made.json("start", TACTFUL_PASSPHRASE=NEW)


def test_change_works_for_scripts(made: Tactful, new_file: Path) -> None:
    options = ("key", "change", "--new-passphrase-file", str(new_file))
    assert made.run(*options, "--json").error["code"] == "passphrase_needed"
    assert made.json(*options, TACTFUL_PASSPHRASE=PASSPHRASE) == {"description": "passphrase"}


def test_rotation_works_with_and_without_a_daemon(made: Tactful) -> None:
    expected = {"rotated": ["memory", "ledger", "history"]}
    assert made.json("key", "rotate", TACTFUL_PASSPHRASE=PASSPHRASE) == expected
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert made.json("key", "rotate") == expected
    made.json("stop")


# --- locking --------------------------------------------------------------------------------------


def test_locked_daemon_refuses_until_it_is_unlocked(running: Tactful) -> None:
    assert running.json("lock") == {"locked": True}
    refused = running.run("memory", "list", "--json")
    assert (refused.status, refused.error["code"]) == (77, "locked")
    assert running.run("key", "rotate", "--json").error["code"] == "locked"
    status = running.run("status")
    assert status.status == 0
    assert "locked" in status.out
    assert "policy" not in status.out
    assert running.run("unlock", "--json").error["code"] == "passphrase_needed"
    wrong = running.run("unlock", "--json", TACTFUL_PASSPHRASE="wrong")
    assert (wrong.status, wrong.error["code"]) == (77, "key_unavailable")
    assert running.json("unlock", TACTFUL_PASSPHRASE=PASSPHRASE) == {"locked": False}
    assert running.run("memory", "list").status == 0
    running.json("stop")


def test_unlock_asks_for_the_passphrase(running: Tactful) -> None:
    running.json("lock")
    with running.terminal("unlock") as terminal:
        terminal.expect("Passphrase: ")
        terminal.type(PASSPHRASE)
        terminal.expect("Unlocked.")
        assert terminal.end() == 0
    running.json("stop")
