"""What a fused token costs beside a plain one: ratios, measured in one run.

Decides the ratios of the engine's steps for groups of 1 + m rows, every token drawn by the daemon's
own rule with its sampling controls, to bare `llama_decode` calls with the same rows, and with one.
Both have the same positions and shared KV cells, and take turns (`bare_calls`). The parameters are
those that an epoch opens with for one attribute at a replacement epsilon of 8, and no draw is
skipped. What is *not* here: choosing rows, reserving, the gate.

Compare ratios of one machine only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from tactful_core.fusion import FusedDraw, FusionParameters, calibrate
from tactful_core.sampling import SystemRandomness
from tactful_core.values import AttributeName, Secret
from tactful_eval.bare_calls import BLOCK, Bare, Found, taking_turns
from tactfuld.fusing.answering import Draws
from tactfuld.fusing.distributions import Controls
from tactfuld.inference.engine import BATCH, EngineSettings, available_cores
from tactfuld.inference.generation import FINISHING_TOKENS
from tactfuld.inference.groups import SequenceGroup
from tactfuld.inference.llama_engine import LlamaEngine
from tactfuld.inference.rows import Row

if TYPE_CHECKING:
    from tactfuld.inference.llama_api import LlamaContext, LlamaModel

CELLS: Final = (1, 2, 4, 8)
CONTEXT: Final = 1024
SHARED, OWN = 96, 24
"""Tokens of a prompt that all rows begin with, and that each has of its own."""

EPSILON, DELTA, DRAWS = 8.0, 1e-5, 200
PUBLIC = "A knight rode through the forest to look for the dragon that everybody spoke of. "
PRIVATE = "My memory says that I like rice, that I walk a lot, and that number {number} is mine. "


@dataclass(frozen=True, slots=True)
class FusionSpeed:
    """Medians over blocks of steps, by m.

    Attributes:
        alpha: the order that the parameters have.
        over_plain: a step over a bare call with one row.
        over_bare_batch: a step over a bare call with the same 1 + m rows; the goal is 1.08, and
            1.12 for m = 8.
        in_cpu: `over_bare_batch` in time of the processor, of all threads of the process.
        solver_share: the part of a step that controls, solving, mixing and drawing take; the goal
            is 0.05 for m = 1 and 0.08 for m = 8.
        prefill_ratio: reading the prompts of the largest group as the engine does, with what they
            share read once, over reading each by itself.
        milliseconds: of one step.
    """

    alpha: int
    over_plain: dict[str, float]
    over_bare_batch: dict[str, float]
    in_cpu: dict[str, float]
    solver_share: dict[str, float]
    prefill_ratio: float
    milliseconds: dict[str, float]


def fusion_speed(
    model: Path, blocks: int = 8, threads: int | None = None, cells: Sequence[int] = CELLS
) -> FusionSpeed:
    """Measures so many blocks of steps for each number of cells.

    Args:
        model: a GGUF file that fits into memory twice.
        threads: of llama.cpp; None for one a core.
    """
    return asyncio.run(_measured(model, blocks, threads or available_cores(), cells))


async def _measured(path: Path, blocks: int, threads: int, cells: Sequence[int]) -> FusionSpeed:
    from tactfuld.inference.llama_api import LlamaModel, LoadRequest

    load = LoadRequest(
        path=path, context_length=CONTEXT, batch=BATCH, threads=threads, on_progress=lambda _: True
    )
    parameters = calibrate({AttributeName("measured"): EPSILON}, DELTA, DRAWS)
    engine = LlamaEngine(path, EngineSettings(context_length=CONTEXT, threads=threads))
    model = await asyncio.to_thread(LlamaModel, load)
    try:
        engine.start()
        await engine.ready(600)
        found = {m: await _written(engine, model, m, blocks, parameters) for m in cells}
        reading = await _reading(engine, model, max(cells))
    finally:
        await engine.close()
        model.close()
    return FusionSpeed(
        alpha=parameters.alpha,
        over_plain={str(m): steps.over("plain") for m, (steps, _) in found.items()},
        over_bare_batch={str(m): steps.over("same") for m, (steps, _) in found.items()},
        in_cpu={str(m): steps.over_in_cpu("same") for m, (steps, _) in found.items()},
        solver_share={
            str(m): median(draws) / median(step.wall for step in steps.engine)
            for m, (steps, draws) in found.items()
        },
        prefill_ratio=reading,
        milliseconds={
            str(m): 1000 * median(step.wall for step in steps.engine)
            for m, (steps, _) in found.items()
        },
    )


class _TimedDraws:
    """A `GroupDraw` that times the daemon's own, and never ends the reply."""

    def __init__(self, model: LlamaModel, m: int, parameters: FusionParameters) -> None:
        randomness = SystemRandomness()
        self._model = model
        self._draws = Draws(
            FusedDraw(parameters, cells=m, widest=m, randomness=randomness),
            FusedDraw(parameters, cells=0, widest=0, randomness=randomness),
            1 << 20,
            Controls(),
        )
        self._instead = model.tokenize(PUBLIC, special=False)[0]
        self.seconds: list[float] = []

    def __call__(self, logits: npt.NDArray[np.float32]) -> int:
        began = time.perf_counter()
        token = self._draws(logits)
        self.seconds.append(time.perf_counter() - began)
        return self._instead if self._model.is_end(token) else token


async def _written(
    engine: LlamaEngine, model: LlamaModel, m: int, blocks: int, parameters: FusionParameters
) -> tuple[Found, list[float]]:
    """Steps of one group, and seconds of each draw."""
    draws = _TimedDraws(model, m, parameters)
    most = BLOCK * (blocks + 2) + 2 * FINISHING_TOKENS
    length = (1 + m) * (SHARED + OWN + most)
    with (
        model.context(sequences=1 + m, length=length) as same,
        model.context(length=SHARED + OWN + most) as plain,
    ):
        bare = {"same": Bare(same, 1 + m, SHARED), "plain": Bare(plain, 1)}
        with taking_turns(1 + m, bare, blocks) as found:
            reply = engine.generate_group(Secret(_group(model, m)), draws, max_tokens=most)
            async with aclosing(reply):
                async for _ in reply:
                    if len(found.engine) >= blocks:
                        break
    if len(found.engine) < blocks:
        raise RuntimeError("A reply ended before it was measured. Run it again.")
    return found, draws.seconds


async def _reading(engine: LlamaEngine, model: LlamaModel, m: int) -> float:
    """Seconds in which the engine reads a group, over those of bare calls for each row alone."""
    from tactfuld.inference.llama_api import LlamaContext

    group, decode = _group(model, m), LlamaContext.decode
    seconds = 0.0

    def timed(context: LlamaContext, rows: Sequence[Row]) -> None:
        nonlocal seconds
        began = time.perf_counter()
        decode(context, rows)
        seconds += time.perf_counter() - began

    with patch.object(LlamaContext, "decode", timed):
        reply = engine.generate_group(Secret(group), lambda _: 0, max_tokens=1)
        async with aclosing(reply):
            async for _ in reply:
                pass
    return seconds / await asyncio.to_thread(_read_apart, model, group)


def _read_apart(model: LlamaModel, group: SequenceGroup) -> float:
    with model.context(
        sequences=len(group.rows), length=len(group.rows) * len(group.rows[0])
    ) as context:
        began = time.perf_counter()
        for number, row in enumerate(group.rows):
            for start in range(0, len(row), BATCH):
                part = row[start : start + BATCH]
                context.decode(
                    [
                        Row(token, start + at, (number,), logits=start + at == len(row) - 1)
                        for at, token in enumerate(part)
                    ]
                )
        return time.perf_counter() - began


def _group(model: LlamaModel, m: int) -> SequenceGroup:
    shared = _tokens(model, PUBLIC, SHARED)
    own = [_tokens(model, PUBLIC, OWN)]
    own += [_tokens(model, PRIVATE.format(number=number), OWN) for number in range(m)]
    return SequenceGroup(tuple((*shared, *each) for each in own), SHARED)


def _tokens(model: LlamaModel, text: str, count: int) -> tuple[int, ...]:
    tokens = model.tokenize(text, special=False)
    return tuple((tokens * (1 + count // len(tokens)))[:count])
