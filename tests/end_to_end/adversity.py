"""Things that go wrong around a program: folders that cannot be written, disks that are full."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


def without_privileges() -> None:
    """In a child before it runs a program: file permissions count, for the superuser too."""
    libc = ctypes.CDLL(None)
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing can be made in the folder during the block."""
    folder.chmod(0o500)
    try:
        tried = subprocess.run(
            [sys.executable, "-c", f"open({str(folder / 'x')!r}, 'w')"],
            preexec_fn=without_privileges,
            capture_output=True,
            check=False,
        )
        if tried.returncode == 0:
            (folder / "x").unlink()
            pytest.skip("this machine lets the superuser write everywhere")
        yield
    finally:
        folder.chmod(0o700)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """The folder is a file system of its own, of this size, during the block."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("a small file system can be mounted by the superuser of Linux only")
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let tests mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607


def fill(folder: Path) -> Path:
    """Writes a file until nothing more fits; returns it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler
