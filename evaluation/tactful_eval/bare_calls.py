"""Steps of the engine and bare llama.cpp calls in turn, so that one run measures both.

Decides how a step is timed: from the beginning of one of the engine's calls to the beginning of its
next, so that it has the call itself and all that happens until the next one; and that after each
block of steps comes a block of bare calls, at the positions where the engine's were. What else the
machine does meets both alike. What is *not* here: what the engine is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest.mock import patch

from tactfuld.inference.engine import BATCH
from tactfuld.inference.rows import Row

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext

BLOCK: Final = 5
"""Steps of the engine, or bare calls, before the others have their turn."""


@dataclass(frozen=True, slots=True)
class Bare:
    """A context of `rows` sequences that begin with `shared` tokens in the same KV cells."""

    context: LlamaContext
    rows: int
    shared: int = 0


class Seconds(NamedTuple):
    """By the clock, and of the processor in all threads, which a busy machine disturbs less."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Seconds:
        return cls(time.perf_counter(), time.process_time())

    def each(self, began: Seconds) -> Seconds:
        """What one step of a block took that began then and ended now."""
        return Seconds((self.wall - began.wall) / BLOCK, (self.cpu - began.cpu) / BLOCK)


@dataclass(slots=True)
class Found:
    """What a step of the engine and each kind of bare call took, one for each block."""

    engine: list[Seconds] = field(default_factory=list)
    bare: dict[str, list[Seconds]] = field(default_factory=dict)

    def over(self, name: str) -> float:
        """How many bare calls of this kind take as long as one step: the median over blocks."""
        return median(e.wall / b.wall for e, b in zip(self.engine, self.bare[name], strict=True))

    def over_in_cpu(self, name: str) -> float:
        """The same in time of the processor."""
        return median(e.cpu / b.cpu for e, b in zip(self.engine, self.bare[name], strict=True))


@contextmanager
def taking_turns(width: int, bare: Mapping[str, Bare], blocks: int) -> Iterator[Found]:
    """Measure so many blocks of steps with `width` rows, for as long as the context is open.

    Bare contexts must not be freed before the engine has stopped, or `blocks` are measured.
    """
    turns = _Turns(width, bare, blocks)
    context = next(iter(bare.values())).context

    def decode(own: LlamaContext, rows: Sequence[Row]) -> None:
        turns.decode(own, rows)

    with patch.object(type(context), "decode", decode):
        yield turns.found


class _Turns:
    """Stands for `LlamaContext.decode`, on the engine's thread."""

    def __init__(self, width: int, bare: Mapping[str, Bare], blocks: int) -> None:
        context = next(iter(bare.values())).context
        self._decode: Callable[[LlamaContext, Sequence[Row]], None] = type(context).decode
        self._width = width
        self._bare = bare
        self._blocks = blocks
        self._steps = 0
        self._began = Seconds(0, 0)
        self.found = Found(bare={name: [] for name in bare})

    def decode(self, context: LlamaContext, rows: Sequence[Row]) -> None:
        if len(self.found.engine) < self._blocks:
            if sum(row.logits for row in rows) == len(rows) == self._width:
                self._step(rows)
            else:
                # A prompt is still read, or a reply has ended: no such step is measured.
                self._steps = 0
        self._decode(context, rows)

    def _step(self, rows: Sequence[Row]) -> None:
        if self._steps == BLOCK:
            engine = Seconds.now().each(self._began)
            for name, bare in self._bare.items():
                self.found.bare[name].append(self._block(bare, rows[: bare.rows]))
            self.found.engine.append(engine)
            self._steps = 0
        if self._steps == 0:
            self._began = Seconds.now()
        self._steps += 1

    def _block(self, bare: Bare, rows: Sequence[Row]) -> Seconds:
        """Time as many bare calls as a block has steps."""
        first = [row.position - BLOCK for row in rows]
        everybody = tuple(range(bare.rows))
        self._read(bare.context, everybody, bare.shared)
        for number, position in enumerate(first):
            self._read(bare.context, (number,), position)
        began = Seconds.now()
        for step in range(BLOCK):
            self._decode(
                bare.context,
                [
                    Row(row.token, position + step, (number,), logits=True)
                    for number, (row, position) in enumerate(zip(rows, first, strict=True))
                ],
            )
        return Seconds.now().each(began)

    def _read(self, context: LlamaContext, sequences: tuple[int, ...], end: int) -> None:
        """Let sequences reach as far as the engine's; what they read does not matter."""
        for at in range(context.length(sequences[0]), end, BATCH):
            places = range(at, min(at + BATCH, end))
            rows = [Row(1 + place, place, sequences, logits=False) for place in places]
            self._decode(context, rows)
