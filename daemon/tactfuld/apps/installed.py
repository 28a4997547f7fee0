"""Which apps are installed, and which folders a child needs to import one.

Decides from package metadata alone. What is *not* here: importing an app, which only its own child
does, and whether it may start, which is policy.

Invariants:

- listing and finding import no app, so a broken one cannot harm whoever asks;
- a name that two distributions claim belongs to neither.
"""

from __future__ import annotations

import importlib.util
import site
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import tactful
from tactful.hooks import ENTRY_POINTS
from tactful_core.values import AppId


class NotInstalledError(Exception):
    """No single installed app has this name; the message is for the owner."""


@dataclass(frozen=True, slots=True)
class InstalledApp:
    """An app that a child can load.

    Attributes:
        folders: import folders that hold it, `tactful`, and what the owner installed for both.
    """

    name: AppId
    folders: tuple[Path, ...]


def installed_names() -> frozenset[AppId]:
    """The names in the entry-point group `tactful.apps`."""
    return frozenset(AppId(entry.name) for entry in entry_points(group=ENTRY_POINTS))


def find_installed(name: AppId) -> InstalledApp:
    """The installed app of this name; reads package metadata, so never on the event loop.

    Raises:
        NotInstalledError: there is none, or more than one, or its module is not there.
    """
    found = list(entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        raise NotInstalledError(
            f"The app {name} is not installed: no installed package has an entry point {name} in "
            f"the group {ENTRY_POINTS}. Install its package where tactfuld is installed."
        )
    if len(found) > 1:
        owners = " and ".join(sorted(_distribution(entry) for entry in found))
        raise NotInstalledError(
            f"The app {name} is installed twice, by {owners}. Uninstall one of them."
        )
    return InstalledApp(name, _folders(found[0]))


def _folders(entry: EntryPoint) -> tuple[Path, ...]:
    found = _import_folders(entry.module)
    if not found:
        raise NotInstalledError(
            f"The app {entry.name} is installed without its module {entry.module}. "
            f"Install the package {_distribution(entry)} again."
        )
    found += _import_folders(tactful.__name__)
    if entry.dist is not None:
        found.append(Path(str(entry.dist.locate_file(""))))
    if site.ENABLE_USER_SITE:
        found.append(Path(site.getusersitepackages()))
    return tuple(dict.fromkeys(folder.absolute() for folder in found if folder.is_dir()))


def _import_folders(module: str) -> list[Path]:
    """The folders that hold a module's top-level package. Finding that one imports nothing."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [Path(location).parent for location in spec.submodule_search_locations]
    return [Path(spec.origin).parent] if spec.origin else []


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown package"
