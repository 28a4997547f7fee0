"""How the cost of memory grows with its size: times and exponents, measured in one run.

Decides what is timed on stores of several sizes, all of their positions full: a write (which seals
everything anew), the owner's list and search, a full check of integrity as `tactful doctor` makes
it, and what a turn reads: always the same read set. The stores take turns in every round, so that
what else the machine does meets them alike. What is *not* here: scoring and selection, which see a
read set only.

An exponent `e` says that the time grows as size^e between the smallest and the largest store. That
a turn opens the rows of its read set and no other is exact, and tested without a clock
(`tests/tactfuld/test_read_sets.py`).
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tactful_core.layout import GENERIC, Layout, Shelf, Slot, View
from tactful_core.values import Position, Secret, ShelfName, SlotName
from tactful_eval.throwaway import throwaway_keys, unexpected
from tactfuld.inference.embedder import Embedder, WordLlamaEmbedder
from tactfuld.memory_search import found
from tactfuld.store.connection import quick_check
from tactfuld.store.memory import MEMORY_FILE, MemoryPlace, MemoryStore
from tactfuld.store.witness import WITNESS_FILE

SIZES = (100, 1_000, 10_000)
SHELVES = 10
TOKENS = 48
READ_SET = 8
"""Positions that the turn reads in every store."""


@dataclass(frozen=True, slots=True)
class Times:
    """Medians of one store, in milliseconds; `mebibytes` is the size of its file."""

    positions: int
    mebibytes: float
    write: float
    list: float
    search: float
    integrity: float
    turn: float


@dataclass(frozen=True, slots=True)
class MemorySpeed:
    """All stores.

    Attributes:
        exponents: of each time, between the smallest and the largest store.
        turn_ratio: the turn's time in the largest store over that in the smallest; near 1, because
            neither the other positions nor their number matter to it.
    """

    stores: tuple[Times, ...]
    exponents: Mapping[str, float]
    turn_ratio: float


def memory_speed(
    folder: Path | None = None,
    sizes: Sequence[int] = SIZES,
    rounds: int = 5,
    turns: int = 40,
    embedder: Embedder | None = None,
) -> MemorySpeed:
    """Measures in a temporary folder inside `folder` (default: the system's), then removes it.

    Args:
        sizes: how many positions the stores have, ascending; multiples of 10, at least 80.
        turns: how many a round.
    """
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        return asyncio.run(
            _measured(Path(temporary), sizes, rounds, turns, embedder or WordLlamaEmbedder.load())
        )


@dataclass(frozen=True, slots=True)
class _Measured:
    """A store, and what is timed on it, each with how often a round."""

    positions: int
    database: Path
    timed: Mapping[str, tuple[Callable[[], Awaitable[object]], int]]


async def _measured(
    folder: Path, sizes: Sequence[int], rounds: int, turns: int, embedder: Embedder
) -> MemorySpeed:
    seconds: dict[tuple[int, str], list[float]] = {}
    async with AsyncExitStack() as stack:
        stores = [await _filled(folder, size, turns, embedder, stack) for size in sizes]
        for _ in range(rounds):
            for name in stores[0].timed:
                for store in stores:
                    run, times = store.timed[name]
                    for _ in range(times):
                        started = time.perf_counter()
                        await run()
                        taken = time.perf_counter() - started
                        seconds.setdefault((store.positions, name), []).append(taken)
        found = tuple(_times(store, seconds) for store in stores)
    first, last = found[0], found[-1]
    names = stores[0].timed
    return MemorySpeed(
        stores=found,
        exponents={name: _exponent(first, last, name) for name in names},
        turn_ratio=last.turn / first.turn,
    )


async def _filled(
    folder: Path, size: int, turns: int, embedder: Embedder, stack: AsyncExitStack
) -> _Measured:
    layout = _layout(size)
    place = MemoryPlace(folder / f"{size} {MEMORY_FILE}", folder / f"{size} {WITNESS_FILE}")
    keys = throwaway_keys()
    await MemoryStore.create(place, layout, keys)
    store = await stack.enter_async_context(MemoryStore.open(place, layout, keys, unexpected))
    for number, shelf in enumerate(layout.shelves):
        texts = [f"Memory {number}.{each}: I like walks." for each in range(len(shelf.positions))]
        await store.remember_parts(texts, shelf.name, None, 1)
    read_set = layout.shelves[0].positions[:READ_SET]
    words = Secret("walks by the river")

    async def integrity() -> None:
        if (
            await asyncio.to_thread(quick_check, place.database)
            or (await store.examined()).unreadable
        ):
            raise RuntimeError("The store that is measured is damaged.")

    async def search() -> None:
        full = await store.listing()
        await asyncio.to_thread(found, words, full, embedder, tokens=TOKENS)

    return _Measured(
        size,
        place.database,
        {
            "write": (lambda: store.edit(read_set[0], "I like walks by the river.", 1), 1),
            "list": (store.listing, 1),
            "search": (search, 1),
            "integrity": (integrity, 1),
            "turn": (lambda: store.open_rows(read_set), turns),
        },
    )


def _times(store: _Measured, seconds: Mapping[tuple[int, str], Sequence[float]]) -> Times:
    milliseconds = {name: 1000 * median(seconds[store.positions, name]) for name in store.timed}
    return Times(store.positions, store.database.stat().st_size / 2**20, **milliseconds)


def _exponent(first: Times, last: Times, name: str) -> float:
    times = getattr(last, name) / getattr(first, name)
    return math.log(times) / math.log(last.positions / first.positions)


def _layout(size: int) -> Layout:
    each = size // SHELVES
    return Layout(tuple(_slot(number, each) for number in range(SHELVES)), ())


def _slot(number: int, each: int) -> Slot:
    positions = tuple(map(Position, range(1 + number * each, 1 + (number + 1) * each)))
    name = SlotName(f"slot{number}")
    shelf = Shelf(ShelfName(f"{name}.all"), positions, TOKENS, unprotected=True)
    return Slot(name, "a topic", (shelf,), (View(GENERIC, "Answer for anybody."),))
