"""Which shelf a text belongs on, by its likeness to what the policy says about shelves.

Decides an order of shelves for a text, and when another shelf is so much better than a memory's own
that the owner may want to know. What is *not* here: putting anything anywhere; only the owner does.

A shelf is known by three things, whose cosines with the text are added: its own name, its slot's
description, and the closest of the supports of the slot's views. On 28 everyday sentences and the
shelves of the starter policy `everyday`, the right one of 23 shelves came first for 19 and was
among the first three for 25; each of the three alone does worse.

Invariants (C7):

- an order follows from the text, the policy and the embedding model; never from what else is
  remembered, nor from how full a shelf is;
- a better shelf for a memory is one that all attributes cover which cover the memory now, so that
  following it is a move that loses no protection;
- for the owner's eyes only; nothing that an app can see depends on it.

Everything here computes: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tactful_core.layout import Layout, Shelf, Slot
from tactful_core.sealing import Memory
from tactful_core.values import Position, Secret
from tactfuld.inference.embedder import Embedder, Vectors
from tactfuld.store.filing import uncovering

PUBLIC_TOKENS = 64
"""Tokens that are read of a name, a description or a support."""

CLEARLY = 0.2
"""A shelf is clearly better than another if its likeness is larger by this.

Of the 28 sentences, 2 would be told to leave the right shelf, and 25 a shelf of another slot."""


@dataclass(frozen=True, slots=True)
class Better:
    """A shelf that suits a memory better than its own."""

    position: Position
    memory: Memory
    better: Shelf


def proposed(text: Secret[str], layout: Layout, embedder: Embedder) -> tuple[Shelf, ...]:
    """All shelves, the likeliest for this text first."""
    likeness = _likeness((text.reveal(),), layout, embedder)[0]
    order = np.argsort(-likeness, kind="stable")
    return tuple(layout.shelves[index] for index in order)


def suggested(
    full: Sequence[tuple[Position, Memory]], layout: Layout, embedder: Embedder
) -> tuple[Better, ...]:
    """The memories that would clearly stand better on another shelf that protects them as well."""
    if not full:
        return ()
    likeness = _likeness([memory.text for _, memory in full], layout, embedder)
    number = {shelf.name: index for index, shelf in enumerate(layout.shelves)}
    standing_on = {position: shelf for shelf in layout.shelves for position in shelf.positions}
    found = []
    for (position, memory), row in zip(full, likeness, strict=True):
        own = standing_on[position]
        safe = [shelf for shelf in layout.shelves if not uncovering(layout, position, shelf)]
        best = max(safe, key=lambda shelf: float(row[number[shelf.name]]), default=own)
        if row[number[best.name]] > row[number[own.name]] + CLEARLY:
            found.append(Better(position, memory, best))
    return tuple(found)


def _likeness(texts: Sequence[str], layout: Layout, embedder: Embedder) -> Vectors:
    """Of shape (texts, shelves)."""
    tokens = max(shelf.tokens for shelf in layout.shelves)
    vectors = embedder.embed(texts, capacity=tokens)
    columns = []
    for slot in layout.slots:
        about = _about(slot, embedder)
        topic = about[0] @ vectors.T + (about[1:] @ vectors.T).max(axis=0, initial=0.0)
        names = embedder.embed([_words(shelf) for shelf in slot.shelves], capacity=PUBLIC_TOKENS)
        columns.append(names @ vectors.T + topic)
    likeness: Vectors = np.concatenate(columns).T
    return likeness


def _about(slot: Slot, embedder: Embedder) -> Vectors:
    """The description, and after it all supports."""
    supports = [support for view in slot.vocabulary for support in view.supports]
    return embedder.embed([slot.description, *supports], capacity=PUBLIC_TOKENS)


def _words(shelf: Shelf) -> str:
    return shelf.name.partition(".")[2].replace("_", " ")
