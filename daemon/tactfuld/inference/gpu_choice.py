"""Whether the next load of the model uses a GPU, after what became of the ones before.

Decides when a GPU that the settings allow (`auto`) is not tried any more, when one that they
require is given up, and what the owner is told. Not here: loading itself (residence), what
llama.cpp can and did (offload).

Invariants
- What is `required` is never left out, and `off` is never tried.
- Trying ends: a load that failed is tried once without a GPU, and a GPU is lost at most
  `MOST_LOSSES` times in a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tactfuld.inference.offload import GpuUse, Offload

MOST_LOSSES: Final = 3
"""After so many losses of a GPU without an answer in between it is not tried again."""

SUBJECT: Final = "gpu"


class GpuChoice:
    """`use` is what the next load is told; `given_up` says why there will be none."""

    def __init__(
        self, wanted: GpuUse, built: Callable[[], bool], tell: Callable[[str, str | None], None]
    ) -> None:
        """`built` says whether llama.cpp was built for a GPU; it may block."""
        self.use: GpuUse = wanted
        self.given_up: str | None = None
        self._built = built
        self._tell = tell
        self._losses = 0
        self._went_without = False

    def answered(self) -> None:
        """The model answered: what is lost from now on is lost for the first time."""
        self._losses = 0

    def lost(self, found: Offload | None) -> bool:
        """An answer failed for good; whether that was a GPU, so that the model is loaded again."""
        if found is None or not found.offloaded:
            return False
        self._losses += 1
        what = f"The GPU stopped answering: {found.place}. It may have been lost in sleep."
        if self._losses < MOST_LOSSES:
            told = "The model is loaded again with the next question."
        elif self.use == "auto":
            self.use = "off"
            told = "From the next question on the model works on the processor."
        else:
            told = (
                "That was the third time in a row, and `gpu` is `required`. Look at the driver and "
                "start the daemon again, or set `gpu` to `auto`."
            )
            self.given_up = f"{what} {told}"
        self._tell(SUBJECT, f"{what} {told}")
        return True

    def goes_without(self, problem: str | None) -> bool:
        """A load failed; whether to try it once on the processor. May block."""
        if self.use != "auto" or self._went_without or not self._built():
            return False
        self._went_without = True
        self.use = "off"
        self._tell(
            SUBJECT,
            "The model could not be loaded on the GPU, so it works on the processor until the next "
            f"start. {problem or ''}".strip(),
        )
        return True

    def failed_without(self) -> None:
        """Nor could it be loaded on the processor, so it was not the GPU."""
        if self._went_without and self.use == "off":
            self.use = "auto"
            self._tell(SUBJECT, None)

    def another_file(self) -> None:
        """What failed says nothing of the next load."""
        self.failed_without()
        self._went_without = False
