"""The library that apps import, put into an environment of theirs.

Decides what that is: the package `tactful` without its command line, from this very installation,
and copies of the distributions that it needs. What is *not* here: environments (`installing`), and
what an app needs besides.

An app's environment shares nothing with the daemon's, so the library is copied, not linked. To pip
it looks installed: a package that depends on `tactful` finds it there, and other versions of what
the library needs can take the place of the copies.

Invariant: `refresh` gives the library the text that the daemon has now, whatever the app's packages
or an older daemon left there; both then speak the same protocol.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path

import tactful
from tactful.errors import Unusable

NEEDED = ("platformdirs", "pluggy", "pydantic")
"""What the library imports, of other people's."""

_LEFT_OUT = frozenset({"cli", "__pycache__"})


def put_library(packages: Path) -> None:
    """Puts the library and what it needs into a folder of packages.

    Raises:
        Unusable: something that it needs is not installed here as packages are.
    """
    for needed in _closure(NEEDED):
        _copy(needed, packages)
    own = version("tactful")
    metadata = packages / f"tactful-{own}.dist-info"
    metadata.mkdir()
    needs = "".join(f"Requires-Dist: {name}\n" for name in NEEDED)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: tactful\nVersion: {own}\n{needs}", encoding="utf-8"
    )
    (metadata / "INSTALLER").write_text("tactfuld\n", encoding="utf-8")
    refresh(packages)


def refresh(packages: Path) -> None:
    """Gives the library in a folder of packages the daemon's own text, if it has another one."""
    source, target = Path(tactful.__path__[0]), packages / "tactful"
    if target.is_dir() and not target.is_symlink() and _digest(target) == _digest(source):
        return
    if target.is_symlink():
        target.unlink()
    shutil.rmtree(target, ignore_errors=True)
    for path in _files(source):
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, copy)


def _digest(package: Path) -> str:
    found = hashlib.sha256()
    for path in _files(package):
        content = (package / path).read_bytes()
        found.update(f"{path}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def _files(package: Path) -> Iterator[Path]:
    """The files of a package below its folder, in a fixed order."""
    for path in sorted(package.rglob("*")):
        below = path.relative_to(package)
        if path.is_file() and not _LEFT_OUT & set(below.parts):
            yield below


def _closure(names: tuple[str, ...]) -> list[Distribution]:
    """The distributions of these names, and all that they need on this machine."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError as error:
            raise Unusable(
                f"The package {name}, which apps need, is not installed where tactfuld is. "
                "Install tactful again."
            ) from error
        waiting += _needs(found[name])
    return list(found.values())


def _needs(package: Distribution) -> Iterator[str]:
    for line in package.requires or ():
        requirement, _, condition = line.partition(";")
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if name is None or re.search(r"\bextra\b", condition):
            continue
        if condition and not _is_installed(name[0]):
            continue  # a condition that does not hold here
        yield name[0]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _copy(package: Distribution, packages: Path) -> None:
    """Copies what a distribution has in its own folder of packages; programs and caches stay."""
    files = package.files
    if files is None:
        raise Unusable(
            f"The package {package.name} cannot be copied for apps, since nothing lists its files. "
            "Install tactful with pip, in an environment of its own."
        )
    for file in files:
        parts = file.parts
        if file.is_absolute() or ".." in parts or "__pycache__" in parts:
            continue
        source, target = Path(str(package.locate_file(file))), packages / file
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
