"""How much of llama.cpp's speed the engine leaves to apps: ratios, measured in one run.

Decides the ratio of bare `llama_decode` calls, nothing around them, to the engine's steps: of eight
replies side by side, and of one. Both have as many sequences, at the same positions, over the same
weights, and take turns every few calls, so that what else the machine does meets them alike. A step
of the engine is all that happens from one of its calls to the next: the call itself, drawing and
writing a token for each reply, handing pieces to their readers on the event loop, and deciding what
comes next. What is *not* here: reading prompts, the gate, sockets.

Compare ratios of one machine only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from unittest.mock import patch

from tactfuld.inference.engine import BATCH, EngineSettings, LlamaEngine, available_cores
from tactfuld.inference.generation import FINISHING_TOKENS
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.requests import Source
from tactfuld.inference.rows import Row

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext, LlamaModel

STREAMS = 8
CONTEXT = 1024
BLOCK = 5
"""Steps of the engine, or bare calls, before the other has its turn."""

STORY = Prompt("You are a story teller.", "Tell me a very long story about a knight and a dragon.")


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """Medians over blocks of steps.

    Attributes:
        streams8_over_bare: speed of eight replies over that of eight bare sequences; the goal is
            0.9.
        stream1_over_bare: the same for one; the goal is 0.95.
        streams8_over_stream1: tokens of eight replies in the time in which one alone gets one.
        least_share: tokens of the reply that got fewest over those of the one that got most.
        milliseconds: of one step, by what it was.
        tokens_per_second: of the engine, with eight replies and with one.
    """

    streams8_over_bare: float
    stream1_over_bare: float
    streams8_over_stream1: float
    least_share: float
    milliseconds: dict[str, float]
    tokens_per_second: dict[str, float]


def engine_speed(model: Path, blocks: int = 12, threads: int | None = None) -> EngineSpeed:
    """Measures so many blocks of steps of eight replies, and as many of one.

    Args:
        model: a GGUF file that fits into memory twice.
        threads: of llama.cpp; None for one a core.
    """
    return asyncio.run(_measured(model, blocks, threads or available_cores()))


@dataclass(slots=True)
class _Found:
    """Seconds of a step, one number for each block; and tokens that each reader got meanwhile."""

    bare: list[float] = field(default_factory=list)
    engine: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return median(b / e for b, e in zip(self.bare, self.engine, strict=True))


async def _measured(path: Path, blocks: int, threads: int) -> EngineSpeed:
    from tactfuld.inference.llama_api import LlamaModel, LoadRequest

    load = LoadRequest(
        path=path, context_length=CONTEXT, batch=BATCH, threads=threads, on_progress=lambda _: True
    )
    settings = EngineSettings(context_length=CONTEXT, threads=threads, streams=STREAMS)
    engine = LlamaEngine(path, settings)
    model = await asyncio.to_thread(LlamaModel, load)
    try:
        engine.start()
        await engine.ready(600)
        eight = await _side_by_side(engine, model, STREAMS, blocks)
        one = await _side_by_side(engine, model, 1, blocks)
    finally:
        await engine.close()
        model.close()
    return EngineSpeed(
        streams8_over_bare=eight.ratio,
        stream1_over_bare=one.ratio,
        streams8_over_stream1=STREAMS * median(one.engine) / median(eight.engine),
        least_share=min(eight.tokens) / max(eight.tokens),
        milliseconds={
            f"{name} {what}": 1000 * median(seconds)
            for name, found in (("8", eight), ("1", one))
            for what, seconds in (("bare", found.bare), ("engine", found.engine))
        },
        tokens_per_second={"8": STREAMS / median(eight.engine), "1": 1 / median(one.engine)},
    )


async def _side_by_side(
    engine: LlamaEngine, model: LlamaModel, streams: int, blocks: int
) -> _Found:
    """Write so many replies at once, and bare sequences in between."""
    found = _Found(tokens=[0] * streams)
    # None of them ends before all blocks are measured.
    most = BLOCK * (blocks + 2) + 2 * FINISHING_TOKENS

    async def read(number: int) -> None:
        async with engine.place(Source(f"app {number}")) as place:
            reply = engine.generate(STORY, max_tokens=most, place=place)
            async with aclosing(reply):
                async for _ in reply:
                    if found.engine:
                        found.tokens[number] += 1
                    if len(found.engine) >= blocks:
                        return

    with model.context(sequences=streams, length=2 * CONTEXT) as bare:
        turns = _Turns(bare, streams, found, blocks)

        def decode(context: LlamaContext, rows: Sequence[Row]) -> None:
            turns.decode(context, rows)

        with patch.object(type(bare), "decode", decode):
            async with asyncio.TaskGroup() as group:
                for number in range(streams):
                    group.create_task(read(number), name=f"reader {number}")
    if len(found.engine) < blocks:
        raise RuntimeError("A reply ended before it was measured. Run it again.")
    return found


class _Turns:
    """Stands for `LlamaContext.decode`: after each block of the engine's steps comes a bare one."""

    def __init__(self, bare: LlamaContext, streams: int, found: _Found, blocks: int) -> None:
        self._bare = bare
        self._decode: Callable[[LlamaContext, Sequence[Row]], None] = type(bare).decode
        self._streams = streams
        self._found = found
        self._blocks = blocks
        self._steps = 0
        self._began = 0.0

    def decode(self, context: LlamaContext, rows: Sequence[Row]) -> None:
        """On the engine's thread, in the engine's context."""
        if len(self._found.engine) == self._blocks:
            # The bare context goes as soon as the last block is known.
            pass
        elif sum(row.logits for row in rows) == len(rows) == self._streams:
            self._step(rows)
        else:
            # A prompt is still read, or a reply has ended: no such step is measured.
            self._steps = 0
        self._decode(context, rows)

    def _step(self, rows: Sequence[Row]) -> None:
        if self._steps == BLOCK:
            engine = (time.perf_counter() - self._began) / BLOCK
            self._found.bare.append(self._bare_block(rows) / BLOCK)
            self._found.engine.append(engine)
            self._steps = 0
        if self._steps == 0:
            self._began = time.perf_counter()
        self._steps += 1

    def _bare_block(self, rows: Sequence[Row]) -> float:
        """Seconds of as many bare calls, at the positions where the engine's were."""
        first = [row.position - BLOCK for row in rows]
        for number, position in enumerate(first):
            read = self._bare.length(number)
            if read < position:
                self._read(number, read, position)
        began = time.perf_counter()
        for step in range(BLOCK):
            self._decode(
                self._bare,
                [
                    Row(row.token, position + step, (number,), logits=True)
                    for number, (row, position) in enumerate(zip(rows, first, strict=True))
                ],
            )
        return time.perf_counter() - began

    def _read(self, number: int, start: int, end: int) -> None:
        for at in range(start, end, BATCH):
            places = range(at, min(at + BATCH, end))
            rows = [Row(1 + place, place, (number,), logits=False) for place in places]
            self._decode(self._bare, rows)
