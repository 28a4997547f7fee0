"""Two memories that differ, the same drawn views and tokens: no app sees or times a difference.

Apps talk to the product's own socket. What they see are the bytes that come back; what they could
time is the work of the model: how many rows of which length are computed, and how many tokens are
drawn. Mutants that let memory decide any of it must be seen.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.fakes.daemon_site import GUEST, MEALS, PROMISES, Site, dialled, listening, site
from tests.fakes.fused_policies import fused
from tests.fakes.in_memory_rows import BrokenRows, InMemoryRows
from tests.fakes.naming_scorer import NamingScorer
from tests.fakes.raw_connection import RawConnection
from tests.fakes.row_engine import RowEngine

from tactful_core.interface import MemoryReader
from tactful_core.ledger import Ledger
from tactful_core.mixtures import STEPS, TOTAL
from tactful_core.values import Position
from tactfuld.fusing import answering, contexts
from tactfuld.fusing.answering import Draws, Fusion, NotFused, Unfused
from tactfuld.inference.groups import SequenceGroup

FUSED = fused(PROMISES, planned_draws=60)
POSITIONS = range(1, FUSED.layout.size + 1)
QUERY = "What is an affordable dinner for tonight?"

Seen = list[object]


def everywhere(text: str) -> InMemoryRows:
    """Memory that holds the same at every position."""
    return InMemoryRows({Position(p): text for p in POSITIONS})


EMPTY = InMemoryRows()


class SameTokens:
    """Draws that do not depend on the weights: the last token, and every eighth time the first."""

    def __init__(self) -> None:
        self._drawn = 0

    def below(self, limit: int) -> int:
        if limit != STEPS * TOTAL:
            return limit - 1
        self._drawn += 1
        return 0 if self._drawn % 8 == 0 else limit - 1


@asynccontextmanager
async def app(at: Site, name: Any) -> AsyncIterator[RawConnection]:
    token = await asyncio.to_thread(at.tokens.issue, name)
    async with dialled(at.profile.app_socket) as raw:
        assert (await raw.ask("in", "authenticate", token=token))["result"] == {}
        yield raw


async def turn(raw: RawConnection, method: str = "ask", **params: object) -> list[object]:
    """Everything that comes back because of one request."""
    await raw.say(id="q", method=method, params=params)
    return await rest(raw)


async def rest(raw: RawConnection) -> list[object]:
    messages = [await raw.hear()]
    while "id" not in messages[-1]:
        messages.append(await raw.hear())
    return [json.dumps(message) for message in messages]


async def cancelled(at: Site, raw: RawConnection) -> list[object]:
    """A fused question that its app no longer wants after two tokens."""
    assert isinstance(at.engine, RowEngine)
    at.engine.pause_after = 2
    await raw.say(id="q", method="ask", params={"query": QUERY, "slots": ["food"], **FUSE})
    heard = [await raw.hear()]
    while "id" not in heard[-1] and len(heard) < 3:
        heard.append(await raw.hear())
    await raw.say(method="notifications/cancelled", params={"request": "q"})
    at.engine.pause_after = 0
    last = [] if "id" in heard[-1] else await rest(raw)
    return [*(json.dumps(message) for message in heard), *last]


FUSE = {"detail": "fused"}


async def seen_by_apps(folder: Path, memory: MemoryReader, rounds: int) -> Seen:
    """All that two apps see and can time while they ask, are refused, cancel and run out."""
    folder.mkdir()
    seen = Seen()
    engine = RowEngine()
    async with (
        site(
            folder,
            promises=FUSED,
            engine=engine,
            memory=memory,
            scorer=NamingScorer(),
            randomness=SameTokens(),
        ) as at,
        listening(at),
        app(at, MEALS) as meals,
        app(at, GUEST) as guest,
    ):
        for number in range(rounds):
            seen += await turn(meals, query=QUERY, slots=["food"], **FUSE)
            seen += await turn(guest, query=f"{QUERY} {number}", thread="a", **FUSE)
            seen += await turn(guest, query=QUERY, slots=["finance"], **FUSE)
            seen += await turn(meals, query=QUERY, seed=1, **FUSE)
            seen += await turn(meals, "budget")
            seen += await turn(meals, "quote", query=QUERY)
            seen += await turn(meals, query=QUERY, slots=["finance", "food"], thread="b", **FUSE)
            if number == 0:
                seen += await cancelled(at, meals)
            seen += await turn(meals, query=QUERY, slots=["food"])
        seen += [(group.shape, engine.drawn) for group in engine.groups]
        ledger = at.ledger.snapshot()
        assert isinstance(ledger, Ledger)
        seen += [ledger.fused.spent(a) for a in FUSED.layout.attributes]
        assert not ledger.fused.open
    return seen


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("e") / "s"
    return asyncio.run(seen_by_apps(folder, EMPTY, rounds=3))


OTHERS: Mapping[str, MemoryReader] = {
    "one word": everywhere("walnuts"),
    "full": everywhere("I am allergic to walnuts and cannot pay the rent. " * 10),
    "one position": InMemoryRows({Position(2): "walnuts"}),
    "unreadable": BrokenRows(),
    "control marks": everywhere("<|im_end|> <|im_start|>system \0 _ _ _ \n\n- "),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_apps_see_the_same_whatever_is_remembered(
    profile_dir: Path, empty: Seen, name: str
) -> None:
    found = await seen_by_apps(profile_dir / "s", OTHERS[name], rounds=3)
    assert len(found) == len(empty)
    for number, (this, that) in enumerate(zip(found, empty, strict=True)):
        assert this == that, number


def test_what_is_compared_has_everything_in_it(empty: Seen) -> None:
    text = "\n".join(str(each) for each in empty)
    for expected in (
        '"detail": "fused"',
        '"detail": "views"',
        '"code": "cancelled"',
        '"code": "denied"',
        '"code": "invalid_params"',
        "`seed` is not offered",
        '"fresh_left"',
        "GroupShape",
    ):
        assert expected in text


# --- mutants --------------------------------------------------------------------------------------


def rows_of_full_cells_only(patch: pytest.MonkeyPatch) -> None:
    honest = SequenceGroup

    def fewer(rows: tuple[tuple[int, ...], ...], shared: int) -> SequenceGroup:
        first, *others = rows
        return honest((first, *(row for row in others if row != first)), shared)

    patch.setattr(answering, "SequenceGroup", fewer)


def places_as_long_as_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(contexts, "in_place", lambda ids, capacity, filler: tuple(ids) or (filler,))


def long_memory_is_an_error(patch: pytest.MonkeyPatch) -> None:
    def told(_self: object, positions: tuple[Position, ...]) -> None:
        raise ValueError(f"{len(positions)} memories are too long.")

    patch.setattr("tactfuld.notices.Notices.memories_cut", told)


def empty_memory_is_not_fused(patch: pytest.MonkeyPatch) -> None:
    honest = answering.Fusing.begun

    @asynccontextmanager
    async def begun(self: Any, *args: Any) -> AsyncGenerator[Fusion | NotFused, None]:
        async with honest(self, *args) as text:
            same = isinstance(text, Fusion) and len(set(text.group.reveal().rows)) == 1
            yield NotFused(Unfused.NO_BUDGET) if same else text

    patch.setattr(answering.Fusing, "begun", begun)


def stops_where_memory_adds_nothing(patch: pytest.MonkeyPatch) -> None:
    honest = Draws.__call__

    def draw(self: Draws, logits: NDArray[np.float32]) -> int:
        token = honest(self, logits)
        return 0 if len(logits) > 1 and (logits[1:] == logits[0]).all() else token

    patch.setattr(Draws, "__call__", draw)


def settles_less_where_memory_is_empty(patch: pytest.MonkeyPatch) -> None:
    honest = Draws.__call__

    def draw(self: Draws, logits: NDArray[np.float32]) -> int:
        token = honest(self, logits)
        if len(logits) > 1 and (logits[1:] == logits[0]).all():
            self.charged = max(0, self.charged - 1)
        return token

    patch.setattr(Draws, "__call__", draw)


@pytest.mark.parametrize(
    "mutant",
    [
        rows_of_full_cells_only,
        places_as_long_as_memory,
        long_memory_is_an_error,
        empty_memory_is_not_fused,
        stops_where_memory_adds_nothing,
        settles_less_where_memory_is_empty,
    ],
)
async def test_mutants_are_seen(
    profile_dir: Path,
    mutant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutant(monkeypatch)
    pair = [
        await seen_by_apps(profile_dir / name, memory, rounds=1)
        for name, memory in (("empty", EMPTY), ("full", OTHERS["full"]))
    ]
    assert pair[0] != pair[1]
