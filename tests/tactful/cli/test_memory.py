"""Memories are shown, changed where that is meant, and forgotten only when that is confirmed."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE

from tactful.cli.editing import folder_in_memory


@pytest.fixture
def filled(made: Tactful) -> Tactful:
    """A daemon that remembers three things."""
    remembered = {
        "food.diet": "I avoid sugar.",
        "finance.bills": "Rent is due.\nOn the first.",
        "hobbies.music": "I sing.\x1b[31m",
    }
    wishes = json.dumps({"remembered": remembered})
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=wishes)
    return made


def texts(tactful: Tactful) -> dict[int, str]:
    return {item["position"]: item["text"] for item in tactful.json("memory", "list")["items"]}


def editor(folder: Path, script: str) -> str:
    """An editor that runs a shell script on the file, `$1`."""
    program = folder / "editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return str(program)


# --- looking ------------------------------------------------------------------------------------


def test_one_shelf_is_listed_alone(filled: Tactful) -> None:
    shown = filled.run("memory", "list", "--shelf", "food.diet")
    assert "I avoid sugar." in shown.out
    assert "finance" not in shown.out
    listed = filled.json("memory", "list", "--shelf", "finance.bills")
    assert [item["position"] for item in listed["items"]] == [5]


def test_one_memory_is_shown_whole(filled: Tactful) -> None:
    shown = filled.run("memory", "show", "5")
    assert shown.out.splitlines()[1:] == ["Rent is due.", "On the first."]
    assert filled.json("memory", "show", "5")["text"] == "Rent is due.\nOn the first."
    missing = filled.run("memory", "show", "1", "--json")
    assert (missing.status, missing.error["code"]) == (66, "not_found")


def test_nothing_that_steers_a_terminal_is_printed(filled: Tactful) -> None:
    for command in (("list",), ("show", "6"), ("search", "sing")):
        assert "\x1b" not in filled.run("memory", *command).out


def test_a_search_shows_where_it_found_something(filled: Tactful) -> None:
    shown = filled.run("memory", "search", "Rent", "is")
    assert shown.out.split()[:2] == ["5", "finance.bills"]
    assert "Nothing that is remembered is like that." in filled.run("memory", "search", "x").out
    assert len(filled.json("memory", "search", "i", "--limit", "1")["items"]) == 1


def test_a_suggestion_says_what_to_type(filled: Tactful) -> None:
    shown = filled.run("memory", "suggest")
    assert "also protected for debt:" in " ".join(shown.out.split())
    assert "memory move 2 food.groceries" in shown.out
    assert len(filled.json("memory", "suggest")["suggestions"]) == 1
    filled.json("memory", "forget", "2", "--yes")
    assert "Every memory stands where it seems to belong." in filled.run("memory", "suggest").out


# --- moving -------------------------------------------------------------------------------------


def test_a_move_says_that_earlier_answers_stay_outside(filled: Tactful) -> None:
    moved = filled.run("memory", "move", "2", "food.groceries")
    assert moved.status == 0
    told = " ".join(moved.out.split())
    assert "Moved to food.groceries, position 3." in told
    assert "protected for debt as well, from now on" in told
    assert "told because of it before stays outside" in told


def test_a_move_out_of_what_protects_it_is_refused(filled: Tactful) -> None:
    refused = filled.run("memory", "move", "5", "hobbies.music", "--json")
    assert (refused.status, refused.error["code"]) == (65, "would_uncover")
    assert "debt" in refused.error["message"]


# --- editing ------------------------------------------------------------------------------------


def test_a_new_text_may_be_an_argument_or_come_from_a_pipe(filled: Tactful) -> None:
    filled.json("memory", "edit", "2", "I avoid", "honey.")
    assert texts(filled)[2] == "I avoid honey."
    assert filled.run("memory", "edit", "2", stdin="I avoid syrup.\n").status == 0
    assert texts(filled)[2] == "I avoid syrup."
    empty = filled.run("memory", "edit", "2", "--json")
    assert (empty.status, empty.error["code"]) == (64, "usage")


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Path]:
    """A folder that is kept in memory; a test that uses it leaves nothing in it."""
    base = folder_in_memory({})
    if base is None:
        pytest.skip("there is no file system here that is kept in memory")
    folder = base / f"tactful-test-{tmp_path.name}-{os.getpid()}"
    folder.mkdir()
    try:
        yield folder
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder)


def test_an_editor_gets_a_private_file_that_is_gone_afterwards(
    filled: Tactful, private: Path, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    script = f'stat -c "%a %n" "$1" "$(dirname "$1")" > {seen}; cat "$1" >> {seen}; touch "$1~"\n'
    command = editor(tmp_path, f'{script}echo "I avoid honey." > "$1"')
    with filled.terminal(
        "memory", "edit", "2", VISUAL=command, XDG_RUNTIME_DIR=str(private)
    ) as terminal:
        terminal.expect("Position 2 of food.diet is written anew.")
        assert terminal.end() == 0
    assert texts(filled)[2] == "I avoid honey."
    file, folder, text = seen.read_text().splitlines()
    assert file.startswith(f"600 {private}/")
    assert folder.startswith(f"700 {private}/")
    assert text == "I avoid sugar."


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "ended with status 3"),
        ('rm "$1"', "could not be read back"),
        ('printf "" > "$1"', "The new text is empty."),
        ('printf "\\377" > "$1"', "could not be read back"),
    ],
)
def test_an_edit_that_fails_changes_nothing_and_leaves_no_file(
    filled: Tactful, private: Path, tmp_path: Path, script: str, said: str
) -> None:
    with filled.terminal(
        "memory", "edit", "2", EDITOR=editor(tmp_path, script), XDG_RUNTIME_DIR=str(private)
    ) as terminal:
        terminal.expect(said)
        assert terminal.end() == 64
    assert texts(filled)[2] == "I avoid sugar."


def test_an_edit_that_is_ended_leaves_no_file(
    filled: Tactful, private: Path, tmp_path: Path
) -> None:
    command = editor(tmp_path, "echo editing; kill -TERM $PPID; sleep 1")
    with filled.terminal(
        "memory", "edit", "2", EDITOR=command, XDG_RUNTIME_DIR=str(private)
    ) as terminal:
        terminal.expect("editing")
        assert terminal.end() == 128 + signal.SIGTERM
    assert texts(filled)[2] == "I avoid sugar."


def test_a_text_that_does_not_fit_can_be_edited_again(
    filled: Tactful, private: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    command = editor(
        tmp_path,
        f'if test -e {again}; then echo "I avoid honey." > "$1"\n'
        f'else printf "%0300d" 0 > "$1"; touch {again}; fi',
    )
    with filled.terminal(
        "memory", "edit", "2", EDITOR=command, XDG_RUNTIME_DIR=str(private)
    ) as terminal:
        terminal.expect("longer than a position")
        terminal.expect("Enter to edit it again")
        terminal.type("")
        terminal.expect("is written anew")
        assert terminal.end() == 0
    assert texts(filled)[2] == "I avoid honey."


def test_a_text_that_is_left_as_it_was_is_not_written(
    filled: Tactful, private: Path, tmp_path: Path
) -> None:
    with filled.terminal(
        "memory", "edit", "2", EDITOR=editor(tmp_path, "true"), XDG_RUNTIME_DIR=str(private)
    ) as terminal:
        terminal.expect("Nothing was changed.")
        assert terminal.end() == 0


def test_without_an_editor_the_text_is_asked_for(filled: Tactful) -> None:
    with filled.terminal("memory", "edit", "2", VISUAL="", EDITOR="") as terminal:
        terminal.expect("Neither VISUAL nor EDITOR names an editor")
        terminal.expect("I avoid sugar.")
        terminal.expect("New text:")
        terminal.type("I avoid honey.")
        terminal.expect("is written anew")
        assert terminal.end() == 0
    assert texts(filled)[2] == "I avoid honey."


def test_only_a_file_system_in_memory_is_good_enough(tmp_path: Path) -> None:
    mounts, shared = tmp_path / "mountinfo", tmp_path / "in memory"
    shared.mkdir()
    escaped = str(shared).replace(" ", r"\040")
    disk = "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 8:1 / /dev/shm rw - ext4 /dev/sda rw\n"
    mounts.write_text(disk)
    assert folder_in_memory({"XDG_RUNTIME_DIR": str(shared)}, mounts) is None
    mounts.write_text(f"{disk}3 1 0:5 / {escaped} rw shared:2 - tmpfs tmpfs rw\n")
    assert folder_in_memory({"XDG_RUNTIME_DIR": str(shared)}, mounts) == shared
    assert folder_in_memory({}, mounts) is None
    assert folder_in_memory({"XDG_RUNTIME_DIR": str(shared)}, tmp_path / "none") is None


# --- forgetting ---------------------------------------------------------------------------------


def test_forgetting_is_confirmed_and_says_what_it_does_not_reach(filled: Tactful) -> None:
    with filled.terminal("memory", "forget", "2", "5") as terminal:
        terminal.expect("This forgets the memories at positions 2, 5 for good.")
        terminal.expect("Type yes to forget:")
        terminal.type("yes")
        terminal.expect("2 memories are forgotten")
        assert terminal.end() == 0
    told = " ".join(filled.run("memory", "forget", "6", "7", "--yes").out.split())
    assert told == (
        "1 memory is forgotten, and the key that sealed them is destroyed. 1 of the positions you "
        "named held none. Backups made before still hold what was remembered then, under their own "
        "key. The ledgers stay as they are."
    )
    assert texts(filled) == {}


def test_nothing_is_forgotten_without_a_yes(filled: Tactful) -> None:
    with filled.terminal("memory", "forget", "--all") as terminal:
        terminal.expect("This forgets every memory for good.")
        terminal.type("y")
        terminal.expect("That was not `yes`. Nothing was forgotten.")
        assert terminal.end() == 64
    for how in ((), ("--all", "--shelf", "food.diet"), ("2", "--all"), ("2",)):
        refused = filled.run("memory", "forget", *how, "--json")
        assert (refused.status, refused.error["code"]) == (64, "usage")
    assert len(texts(filled)) == 3


def test_a_shelf_or_everything_is_forgotten(filled: Tactful) -> None:
    assert filled.json("memory", "forget", "--shelf", "food.diet", "--yes") == {"forgotten": 1}
    assert sorted(texts(filled)) == [5, 6]
    assert filled.json("memory", "forget", "--all", "--yes") == {"forgotten": 2}
    assert texts(filled) == {}
