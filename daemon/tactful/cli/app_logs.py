"""Reading the end of an app's log.

Decides how much of it is read. What is *not* here: who writes it (the app's own process).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tactful.errors import NotFound, UsageError

_MOST_BYTES = 1024 * 1024


def end_of_log(file: Path, app: str, lines: int) -> list[str]:
    """The last lines of the log, and at most its last MiB.

    Raises:
        UsageError: no app can have this name.
        NotFound: there is no log.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", app):
        raise UsageError("An app's name has small letters, digits and _.")
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise NotFound(
            f"The app {app} has no log yet: it was never started here. It would be {file}."
        ) from error
    with os.fdopen(descriptor, "rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - _MOST_BYTES))
        text = log.read(_MOST_BYTES).decode("utf-8", errors="replace")
    return text.splitlines()[-lines:]
