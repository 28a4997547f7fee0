"""Files, folders and the disk they are on: `permissions`, `disk`.

Decides what is too open and how much room there has to be. What is *not* here: what is in the
files.
"""

from __future__ import annotations

import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tactful.profile import Profile
from tactfuld.doctor.check import Check, Name, ok, problem

LEAST_ROOM = 64 * 1024 * 1024
"""Bytes that a folder's disk should have free, whatever is in it."""
ROOM_FOR_MEMORY = 3
"""A write seals all of memory anew, into the write-ahead log and from there into the file."""

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder of the profile.

    Attributes:
        refusal: why it could not be looked at; then the mode says nothing.
    """

    path: Path
    mode: int = 0
    uid: int = 0
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Room:
    """What is free where a folder is, in bytes; `refusal` as in `Place`."""

    folder: Path
    free: int = 0
    needed: int = LEAST_ROOM
    refusal: str = ""


def places_of(profile: Profile) -> tuple[Place, ...]:
    """The profile's folders and what lies directly in them; an app's own files are the app's."""
    folders = [profile.config, profile.data, profile.state]
    if profile.runtime.exists():
        folders.append(profile.runtime)
    return tuple(_places(dict.fromkeys(folders)))


def check_permissions(places: Sequence[Place], uid: int) -> Check:
    """Everything belongs to the user and to nobody else."""
    refused = [f"{place.path}: {place.refusal}" for place in places if place.refusal]
    looked_at = [place for place in places if not place.refusal]
    foreign = [place.path for place in looked_at if place.uid != uid]
    open_ = [place.path for place in looked_at if stat.S_IMODE(place.mode) & 0o077]
    told, advice = [], []
    if refused:
        told.append(f"Could not be looked at: {_listed(refused)}.")
        advice.append("See that they are there and belong to you.")
    if foreign:
        told.append(f"Of another user: {_listed(foreign)}.")
        advice.append(f"Run `sudo chown -R $USER {_words(foreign)}`.")
    if open_:
        told.append(f"Open to other users: {_listed(open_)}.")
        advice.append(f"Run `chmod go-rwx {_words(open_)}`.")
    if told:
        return problem(Name.PERMISSIONS, " ".join(told), " ".join(advice))
    return ok(Name.PERMISSIONS, f"{len(places)} files and folders are open to nobody else.")


def rooms_of(profile: Profile) -> tuple[Room, ...]:
    """What is free for data, for state and for models."""
    needed = ROOM_FOR_MEMORY * _size(profile.data.glob("*.db"))
    return (
        _room(profile.data, max(needed, LEAST_ROOM)),
        _room(profile.state, LEAST_ROOM),
        _room(_existing(profile.models), LEAST_ROOM),
    )


def check_disk(rooms: Sequence[Room]) -> Check:
    """Every write that may come has room."""
    refused = [f"{room.folder}: {room.refusal}" for room in rooms if room.refusal]
    if refused:
        return problem(
            Name.DISK,
            f"What is free could not be found out: {_listed(refused)}.",
            "See that the folders are there and belong to you.",
        )
    short = [room for room in rooms if room.free < room.needed]
    if short:
        told = [f"{r.folder} has {_mib(r.free)} free and wants {_mib(r.needed)}" for r in short]
        return problem(
            Name.DISK, f"{_listed(told)}.", "Make room: a charge that has no room is refused."
        )
    least = min(room.free for room in rooms)
    return ok(Name.DISK, f"At least {_mib(least)} are free for everything that is written.")


def _places(folders: Iterable[Path]) -> Iterator[Place]:
    for folder in folders:
        place = _place(folder)
        yield place
        if place.refusal:
            continue
        try:
            paths = sorted(folder.iterdir())
        except OSError as refusal:
            yield Place(folder, refusal=_why(refusal))
            continue
        for path in paths:
            if not path.name.endswith(("-wal", "-shm", ".new")):  # they come and go
                yield _place(path)


def _place(path: Path) -> Place:
    try:
        found = path.stat()
    except OSError as refusal:
        return Place(path, refusal=_why(refusal))
    return Place(path, found.st_mode, found.st_uid)


def _room(folder: Path, needed: int) -> Room:
    try:
        return Room(folder, shutil.disk_usage(folder).free, needed)
    except OSError as refusal:
        return Room(folder, needed=needed, refusal=_why(refusal))


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that there is."""
    return next((each for each in (folder, *folder.parents) if each.exists()), folder)


def _size(files: Iterable[Path]) -> int:
    try:
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0


def _why(refusal: OSError) -> str:
    return refusal.strerror or type(refusal).__name__


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _listed(things: Sequence[object]) -> str:
    """The first few, and how many more there are."""
    named = ", ".join(map(str, things[:_MOST_NAMED]))
    more = len(things) - _MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _words(paths: Sequence[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths[:_MOST_NAMED])
