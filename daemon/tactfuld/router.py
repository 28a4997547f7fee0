"""Which slots a query activates, each with the shelves that it reads.

Decides from the query, what the app asked before in the same thread, the app's grant and the public
descriptions and rules in the policy, and from nothing else (C4): never from memory, never from
another app's query. What is *not* here: how read rules are applied (`reading`).

A policy's words come before descriptions: a slot whose `never` the query mentions is left out as if
it were not granted, one whose `words` it mentions is active whatever the descriptions say. Neither
binds an app that names its slots.
"""

from __future__ import annotations

import asyncio

import numpy as np

from tactful.errors import Denied
from tactful_core.layout import Slot
from tactful_core.promises import Grant
from tactful_core.values import SlotName
from tactfuld.inference.embedder import Embedder
from tactfuld.phrases import mentions
from tactfuld.reading import Reading
from tactfuld.scorer import PUBLIC_TOKENS, Vectors

ABOUT = 0.25
"""The least cosine of a query with a slot's texts for the query to be about the slot."""

BESIDE = 0.12
"""How far a slot may be behind the best one and still be active beside it."""


FOLLOW_UP_WORDS = 6
"""A query of so few words may be about what was asked just before it ("and for tomorrow?")."""


class Router:
    """Matches queries with the public texts of slots: description and examples of views."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._reading = Reading(embedder)
        self._slots: tuple[Slot, ...] = ()
        self._vectors: dict[SlotName, Vectors] = {}

    def prepare(self, slots: tuple[Slot, ...]) -> None:
        """Embeds the public texts once; slow, off the event loop."""
        self._slots = slots
        self._reading.prepare(slots)
        for slot in slots:
            examples = (text for view in slot.vocabulary for text in view.examples)
            texts = (slot.description, *examples)
            self._vectors[slot.name] = self._embedder.embed(texts, capacity=PUBLIC_TOKENS)

    async def active_slots(
        self,
        query: str,
        grant: Grant,
        requested: tuple[str, ...] | None,
        earlier: tuple[str, ...] = (),
    ) -> tuple[Slot, ...]:
        """The active slots in policy order; those the app names, else those the query is about.

        Each has the shelves that are read for the query, or for the queries that made it active.

        Args:
            earlier: what the app asked before in the same thread, oldest first. A query of few
                words that is about no slot by itself is read together with the one before it, and
                so on back to the first that is no follow-up.

        Raises:
            Denied: the app names a slot that it is not granted (or that does not exist).
        """
        if requested is not None:
            for name in requested:
                if name not in grant.slots:
                    raise Denied(
                        f"This app may not ask about the slot '{name}'. "
                        "The owner grants slots under 'apps' in the policy."
                    )
            named = tuple(slot for slot in self._slots if slot.name in requested)
            return await asyncio.to_thread(self._read, named, query)
        return await asyncio.to_thread(self._about, query, grant, earlier)

    def _read(self, slots: tuple[Slot, ...], query: str) -> tuple[Slot, ...]:
        return tuple(self._reading.of(slot, query) for slot in slots)

    def _about(self, query: str, grant: Grant, earlier: tuple[str, ...]) -> tuple[Slot, ...]:
        active = self._close_to(query, grant)
        first, text = query, query
        for previous in reversed(earlier):
            if active or len(first.split()) > FOLLOW_UP_WORDS:
                break
            first, text = previous, f"{previous} {text}"
            active = self._close_to(text, grant)
        return self._read(active, text)

    def _close_to(self, query: str, grant: Grant) -> tuple[Slot, ...]:
        vector = self._embedder.embed((query,), capacity=PUBLIC_TOKENS)
        granted = [
            slot
            for slot in self._slots
            if slot.name in grant.slots and not mentions(query, slot.never)
        ]
        cosines = [float(np.max(vector @ self._vectors[slot.name].T)) for slot in granted]
        least = max(ABOUT, max(cosines, default=0.0) - BESIDE)
        return tuple(
            slot
            for slot, cosine in zip(granted, cosines, strict=True)
            if cosine >= least or mentions(query, slot.words)
        )
