"""A profile comes to life, with and without somebody at a terminal."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE, PHRASE


def profile_of(tactful: Tactful) -> Path:
    return Path(tactful.environment["TACTFUL_PROFILE"])


def locked_by(tactful: Tactful) -> str:
    return (profile_of(tactful) / "data" / "locked-by").read_text()


def test_init_says_what_it_made_and_what_to_type_next(tactful: Tactful) -> None:
    result = tactful.run("init", "--no-recovery", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (result.status, result.err) == (0, "")
    assert str(profile_of(tactful) / "config" / "policy.yaml") in result.out
    assert 'starter "everyday"' in result.out
    for words in ("start", "remember", "tell meals", "ledger"):
        assert f" {words}" in result.out


def test_a_profile_named_on_the_command_line_is_named_in_what_to_type_next(
    profile_dir: Path,
) -> None:
    tactful = Tactful(environment={"TACTFUL_PASSPHRASE": PASSPHRASE})
    folder = profile_dir / "with space"
    result = tactful.run("init", "--profile", str(folder))
    assert f"start --profile '{folder}'\n" in result.out


def test_init_in_json_says_the_same(tactful: Tactful) -> None:
    data = tactful.json(
        "init", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"sandbox_problem": "No bwrap."}'
    )
    assert data == {
        "config": str(profile_of(tactful) / "config"),
        "data": str(profile_of(tactful) / "data"),
        "state": str(profile_of(tactful) / "state"),
        "starter": "everyday",
        "sandbox": "required",
        "sandbox_problem": "No bwrap.",
        "recovery_phrase": PHRASE,
        "model_problem": None,
    }


def test_a_missing_sandbox_and_a_missing_model_are_notes_not_failures(tactful: Tactful) -> None:
    wishes = {"sandbox_problem": "No bwrap.", "fail": {"model-install": "model_failed"}}
    result = tactful.run("init", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=json.dumps(wishes))
    assert result.status == 0
    assert "Note: No bwrap." in result.out
    assert "model-install was refused" in result.out


def test_init_without_terminal_and_passphrase_says_where_to_give_one(tactful: Tactful) -> None:
    result = tactful.run("init", "--json")
    assert result.status == 77
    assert result.error["code"] == "passphrase_needed"
    result = tactful.run("init", "--key", "passphrase", "--json")
    assert result.status == 77
    assert "TACTFUL_PASSPHRASE" in result.error["message"]


def test_a_passphrase_file_goes_before_the_environment(tactful: Tactful, tmp_path: Path) -> None:
    file = tmp_path / "passphrase"
    file.touch(mode=0o600)
    file.write_text("from the file\n")
    tactful.json("init", "--passphrase-file", str(file), TACTFUL_PASSPHRASE=PASSPHRASE)
    assert locked_by(tactful) == "from the file"
    assert "pid" in tactful.json("start", "--passphrase-file", str(file))


def test_init_never_makes_a_profile_over_another(made: Tactful) -> None:
    result = made.run("init", "--json", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (result.status, result.error["code"]) == (73, "already_exists")


def test_on_a_terminal_init_asks_and_takes_no_for_an_answer(tactful: Tactful) -> None:
    with tactful.terminal("init") as terminal:
        terminal.expect("1 to 2")
        terminal.type("")
        terminal.expect("policy.yaml")
        terminal.expect("Make it? [Y/n]")
        terminal.type("n")
        assert terminal.end() == 130
    assert not profile_of(tactful).exists()


def test_on_a_terminal_a_passphrase_is_asked_for_twice_and_never_shown(tactful: Tactful) -> None:
    with tactful.terminal("init", "--yes") as terminal:
        terminal.expect("no keyring")
        terminal.expect("New passphrase:")
        terminal.type(PASSPHRASE)
        terminal.expect("The same again:")
        terminal.type("something else")
        terminal.expect("not the same")
        terminal.expect("New passphrase:")
        terminal.type(PASSPHRASE)
        terminal.expect("The same again:")
        terminal.type(PASSPHRASE)
        terminal.expect("Your profile is made.")
        assert terminal.end() == 0
        assert PASSPHRASE not in terminal.seen
    assert locked_by(tactful) == PASSPHRASE


@pytest.mark.parametrize("key", ["C", "D"])
def test_leaving_a_prompt_is_130_and_makes_nothing(tactful: Tactful, key: str) -> None:
    with tactful.terminal("init", "--yes") as terminal:
        terminal.expect("New passphrase:")
        terminal.press(key)
        assert terminal.end() == 130
        assert "Interrupted." in terminal.text
        assert "Traceback" not in terminal.text
    assert not profile_of(tactful).exists()


def test_start_asks_again_after_a_wrong_passphrase(made: Tactful) -> None:
    with made.terminal("start") as terminal:
        terminal.expect("Passphrase:")
        terminal.type("open salami")
        terminal.expect("The passphrase is wrong.")
        terminal.expect("Passphrase:")
        terminal.type(PASSPHRASE)
        terminal.expect("The daemon is running")
        assert terminal.end() == 0
    assert made.json("status")["ready"] is True


def test_start_without_terminal_and_passphrase_is_77(made: Tactful) -> None:
    result = made.run("start", "--json")
    assert (result.status, result.error["code"]) == (77, "passphrase_needed")
    result = made.run("start", "--json", TACTFUL_PASSPHRASE="open salami")
    assert (result.status, result.error["code"]) == (77, "key_unavailable")


def test_start_without_a_profile_says_to_make_one(tactful: Tactful) -> None:
    result = tactful.run("start")
    assert result.status == 65
    assert "tactful init" in result.err


def test_a_second_start_is_75(running: Tactful) -> None:
    result = running.run("start", "--json", TACTFUL_PASSPHRASE=PASSPHRASE)
    assert (result.status, result.error["code"]) == (75, "already_running")


def test_stop_returns_when_the_daemon_is_gone(running: Tactful) -> None:
    pid = running.json("status")["pid"]
    assert running.json("stop") == {"stopped": True, "pid": pid}
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
    assert running.run("status").status == 69


def test_status_waits_for_the_model_if_told_to(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"loading": 4}')
    assert made.json("status")["model"]["state"] == "loading"
    with made.terminal("status", "--wait") as terminal:
        terminal.expect("loading toy")
        terminal.expect("toy ready on the CPU")
        assert terminal.end() == 0


def test_waiting_for_a_model_that_does_not_load_is_an_error(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"model": "failed"}')
    result = made.run("status", "--wait")
    assert (result.status, result.err) == (69, "tactful: The file is damaged.\n")
    shown = made.run("status")
    assert shown.status == 0
    assert "toy failed: The file is damaged." in shown.out


def test_status_shows_apps_and_notices(running: Tactful) -> None:
    shown = running.run("status").out
    assert "meals  running  health, food, finance" in shown
    assert "! A notice." in shown


def test_status_shows_the_ledgers_in_a_line_each_and_what_to_do_next(running: Tactful) -> None:
    running.json("tell", "meals", "a budget?")
    shown = running.run("status").out
    assert "ledgers of epoch 1" in shown
    assert "diabetes  0.000 of 2.000  untouched" in shown
    assert "debt      0.667 of 2.000  about two thirds left" in shown
    assert shown.splitlines()[-1].startswith("next  ")
    assert 'ask "' in shown.splitlines()[-1]
    assert running.json("status")["ledger"] == running.json("ledger")


@pytest.mark.parametrize(
    ("wish", "step"),
    [({"loading": 2}, "status --wait"), ({"model": "failed"}, "model list")],
    ids=["loading", "failed"],
)
def test_status_says_what_helps_with_the_model(
    made: Tactful, wish: dict[str, object], step: str
) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=json.dumps(wish))
    assert made.run("status").out.splitlines()[-1].endswith(step)


def test_status_tells_ledgers_that_cannot_be_read(made: Tactful) -> None:
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"unreadable": true}')
    assert "They cannot be read, so all count as used up." in made.run("status").out


def test_status_without_a_profile_says_to_make_one(tactful: Tactful) -> None:
    result = tactful.run("status", "--json")
    assert (result.status, result.error["code"]) == (69, "daemon_down")
    assert "tactful init" in result.error["message"]
    assert "tactful init" not in tactful.run("ledger").err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_in_the_foreground_the_daemon_ends_with_us(made: Tactful, number: signal.Signals) -> None:
    child = made.popen("start", "--foreground", "--json", TACTFUL_PASSPHRASE=PASSPHRASE)
    with child:
        assert child.stdout is not None
        assert "pid" in json.loads(child.stdout.readline())["data"]
        for _ in range(3):
            os.killpg(child.pid, number)
        assert child.wait(made.patience) == 0
    assert made.run("status").status == 69


def test_ctrl_c_in_the_foreground_is_an_orderly_stop(made: Tactful) -> None:
    with made.terminal("start", "--foreground", TACTFUL_PASSPHRASE=PASSPHRASE) as terminal:
        terminal.expect("The daemon is running")
        terminal.expect("status")
        terminal.press("C")
        assert terminal.end() == 0
    assert made.run("status").status == 69
