"""Which shelves of a slot a query reads.

Decides from the query and the policy's read rules, and from nothing else (C2, C4, decision 0005):
never from memory, never from another app's query. What is *not* here: which slots are active
(`router`), and what a read costs, which follows from the shelves (`tactful_core.promises`).

Invariants:

- a rule matches where the query mentions one of its words, or is close to one of its questions;
- a query reads the shelves of all rules that match, and all shelves where none does;
- what is not a question is never embedded: rules of words alone give the same for every embedder.
"""

from __future__ import annotations

import numpy as np

from tactful_core.layout import ReadRule, Slot
from tactful_core.values import SlotName
from tactfuld.inference.embedder import Embedder
from tactfuld.phrases import mentions
from tactfuld.scorer import PUBLIC_TOKENS, Vectors

CLOSE = 0.55
"""The least cosine of a query with a question of a rule for the rule to match."""


class Reading:
    """Applies the read rules of a policy."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._questions: dict[tuple[SlotName, ReadRule], Vectors] = {}

    def prepare(self, slots: tuple[Slot, ...]) -> None:
        """Embeds the rules' questions once; slow, off the event loop."""
        for slot in slots:
            for rule in slot.reads:
                if questions := _questions(rule):
                    self._questions[slot.name, rule] = self._embed(questions)

    def of(self, slot: Slot, query: str) -> Slot:
        """The slot with the shelves that the query reads; slow where rules have questions."""
        matching = [rule for rule in slot.reads if self._matches(slot, rule, query)]
        if not matching:
            return slot
        return slot.reading({name for rule in matching for name in rule.shelves})

    def _matches(self, slot: Slot, rule: ReadRule, query: str) -> bool:
        words = [phrase for phrase in rule.when if not is_question(phrase)]
        if mentions(query, words):
            return True
        if (slot.name, rule) not in self._questions:
            return False
        cosines = self._embed((query,)) @ self._questions[slot.name, rule].T
        return bool(np.max(cosines) >= CLOSE)

    def _embed(self, texts: tuple[str, ...]) -> Vectors:
        return self._embedder.embed(texts, capacity=PUBLIC_TOKENS)


def is_question(phrase: str) -> bool:
    """Whether it is an example of a query, rather than words to look for in one."""
    return phrase.endswith("?")


def _questions(rule: ReadRule) -> tuple[str, ...]:
    return tuple(phrase for phrase in rule.when if is_question(phrase))
