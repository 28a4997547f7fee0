"""The policies that were good, kept so that the owner can go back to one.

Decides what is a version, and how many are kept: the newest `MOST_VERSIONS`. What is *not* here:
going back (`policy_file`), and the record of what is in force (`policy.record`).

Invariants:

- only what the daemon would start with is kept, as it was written, comments and all;
- numbers only grow, so a number that the owner has seen never means another policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tactful.profile import Profile
from tactfuld.owners_file import replace
from tactfuld.policy.loading import parse_document
from tactfuld.problems import FileRefusedError
from tactfuld.yaml_file import read_text

MOST_VERSIONS = 20
VERSIONS_FOLDER = "policies"
"""In the state folder."""


@dataclass(frozen=True, slots=True)
class Version:
    """A text that `policy.yaml` once had.

    Attributes:
        kept_at: when it was kept, in seconds since 1970.
    """

    number: int
    file: Path
    kept_at: int


def versions(profile: Profile) -> tuple[Version, ...]:
    """What is kept, the oldest first."""
    folder = profile.state / VERSIONS_FOLDER
    files = [file for file in folder.glob("*.yaml") if file.stem.isdecimal()]
    found = (Version(int(file.stem), file, int(file.stat().st_mtime)) for file in files)
    return tuple(sorted(found, key=lambda version: version.number))


def keep_version(profile: Profile) -> None:
    """Keeps the policy as it is written, if it is in order and not the one that was kept last.

    Raises:
        OSError: it cannot be kept.
    """
    kept = versions(profile)
    try:
        text = read_text(profile.policy_file)
        if kept and kept[-1].file.read_bytes() == text.encode():
            return
        parse_document(text, source="")
    except (FileNotFoundError, FileRefusedError):
        return
    folder = profile.state / VERSIONS_FOLDER
    for each in (profile.state, folder):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = kept[-1].number + 1 if kept else 1
    replace(folder / f"{number}.yaml", text)
    for old in kept[: len(kept) + 1 - MOST_VERSIONS]:
        old.file.unlink(missing_ok=True)


@contextmanager
def versions_kept(profile: Profile) -> Iterator[None]:
    """Keeps the policy as it is before the block, and as it is afterwards."""
    keep_version(profile)
    yield
    keep_version(profile)
