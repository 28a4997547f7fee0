"""What the end-to-end tests look at from outside: folders and processes."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name; removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="te-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
