"""Apps installed for one test: a module and its package metadata in a folder on the import path."""

from __future__ import annotations

from pathlib import Path


def install_app(site: Path, name: str, source: str, *, package: str | None = None) -> Path:
    """Writes a single-module app with an entry point `name`; the module's path.

    Args:
        site: a folder that is, or will be, on the import path.
        package: the name of the module and of its distribution; `name` plus `_app` if `None`.
    """
    package = package or f"{name}_app"
    module = site / f"{package}.py"
    module.write_text(source, encoding="utf-8")
    install_entry_point(site, name, package, distribution=package)
    return module


def install_entry_point(site: Path, name: str, target: str, *, distribution: str) -> None:
    """Writes the metadata of a distribution with one entry point in the group `tactful.apps`."""
    metadata = site / f"{distribution}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", encoding="utf-8"
    )
    (metadata / "entry_points.txt").write_text(
        f"[tactful.apps]\n{name} = {target}\n", encoding="utf-8"
    )
