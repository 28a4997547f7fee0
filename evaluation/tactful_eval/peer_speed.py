"""Tokens per second beside dp-fusion-lib 0.1.0: same weights, same prompts, one private context.

Decides what is timed and how it is compared. What is *not* here: the other library, which is under
a non-commercial licence and no dependency of anything: it runs in an environment of its own
(`PEER_PYTHON`), where `peer_worker` is all that knows it.

Both read the same GGUF file; transformers turns it into 32-bit floats, which is what it can do with
it on a CPU. Both get the same token ids, and take turns in every round, so that what else the
machine does meets them alike. Neither applies a cut-off, and neither is asked to stop early.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tactful_core.fusion import FusedDraw, calibrate
from tactful_core.sampling import SystemRandomness
from tactful_core.values import AttributeName, Secret
from tactfuld.fusing.distributions import Controls, masses
from tactfuld.inference.groups import SequenceGroup
from tactfuld.inference.llama_engine import LlamaEngine

PEER_PYTHON: Final = "TACTFUL_PEER_PYTHON"
"""The environment variable that names the Python which has dp-fusion-lib, torch and gguf."""

NOT_INSTALLED: Final = 3
"""The exit status where there is no such environment."""

WORKER: Final = Path(__file__).with_name("peer_worker.py")
LOADING: Final = 300.0
"""Seconds that the model may take to load."""

ROUNDS: Final = 5
TOKENS: Final = 48
QUIETLY: Final = {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
"""Everything is on this machine, and nobody watches."""

BETA: Final = 0.05
"""The other library's bound; how long its search takes does not depend on it."""

_NOTE = (
    "Minutes of the meeting on {}. {} said that the delivery of {} crates from {} had come two "
    "days late, and that {} would call the carrier again before the end of the week. The next "
    "meeting is on the first Monday of the month. Write these minutes once more in other words:"
)
_PRIVATE = ("the ninth of May", "Marta Feld", "four hundred", "Tarragona", "her brother Ilya")


class PeerMissing(Exception):
    """There is nothing to compare with."""

    def __init__(self) -> None:
        super().__init__(
            f"dp-fusion-lib is not installed: {PEER_PYTHON} names no Python that has it. Make an "
            "environment of its own with `dp-fusion-lib==0.1.0 gguf`, and set the variable to its "
            "python. It is under a non-commercial licence and never a dependency."
        )


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: medians over all rounds.

    Attributes:
        tokens_per_second: of a whole text, the prompts included.
        after_the_first: of all tokens but the first.
        model_share: the part of the time that the model's own computation takes.
    """

    tokens_per_second: float
    after_the_first: float
    model_share: float


@dataclass(frozen=True, slots=True)
class PeerSpeed:
    """Both sides, and how many times as fast ours is: medians of each round's ratio."""

    ours: Side
    peer: Side
    ratio: float
    ratio_after_the_first: float
    peer_version: str
    prompt_tokens: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Run:
    tokens: int
    seconds: float
    after_first: float
    model: float

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds

    @property
    def later_rate(self) -> float:
        return (self.tokens - 1) / self.after_first


def peer_speed(model: Path, threads: int) -> PeerSpeed:
    """Measures both.

    Raises:
        PeerMissing: the other library is not there.
    """
    python = os.environ.get(PEER_PYTHON)
    if not python or not _has_peer(python):
        raise PeerMissing
    return asyncio.run(_compared(model, threads, python))


def _has_peer(python: str) -> bool:
    command = [python, "-c", "import dp_fusion_lib, torch, transformers, gguf"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


async def _compared(model: Path, threads: int, python: str) -> PeerSpeed:
    async with LlamaEngine.open(model, threads=threads) as engine:
        await engine.ready(LOADING)
        rows = await engine.with_vocabulary(lambda vocabulary: _rows(vocabulary.tokenizer))
        pairs = []
        async with _peer(python) as ask:
            version = await ask(
                {"folder": str(model.parent), "file": model.name, "threads": threads}
            )
            for _ in range(1 + ROUNDS):
                ours = await _ours(engine, rows)
                theirs = await ask(
                    {"private": rows[1], "public": rows[0], "tokens": TOKENS, "beta": BETA}
                )
                pairs.append((ours, _Run(**theirs)))
    measured = pairs[1:]
    return PeerSpeed(
        ours=_side([ours for ours, _ in measured]),
        peer=_side([theirs for _, theirs in measured]),
        ratio=median(ours.rate / theirs.rate for ours, theirs in measured),
        ratio_after_the_first=median(o.later_rate / t.later_rate for o, t in measured),
        peer_version=version["version"],
        prompt_tokens=len(rows[0]),
        tokens=TOKENS,
    )


def _rows(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The public prompt and the private one: the same length, and the same ids outside of spans."""
    (filler,) = tokenizer.tokenize("_", special=False)
    public: list[int] = []
    private: list[int] = []
    for text, span in zip(_NOTE.split("{}"), (*_PRIVATE, ""), strict=True):
        piece, secret = (tokenizer.tokenize(each, special=False) for each in (text, span))
        public += [*piece, *[filler] * len(secret)]
        private += [*piece, *secret]
    return tuple(public), tuple(private)


class _Drawing:
    """Draws as the daemon does, and notes when."""

    def __init__(self) -> None:
        parameters = calibrate({AttributeName("minutes"): 8.0}, 1e-5, 200)
        self._fused = FusedDraw(parameters, cells=1, widest=1, randomness=SystemRandomness())
        self._released: list[int] = []
        self.ends: list[float] = []
        self.seconds = 0.0

    def __call__(self, logits: npt.NDArray[np.float32]) -> int:
        start = time.perf_counter()
        found = masses(logits, self._released, Controls())
        token = self._fused.draw(found[0], found[1:]).token
        self._released.append(token)
        self.ends.append(time.perf_counter())
        self.seconds += self.ends[-1] - start
        return token


async def _ours(engine: LlamaEngine, rows: Sequence[tuple[int, ...]]) -> _Run:
    drawing = _Drawing()
    start = time.perf_counter()
    shared = next(n for n, pair in enumerate(zip(*rows, strict=True)) if len(set(pair)) > 1)
    group = Secret(SequenceGroup(tuple(rows), shared))
    async with aclosing(engine.generate_group(group, drawing, max_tokens=TOKENS)) as pieces:
        async for _ in pieces:
            pass
    end = time.perf_counter()
    seconds = end - start
    return _Run(len(drawing.ends), seconds, end - drawing.ends[0], seconds - drawing.seconds)


@asynccontextmanager
async def _peer(python: str) -> AsyncGenerator[Callable[[object], Awaitable[Any]], None]:
    """The other library's process; what comes in answers one line after the other."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        python, str(WORKER), stdin=pipe, stdout=pipe, env={**os.environ, **QUIETLY}
    )
    writer, reader = process.stdin, process.stdout
    if writer is None or reader is None:
        raise RuntimeError("The other library's process has no pipes.")

    async def ask(what: object) -> Any:
        writer.write(json.dumps(what).encode() + b"\n")
        await writer.drain()
        return json.loads(await reader.readline())

    try:
        yield ask
        writer.close()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _side(runs: Sequence[_Run]) -> Side:
    return Side(
        tokens_per_second=median(run.rate for run in runs),
        after_the_first=median(run.later_rate for run in runs),
        model_share=median(run.model / run.seconds for run in runs),
    )
