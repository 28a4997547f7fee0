"""Finding memories by words and by likeness, for the owner.

Decides which memories a search finds and in which order. What is *not* here: reading them
(`store`). There is no index: nothing about memories stands anywhere in plain text.

Invariant: nothing that an app can see depends on it, and nothing is kept.

Everything here computes: call it in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tactful_core.sealing import Memory
from tactful_core.values import Position, Secret
from tactfuld.inference.embedder import Embedder

QUERY_TOKENS = 64
"""Tokens of the words that count when memories are compared with them."""

LIKE = 0.25
"""A memory that has none of the words is found if its cosine with them is at least this."""

SHORTEST = 3
"""Letters of a word that counts, if any of the words has as many; it may be the beginning of a
longer one in a memory."""

_WORD = re.compile(r"\w+")


def found(
    words: Secret[str],
    full: Sequence[tuple[Position, Memory]],
    embedder: Embedder,
    *,
    tokens: int,
) -> tuple[tuple[Position, Memory], ...]:
    """The memories that have some of the words, or are like them; the best first.

    The share of the words that a memory has and its likeness count the same.

    Args:
        tokens: the longest memory.
    """
    if not full:
        return ()
    sought = embedder.embed((words.reveal(),), capacity=QUERY_TOKENS)[0]
    likeness = embedder.embed([memory.text for _, memory in full], capacity=tokens) @ sought
    wanted = _telling(_WORD.findall(words.reveal().casefold()))
    scored = []
    for each, cosine in zip(full, likeness, strict=True):
        share = _share(wanted, _WORD.findall(each[1].text.casefold()))
        if share > 0 or cosine >= LIKE:
            scored.append((share + float(cosine), each))
    return tuple(each for _, each in sorted(scored, key=lambda one: -one[0]))


def _telling(words: list[str]) -> list[str]:
    return [word for word in words if len(word) >= SHORTEST] or words


def _share(wanted: Sequence[str], words: Sequence[str]) -> float:
    """How many of the wanted words are among some words, or begin one of them."""
    if not wanted:
        return 0.0
    return sum(any(word.startswith(each) for word in words) for each in wanted) / len(wanted)
