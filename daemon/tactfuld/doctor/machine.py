"""The machine around the profile: `clock`, `sandbox`, `linger`.

Decides what follows from what the machine says. What is *not* here: the walls of a sandbox
(`tactfuld.apps.sandbox`), and what time is for (`tactfuld.clock`).
"""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tactful.profile import Profile
from tactfuld.apps.sandbox import Bubblewrap, Confinement, NoSandbox
from tactfuld.doctor.check import Check, Name, not_applicable, ok, problem, unknown

EARLIEST = 1_767_225_600
"""Seconds since 1970 of 1 January 2026: nothing of ours was written before."""
TOLERANCE = 300
"""Seconds by which clocks that were set may differ."""

SYSTEMD = Path("/run/systemd/system")
"""Is there where systemd is what started the machine (sd_booted(3))."""
UNIT = "tactfuld.service"

_PATIENCE = 10


@dataclass(frozen=True, slots=True)
class Moment:
    """When something of the profile was written, by the clock of then; `what` names it."""

    what: str
    at: int


@dataclass(frozen=True, slots=True)
class Lingering:
    """What systemd says about this user.

    Attributes:
        systemd: whether it is what started this machine.
        lingers: whether the user's services outlive the last session; `None` if it does not say.
        enabled: whether the daemon is one of the user's services.
    """

    systemd: bool
    lingers: bool | None = None
    enabled: bool = False


def check_clock(now: int, moments: Iterable[Moment]) -> Check:
    """The clock has not gone back behind anything that was written."""
    if now < EARLIEST:
        return problem(
            Name.CLOCK,
            f"The clock says {_day(now)}, which is before there was this program.",
            "Set the clock; until then epochs are not renewed and turns do not expire in time.",
        )
    newest = max(moments, key=lambda moment: moment.at, default=Moment("nothing", 0))
    if newest.at > now + TOLERANCE:
        return problem(
            Name.CLOCK,
            f"The clock says {_day(now)}, but {newest.what} is of {_day(newest.at)}.",
            "Set the clock. If it was ahead when that was written, it will be right again at that "
            "time; no budget comes back or is lost by it.",
        )
    return ok(Name.CLOCK, f"The clock says {_day(now)}, which is after everything that is written.")


def file_moments(profile: Profile) -> tuple[Moment, ...]:
    """When the profile's files were written last."""
    found = []
    for path in (*profile.data.glob("*.db"), *profile.state.glob("*.mark")):
        try:
            found.append(Moment(path.name, int(path.stat().st_mtime)))
        except OSError:
            continue
    return tuple(found)


def check_sandbox(confinement: Confinement | None) -> Check:
    """Apps can be confined; `None` where the settings do not say whether they are to be."""
    match confinement:
        case None:
            return unknown(
                Name.SANDBOX, "The settings cannot be read.", "Mend settings.yaml and look again."
            )
        case Bubblewrap(program=program):
            return ok(Name.SANDBOX, f"A program ran inside the sandbox of {program}.")
        case NoSandbox(problem=told):
            return problem(Name.SANDBOX, told, "Until then, no app that is installed here starts.")
        case _:
            return ok(
                Name.SANDBOX,
                "The settings say `sandbox: off`: apps run as you do and can read your files.",
                "`tactful config set sandbox required` confines them.",
            )


def lingering() -> Lingering:
    """Asks systemd; blocks for a moment."""
    if not SYSTEMD.is_dir():
        return Lingering(systemd=False)
    shown = _said("loginctl", "show-user", getpass.getuser(), "--property=Linger", "--value")
    enabled = _said("systemctl", "--user", "is-enabled", UNIT) == "enabled"
    return Lingering(systemd=True, lingers={"yes": True, "no": False}.get(shown), enabled=enabled)


def check_linger(found: Lingering) -> Check:
    """A daemon that is one of the user's services stays when the user logs out."""
    if not found.systemd:
        return not_applicable(Name.LINGER, "systemd is not what started this machine.")
    if not found.enabled:
        return not_applicable(
            Name.LINGER, f"The daemon is no service of yours ({UNIT} is not enabled)."
        )
    if found.lingers is None:
        return unknown(
            Name.LINGER,
            "systemd does not say whether your services stay when you log out.",
            "Look at `loginctl show-user --property=Linger`.",
        )
    if found.lingers:
        return ok(Name.LINGER, "Your services stay when you log out, and so does the daemon.")
    return problem(
        Name.LINGER,
        "Your services end when you log out, and so does the daemon.",
        "If it is to stay, run `loginctl enable-linger`.",
    )


def _said(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _day(at: int) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "a time that no calendar has"
