"""A small file of the state folder that is replaced whole.

Decides how: by one rename, so that a reader finds the bytes before or the bytes after. What is
*not* here: what the bytes say (`mark`, `witness`).
"""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes, *, durably: bool = False) -> None:
    """Puts the content in the place of what was there, with mode 0600.

    Args:
        durably: whether to wait until the content is on the disk.

    Raises:
        OSError: the operating system refuses; what was there before stays.
    """
    beside = path.with_name(f"{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if durably:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
