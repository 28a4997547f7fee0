"""What the machine says about time, sandboxes and services is taken at its word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tactful.profile import Profile
from tactfuld.apps.sandbox import Bubblewrap, NoSandbox, Unconfined, choose_confinement
from tactfuld.doctor import machine
from tactfuld.doctor.check import State
from tactfuld.doctor.machine import (
    EARLIEST,
    TOLERANCE,
    Lingering,
    Moment,
    check_clock,
    check_linger,
    check_sandbox,
    file_moments,
    lingering,
)

NOW = EARLIEST + 1_000_000


def test_a_clock_after_everything_is_well() -> None:
    assert check_clock(NOW, []).state is State.OK
    assert check_clock(NOW, [Moment("a", NOW), Moment("b", NOW + TOLERANCE)]).state is State.OK


def test_a_clock_behind_the_newest_thing_names_it() -> None:
    moments = [Moment("ledger.db", NOW), Moment("the newest turn", NOW + TOLERANCE + 1)]
    check = check_clock(NOW, moments)
    assert check.state is State.PROBLEM
    assert "but the newest turn is of 2026-01-12" in check.detail


def test_a_clock_before_this_program_is_wrong_whatever_was_written() -> None:
    assert check_clock(EARLIEST - 1, []).state is State.PROBLEM
    assert check_clock(EARLIEST, []).state is State.OK


def test_a_time_that_no_calendar_has_is_told_in_words() -> None:
    assert "no calendar" in check_clock(NOW, [Moment("a memory", 2**63)]).detail


def test_databases_and_the_mark_bear_times(tmp_path: Path) -> None:
    profile = Profile.at(tmp_path)
    for folder in (profile.data, profile.state):
        folder.mkdir()
    for file in (profile.data / "ledger.db", profile.state / "ledger.mark"):
        file.touch()
    assert [moment.what for moment in file_moments(profile)] == ["ledger.db", "ledger.mark"]


@pytest.mark.parametrize(
    ("confinement", "state"),
    [
        (Bubblewrap(Path("/usr/bin/bwrap"), hardened=True), State.OK),
        (Unconfined(), State.OK),
        (NoSandbox("bwrap is not on this machine."), State.PROBLEM),
        (None, State.UNKNOWN),
    ],
)
def test_a_sandbox_that_is_wanted_has_to_work(
    confinement: Bubblewrap | Unconfined | NoSandbox | None, state: State
) -> None:
    assert check_sandbox(confinement).state is state


def test_a_sandbox_is_really_tried(tmp_path: Path) -> None:
    """One that only looks like bubblewrap is found out."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    fake.chmod(0o755)
    check = check_sandbox(choose_confinement("required", str(tmp_path)))
    assert (check.state, "no namespaces here" in check.detail) == (State.PROBLEM, True)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (Lingering(systemd=False), State.NOT_APPLICABLE),
        (Lingering(systemd=True, lingers=False), State.NOT_APPLICABLE),
        (Lingering(systemd=True, lingers=True, enabled=True), State.OK),
        (Lingering(systemd=True, lingers=False, enabled=True), State.PROBLEM),
        (Lingering(systemd=True, lingers=None, enabled=True), State.UNKNOWN),
    ],
)
def test_a_service_that_ends_with_the_session_is_a_problem(found: Lingering, state: State) -> None:
    assert check_linger(found).state is state


@pytest.mark.parametrize(("said", "lingers"), [("yes", True), ("no", False), ("", None)])
def test_systemd_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, lingers: bool | None
) -> None:
    for name, answer in (("loginctl", said), ("systemctl", "enabled")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {answer}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(machine, "SYSTEMD", tmp_path)
    assert lingering() == Lingering(systemd=True, lingers=lingers, enabled=True)


def test_without_systemd_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SYSTEMD", tmp_path / "absent")
    assert lingering() == Lingering(systemd=False)
