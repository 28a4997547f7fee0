"""The command `tactfuld`: exit statuses, and what is written where when something goes wrong.

The daemon and the commands are replaced by ones that fail as a test plans it; the real ones are in
`test_lifecycle`, `test_one_shot` and `tests.end_to_end`.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tactfuld.lifecycle
from tactful.errors import ERRORS, AlreadyRunning, PolicyRefused, TactfulError
from tactful.profile import Profile
from tactful_core.errors import SealError
from tactfuld import main as command
from tactfuld import one_shot
from tactfuld.journal import LogLevel
from tactfuld.lifecycle import Start

MARKER = "kumquat marmalade"
SENTENCE = "Something was refused. Do something else."

Run = Callable[..., "Ended"]


class Ended:
    """What a run of `tactfuld` left behind."""

    def __init__(self, status: int, out: str, err: str, ready: str) -> None:
        self.status, self.out, self.err, self.ready = status, out, err, ready


@pytest.fixture(autouse=True)
def same_umask() -> Iterator[None]:
    """The command changes it for its process, which here is that of the tests."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def scrubbed_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the command would replace the process, which here is that of the tests."""
    monkeypatch.setattr(command, "scrub_what_is_freed", lambda _environ: None)


@pytest.fixture
def tactfuld_run(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Runs the command in this process, with a profile of its own and a pipe to be ready on."""

    def run(*arguments: str) -> Ended:
        reading, writing = os.pipe()
        extra = ["--ready-fd", str(writing)] if arguments[0] == "serve" else []
        argv = ["tactfuld", *arguments, "--profile", str(profile_dir), *extra]
        monkeypatch.setattr(sys, "argv", argv)
        status: Any = 0
        try:
            command.main()
        except SystemExit as end:
            status = end.code
        except KeyboardInterrupt:
            pytest.fail("The interrupt went through, which means a traceback.")
        with suppress(OSError):  # the command may have used it, and closed it
            os.close(writing)
        with os.fdopen(reading) as pipe:
            ready = pipe.read()
        out, err = capfd.readouterr()
        return Ended(status, out, err, ready)

    return run


def serving(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[Start], Awaitable[None] | None]
) -> list[Start]:
    """Replaces the daemon; what it was started with is kept."""
    starts: list[Start] = []

    async def serve(start: Start) -> None:
        starts.append(start)
        acting = act(start)
        if acting is not None:
            await acting

    monkeypatch.setattr(tactfuld.lifecycle, "serve", serve)
    return starts


def commanding(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Replaces the commands."""

    def run(_profile: Profile, _passphrase: object, _arguments: argparse.Namespace) -> None:
        act()

    monkeypatch.setattr(one_shot, "run", run)


def failing(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


# --- the daemon ---------------------------------------------------------------------------------


def test_daemon_says_once_that_it_is_ready(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch, lambda start: asyncio.to_thread(start.announce))
    ended = tactfuld_run("serve")
    assert (ended.status, ended.out, ended.err) == (0, "", "")
    assert ended.ready == '{"ready": true}\n'


def test_nobody_has_to_wait_for_the_daemon(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch, lambda start: asyncio.to_thread(start.announce))
    for extra in ([], ["--ready-fd", "999"]):
        monkeypatch.setattr(
            sys, "argv", ["tactfuld", "serve", "--profile", str(profile_dir), *extra]
        )
        command.main()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_each_error_has_its_exit_status_and_one_line_for_whoever_waits(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch, error: type[TactfulError]
) -> None:
    serving(monkeypatch, failing(error(SENTENCE)))
    ended = tactfuld_run("serve")
    assert ended.status == error.exit_status != 0
    assert ended.ready.count("\n") == 1
    assert json.loads(ended.ready) == {"error": error(SENTENCE).described()}
    assert (ended.out, ended.err) == ("", f"tactfuld: {SENTENCE}\n")


def test_error_that_a_task_group_has_wrapped_is_still_that_error(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = ExceptionGroup("tasks", [AlreadyRunning(SENTENCE)])
    serving(monkeypatch, failing(ExceptionGroup("tasks", [inner])))
    ended = tactfuld_run("serve")
    assert ended.status == AlreadyRunning.exit_status
    assert ended.err == f"tactfuld: {SENTENCE}\n"


@pytest.mark.parametrize(
    "defect",
    [
        ValueError(MARKER),
        KeyError(MARKER),
        SealError(MARKER),
        RuntimeError(MARKER),
        ExceptionGroup(MARKER, [ValueError(MARKER)]),
        ExceptionGroup(MARKER, [ValueError(MARKER), AlreadyRunning(MARKER)]),
        UnicodeDecodeError("utf-8", MARKER.encode(), 0, 1, MARKER),
    ],
    ids=lambda defect: type(defect).__name__,
)
@pytest.mark.parametrize("which", ["serve", "one-shot"])
def test_defect_is_told_by_type_and_place_and_never_by_its_words(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch, defect: Exception, which: str
) -> None:
    serving(monkeypatch, failing(defect))
    commanding(monkeypatch, failing(defect))
    ended = tactfuld_run(*(["serve"] if which == "serve" else ["one-shot", "init"]))
    assert ended.status == 70
    told = json.loads(ended.ready or ended.out)["error"]
    assert told["code"] == "internal_error"
    told_of = re.fullmatch(
        r"A defect ended tactfuld \((\w+?)(:test_main\.py:\d+)?\)\.", told["message"]
    )
    assert told_of is not None
    alone = defect if len(getattr(defect, "exceptions", ())) != 1 else ValueError()
    assert told_of[1] == type(alone).__name__
    assert (told_of[2] is None) is (alone is not defect)  # what was never raised has no place
    everything = ended.out + ended.err + ended.ready
    for word in (*MARKER.split(), "Traceback"):
        assert word not in everything


def test_what_the_system_refuses_is_named_with_its_file(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = OSError(errno.EACCES, "Permission denied", "/somewhere/state")
    serving(monkeypatch, failing(refused))
    ended = tactfuld_run("serve")
    assert ended.status == 77
    message = json.loads(ended.ready)["error"]["message"]
    assert "/somewhere/state" in message
    assert "Permission denied" in message


def test_interrupted_start_is_no_traceback(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(monkeypatch, failing(KeyboardInterrupt()))
    ended = tactfuld_run("serve")
    assert ended.status == 130
    assert (ended.out, ended.err) == ("", "")


# --- one command --------------------------------------------------------------------------------


def test_error_of_a_command_is_one_line_on_standard_output(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    commanding(monkeypatch, failing(PolicyRefused(SENTENCE)))
    ended = tactfuld_run("one-shot", "init")
    assert ended.status == 78
    assert ended.out.count("\n") == 1
    assert json.loads(ended.out) == {"error": PolicyRefused(SENTENCE).described()}
    assert ended.err == ""


def test_error_that_stays_on_one_line_has_line_ends_in_it(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = "policy.yaml:3: a: wrong.\npolicy.yaml:4: b: wrong."
    commanding(monkeypatch, failing(PolicyRefused(two)))
    serving(monkeypatch, failing(PolicyRefused(two)))
    for ended in (tactfuld_run("one-shot", "init"), tactfuld_run("serve")):
        line = ended.ready or ended.out
        assert line.count("\n") == 1
        assert json.loads(line)["error"]["message"] == two


# --- passphrase, profile, umask -----------------------------------------------------------------


def test_passphrase_leaves_the_environment_before_anything_else(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACTFUL_PASSPHRASE", MARKER)
    present: list[bool] = []

    def look(_: Start) -> None:
        present.append("TACTFUL_PASSPHRASE" in os.environ)

    starts = serving(monkeypatch, look)
    assert tactfuld_run("serve").status == 0
    assert present == [False]
    (start,) = starts
    passphrase = start.passphrase.take()
    assert passphrase is not None
    assert passphrase.reveal() == MARKER


def test_passphrase_comes_from_a_descriptor_or_a_file_instead(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts = serving(monkeypatch, lambda _: None)
    file = tmp_path / "passphrase"
    file.touch(0o600)
    file.write_text(f"{MARKER}\n")
    tactfuld_run("serve", "--passphrase-file", str(file))
    reading, writing = os.pipe()
    os.write(writing, f"{MARKER}\n".encode())
    os.close(writing)
    tactfuld_run("serve", "--passphrase-fd", str(reading))
    taken = [start.passphrase.take() for start in starts]
    assert [passphrase.reveal() for passphrase in taken if passphrase] == [MARKER] * 2
    assert [start.passphrase.take() for start in starts] == [None] * 2


def test_passphrase_that_cannot_be_read_is_a_sentence(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts = serving(monkeypatch, lambda _: None)
    ended = tactfuld_run("serve", "--passphrase-file", str(tmp_path / "missing"))
    assert ended.status == 77
    assert json.loads(ended.ready)["error"]["code"] == "key_unavailable"
    assert starts == []


def test_profile_is_the_named_one(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch, profile_dir: Path
) -> None:
    starts = serving(monkeypatch, lambda _: None)
    tactfuld_run("serve")
    monkeypatch.setenv("TACTFUL_PROFILE", str(profile_dir / "other"))
    monkeypatch.setattr(sys, "argv", ["tactfuld", "serve"])
    command.main()
    assert [start.profile for start in starts] == [
        Profile.at(profile_dir),
        Profile.at(profile_dir / "other"),
    ]


def test_files_are_private_from_the_first_on(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    serving(monkeypatch, lambda _: (tmp_path / "made").touch())
    tactfuld_run("serve")
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600


def test_daemon_logs_to_standard_error_at_the_level_of_the_settings(
    tactfuld_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def log(start: Start) -> None:
        journal = start.journal(LogLevel("warning"))
        journal.info("quiet")
        journal.warning("loud")

    serving(monkeypatch, log)
    ended = tactfuld_run("serve")
    assert [json.loads(line)["event"] for line in ended.err.splitlines()] == ["loud"]
    assert ended.out == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_full_log_takes_neither_the_reason_nor_the_status(profile_dir: Path) -> None:
    reading, writing = os.pipe()
    with Path("/dev/full").open("wb", buffering=0) as log, os.fdopen(reading) as pipe:
        program = Path(sys.executable).with_name("tactfuld")
        ended = subprocess.run(
            [program, "serve", "--profile", profile_dir / "p", "--ready-fd", str(writing)],
            stderr=log,
            pass_fds=(writing,),
            check=False,
        )
        os.close(writing)
        told = json.loads(pipe.read())["error"]
    assert (ended.returncode, told["code"]) == (PolicyRefused.exit_status, PolicyRefused.code)
