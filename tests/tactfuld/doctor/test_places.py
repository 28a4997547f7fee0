"""Everything of a profile is its owner's alone, and has room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tactful.profile import Profile
from tactfuld.doctor import places
from tactfuld.doctor.check import State
from tactfuld.doctor.places import (
    LEAST_ROOM,
    Place,
    Room,
    check_disk,
    check_permissions,
    places_of,
    rooms_of,
)

ME = os.geteuid()


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    found = Profile.at(tmp_path / "p")
    for folder in (found.config, found.data, found.state):
        folder.mkdir(mode=0o700, parents=True)
    for file in (found.policy_file, found.data / "memory.db"):
        file.touch(mode=0o600)
    return found


def test_what_is_ones_own_is_well(profile: Profile) -> None:
    found = places_of(profile)
    assert {place.path for place in found} == {
        profile.config,
        profile.policy_file,
        profile.data,
        profile.data / "memory.db",
        profile.state,
    }
    assert check_permissions(found, ME).state is State.OK


@pytest.mark.parametrize("mode", [0o601, 0o604, 0o620, 0o640, 0o777])
def test_a_file_that_others_may_use_is_named_with_the_command(profile: Profile, mode: int) -> None:
    profile.policy_file.chmod(mode)
    check = check_permissions(places_of(profile), ME)
    assert check.state is State.PROBLEM
    assert f"Open to other users: {profile.policy_file}." in check.detail
    assert check.advice == f"Run `chmod go-rwx {profile.policy_file}`."


def test_an_open_folder_is_named(profile: Profile) -> None:
    profile.runtime.mkdir(mode=0o755)
    check = check_permissions(places_of(profile), ME)
    assert str(profile.runtime) in check.detail


def test_a_missing_folder_and_a_link_to_nothing_are_named(profile: Profile) -> None:
    profile.state.rmdir()
    link = profile.config / "settings.yaml"
    link.symlink_to("nowhere")
    check = check_permissions(places_of(profile), ME)
    assert check.state is State.PROBLEM
    assert f"{profile.state}: No such file or directory" in check.detail
    assert f"{link}: No such file or directory" in check.detail


def test_what_is_another_users_is_named() -> None:
    place = Place(Path("/p/data"), 0o40700, ME + 1)
    check = check_permissions([place], ME)
    assert check.detail == "Of another user: /p/data."
    assert "chown" in check.advice


def test_many_are_named_in_short() -> None:
    found = [Place(Path(f"/p/{number}"), 0o100644, ME) for number in range(7)]
    assert "/p/4 and 2 more." in check_permissions(found, ME).detail


def test_room_that_is_short_is_told_with_both_numbers() -> None:
    check = check_disk([Room(Path("/p"), LEAST_ROOM - 1), Room(Path("/q"), 2 * LEAST_ROOM)])
    assert (check.state, check.detail) == (
        State.PROBLEM,
        "/p has 64 MiB free and wants 64 MiB.",
    )
    assert check_disk([Room(Path("/p"), LEAST_ROOM)]).state is State.OK


def test_memory_wants_room_for_writing_all_of_it_anew(profile: Profile) -> None:
    os.truncate(profile.data / "memory.db", LEAST_ROOM)
    data, state, models = rooms_of(profile)
    assert data.needed == places.ROOM_FOR_MEMORY * LEAST_ROOM
    assert {state.needed, models.needed} == {LEAST_ROOM}


def test_a_folder_that_is_not_there_has_no_room(profile: Profile) -> None:
    profile.state.rmdir()
    check = check_disk(rooms_of(profile))
    assert check.state is State.PROBLEM
    assert str(profile.state) in check.detail
