"""The apps that have an environment of their own, and where it is.

Decides what is known of an app that `tactful apps add` installed. What is *not* here: making an
environment (`installing`), the library that apps import (`sdk`), whether an app may start (policy).

`venvs/installed.json` in the profile's state folder names them; beside it is one folder for each. A
folder that the file does not name is left over from an installation that was cut short, or from an
environment that another took the place of, and may be removed at any time.

Invariants:

- an app is there as a whole or not at all: the file is replaced whole, after its folder is ready;
- looking imports no app and runs no interpreter.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful.errors import Busy, Unusable
from tactful.manifest import Manifest, Setting
from tactful.wire import Name
from tactful_core.values import AppId
from tactfuld.store.whole_file import replace_file

FOLDER = "venvs"
"""In the profile's state folder."""

_RECORD = "installed.json"
_LARGEST_RECORD = 4 * 1024 * 1024


class OwnApp(BaseModel):
    """An app with an environment of its own.

    Attributes:
        package: its distribution.
        source: what the owner installed it from: a folder, a wheel, or a package's name.
        environment: the name of its folder.
        manifest: what it said of itself when it was installed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    package: str
    version: str
    source: str
    environment: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    manifest: Manifest
    settings: tuple[Setting, ...] = ()

    def folder(self, state: Path) -> Path:
        """Its environment in a profile whose state folder this is."""
        return state / FOLDER / self.environment


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    apps: tuple[OwnApp, ...] = ()


def own_apps(state: Path) -> dict[AppId, OwnApp]:
    """The apps of a profile that have an environment; reads a file, so never on the event loop.

    Raises:
        Unusable: the record cannot be read or is damaged.
    """
    path = state / FOLDER / _RECORD
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_RECORD)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise Unusable(f"The file {path} could not be read: {error.strerror}.") from error
    try:
        record = _Record.model_validate_json(text)
    except ValidationError as error:
        raise Unusable(
            f"The file {path} is damaged, so it is not known which apps are installed. Delete it "
            "and add each of them again with `tactful apps add`."
        ) from error
    return {AppId(app.name): app for app in record.apps}


def keep(state: Path, app: OwnApp) -> None:
    """Makes an app one of the installed ones, in the place of an earlier one of its name."""
    _write(state, {**own_apps(state), AppId(app.name): app})


def drop(state: Path, name: AppId) -> None:
    """Makes an app none of the installed ones."""
    _write(state, {other: app for other, app in own_apps(state).items() if other != name})


@contextmanager
def alone(state: Path) -> Iterator[None]:
    """Keeps other programs from installing meanwhile, and removes what none of them finished.

    Raises:
        Busy: another one is at it.
    """
    folder = state / FOLDER
    for made in (state, folder):
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(
                "Another `tactful apps add`, `update` or `remove` is running. Wait for it."
            ) from error
        sweep(state)
        yield
    finally:
        os.close(descriptor)


def sweep(state: Path) -> None:
    """Removes every folder that the record does not name."""
    named = {app.environment for app in own_apps(state).values()}
    for path in (state / FOLDER).iterdir():
        if path.is_dir() and not path.is_symlink() and path.name not in named:
            shutil.rmtree(path, ignore_errors=True)


def _write(state: Path, apps: dict[AppId, OwnApp]) -> None:
    path = state / FOLDER / _RECORD
    record = _Record(apps=tuple(apps[name] for name in sorted(apps)))
    try:
        replace_file(path, record.model_dump_json(indent=1).encode() + b"\n")
    except OSError as error:
        raise Unusable(
            f"The file {path} could not be written: {error.strerror}. Nothing changed."
        ) from error
