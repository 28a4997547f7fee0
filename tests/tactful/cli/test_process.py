"""Children: what they are told, what they tell, and that none is left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tactful.cli.command_line import FAKE
from tests.tactful.cli.fake_tactfuld import PASSPHRASE

from tactful.cli import children, process
from tactful.cli.children import stop_child
from tactful.cli.passphrase import Passphrase
from tactful.cli.process import Target, one_shot, start_daemon
from tactful.errors import Busy, InternalError, ModelFailed, NotFound, PassphraseNeeded, Unusable
from tactful.profile import Profile

OPEN = Passphrase(PASSPHRASE)


@pytest.fixture(autouse=True)
def fake_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "daemon_command", lambda: [sys.executable, str(FAKE)])


@pytest.fixture
def target(profile_dir: Path) -> Target:
    folder = profile_dir / "p"
    return Target(Profile.at(folder), folder)


def wish(monkeypatch: pytest.MonkeyPatch, **wishes: object) -> None:
    monkeypatch.setenv("FAKE_TACTFULD", json.dumps(wishes))


def quiet(_what: str, _done: int, _total: int) -> None:
    return None


def init(target: Target) -> dict[str, object]:
    return one_shot(target, ["init", "--starter", "demo"], OPEN, quiet)


def test_a_command_reports_progress_and_returns_its_data(target: Target) -> None:
    reports: list[tuple[str, int, int]] = []
    data = one_shot(target, ["model-install"], None, lambda *report: reports.append(report))
    assert data["fetched"] is False
    assert reports == [("fetching the model", 1, 2)]


def test_a_passphrase_goes_through_the_pipe(target: Target) -> None:
    init(target)
    assert (target.profile.data / "locked-by").read_text() == PASSPHRASE


def test_a_childs_error_is_the_same_error_here(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PassphraseNeeded, match="no keyring"):
        one_shot(target, ["init", "--starter", "demo"], None, quiet)
    wish(monkeypatch, fail={"model-install": "model_failed"})
    with pytest.raises(ModelFailed, match="refused for a test"):
        one_shot(target, ["model-install"], None, quiet)


def test_a_command_that_breaks_is_told_in_one_line(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish(monkeypatch, mute="init")
    with pytest.raises(InternalError) as broken:
        init(target)
    assert str(broken.value) == (
        "tactfuld one-shot init ended without an answer (exit status 1). It broke."
    )


def test_an_interrupted_command_is_ended(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    wish(monkeypatch, hang="init")
    ended: list[subprocess.Popen[bytes]] = []

    def noted(child: subprocess.Popen[bytes]) -> None:
        ended.append(child)
        stop_child(child)

    def interrupt(_what: str, _done: int, _total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(children, "stop_child", noted)
    with pytest.raises(KeyboardInterrupt):
        one_shot(target, ["init", "--starter", "demo"], OPEN, interrupt)
    assert [child.returncode for child in ended] == [-15]


def test_a_daemon_is_started_detached_and_logs(target: Target) -> None:
    init(target)
    child = start_daemon(target, OPEN, detached=True)
    try:
        assert target.profile.owner_socket.exists()
        assert os.getsid(child.pid) == child.pid
        assert target.profile.log_file.stat().st_mode & 0o777 == 0o600
    finally:
        stop_child(child)
    assert child.returncode == 0


def test_a_daemon_that_refuses_says_why(target: Target) -> None:
    with pytest.raises(Unusable, match="tactful init"):
        start_daemon(target, OPEN, detached=True)
    assert not target.profile.state.exists(), "a profile that is not made got a folder"


def test_a_daemon_that_breaks_before_it_is_ready_points_to_its_log(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(target)
    wish(monkeypatch, mute="serve")
    with pytest.raises(InternalError, match=r"tactfuld\.log"):
        start_daemon(target, OPEN, detached=True)
    assert "It broke." in target.profile.log_file.read_text()


def test_a_daemon_that_is_never_ready_is_ended(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(target)
    wish(monkeypatch, hang="serve")
    monkeypatch.setattr(process, "READY_SECONDS", 0.5)
    with pytest.raises(Busy, match="was stopped"):
        start_daemon(target, OPEN, detached=True)


def test_a_child_that_ignores_the_request_to_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "STOP_SECONDS", 0.2)
    stubborn = (
        "import signal, sys, time; signal.signal(15, signal.SIG_IGN); "
        "print(1, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        stop_child(child)
        assert child.returncode == -9


def test_a_process_that_ended_and_was_not_reaped_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read()
        children.await_end(child.pid, Profile.at(tmp_path))


def test_a_process_that_does_not_end_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "END_SECONDS", 0.1)
    with pytest.raises(Busy, match=f"kill {os.getpid()}"):
        children.await_end(os.getpid(), Profile.at(tmp_path))


def test_the_daemons_program_lies_beside_ours_or_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    with pytest.raises(NotFound, match="PATH"):
        process.daemon_command()
    program = tmp_path / "tactfuld"
    program.touch(mode=0o755)
    assert process.daemon_command() == [str(program)]
    program.rename(tmp_path / "moved")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "moved").rename(tmp_path / "tactfuld")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert process.daemon_command() == [str(program)]


def test_what_the_owner_types_next_works_from_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "tactful").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("PATH", str(programs))
    assert process.own_name() == "tactful"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert process.own_name() == ".venv/bin/tactful"
    monkeypatch.chdir("/")
    assert Path(process.own_name()) == Path("/", programs / "tactful").relative_to("/")
