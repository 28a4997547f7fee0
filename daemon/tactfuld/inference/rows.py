"""Rows: the tokens that one llama.cpp call computes.

Not here: the call (llama_api), which rows go into one (engine).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """One token to compute: where it stands (from 0), in which sequences, and if logits follow."""

    token: int = field(repr=False)
    position: int
    sequences: tuple[int, ...]
    logits: bool


def rows_of(tokens: Sequence[int], start: int, *sequences: int, logits: bool = True) -> list[Row]:
    """Rows of `tokens` from position `start` on, in all `sequences`; logits of the last only."""
    last = len(tokens) - 1
    return [
        Row(token, start + place, sequences, logits and place == last)
        for place, token in enumerate(tokens)
    ]
