"""A first day with the real daemon: through `--json`, and typed on a terminal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.processes import (
    MINUTES,
    PASSPHRASE,
    allow_apps,
    installed,
    processes_naming,
    short_folder,
)
from tests.tactful.cli.command_line import Tactful

MEMORY = "I avoid sugary food because of xyzzy."

pytestmark = pytest.mark.timeout(20 * MINUTES)


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest.fixture
def tactful(folder: Path) -> Iterator[Tactful]:
    with installed(folder) as command:
        yield command


def spent(ledger: dict[str, Any]) -> dict[str, float]:
    return {line["attribute"]: line["spent"] for line in ledger["lines"]}


def test_a_first_day_of_a_program(tactful: Tactful, folder: Path) -> None:
    tactful.environment["TACTFUL_PASSPHRASE"] = PASSPHRASE
    allow_apps(folder, tactful.json("init", "--yes"))
    assert tactful.run("status", "--json").error["code"] == "daemon_down"
    prepare(tactful, folder)

    pid = tactful.json("start")["pid"]
    assert tactful.run("start", "--json").error["code"] == "already_running"
    status = tactful.json("status", "--wait")
    assert (status["pid"], status["model"]["state"], status["ready"]) == (pid, "ready", True)

    stored = tactful.json("remember", MEMORY, "--shelf", "food.diet")
    assert stored["shelf"] == "food.diet"
    listed = tactful.json("memory", "list")
    (position,) = stored["positions"]
    assert [(i["position"], i["text"]) for i in listed["items"]] == [(position, MEMORY)]

    outside = ("remember", "I inject insulin for my diabetes.", "--shelf", "finance.accounts")
    assert "diabetes" in tactful.run(*outside, "--json").error["message"]
    assert tactful.json("policy", "lint")["findings"] == []

    before = spent(tactful.json("ledger"))
    assert set(before.values()) == {0.0}
    turns = tactful.json("tell", "meals", "What could I cook for dinner tonight?")["turns"]
    assert turns[0]["answer"].strip()
    (chosen,) = [s for s in turns[0]["selections"] if s["slot"] == "food"]
    assert chosen["charged"]
    assert not chosen["fallback"]
    after = spent(tactful.json("ledger"))
    assert {name for name, value in after.items() if value > 0} >= set(chosen["charged"])

    assert_looked_around(tactful, set(chosen["charged"]))
    after = spent(tactful.json("ledger"))

    granted = tactful.json("apps", "grant", "meals")
    assert len(granted["token"]) >= 32
    assert tactful.json("apps", "revoke", "meals") == {"revoked": "meals"}

    assert tactful.json("stop") == {"stopped": True, "pid": pid}
    tactful.json("start")
    assert spent(tactful.json("ledger")) == after, "a restart changed the ledger"
    assert tactful.json("memory", "list")["items"] == listed["items"]
    tactful.json("stop")
    assert processes_naming(folder) == []
    assert_nothing_leaked(folder)


def prepare(tactful: Tactful, folder: Path) -> None:
    """What can be looked at and set before the daemon runs."""
    policy = tactful.json("policy", "check")
    assert policy["file"] == str(folder / "p" / "config" / "policy.yaml")
    assert tactful.json("paths")["policy"] == policy["file"]
    assert tactful.json("config", "set", "answer.max_tokens", "12")["effect"] == "at_start"
    assert tactful.json("config", "get", "answer.max_tokens")["value"] == 12
    listed = {each["key"]: each for each in tactful.json("config", "list")["settings"]}
    assert listed["answer.max_tokens"]["origin"].startswith("settings.yaml:")
    (used,) = [each for each in tactful.json("model", "list")["installed"] if each["in_use"]]
    assert tactful.json("model", "info", used["name"])["problem"] is None


def assert_looked_around(tactful: Tactful, charged: set[str]) -> None:
    """What the owner can see after an app has asked, and that asking for oneself costs nothing."""
    before = tactful.json("ledger")
    assert tactful.json("ask", "What should I avoid?")["text"].strip()
    assert tactful.json("ledger") == before
    asked = tactful.json("ask", "--as", "meals", "What is for breakfast?")
    turns = tactful.json("history", "list", "--app", "meals")["turns"]
    assert [turn["query"] for turn in turns][:1] == ["What is for breakfast?"]
    assert len(turns) == 2
    assert asked["turn"] > 0
    shown = tactful.json("history", "show", str(turns[0]["id"]))
    assert shown["query"] == turns[0]["query"]
    assert charged <= {line["attribute"] for line in tactful.json("epoch", "show")["lines"]}
    assert tactful.json("audit", "replay")["matches"] is True


def assert_nothing_leaked(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"xyzzy" not in content, path
            assert PASSPHRASE.encode() not in content, path


def test_a_first_day_on_a_terminal(tactful: Tactful, folder: Path) -> None:
    with tactful.terminal("init", "--no-recovery") as terminal:
        terminal.expect("Which policy do you want to begin with?")
        terminal.type("")
        terminal.expect("so a passphrase will unlock")
        terminal.expect("Make it?")
        terminal.type("")
        for prompt in ("New passphrase:", "The same again:"):
            terminal.expect(prompt)
            terminal.type(PASSPHRASE)
        terminal.expect("Your profile is made.")
        assert terminal.end() == 0
    if "sandbox: off" in terminal.text:
        allow_apps(folder, {"sandbox_problem": "seen"})
    with tactful.terminal("config", "set", "answer.max_tokens", "12") as terminal:
        assert terminal.end() == 0, terminal.text
    with tactful.terminal("start") as terminal:
        terminal.expect("Passphrase:")
        terminal.type("wrong")
        terminal.expect("Passphrase:")
        terminal.type(PASSPHRASE)
        terminal.expect("The daemon is running")
        assert terminal.end() == 0
        assert PASSPHRASE not in terminal.seen
    for command, words in (
        (("status", "--wait"), "ready"),
        (("remember", MEMORY, "--shelf", "food.diet"), "Remembered in food.diet"),
        (("memory", "list"), MEMORY),
        (("ask", "What should I avoid?"), ""),
        (("tell", "meals", "What could I cook for dinner tonight?"), "charged to"),
        (("history", "list"), "What could I cook for dinner tonight?"),
        (("ledger",), "at most ×"),
        (("apps", "list"), "running"),
        (("epoch", "show"), "Epoch 1 is open."),
        (("policy", "check"), "is in order."),
        (("config", "list"), "answer.max_tokens"),
        (("model", "list"), "smollm2"),
        (("paths",), "owner.sock"),
        (("stop",), "The daemon has stopped."),
    ):
        with tactful.terminal(*command) as terminal:
            terminal.expect(words)
            assert terminal.end() == 0, terminal.text


def test_a_policy_with_a_mistake_is_a_sentence_with_file_and_line(
    tactful: Tactful, folder: Path
) -> None:
    tactful.environment["TACTFUL_PASSPHRASE"] = PASSPHRASE
    tactful.json("init", "--yes", "--starter", "demo")
    policy = folder / "p" / "config" / "policy.yaml"
    policy.write_text(policy.read_text().replace("charges_per_cap", "charges_per_cup"))
    result = tactful.run("start")
    assert result.status == 78
    assert "policy.yaml:" in result.err
    assert "charges_per_cup" in result.err
    assert "Traceback" not in result.err
    assert tactful.run("start", "--json").error["code"] == "policy_refused"


def test_a_wrong_passphrase_is_77(tactful: Tactful) -> None:
    tactful.json("init", "--yes", "--starter", "demo", TACTFUL_PASSPHRASE=PASSPHRASE)
    result = tactful.run("start", "--json", TACTFUL_PASSPHRASE="wrong")
    assert (result.status, result.error["code"]) == (77, "key_unavailable")
    assert "wrong" not in json.dumps(result.error).replace("wrong passphrase", "")
