"""The benchmark of hostile apps runs each case to its end and compares like with like."""

from __future__ import annotations

import sys

import pytest

from tactful_eval.app_speed import CASES, app_speed


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's bubblewrap")
@pytest.mark.parametrize("case", ["connections", "crash"])
def test_a_case_is_measured_with_and_without_the_hostile_app(case: str) -> None:
    found = app_speed(cases=[case], rounds=1, seconds=0.1)
    [speed] = found.cases
    assert speed.case == case
    assert min(speed.daemon, speed.app, speed.quiet_daemon_ms, speed.quiet_app_ms) > 0
    assert found.worst == max(speed.daemon, speed.app)
    assert found.sandbox in {"bubblewrap", "off"}


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's bubblewrap")
def test_every_case_comes_to_an_end() -> None:
    found = app_speed(rounds=1, seconds=0.1)
    assert tuple(speed.case for speed in found.cases) == CASES
