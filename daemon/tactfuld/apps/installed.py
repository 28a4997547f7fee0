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
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import tactful
from tactful.hooks import ENTRY_POINTS
from tactful_core.values import AppId
from tactfuld.apps.environments import own_apps
from tactfuld.apps.sandbox import interpreter_folders, shared_interpreter


class NotInstalledError(Exception):
    """No single installed app has this name; the message is for the owner."""


@dataclass(frozen=True, slots=True)
class InstalledApp:
    """An app that a child can load.

    Attributes:
        interpreter: what runs it; trusted only if the app has no environment of its own.
        read_only: all folders that the child must read, besides the system's.
        folders: where Python looks first: what holds the app, `tactful`, and what the owner
            installed for both, unless the interpreter knows it.
        library: the folder of packages with a library of the app's own, if it has an environment.
    """

    name: AppId
    interpreter: Path
    read_only: tuple[Path, ...]
    folders: tuple[Path, ...] = ()
    library: Path | None = None

    def command(self) -> list[str]:
        """The command line of the app's process, up to what the process is for."""
        options = ["-P", "-s", "-m", "tactful.app_main", "--app", self.name]
        return [str(self.interpreter), *options]


def installed_names(state: Path) -> frozenset[AppId]:
    """Every app that is installed: beside the daemon, or in an environment of its own.

    Raises:
        Unusable: what has an environment is not known.
    """
    return installed_beside() | own_apps(state).keys()


def installed_beside() -> frozenset[AppId]:
    """The names in the entry-point group `tactful.apps` where the daemon is installed."""
    return frozenset(AppId(entry.name) for entry in entry_points(group=ENTRY_POINTS))


def find_installed(name: AppId, state: Path) -> InstalledApp:
    """The installed app of this name; reads package metadata, so never on the event loop.

    Args:
        state: the profile's state folder.

    Raises:
        NotInstalledError: there is none, or more than one, or its module is not there.
        Unusable: what has an environment is not known.
    """
    own = own_apps(state).get(name)
    if own is not None:
        return own_app(name, own.folder(state))
    found = list(entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        raise NotInstalledError(
            f"The app {name} is not installed. Install it with `tactful apps add`."
        )
    if len(found) > 1:
        owners = " and ".join(sorted(_distribution(entry) for entry in found))
        raise NotInstalledError(
            f"The app {name} is installed twice, by {owners}. Uninstall one of them."
        )
    interpreter = interpreter_folders()
    folders = tuple(
        folder
        for folder in _folders(found[0])
        if not any(folder.is_relative_to(known) for known in interpreter)
    )
    return InstalledApp(name, Path(sys.executable), (*interpreter, *folders), folders)


def own_app(name: AppId, environment: Path) -> InstalledApp:
    """The app in an environment of its own."""
    python = environment / "bin" / "python"
    readable = (*shared_interpreter(), environment)
    return InstalledApp(name, python, readable, library=packages_of(environment))


def packages_of(environment: Path) -> Path:
    """The folder of packages in an environment."""
    base = {"base": str(environment), "platbase": str(environment)}
    return Path(sysconfig.get_path("purelib", "venv", base))


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
