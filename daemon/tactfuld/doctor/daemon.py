"""Whether a daemon runs, and whether it can be reached: `lock`, `socket`.

Decides what fits together. What is *not* here: taking the lock (`examination`), and making sockets
(`tactfuld.server.sockets`).
"""

from __future__ import annotations

import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tactful.profile import Profile
from tactfuld.doctor.check import Check, Name, not_applicable, ok, problem

_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Door:
    """A socket's file.

    Attributes:
        present: whether there is anything at the path.
        mode: its type and permissions.
        answers: whether somebody accepts connections there.
    """

    path: Path
    present: bool
    mode: int = 0
    answers: bool = False


def check_lock(*, held: bool, refusal: str) -> Check:
    """The data folder can be held by one process.

    Args:
        held: whether another process holds it.
        refusal: why it cannot be held at all; empty if it can.
    """
    if refusal:
        return problem(
            Name.LOCK, refusal, "Without its lock no daemon starts; see that the folder is yours."
        )
    if held:
        return ok(Name.LOCK, "A tactful process holds the data folder.")
    return ok(Name.LOCK, "Nobody holds the data folder, and it can be held.")


def doors_of(profile: Profile) -> tuple[Door, ...]:
    """The profile's two sockets; asks whether somebody listens."""
    return tuple(_door(path) for path in (profile.owner_socket, profile.app_socket))


def check_socket(doors: Sequence[Door], *, running: bool) -> Check:
    """While a daemon runs, both sockets answer, and only its owner may use them."""
    if not running:
        return _check_without_daemon(doors)
    silent = [door.path for door in doors if not door.answers]
    if silent:
        return problem(
            Name.SOCKET,
            f"A process holds the data folder, but nobody answers at {_listed(silent)}.",
            "If no other command is at work, stop the daemon (`tactful stop`, or end the process "
            "that has the file `lock` open) and start it anew.",
        )
    wide = [door.path for door in doors if stat.S_IMODE(door.mode) & 0o077]
    if wide:
        return problem(
            Name.SOCKET,
            f"Other users may connect to {_listed(wide)}.",
            "Restart the daemon: it makes its sockets with mode 0600.",
        )
    return ok(Name.SOCKET, f"Both sockets in {doors[0].path.parent} answer.")


def _check_without_daemon(doors: Sequence[Door]) -> Check:
    answering = [door.path for door in doors if door.answers]
    if answering:
        return problem(
            Name.SOCKET,
            f"Somebody answers at {_listed(answering)}, but no daemon holds the data folder.",
            "Find out which program it is and end it; a daemon cannot start before.",
        )
    blocked = [door.path for door in doors if door.present and not stat.S_ISSOCK(door.mode)]
    if blocked:
        return problem(
            Name.SOCKET,
            f"Something that is not a socket is at {_listed(blocked)}.",
            "Move it away; a daemon cannot start before.",
        )
    return not_applicable(Name.SOCKET, "No daemon runs, so there are no sockets to look at.")


def _door(path: Path) -> Door:
    try:
        mode = path.stat().st_mode
    except OSError:
        return Door(path, present=False)
    return Door(path, present=True, mode=mode, answers=_answers(path))


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PATIENCE)
        try:
            probe.connect(str(path))
        except (BlockingIOError, TimeoutError):
            return True  # its queue is full, so somebody listens
        except OSError:
            return False
    return True


def _listed(paths: Sequence[Path]) -> str:
    return " and ".join(map(str, paths))
