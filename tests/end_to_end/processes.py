"""What the end-to-end tests work with and look at from outside: folders and processes."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.tactful.cli.command_line import INSTALLED, Tactful

MINUTES = 60.0
PASSPHRASE = "correct horse battery staple"


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name; removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="te-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def installed(folder: Path) -> Iterator[Tactful]:
    """The installed command, with a profile `p` in the folder and no keyring."""
    command = Tactful(
        INSTALLED,
        {
            "TACTFUL_PROFILE": str(folder / "p"),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        },
        patience=15 * MINUTES,
    )
    yield command
    if processes_naming(folder):
        command.run("stop")


def allow_apps(folder: Path, made: dict[str, Any]) -> None:
    """What the owner of a machine without a usable sandbox has to write."""
    if made["sandbox_problem"] is not None:
        (folder / "p" / "config" / "settings.yaml").write_text("sandbox: off\n")


def processes_naming(folder: Path) -> list[str]:
    """Command lines of running processes that name the folder (Linux; elsewhere none)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found
