"""How much of llama.cpp's speed the engine leaves to apps: ratios, measured in one run.

Decides the ratio of bare `llama_decode` calls, nothing around them, to the engine's steps: of eight
replies side by side, and of one. Both have as many sequences, at the same positions, over the same
weights, and take turns (`bare_calls`). A step of the engine is the call, drawing and writing a
token for each reply, handing pieces to their readers on the event loop, and deciding what comes
next. What is *not* here: reading prompts, the gate, sockets.

Compare ratios of one machine only.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tactful_eval.bare_calls import BLOCK, Bare, Found, Seconds, taking_turns
from tactfuld.inference.engine import BATCH, EngineSettings, available_cores
from tactfuld.inference.generation import FINISHING_TOKENS
from tactfuld.inference.llama_engine import LlamaEngine
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.requests import Source

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaModel

STREAMS = 8
CONTEXT = 1024
STORY = Prompt("You are a story teller.", "Tell me a very long story about a knight and a dragon.")


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """Medians over blocks of steps.

    Attributes:
        streams8_over_bare: speed of eight replies over that of eight bare sequences; the goal is
            0.9.
        stream1_over_bare: the same for one; the goal is 0.95.
        in_cpu: both in time of the processor, of all threads of the process.
        streams8_over_stream1: tokens of eight replies in the time in which one alone gets one.
        least_share: tokens of the reply that got fewest over those of the one that got most.
        milliseconds: of one step, by what it was.
        tokens_per_second: of the engine, with eight replies and with one.
    """

    streams8_over_bare: float
    stream1_over_bare: float
    in_cpu: dict[str, float]
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
        eight, share = await _side_by_side(engine, model, STREAMS, blocks)
        one, _ = await _side_by_side(engine, model, 1, blocks)
    finally:
        await engine.close()
        model.close()
    return EngineSpeed(
        streams8_over_bare=1 / eight.over("same"),
        stream1_over_bare=1 / one.over("same"),
        in_cpu={
            "streams8_over_bare": 1 / eight.over_in_cpu("same"),
            "stream1_over_bare": 1 / one.over_in_cpu("same"),
        },
        streams8_over_stream1=STREAMS * _seconds(one.engine) / _seconds(eight.engine),
        least_share=share,
        milliseconds={
            f"{name} {what}": 1000 * _seconds(seconds)
            for name, found in (("8", eight), ("1", one))
            for what, seconds in (("bare", found.bare["same"]), ("engine", found.engine))
        },
        tokens_per_second={"8": STREAMS / _seconds(eight.engine), "1": 1 / _seconds(one.engine)},
    )


def _seconds(steps: list[Seconds]) -> float:
    return median(step.wall for step in steps)


async def _side_by_side(
    engine: LlamaEngine, model: LlamaModel, streams: int, blocks: int
) -> tuple[Found, float]:
    """Write so many replies at once, and bare sequences in between; also the least share."""
    tokens = [0] * streams
    # None of them ends before all blocks are measured.
    most = BLOCK * (blocks + 2) + 2 * FINISHING_TOKENS

    async def read(number: int) -> None:
        async with engine.place(Source(f"app {number}")) as place:
            reply = engine.generate(STORY, max_tokens=most, place=place)
            async with aclosing(reply):
                async for _ in reply:
                    if found.engine:
                        tokens[number] += 1
                    if len(found.engine) >= blocks:
                        return

    with (
        model.context(sequences=streams, length=2 * CONTEXT) as bare,
        taking_turns(streams, {"same": Bare(bare, streams)}, blocks) as found,
    ):
        async with asyncio.TaskGroup() as group:
            for number in range(streams):
                group.create_task(read(number), name=f"reader {number}")
    if len(found.engine) < blocks:
        raise RuntimeError("A reply ended before it was measured. Run it again.")
    return found, min(tokens) / max(tokens)
