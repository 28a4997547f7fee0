"""`policy edit`, `rollback` and `init` with the real `tactfuld`."""

from pathlib import Path

import pytest
from tests.tactful.cli.command_line import INSTALLED, Tactful

from tactful_policies import starter_text

DEMO = starter_text("demo")


@pytest.fixture
def tactful(profile_dir: Path) -> Tactful:
    return Tactful(INSTALLED, {"TACTFUL_PROFILE": str(profile_dir / "p"), "VISUAL": ""})


@pytest.fixture
def policy(profile_dir: Path) -> Path:
    """The policy file of the profile; nothing else is there."""
    file = profile_dir / "p" / "config" / "policy.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(DEMO)
    return file


def editor(folder: Path, *scripts: str) -> str:
    """An editor that runs one `sed` script each time it is called."""
    for number, script in enumerate(scripts):
        (folder / f"script{number}").write_text(script)
    program = folder / "editor.sh"
    program.write_text(
        "#!/bin/sh\n"
        f"n=$(cat {folder}/count 2>/dev/null || echo 0)\n"
        f"echo $((n + 1)) > {folder}/count\n"
        f'sed -i -f {folder}/script$n "$1"\n'
    )
    program.chmod(0o700)
    return str(program)


def test_an_edit_in_order_is_told_and_taken_over(
    tactful: Tactful, policy: Path, tmp_path: Path
) -> None:
    changing = editor(tmp_path, "0,/cap: 2.0/s//cap: 1.0/")
    data = tactful.json("policy", "edit", "--yes", EDITOR=changing)
    assert data["changed"]
    assert [each["key"] for each in data["changes"]] == ["attributes.diabetes.cap"]
    assert policy.read_text() == DEMO.replace("cap: 2.0", "cap: 1.0", 1)
    assert list(policy.parent.iterdir()) == [policy]


def test_an_edit_with_problems_changes_nothing(
    tactful: Tactful, policy: Path, tmp_path: Path
) -> None:
    refused = tactful.run(
        "policy", "edit", "--yes", "--json", EDITOR=editor(tmp_path, "s/cap: 2.0/cap: much/")
    )
    assert (refused.status, refused.error["code"]) == (78, "policy_refused")
    assert policy.read_text() == DEMO
    assert list(policy.parent.iterdir()) == [policy]


def test_problems_can_be_mended_at_a_terminal(
    tactful: Tactful, policy: Path, tmp_path: Path
) -> None:
    mending = editor(tmp_path, "s/cap: 2.0/cap: much/", "s/cap: much/cap: 1.5/")
    with tactful.terminal("policy", "edit", EDITOR=mending) as terminal:
        terminal.expect("attributes.diabetes.cap")
        terminal.expect("Edit it again?")
        terminal.type("")
        terminal.expect("tighter")
        terminal.expect("Take it over?")
        terminal.type("")
        assert terminal.end() == 0
    assert policy.read_text() == DEMO.replace("cap: 2.0", "cap: 1.5")


def test_what_is_not_wanted_is_not_written(tactful: Tactful, policy: Path, tmp_path: Path) -> None:
    lowering = editor(tmp_path, "s/cap: 2.0/cap: 1.5/")
    with tactful.terminal("policy", "edit", EDITOR=lowering) as terminal:
        terminal.expect("Take it over?")
        terminal.type("n")
        terminal.expect("Nothing was changed.")
        assert terminal.end() == 0
    assert policy.read_text() == DEMO


def test_without_an_editor_or_anybody_to_ask_nothing_is_edited(
    tactful: Tactful, policy: Path
) -> None:
    for arguments, environment in ((("--yes",), {"EDITOR": ""}), ((), {"EDITOR": "true"})):
        refused = tactful.run("policy", "edit", *arguments, "--json", **environment)
        assert (refused.status, refused.error["code"]) == (64, "usage")
    assert policy.read_text() == DEMO


def test_what_somebody_else_writes_while_it_is_edited_stays(
    tactful: Tactful, policy: Path, tmp_path: Path
) -> None:
    program = tmp_path / "editor.sh"
    program.write_text(f'#!/bin/sh\necho "# mine" >> "$1"\necho "# theirs" >> {policy}\n')
    program.chmod(0o700)
    refused = tactful.run("policy", "edit", "--yes", "--json", EDITOR=str(program))
    assert (refused.status, refused.error["code"]) == (65, "unusable")
    assert policy.read_text() == f"{DEMO}# theirs\n"


def test_a_version_is_kept_before_and_after_and_can_be_gone_back_to(
    tactful: Tactful, policy: Path
) -> None:
    tactful.json("apps", "quota", "meals", "debt", "0.5")
    edited = policy.read_text()
    kept = tactful.json("policy", "rollback")["versions"]
    assert [(each["version"], each["is_policy"]) for each in kept] == [(1, False), (2, True)]
    assert "as policy.yaml is now" in tactful.run("policy", "rollback").out
    assert policy.read_text() == edited
    back = tactful.json("policy", "rollback", "1", "--yes")
    assert (back["changed"], len(back["changes"])) == (True, 1)
    assert policy.read_text() == DEMO
    missing = tactful.run("policy", "rollback", "9", "--yes", "--json")
    assert (missing.status, missing.error["code"]) == (66, "not_found")


def test_going_back_mends_a_policy_that_cannot_be_read(tactful: Tactful, policy: Path) -> None:
    tactful.json("apps", "quota", "meals", "debt", "0.5")
    policy.write_bytes(b"\xff")
    assert tactful.json("policy", "rollback", "1", "--yes")["changed"]
    assert policy.read_text() == DEMO


def test_going_back_is_shown_and_asked(tactful: Tactful, policy: Path) -> None:
    tactful.json("apps", "quota", "meals", "debt", "0.5")
    edited = policy.read_text()
    with tactful.terminal("policy", "rollback", "1") as terminal:
        terminal.expect("looser")
        terminal.expect("Take it over?")
        terminal.type("n")
        terminal.expect("Nothing was changed.")
        assert terminal.end() == 0
    refused = tactful.run("policy", "rollback", "1", "--json")
    assert (refused.status, refused.error["code"]) == (64, "usage")
    assert policy.read_text() == edited


def test_a_starter_is_written_beside_the_policy_and_over_nothing(
    tactful: Tactful, policy: Path
) -> None:
    data = tactful.json("policy", "init", "--starter", "strict")
    beside = policy.with_name("policy-strict.yaml")
    assert (data["file"], data["is_policy"]) == (str(beside), False)
    assert (beside.read_text(), policy.read_text()) == (starter_text("strict"), DEMO)
    again = tactful.run("policy", "init", "--starter", "strict", "--json")
    assert (again.status, again.error["code"]) == (73, "already_exists")
    policy.unlink()
    assert tactful.json("policy", "init")["is_policy"]
    assert policy.read_text() == starter_text("everyday")
