"""Keeps a state in a file: the latest is written, never an older one over it.

Decides when to write. What is *not* here: the state, and how a file is replaced (`whole_file`).

Invariants:

- once `keep` has returned, what was true when it was called is written, or could not be;
- a cancelled `keep` leaves the change to the next one; a write that has begun goes on, and later
  ones wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Keeping:
    """Writes in a thread of its own, one after the other."""

    def __init__(self, content: Callable[[], bytes], write: Callable[[bytes], None]) -> None:
        """Nothing has changed yet.

        Args:
            content: what is to be written now; called on the loop.
            write: writes it; called in the thread.
        """
        self._content = content
        self._write = write
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeping")
        self._changed = False
        self._lock = asyncio.Lock()

    def change(self) -> None:
        """There is something to be written."""
        self._changed = True

    async def keep(self) -> None:
        """Writes what has changed, if something has.

        Raises:
            OSError: it could not be written; the next change tries anew.
        """
        async with self._lock:
            if not self._changed:
                return
            self._changed = False
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._thread, self._write, self._content())
            except asyncio.CancelledError:
                self._changed = True
                raise
