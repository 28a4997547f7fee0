"""A battery is told from the system's own words, and a mouse's is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tactfuld import power
from tactfuld.power import on_battery

MAINS_IN = {"type": "Mains", "online": "1"}
MAINS_OUT = {"type": "Mains", "online": "0"}
USB_IN = {"type": "USB", "online": "1"}
DRAINING = {"type": "Battery", "status": "Discharging", "scope": "System"}
FULL = {"type": "Battery", "status": "Full"}
MOUSE = {"type": "Battery", "status": "Discharging", "scope": "Device"}

ON_BATTERY = """Now drawing from 'Battery Power'
 -InternalBattery-0 (id=1234567)\t81%; discharging; 4:33 remaining present: true
"""
PLUGGED = """Now drawing from 'AC Power'
 -InternalBattery-0 (id=1234567)\t100%; charged; 0:00 remaining present: true
"""


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        ({}, False),
        ({"AC": MAINS_IN}, False),
        ({"AC": MAINS_OUT, "BAT0": DRAINING}, True),
        ({"AC": MAINS_IN, "BAT0": DRAINING}, False),
        ({"ucsi0": USB_IN, "BAT0": DRAINING}, False),
        ({"AC": MAINS_OUT, "BAT0": FULL}, False),
        ({"BAT0": FULL, "BAT1": DRAINING}, True),
        ({"hidpp_battery_0": MOUSE}, False),
        ({"AC": MAINS_OUT, "hidpp_battery_0": MOUSE}, False),
        ({"BAT0": {"type": "Battery"}}, False),
    ],
)
def test_linux_says_by_its_supplies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    supplies: dict[str, dict[str, str]],
    expected: bool,
) -> None:
    for name, words in supplies.items():
        (tmp_path / name).mkdir()
        for key, word in words.items():
            (tmp_path / name / key).write_text(f"{word}\n")
    monkeypatch.setattr(power, "SUPPLIES", tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    assert on_battery() is expected


@pytest.mark.parametrize(("words", "expected"), [(ON_BATTERY, True), (PLUGGED, False), ("", False)])
def test_macos_says_by_pmset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, expected: bool
) -> None:
    program = tmp_path / "pmset"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{words}END\n")
    program.chmod(0o700)
    monkeypatch.setattr(power, "PMSET", (str(program),))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert on_battery() is expected


@pytest.mark.parametrize("platform", ["linux", "darwin", "freebsd"])
def test_a_system_that_does_not_say_counts_as_plugged_in(
    monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(power, "SUPPLIES", Path("/absent"))
    monkeypatch.setattr(power, "PMSET", ("/absent",))
    monkeypatch.setattr(sys, "platform", platform)
    assert on_battery() is False
