"""Lock and sockets fit together."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from tactful.profile import Profile
from tactfuld.doctor.check import State
from tactfuld.doctor.daemon import Door, check_lock, check_socket, doors_of

OWNER, APP = Path("/run/owner.sock"), Path("/run/app.sock")
SOCKET = stat.S_IFSOCK | 0o600


def doors(**changes: object) -> list[Door]:
    """Two sockets that answer, but for what is changed of the second."""
    second = {"present": True, "mode": SOCKET, "answers": True, **changes}
    return [Door(OWNER, True, SOCKET, True), Door(APP, **second)]  # type: ignore[arg-type]


def test_a_lock_is_well_held_and_not_held() -> None:
    assert check_lock(held=True, refusal="").state is State.OK
    assert check_lock(held=False, refusal="").state is State.OK


def test_a_lock_that_cannot_be_had_is_a_problem_in_its_own_words() -> None:
    check = check_lock(held=False, refusal="There is no data folder /p.")
    assert (check.state, check.detail) == (State.PROBLEM, "There is no data folder /p.")


def test_while_a_daemon_runs_both_sockets_answer_its_owner_only() -> None:
    assert check_socket(doors(), running=True).state is State.OK
    silent = check_socket(doors(answers=False), running=True)
    assert (silent.state, str(APP) in silent.detail) == (State.PROBLEM, True)
    wide = check_socket(doors(mode=stat.S_IFSOCK | 0o660), running=True)
    assert (wide.state, str(OWNER) in wide.detail) == (State.PROBLEM, False)


def test_without_a_daemon_a_stale_socket_is_nothing_to_look_at() -> None:
    gone = [Door(OWNER, False), Door(APP, True, SOCKET)]
    assert check_socket(gone, running=False).state is State.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("door", "words"),
    [
        (Door(APP, True, SOCKET, True), "no daemon holds the data folder"),
        (Door(APP, True, stat.S_IFREG | 0o600), "not a socket"),
    ],
)
def test_without_a_daemon_what_is_in_its_way_is_a_problem(door: Door, words: str) -> None:
    check = check_socket([Door(OWNER, False), door], running=False)
    assert (check.state, words in check.detail) == (State.PROBLEM, True)


def test_doors_are_looked_at_as_they_are(profile_dir: Path) -> None:
    profile = Profile.at(profile_dir)
    profile.runtime.mkdir()
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as stale:
        listening.bind(str(profile.owner_socket))
        listening.listen()
        stale.bind(str(profile.app_socket))
        owner, app = doors_of(profile)
    assert (owner.present, owner.answers) == (True, True)
    assert (app.present, app.answers) == (True, False)
    profile.app_socket.unlink()
    assert doors_of(profile)[1] == Door(profile.app_socket, present=False)
