"""What the owner is told: short sentences about things that need a look, newest last.

Decides how they are kept. What is *not* here: who may read them (`server.owner_methods`; no app
can), and the log (`journal`).

Invariants:

- a notice names positions, slots, files and apps, never what they contain;
- the list is bounded, and a sentence that is there already is not added again.
"""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger

from tactful_core.values import SlotName

LIMIT = 50


class Notices:
    """The owner's list of notices; also implements `tactful_core.interface.OwnerNotices`."""

    def __init__(self, journal: FilteringBoundLogger) -> None:
        self._journal = journal
        self._sentences: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        return self._sentences

    def add(self, sentence: str) -> None:
        """Keeps a sentence for the owner; may be called from any thread."""
        if sentence not in self._sentences:
            self._sentences = (*self._sentences, sentence)[-LIMIT:]
            self._journal.warning("notice", count=len(self._sentences))

    def scoring_failed(self, slot: SlotName) -> None:
        self.add(
            f"The memories of slot {slot} could not be read or scored; its view was drawn as if "
            "nothing were filed there. The charge stands."
        )

    def deadline_missed(self) -> None:
        self.add(
            "Choosing views took longer than turn.deadline_ms; the answer was held back to the "
            "next multiple. Raise turn.deadline_ms in settings.yaml if this happens often."
        )
