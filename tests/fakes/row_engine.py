"""A scripted engine whose fused tokens depend on the rows, and that keeps the rows it was given."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.fakes.recording_engine import RecordingEngine

from tactful_core.values import Secret
from tactfuld.inference.groups import GroupDraw, SequenceGroup
from tactfuld.inference.places import Place
from tactfuld.inference.scripted import GROUP_END, GROUP_VOCABULARY


class RowEngine(RecordingEngine):
    """Implements `Engine`; token ids of a fused reply are 1 to `GROUP_VOCABULARY` − 1.

    Args:
        answer_words: after so many tokens every row is certain that the reply ends.

    Attributes:
        groups: those of all fused replies that were asked for, oldest first.
        drawn: how often their draws were called.
        before_draw: called before each draw, with how many were made.
        pause_after: pieces after which a fused reply goes on no more; 0 for never.
    """

    def __init__(self, *, answer_words: int = 6, **options: Any) -> None:
        super().__init__(**options)
        self._answer_words = answer_words
        self.groups: list[SequenceGroup] = []
        self.drawn = 0
        self.before_draw: Callable[[int], None] = lambda _made: None
        self.pause_after = 0

    async def generate_group(
        self,
        group: Secret[SequenceGroup],
        draw: GroupDraw,
        *,
        max_tokens: int,
        place: Place | None = None,
    ) -> AsyncGenerator[str, None]:
        rows, released = group.reveal().rows, list[int]()
        self.groups.append(group.reveal())

        def from_rows(_zeros: NDArray[np.float32]) -> int:
            self.before_draw(len(released))
            self.drawn += 1
            ended = len(released) >= self._answer_words
            logits = np.stack([logits_of(row, len(released), ended=ended) for row in rows])
            released.append(draw(logits))
            return released[-1]

        reply = super().generate_group(group, from_rows, max_tokens=max_tokens, place=place)
        async with aclosing(reply) as pieces:
            async for piece in pieces:
                yield piece
                if len(released) == self.pause_after:
                    await asyncio.Event().wait()


def logits_of(row: tuple[int, ...], step: int, *, ended: bool) -> NDArray[np.float32]:
    """Logits of one row: a function of its ids and of how many tokens were released."""
    if ended:
        certain = np.full(GROUP_VOCABULARY, -40.0, np.float32)
        certain[GROUP_END] = 40.0
        return certain
    seed = hashlib.sha256(repr((row, step)).encode()).digest()
    # Flat enough that no row is ever certain by itself, which would make draws free.
    logits = np.random.default_rng(list(seed)).normal(0, 0.5, GROUP_VOCABULARY).astype(np.float32)
    logits[GROUP_END] = -40.0
    return logits
