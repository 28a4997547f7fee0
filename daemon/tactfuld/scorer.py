"""The embedding scorer: how well a view fits a query and the contents of a read set.

Decides `r`, `c` and `s` of DP-MemView §4 from sentence embeddings. What is *not* here: weights,
grid and clipping (`tactful_core.scoring`), the embeddings themselves (`inference.embedder`).

Invariants (C2):

- `r` is a function of the query and the public vocabulary;
- `c` and `s` are functions of the read set's contents and the public vocabulary: no corpus
  statistics, no other position, nothing learned from memory;
- the arithmetic has a shape that follows from public numbers: positions, capacity, views.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tactful_core.layout import Slot, View
from tactful_core.scoring import Evidence
from tactful_core.values import Secret, SlotName
from tactfuld.inference.embedder import Embedder, unit_rows

Vectors = NDArray[np.float32]
"""Unit vectors, one a row."""

PUBLIC_TOKENS = 64
"""Tokens that are read of a query, a guidance, a support or an example."""

UNRELATED, ALIKE = 0.10, 0.60
"""Cosines of two texts that count as 0 and as 1; public constants of the embedding model."""

APART, TOGETHER = 0.0, 0.50
"""The same for cosines of directions seen from the middle of a vocabulary."""

GENERIC_RELEVANCE = 0.25
"""The generic view suits every query a little: of the starter policies' own examples, each held out
of its view, 95 in 100 are more relevant to some other view."""


@dataclass(frozen=True, slots=True)
class _ViewVectors:
    """Attributes:
    questions: guidance and examples.
    direction: where the view's texts lie, seen from the middle of the slot's vocabulary.
    """

    questions: Vectors
    supports: Vectors
    direction: Vectors


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """Public vectors of one slot; `middle` is the mean of all its texts."""

    middle: Vectors
    views: tuple[_ViewVectors, ...]


class EmbeddingScorer:
    """Implements `tactful_core.interface.Scorer` with cosines of sentence embeddings."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vocabularies: dict[SlotName, _Vocabulary] = {}

    def prepare(self, slots: tuple[Slot, ...]) -> None:
        """Embeds the public vocabularies once; slow, off the event loop."""
        for slot in slots:
            self._vocabularies[slot.name] = self._embedded(slot)

    async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        """For each view, the mean of two matches with the query.

        One is with the closest of its guidance and examples. The other is with all of its texts
        together, seen from the middle of the vocabulary: what every view of the slot says, and the
        words of asking that all questions share, count for none.
        """
        return await asyncio.to_thread(self._relevance, query, slot)

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        """How well some row matches some support of each view, and how far it leads the others."""
        return await asyncio.to_thread(self._evidence, slot, rows)

    def _embedded(self, slot: Slot) -> _Vocabulary:
        texts = [self._embed(_public_texts(view)) for view in slot.vocabulary]
        middle = np.concatenate(texts).mean(axis=0, keepdims=True)
        return _Vocabulary(
            middle=middle,
            views=tuple(
                _ViewVectors(
                    questions=self._embed((view.guidance, *view.examples)),
                    supports=self._embed(view.supports),
                    direction=unit_rows(unit_rows(vectors - middle).mean(axis=0, keepdims=True)),
                )
                for view, vectors in zip(slot.vocabulary, texts, strict=True)
            ),
        )

    def _embed(self, texts: tuple[str, ...]) -> Vectors:
        return self._embedder.embed(texts, capacity=PUBLIC_TOKENS)

    def _relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        vocabulary, vector = self._vocabularies[slot.name], self._embed((query,))
        seen = unit_rows(vector - vocabulary.middle)
        found = [
            (_match(vector, v.questions) + _match(seen, v.direction, APART, TOGETHER)) / 2
            for v in vocabulary.views
        ]
        return (GENERIC_RELEVANCE, *found[1:])

    def _evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        tokens = max(shelf.tokens for shelf in slot.shelves)
        contents = self._embedder.embed(rows.reveal(), capacity=tokens)
        special = [_match(contents, v.supports) for v in self._vocabularies[slot.name].views[1:]]
        compatibility = (1.0 - max(special, default=0.0), *special)
        return Evidence(
            compatibility=Secret(compatibility),
            specificity=Secret(leads(compatibility)),
        )


def _public_texts(view: View) -> tuple[str, ...]:
    return (view.guidance, *view.examples, *view.supports)


def _match(
    left: Vectors, right: Vectors, nothing: float = UNRELATED, everything: float = ALIKE
) -> float:
    """The highest cosine between two sets of vectors, stretched to `[0, 1]`."""
    if not left.size or not right.size:
        return 0.0
    highest = float(np.max(left @ right.T))
    return min(1.0, max(0.0, (highest - nothing) / (everything - nothing)))


def leads(compatibility: tuple[float, ...]) -> tuple[float, ...]:
    """For each view, how far it is ahead of the best of the others; 0 where it is behind."""
    return tuple(
        max(0.0, value - max((*compatibility[:i], *compatibility[i + 1 :]), default=0.0))
        for i, value in enumerate(compatibility)
    )
