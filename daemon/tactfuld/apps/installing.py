"""Installing an app into an environment of its own.

Decides the order of steps, and that none of them runs code of the app outside the sandbox. What is
*not* here: which apps are installed (`environments`), the library they import (`sdk`), what an app
says of itself (`describing`), and what it is granted (the policy).

| step | what runs | where |
| --- | --- | --- |
| an environment is made | Python's `venv` | here |
| a folder is built to a wheel | its build backend, the app's own code | in the sandbox |
| what the build needs, the wheel, and what it needs are installed | pip, from wheels only | here |
| the app says what it is called and asks for | the app | in the sandbox |

pip reads the owner's own configuration, so it asks the package index that the owner configured, or
none. Installing a wheel unpacks it and runs nothing of it. After that, nothing here runs the
environment's interpreter outside the sandbox: it could be the app's own.

Invariants:

- the environment is a new one each time, so nothing of an earlier version is left in it;
- a step that fails leaves nothing behind but its log; what was installed before stays as it was.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path

from tactful.errors import AlreadyExists, NotFound, Unusable
from tactful.hooks import ENTRY_POINTS
from tactful_core.values import AppId
from tactfuld.apps.child import last_words, safe_to_show
from tactfuld.apps.describing import Look, run_in_sandbox
from tactfuld.apps.environments import FOLDER, OwnApp, keep, own_apps
from tactfuld.apps.installed import installed_beside, own_app, packages_of
from tactfuld.apps.sdk import put_library

LOG = "install.log"
"""In the profile's folder of logs: what the last installation said."""

Report = Callable[[str, int, int], None]

_STEP_SECONDS = 900
_STEPS = 4
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?([=<>!~]=?[^;@\s]+)?")
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.egg-info", "build", "dist")

_KEPT_BACK = ("PYTHON", "TACTFUL_")
"""Variables that pip is not given: what changes its interpreter, and what may be secret."""

_BUILD = """
import importlib, os, sys
source, out, backend, *folders = sys.argv[1:]
os.chdir(source)
sys.path[:0] = folders
module, _, attribute = backend.partition(":")
found = importlib.import_module(module)
for name in filter(None, attribute.split(".")):
    found = getattr(found, name)
found.build_wheel(out)
"""


def install(look: Look, source: str, expected: AppId | None, report: Report) -> OwnApp:
    """Installs an app; it is one of the profile's from then on. The caller holds `alone`.

    Args:
        source: a folder, a wheel file, or the name of a package, with or without a version.
        expected: the app that this is to take the place of; `None` for a new one.

    Raises:
        NotFound: there is nothing at the source, or it has no app.
        AlreadyExists: an app of this name is installed.
        Unusable: a step failed; the message says which, and where the log is.
    """
    state = look.profile.state
    name = secrets.token_hex(8)
    environment = state / FOLDER / name
    log = state / "logs" / LOG
    log.parent.mkdir(mode=0o700, exist_ok=True)
    log.unlink(missing_ok=True)
    try:
        report("making an environment", 0, _STEPS)
        packages = _made(environment, log)
        put_library(packages)
        with _wheel_of(look, source, environment, log, report) as wheel:
            report("installing", 2, _STEPS)
            _pip(environment, log, "install", wheel)
        report("looking at the app", 3, _STEPS)
        entry, package = _only_app(packages, source)
        _refuse_taken(state, entry.name, expected)
        app = own_app(AppId(entry.name), environment)
        found = look.describe(app)
        installed = OwnApp(
            name=entry.name,
            package=package.name,
            version=package.version,
            source=source,
            environment=name,
            manifest=found.manifest,
            settings=found.settings,
        )
        keep(state, installed)
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    report("done", _STEPS, _STEPS)
    return installed


def contents(environment: Path) -> dict[str, str]:
    """The distributions in an environment and their versions, by name."""
    found = distributions(path=[str(packages_of(environment))])
    return dict(sorted((each.name, each.version) for each in found))


def _made(environment: Path, log: Path) -> Path:
    """A new environment that shares nothing with the daemon's; its folder of packages."""
    command = [sys.executable, "-I", "-m", "venv"]
    if importlib.util.find_spec("pip") is not None:
        command.append("--without-pip")
    _run([*command, str(environment)], log, "An environment for the app could not be made")
    return packages_of(environment)


def _pip(environment: Path, log: Path, command: str, *words: str) -> None:
    """Runs pip for an environment that has nothing of the app in it yet; wheels only."""
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-I", "-m", "pip", "--python", str(environment / "bin" / "python")]
    else:
        pip = [str(environment / "bin" / "python"), "-I", "-m", "pip"]
    options = ["--no-input", "--disable-pip-version-check", "--only-binary", ":all:"]
    _run([*pip, command, *options, *words], log, "pip could not install the app")


@contextmanager
def _wheel_of(
    look: Look, source: str, environment: Path, log: Path, report: Report
) -> Iterator[str]:
    """What pip is to install: a wheel, which may be made for it, or a requirement."""
    path = Path(source).expanduser()
    if "/" not in source and not path.exists():
        if not _REQUIREMENT.fullmatch(source):
            raise NotFound(
                f"{safe_to_show(source)} is no folder, no wheel and no package's name. Name one of "
                "them."
            )
        yield source
    elif path.suffix == ".whl" and path.is_file():
        yield str(path.absolute())
    elif (path / "pyproject.toml").is_file():
        report("building", 1, _STEPS)
        with tempfile.TemporaryDirectory(dir=environment.parent) as work:
            yield str(_built(look, path.absolute(), Path(work), environment, log))
    else:
        raise NotFound(
            f"{path} is no folder with a pyproject.toml and no wheel, so there is no app to "
            "install."
        )


def _built(look: Look, source: Path, work: Path, environment: Path, log: Path) -> Path:
    """The wheel that a folder's own build backend makes of a copy of it, in the sandbox."""
    needs, backend, own = _build_system(source / "pyproject.toml")
    copy, tools, out = work / "source", work / "tools", work / "out"
    shutil.copytree(source, copy, symlinks=True, ignore=_NOT_COPIED)
    out.mkdir()
    if needs:
        _pip(environment, log, "install", "--target", str(tools), *needs)
    folders = [str(copy / each) for each in own] + [str(tools)]
    argv = ["-I", "-S", "-c", _BUILD, str(copy), str(out), backend, *folders]
    status, last = run_in_sandbox(look, argv, folder=work, log=log)
    wheels = [path for path in out.iterdir() if path.suffix == ".whl" and path.is_file()]
    if status != 0 or len(wheels) != 1 or wheels[0].is_symlink():
        raise Unusable(
            f"The folder {source} could not be built (status {status}). {last} "
            f"The whole log is {log}."
        )
    return wheels[0]


def _build_system(file: Path) -> tuple[list[str], str, list[str]]:
    """What building needs, the backend, and the folders of the project that hold it (PEP 517)."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("build-system", {})
    except (OSError, ValueError) as error:
        raise Unusable(f"The file {file} cannot be read as TOML.") from error
    needs = table.get("requires", ["setuptools", "wheel"])
    backend = table.get("build-backend", "setuptools.build_meta:__legacy__")
    own = table.get("backend-path", [])
    texts = [*needs, backend, *own] if isinstance(needs, list) and isinstance(own, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise Unusable(f"The table build-system in {file} is not one of PEP 517.")
    for need in needs:
        if need.startswith("-"):
            raise Unusable(f"The requirement {safe_to_show(need)} in {file} is none.")
    return needs, backend, own


def _only_app(packages: Path, source: str) -> tuple[EntryPoint, Distribution]:
    found = [
        (entry, package)
        for package in distributions(path=[str(packages)])
        for entry in package.entry_points
        if entry.group == ENTRY_POINTS
    ]
    if len(found) != 1:
        names = ", ".join(sorted(safe_to_show(entry.name) for entry, _ in found)) or "none"
        raise NotFound(
            f"{safe_to_show(source)} was not installed. It must have exactly one app, that is, one "
            f"entry point in the group {ENTRY_POINTS}; it has: {names}."
        )
    [(entry, package)] = found
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", entry.name):
        raise Unusable(
            f"The app calls itself {safe_to_show(entry.name)}. A name has small letters, digits "
            "and _, and begins with a letter."
        )
    return entry, package


def _refuse_taken(state: Path, name: str, expected: AppId | None) -> None:
    if expected is not None:
        if name != expected:
            raise Unusable(
                f"The package is now the app {name}, no longer {expected}, so it was not updated. "
                f"Remove {expected} and add {name} instead."
            )
        return
    if AppId(name) in own_apps(state):
        raise AlreadyExists(
            f"The app {name} is installed already. Use `tactful apps update {name}`, or remove it "
            "first."
        )
    if AppId(name) in installed_beside():
        raise AlreadyExists(
            f"The app {name} is installed where tactfuld is, so another one cannot have its name."
        )


def _run(argv: Sequence[str], log: Path, failure: str) -> None:
    """Runs a program of ours to its end; all that it says goes to the log."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_KEPT_BACK)
    }
    with log.open("ab") as file:
        status: int | None = None
        with suppress(subprocess.TimeoutExpired):
            status = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment,
                timeout=_STEP_SECONDS,
                check=False,
            ).returncode
    if status is None:
        raise Unusable(f"{failure}: it took longer than {_STEP_SECONDS} seconds. See {log}.")
    if status != 0:
        raise Unusable(f"{failure}: {_first_error(log)} The whole log is {log}.")


def _first_error(log: Path) -> str:
    """What pip says was wrong; else the last line."""
    text = log.read_text(encoding="utf-8", errors="replace")
    said = [line for line in text.splitlines() if line.startswith("ERROR: ")]
    return safe_to_show(said[-1].removeprefix("ERROR: ")) if said else last_words(log)
