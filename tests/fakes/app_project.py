"""Packages with an app in them, that can be installed without a package index."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

_NO_FILES: Mapping[str, str] = {}

_BACKEND = """
import sys
sys.path.insert(0, {tests!r})
{before}

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    from pathlib import Path
    from app_project import write_wheel
    source = Path("app.py").read_text(encoding="utf-8")
    return write_wheel(Path(wheel_directory), {name!r}, source, **{options!r}).name
"""


def write_wheel(
    folder: Path,
    app: str,
    source: str,
    *,
    version: str = "1.0",
    needs: tuple[str, ...] = (),
    also: Mapping[str, str] = _NO_FILES,
    entry_points: str | None = None,
) -> Path:
    """A wheel of the package `APP-app`, whose one module is the app.

    Args:
        needs: requirements of the package.
        also: more files in it, by path.
        entry_points: instead of the one for the app.
    """
    module = f"{app}_app"
    metadata = f"{module}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    entries = f"[tactful.apps]\n{app} = {module}\n" if entry_points is None else entry_points
    files = {
        f"{module}.py": source,
        **also,
        f"{metadata}/METADATA": (
            f"Metadata-Version: 2.1\nName: {module}\nVersion: {version}\n{requires}"
        ),
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{metadata}/entry_points.txt": entries,
    }
    files[f"{metadata}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{metadata}/RECORD"])
    wheel = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


def write_project(
    folder: Path, app: str, source: str, *, before: str = "", **options: object
) -> Path:
    """A source folder that builds itself to such a wheel, with a backend of its own.

    Args:
        before: code that the backend runs as it is imported.
    """
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "{app}-app"\nversion = "1.0"\n',
        encoding="utf-8",
    )
    (folder / "app.py").write_text(source, encoding="utf-8")
    (folder / "backend.py").write_text(
        _BACKEND.format(tests=".", before=before, name=app, options=options), encoding="utf-8"
    )
    (folder / "app_project.py").write_text(
        Path(__file__).read_text(encoding="utf-8"), encoding="utf-8"
    )
    return folder
