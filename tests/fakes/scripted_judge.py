"""A judge that answers by a rule instead of a model, and tells what it was asked."""

from __future__ import annotations

from collections.abc import Callable

from tactful_core.values import Secret
from tactfuld.inference.judging import Judgement, Note

Rule = Callable[[str, tuple[str, ...]], float]
"""Log-odds of a question, given the texts of the notes."""


class ScriptedJudge:
    """Implements `tactfuld.inference.judging.Judge`.

    Attributes:
        asked: the public part of each judgement: questions, and the capacity of each note.
        during: called with the notes while a judgement goes on.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self.asked: list[tuple[Judgement, tuple[int, ...]]] = []
        self.during: Callable[[tuple[str, ...]], None] = lambda _texts: None

    async def log_odds(
        self, judgement: Judgement, notes: Secret[tuple[Note, ...]]
    ) -> Secret[tuple[float, ...]]:
        """By the rule."""
        texts = tuple(note.text for note in notes.reveal())
        self.asked.append((judgement, tuple(note.capacity for note in notes.reveal())))
        self.during(texts)
        return Secret(tuple(self._rule(question, texts) for question in judgement.questions))

    async def tokens(self, judgement: Judgement, capacities: tuple[int, ...]) -> int:
        """A hundred a question, and the capacities."""
        return 100 * len(judgement.questions) + sum(capacities)
