"""Whether this machine runs on its battery.

Decides whom to ask: Linux's power supplies, macOS's `pmset`. What is *not* here: what follows.

Where nobody says, the machine counts as plugged in, so nothing pauses for lack of an answer.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SUPPLIES = Path("/sys/class/power_supply")
PMSET = ("/usr/bin/pmset", "-g", "batt")
PATIENCE = 5


def on_battery() -> bool:
    """Asks the system; blocks."""
    if sys.platform == "darwin":
        return _told_by_pmset(_pmset())
    return _told_by_supplies(SUPPLIES)


def _told_by_supplies(folder: Path) -> bool:
    """A battery of the machine discharges, and no line is plugged in.

    A mouse or a headset has a battery too, of the scope `Device`.
    """
    with suppress(OSError):
        supplies = list(folder.iterdir())
        kinds = [(_word(each, "type"), each) for each in supplies]
        plugged = any(_word(each, "online") == "1" for kind, each in kinds if kind != "Battery")
        return not plugged and any(
            _word(each, "status") == "Discharging" and _word(each, "scope") != "Device"
            for kind, each in kinds
            if kind == "Battery"
        )
    return False


def _word(supply: Path, name: str) -> str:
    with suppress(OSError, ValueError):
        return (supply / name).read_text("ascii").strip()
    return ""


def _told_by_pmset(words: str) -> bool:
    return "'Battery Power'" in words


def _pmset() -> str:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(PMSET, capture_output=True, timeout=PATIENCE, check=True)
        return done.stdout.decode("utf-8", "replace")
    return ""
