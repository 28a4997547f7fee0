"""Folders that the owner granted an app: which of them may be shown to it.

Decides whether a folder can be opened to an app without opening more. What is *not* here: what the
owner granted (the policy), and how a folder is shown (`sandbox`).

A folder is shown by its path, and the path is followed when the app starts. An app that could
change a part of that path (by writing in a folder above it) could have another folder shown, so:

- a path with a symbolic link in it is refused, and the real one named;
- a folder below one that any app may write is refused;
- a folder of the profile, or one that contains it or the owner's home, is refused, and so is what
  belongs to the system.

What lies *in* a granted folder needs no such care: a link there is followed inside the sandbox,
where its target is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = tuple(map(Path, ("/proc", "/sys", "/dev", "/run", "/var/run", "/usr", "/etc")))


class FolderRefusedError(Exception):
    """A folder cannot be shown to an app; the message is for the owner."""


@dataclass(frozen=True, slots=True)
class FolderGrant:
    """A folder as the policy names it: from `/` or from `~` on."""

    path: str
    writable: bool


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """A folder that may be shown to an app."""

    path: Path
    writable: bool


def whole_path(path: str, home: Path) -> Path:
    """The path that the policy means, with `~` as the owner's home."""
    return home / path[1:].lstrip("/") if path.startswith("~") else Path(path)


def open_folders(
    granted: Iterable[FolderGrant],
    *,
    home: Path,
    private: Iterable[Path],
    writable: Iterable[Path],
) -> tuple[OpenFolder, ...]:
    """The folders, if all of them may be shown; looks at the disk.

    Args:
        home: the owner's home folder.
        private: the profile's folders.
        writable: every folder that some app may write, by its whole path.

    Raises:
        FolderRefusedError: names the first that may not.
    """
    closed, changeable = tuple(private), tuple(writable)
    folders = []
    for grant in granted:
        path = whole_path(grant.path, home)
        problem = _problem(path, home, closed, changeable)
        if problem is not None:
            raise FolderRefusedError(f"The folder {path} cannot be opened to an app: {problem}")
        folders.append(OpenFolder(path, grant.writable))
    return tuple(folders)


def _problem(
    path: Path, home: Path, private: tuple[Path, ...], writable: tuple[Path, ...]
) -> str | None:
    if not path.is_dir():
        return "there is no such folder. Make it, or take it out of the policy."
    if path.resolve() != path:
        return (
            f"there is a symbolic link in its path. Name the folder itself, {path.resolve()}, in "
            "the policy."
        )
    for folder in (*private, *(each.resolve() for each in private)):
        if folder.is_relative_to(path) or path.is_relative_to(folder):
            return f"it is, contains or lies in {folder}, which is tactful's own. Name another."
    for whole in (home, home.resolve()):
        if whole.is_relative_to(path):
            return "it is or contains your home folder. Name a folder in it."
    for folder in _SYSTEM:
        if path.is_relative_to(folder):
            return "it belongs to the system. Name a folder of your own."
    for folder in writable:
        if path != folder and path.is_relative_to(folder):
            return (
                f"it lies in {folder}, which an app may write and could put another folder in its "
                "place. Grant one of the two only."
            )
    return None
