"""The model's file beside the weights that were loaded from it.

Decides whether the two still belong together. Not here: what follows (residence). Loaded weights do
not depend on their file (llama_api), so a difference is news for the owner and no danger.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

Sign = tuple[int, ...]
"""What changes whenever a file does; empty where there is none."""


@dataclass(slots=True)
class WeightsFile:
    """A model's file, and what it was like when it was last loaded or could not be."""

    path: Path
    loaded: Sign = ()

    def note(self) -> None:
        """It is being loaded now; called before it is read, by the thread that reads it."""
        self.loaded = self.sign()

    def sign(self) -> Sign:
        """What it is like now; blocks."""
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def sentence(self, sign: Sign) -> str | None:
        """What the owner has to know of a file that is now like `sign`; None if nothing."""
        if sign == self.loaded:
            return None
        later = "when model.idle_unload is over, after `tactful lock`, and at the daemon's start"
        if not sign:
            return (
                f"The model file {self.path} is gone. Answers come from the weights that were "
                f"loaded from it, until they are to be loaded again: {later}. Put it back, or "
                "choose another with `tactful model use`."
            )
        return (
            f"The model file {self.path} is not the one that was loaded. Answers come from the "
            f"weights of before, until they are to be loaded again: {later}."
        )
