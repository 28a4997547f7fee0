"""What an app says in its log, which its owner reads with `tactful apps logs`.

Decides how often it may say something. What is *not* here: the file, which is the process's
standard error (`tactfuld.apps.child`), and its size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

BURST = 50
"""Lines at once."""
PER_SECOND = 5.0
"""Lines in the long run."""
MOST_CHARACTERS = 2000


class AppLog:
    """Writes lines, as long as there are not too many; then it says how many it left out."""

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._monotonic = monotonic
        self._now = now
        self._left = float(BURST)
        self._at = monotonic()
        self._dropped = 0

    def line(self, text: str) -> None:
        """Writes a text as one line, with the time; control characters become spaces."""
        moment = self._monotonic()
        self._left = min(BURST, self._left + (moment - self._at) * PER_SECOND)
        self._at = moment
        if self._left < 1:
            self._dropped += 1
            return
        self._left -= 1
        if self._dropped:
            self._say(f"({self._dropped} lines were left out: there were too many at a time)")
            self._dropped = 0
        self._say(text)

    def _say(self, text: str) -> None:
        shown = "".join(c if c.isprintable() else " " for c in text[:MOST_CHARACTERS])
        when = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._write(f"{when} {shown}\n")
