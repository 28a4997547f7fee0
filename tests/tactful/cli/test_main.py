"""Whatever goes wrong, the owner reads a sentence and a program gets an exit status."""

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.tactful.cli.command_line import Tactful
from tests.tactful.cli.fake_tactfuld import PASSPHRASE

from tactful.cli import ledger, main
from tactful.cli.main import run

COMMANDS = [
    ["status"], ["stop"], ["ledger"], ["memory", "list"], ["apps", "list"], ["apps", "grant", "x"],
    ["apps", "revoke", "x"], ["tell", "meals", "hello"], ["remember", "x", "--shelf", "food.diet"],
    ["epoch", "show"], ["epoch", "new", "--confirm", "new epoch"], ["epoch", "history"],
    ["audit", "distance", "1"], ["audit", "odds"], ["audit", "replay"],
]  # fmt: skip


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(arguments)
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture(autouse=True)
def empty_profile(monkeypatch: pytest.MonkeyPatch, profile_dir: Path) -> None:
    monkeypatch.setenv("TACTFUL_PROFILE", str(profile_dir / "p"))


def test_the_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    version = importlib.metadata.version("tactful")
    assert outcome(capsys, "--version") == (0, f"tactful {version}\n", "")
    status, out, _ = outcome(capsys, "--json", "--version")
    assert (status, json.loads(out)) == (0, {"data": {"version": version}})


def test_the_version_loads_nothing_that_is_slow() -> None:
    program = (
        "import sys\nfrom tactful.cli import main\n"
        "try: sys.argv = ['tactful', '--version']; main.main()\n"
        "except SystemExit: pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = run.stdout.decode()
    for name in ("asyncio", "llama_cpp", "pydantic", "rich", "tactful_meals", "textual"):
        assert f"'{name}'" not in loaded


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_a_daemon_every_command_says_what_to_do(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    status, out, err = outcome(capsys, *command)
    assert (status, out) == (69, "")
    assert "tactful start" in err
    assert len(err.splitlines()) == 1
    status, out, err = outcome(capsys, *command, "--json")
    assert (status, err) == (69, "")
    assert json.loads(out)["error"]["code"] == "daemon_down"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["sttus"], "Did you mean 'status'"),
        (["status", "--wiat"], "--wait"),
        (["apps", "grunt", "x"], "Did you mean 'grant'"),
        (["paths", "surplus"], "surplus"),
        (["apps", "grant"], "APP"),
        (["remember", "x", "--shelf", "food.diet", "--position", "first"], "--position"),
        (["init", "--key", "paper"], "--key"),
        (["remember", " ", "--shelf", "food.diet"], "empty"),
        (["ledger", "restor", "x"], "Did you mean 'restore'"),
        (["ledger", "restore"], "FILE"),
        (["epoch", "new"], '--confirm "new epoch"'),
        (["epoch", "new", "--confirm", "yes"], "no epoch was opened"),
        (["audit", "distance"], "POSITION"),
        (["--profile", "x", "demo"], "--keep"),
        (["demo", "--profile", "x"], "--keep"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_line_that_is_not_understood_is_64_with_a_hint(
    capsys: pytest.CaptureFixture[str], arguments: list[str], hint: str
) -> None:
    status, out, err = outcome(capsys, *arguments)
    assert (status, out) == (64, "")
    assert hint in err
    assert len(err.splitlines()) == 1
    status, out, err = outcome(capsys, *arguments, "--json")
    assert (status, err) == (64, "")
    problem = json.loads(out)["error"]
    assert problem["code"] == "usage"
    assert hint in problem["message"]


def test_options_of_every_command_may_stand_in_front_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = outcome(capsys, "--profile", str(tmp_path), "--json", "paths")
    second = outcome(capsys, "paths", "--profile", str(tmp_path), "--json")
    assert first == second
    assert json.loads(first[1])["data"]["policy"] == str(tmp_path / "config" / "policy.yaml")


def test_paths_need_no_daemon_and_show_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = outcome(capsys, "paths")
    assert status == 0
    assert "owner.sock  (not there)" in out


def test_help_alone_is_a_page_and_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = outcome(capsys)
    assert (status, err) == (0, "")
    assert "Usage: tactful" in out
    assert all(word in out for word in ("init", "demo", "ledger"))


def test_the_passphrase_leaves_the_environment_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACTFUL_PASSPHRASE", "sesame")
    outcome(capsys, "paths")
    assert "TACTFUL_PASSPHRASE" not in os.environ


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (PermissionError(13, "Permission denied", "/x/y"), 77, "/x/y"),
        (OSError(30, "Read-only file system", "/x/y"), 77, "Read-only"),
        (OSError(28, "No space left on device", "/x/y"), 74, "/x/y failed: No space left"),
        (OSError(5, "Input/output error"), 74, "Input/output error"),
        (KeyError("content"), 70, "KeyError at test_main.py"),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (EOFError(), 130, "Interrupted."),
        (typer.Abort(), 130, "Interrupted."),
    ],
)
def test_what_goes_wrong_inside_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    words: str,
) -> None:
    def fail(_call: object) -> None:
        raise error

    monkeypatch.setattr(ledger, "_ledger", fail)
    found, out, err = outcome(capsys, "ledger")
    assert (found, out) == (status, "")
    assert words in err
    assert "Traceback" not in err
    assert "content" not in err
    found, out, err = outcome(capsys, "ledger", "--json")
    assert (found, err) == (status, "")
    assert words in json.loads(out)["error"]["message"]


def test_a_reader_that_goes_away_is_no_error(running: Tactful) -> None:
    running.run("remember", "x " * 3000, "--shelf", "food.diet")
    reader, writer = os.pipe()
    os.close(reader)
    child = subprocess.run(
        [*running.program, "memory", "list"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=running.surroundings({}),
        check=False,
    )
    os.close(writer)
    assert (child.returncode, child.stderr) == (main.BROKEN_PIPE, b"")


def test_a_terminal_gets_colours_and_no_color_turns_them_off(running: Tactful) -> None:
    with running.terminal("status") as plain_wanted:
        assert plain_wanted.end() == 0
        assert "\x1b[32m" in plain_wanted.seen
    with running.terminal("status", NO_COLOR="1") as coloured:
        assert coloured.end() == 0
        assert "\x1b[32m" not in coloured.seen


def test_without_a_terminal_there_are_no_control_characters(running: Tactful) -> None:
    for command in (
        ["status"],
        ["ledger"],
        ["memory", "list"],
        ["tell", "meals", "dinner?"],
        ["ask", "What do I know?"],
        ["ask", "--as", "meals", "dinner?"],
        ["epoch", "show"],
        ["epoch", "new", "--confirm", "new epoch"],
        ["epoch", "history"],
        ["audit", "distance", "1"],
        ["audit", "odds"],
        ["audit", "replay"],
    ):
        result = running.run(*command, FORCE_COLOR="1")
        assert result.status == 0, result
        assert result.out.replace("\n", "").isprintable()
        assert not [line for line in result.out.splitlines() if line != line.rstrip()]
        assert max(map(len, result.out.splitlines())) <= 80
        assert result.err == ""


def test_a_character_that_the_terminal_lacks_is_replaced(running: Tactful) -> None:
    result = running.run("ledger", PYTHONIOENCODING="ascii")
    assert result.status == 0, result
    assert "0.000 of 2.000" in result.out


@pytest.mark.parametrize(
    ("method", "command", "seen"),
    [
        ("tell", ["tell", "meals", "dinner?"], "meals asks"),
        ("ask.as", ["ask", "--as", "meals", "dinner?"], "meals asks"),
        ("ask.owner", ["ask", "dinner?"], "You asked:[31m dinner?"),
    ],
)
def test_ctrl_c_while_an_answer_streams_is_130(
    made: Tactful, method: str, command: list[str], seen: str
) -> None:
    wish = json.dumps({"hang_on": method})
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=wish)
    with made.terminal(*command) as terminal:
        terminal.expect(seen)
        terminal.press("C")
        assert terminal.end() == 130
        assert "Interrupted." in terminal.text
        assert "Traceback" not in terminal.text
    assert made.run("stop").status == 0


def test_ctrl_c_while_a_daemon_starts_ends_the_daemon(made: Tactful) -> None:
    with made.terminal(
        "start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD='{"hang": "serve"}'
    ) as terminal:
        terminal.expect("starting the daemon")
        terminal.press("C")
        assert terminal.end() == 130
    assert made.run("status").status == 69


def test_a_daemon_that_dies_in_the_middle_is_a_sentence(made: Tactful) -> None:
    wish = json.dumps({"die_on": "ledger"})
    made.json("start", TACTFUL_PASSPHRASE=PASSPHRASE, FAKE_TACTFULD=wish)
    result = made.run("ledger")
    assert result.status == 69
    assert len(result.err.splitlines()) == 1
    made_profile = Path(made.environment["TACTFUL_PROFILE"])
    (made_profile / "run" / "owner.sock").unlink(missing_ok=True)


def test_signal_numbers_are_those_of_the_documentation() -> None:
    assert main.INTERRUPTED == 128 + signal.SIGINT
    assert main.BROKEN_PIPE == 128 + signal.SIGPIPE
