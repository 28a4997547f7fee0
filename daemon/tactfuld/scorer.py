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
from tactfuld.inference.embedder import Embedder

Vectors = NDArray[np.float32]
"""Unit vectors, one a row."""

PUBLIC_TOKENS = 64
"""Tokens that are read of a query, a guidance, a support or an example."""

UNRELATED, ALIKE = 0.10, 0.60
"""Cosines that count as 0 and as 1; public constants of the embedding model."""

GENERIC_RELEVANCE = 0.35
"""The generic view suits every query a little."""


@dataclass(frozen=True, slots=True)
class _ViewVectors:
    relevance: Vectors
    supports: Vectors


class EmbeddingScorer:
    """Implements `tactful_core.interface.Scorer` with cosines of sentence embeddings."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vocabularies: dict[SlotName, tuple[_ViewVectors, ...]] = {}

    def prepare(self, slots: tuple[Slot, ...]) -> None:
        """Embeds the public vocabularies once; slow, off the event loop."""
        for slot in slots:
            self._vocabularies[slot.name] = tuple(self._embed_view(v) for v in slot.vocabulary)

    async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        """The best match of the query with a view's guidance and examples."""
        return await asyncio.to_thread(self._relevance, query, slot)

    async def evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        """How well some row matches some support of each view, and how far it leads the others."""
        return await asyncio.to_thread(self._evidence, slot, rows)

    def _embed_view(self, view: View) -> _ViewVectors:
        texts = (view.guidance, *view.examples)
        return _ViewVectors(
            relevance=self._embedder.embed(texts, capacity=PUBLIC_TOKENS),
            supports=self._embedder.embed(view.supports, capacity=PUBLIC_TOKENS),
        )

    def _relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        vector = self._embedder.embed((query,), capacity=PUBLIC_TOKENS)
        found = [_match(vector, v.relevance) for v in self._vocabularies[slot.name]]
        return (GENERIC_RELEVANCE, *found[1:])

    def _evidence(self, slot: Slot, rows: Secret[tuple[str, ...]]) -> Evidence:
        tokens = max(shelf.tokens for shelf in slot.shelves)
        contents = self._embedder.embed(rows.reveal(), capacity=tokens)
        special = [_match(contents, v.supports) for v in self._vocabularies[slot.name][1:]]
        compatibility = (1.0 - max(special, default=0.0), *special)
        return Evidence(
            compatibility=Secret(compatibility),
            specificity=Secret(_leads(compatibility)),
        )


def _match(left: Vectors, right: Vectors) -> float:
    """The highest cosine between two sets of vectors, stretched so that `ALIKE` is 1."""
    if not left.size or not right.size:
        return 0.0
    highest = float(np.max(left @ right.T))
    return min(1.0, max(0.0, (highest - UNRELATED) / (ALIKE - UNRELATED)))


def _leads(compatibility: tuple[float, ...]) -> tuple[float, ...]:
    """For each view, how far it is ahead of the best of the others; 0 where it is behind."""
    return tuple(
        max(0.0, value - max((*compatibility[:i], *compatibility[i + 1 :]), default=0.0))
        for i, value in enumerate(compatibility)
    )
