"""Limits are on a child before it runs anything, and cannot be raised again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tactfuld.apps import limits
from tactfuld.apps.limits import NICENESS, Limits, limited

SEEN = """
import os, resource
names = ("AS", "FSIZE", "NPROC", "NOFILE", "CORE")
print(*(resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names))
print(os.getpriority(os.PRIO_PROCESS, 0))
"""


def seen(given: Limits) -> tuple[str, ...]:
    """What a program finds in force, after what its limiter said."""
    command = limited([sys.executable, "-c", SEEN], given)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (done.stderr, *done.stdout.splitlines())


def test_program_finds_the_limits_in_force_both_soft_and_hard() -> None:
    said, found, niceness = seen(Limits(4 * 1024**3, 12_345, 50, 99))
    assert said == ""
    assert found == "(4294967296, 4294967296) (12345, 12345) (50, 50) (99, 99) (0, 0)"
    assert int(niceness) >= NICENESS


def test_limit_that_the_system_does_not_know_is_said_and_the_rest_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Limits, "words", lambda _: ["NONSENSE=1", "FSIZE=77", "CORE=0"])
    said, found, _ = seen(Limits())
    assert said == "This system does not set the limit NONSENSE=1.\n"
    assert "(77, 77)" in found


def test_limiter_runs_no_code_of_an_environment() -> None:
    """Isolated and without site packages: nothing that an app installed is imported before."""
    command = limited(["/bin/true"], Limits())
    assert command[1:3] == ["-I", "-S"]
    assert command[3:5] == ["-c", limits._LIMITER]
