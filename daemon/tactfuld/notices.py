"""What the owner is told: short sentences about things that need a look, newest last.

Decides how they are kept. What is *not* here: who may read them (`server.owner_methods`; no app
can), and the log (`journal`).

Invariants:

- a notice names positions, slots, files and apps, never what they contain; about a file that the
  owner writes it may say what is wrong where;
- the list is bounded, and a sentence that is there already is not added again;
- about one subject (a file) there is at most one notice, which goes when nothing is wrong any more.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from tactful_core.values import Position, SlotName

LIMIT = 50


@dataclass(frozen=True, slots=True)
class _Notice:
    """A sentence, and what it is about if it can be replaced."""

    sentence: str
    subject: str | None = None


class Notices:
    """The owner's list of notices; also implements `tactful_core.interface.OwnerNotices`."""

    def __init__(self, journal: FilteringBoundLogger) -> None:
        self._journal = journal
        self._notices: tuple[_Notice, ...] = ()
        self._changing = threading.Lock()

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(notice.sentence for notice in self._notices)

    def add(self, sentence: str) -> None:
        """Keeps a sentence for the owner; may be called from any thread."""
        with self._changing:
            if sentence not in self.sentences:
                self._append(_Notice(sentence))

    def replace(self, subject: str, sentence: str | None) -> None:
        """What is to be said about a subject now, or nothing; may be called from any thread."""
        with self._changing:
            before = [notice for notice in self._notices if notice.subject == subject]
            if [notice.sentence for notice in before] == ([sentence] if sentence else []):
                return
            self._notices = tuple(notice for notice in self._notices if notice not in before)
            if sentence:
                self._append(_Notice(sentence, subject))

    def _append(self, notice: _Notice) -> None:
        self._notices = (*self._notices, notice)[-LIMIT:]
        self._journal.warning("notice", count=len(self._notices))

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

    def fusing_failed(self) -> None:
        self.add(
            "Memories could not be read for a fused answer; it was drawn as if nothing were filed "
            "there. The charge stands."
        )

    def memories_cut(self, positions: tuple[Position, ...]) -> None:
        listed = ", ".join(str(position) for position in positions)
        self.add(
            f"Fused answers show the beginning only of the memories at {listed}: in the tokens of "
            "the model in use they are longer than their places. Shorten them, or split them."
        )
