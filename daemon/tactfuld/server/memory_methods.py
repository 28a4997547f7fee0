"""What the owner's tools may call about memory.

Decides how memory looks to the owner. What is *not* here: what may go where (`store.filing`), how
rows are sealed and forgotten (`store.memory`), how shelves are proposed (`tactfuld.proposals`), and
what warnings say (`tactfuld.coverage_lint`).

Invariants:

- forgetting touches no ledger; nothing that was charged comes back;
- texts are not in errors and not in logs; replies to the owner are the only place they go.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tactful.errors import DoesNotFit, InvalidParams
from tactful.owner_wire import (
    CoverageWarning,
    Forgotten,
    MemoryAt,
    MemoryEdit,
    MemoryForget,
    MemoryFound,
    MemoryItem,
    MemoryList,
    MemoryMove,
    MemoryOf,
    MemoryPropose,
    MemorySearch,
    MemorySuggestion,
    MemorySuggestions,
    Moved,
    OwnerMethod,
    Proposal,
    Remember,
    Remembered,
    ShelfChoice,
    ShelfInfo,
)
from tactful.wire import Empty
from tactful_core.layout import Layout, Shelf
from tactful_core.sealing import Memory, capacity_bytes
from tactful_core.values import Position, Secret, ShelfName
from tactfuld.clock import Clock
from tactfuld.coverage_lint import CoverageLint
from tactfuld.inference.embedder import Embedder
from tactfuld.memory_search import found
from tactfuld.proposals import proposed, suggested
from tactfuld.sentences import parted
from tactfuld.server.lint_methods import coverage_warning
from tactfuld.server.session import Caller, Method, MethodTable
from tactfuld.store.filing import Memories, joining, require_memory, shelf_named
from tactfuld.store.memory import MemoryStore

MOST_CHOICES = 5
"""So many shelves are proposed."""

Full = tuple[Position, Memory]


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """What these methods look at and act on."""

    store: MemoryStore
    layout: Layout
    embedder: Embedder
    lint: CoverageLint
    clock: Clock


def memory_methods(parts: MemoryParts) -> MethodTable:
    """The part of the owner's table that is about memory."""
    owner = _MemoryMethods(parts)
    return {
        OwnerMethod.REMEMBER: Method(Remember, owner.remember),
        OwnerMethod.MEMORY_PROPOSE: Method(MemoryPropose, owner.propose),
        OwnerMethod.MEMORY_LIST: Method(MemoryOf, owner.list),
        OwnerMethod.MEMORY_SHOW: Method(MemoryAt, owner.show),
        OwnerMethod.MEMORY_EDIT: Method(MemoryEdit, owner.edit),
        OwnerMethod.MEMORY_MOVE: Method(MemoryMove, owner.move),
        OwnerMethod.MEMORY_FORGET: Method(MemoryForget, owner.forget),
        OwnerMethod.MEMORY_SEARCH: Method(MemorySearch, owner.search),
        OwnerMethod.MEMORY_SUGGEST: Method(Empty, owner.suggest),
    }


class _MemoryMethods:
    def __init__(self, parts: MemoryParts) -> None:
        self._store = parts.store
        self._layout = parts.layout
        self._embedder = parts.embedder
        self._lint = parts.lint
        self._clock = parts.clock
        self._shelf_of = {p: shelf for shelf in self._layout.shelves for p in shelf.positions}

    async def remember(self, _caller: Caller, request: Remember) -> Remembered:
        shelf = shelf_named(self._layout, ShelfName(request.shelf))
        parts: tuple[str, ...] = (request.text,)
        if request.split:
            parts = parted(request.text, capacity_bytes(shelf.tokens))
        wanted = None if request.position is None else Position(request.position)
        warning = await self._warning(parts, shelf)
        positions = await self._store.remember_parts(parts, shelf.name, wanted, self._clock.now())
        return Remembered(positions=positions, shelf=shelf.name, warning=warning)

    async def propose(self, _caller: Caller, request: MemoryPropose) -> Proposal:
        if request.shelf is None:
            text = Secret(request.text)
            ranked = await asyncio.to_thread(proposed, text, self._layout, self._embedder)
        else:
            ranked = (shelf_named(self._layout, ShelfName(request.shelf)),)
        full = frozenset(position for position, _ in await self._store.listing())
        choices = [self._choice(request.text, shelf, full) for shelf in ranked[:MOST_CHOICES]]
        return Proposal(
            choices=tuple(
                [
                    each.model_copy(update={"warning": await self._warning(each.parts, shelf)})
                    for each, shelf in zip(choices, ranked, strict=False)
                ]
            )
        )

    async def list(self, _caller: Caller, request: MemoryOf) -> MemoryList:
        shelves = self._layout.shelves
        if request.shelf is not None:
            shelves = (shelf_named(self._layout, ShelfName(request.shelf)),)
        listed = {position for shelf in shelves for position in shelf.positions}
        full = await self._store.listing()
        taken = frozenset(position for position, _ in full)
        return MemoryList(
            items=self._items(each for each in full if each[0] in listed),
            shelves=tuple(self._shelf(shelf, taken) for shelf in shelves),
        )

    async def show(self, _caller: Caller, request: MemoryAt) -> MemoryItem:
        memories: Memories = [None] * self._layout.size
        for position, memory in await self._store.listing():
            memories[position - 1] = memory
        wanted = Position(request.position)
        return self._item((wanted, require_memory(memories, self._layout, wanted)))

    async def edit(self, _caller: Caller, request: MemoryEdit) -> Remembered:
        position = Position(request.position)
        await self._store.edit(position, request.text, self._clock.now())
        shelf = self._shelf_of[position]
        warning = await self._warning((request.text,), shelf)
        return Remembered(positions=(position,), shelf=shelf.name, warning=warning)

    async def move(self, _caller: Caller, request: MemoryMove) -> Moved:
        position = Position(request.position)
        target = shelf_named(self._layout, ShelfName(request.shelf))
        moved = await self._store.move(position, target.name)
        joined = joining(self._layout, position, target)
        return Moved(position=moved, shelf=target.name, joined=joined)

    async def forget(self, _caller: Caller, request: MemoryForget) -> Forgotten:
        forgotten = await self._store.forget(self._named(request))
        # What only cycles still refer to is freed now, and so overwritten (`tactfuld.scrubbing`).
        await asyncio.to_thread(gc.collect)
        return Forgotten(forgotten=forgotten)

    async def search(self, _caller: Caller, request: MemorySearch) -> MemoryFound:
        full = await self._store.listing()
        tokens = max(shelf.tokens for shelf in self._layout.shelves)
        words = Secret(request.words)
        best = await asyncio.to_thread(found, words, full, self._embedder, tokens=tokens)
        return MemoryFound(items=self._items(best[: request.limit]))

    async def suggest(self, _caller: Caller, _request: Empty) -> MemorySuggestions:
        full = await self._store.listing()
        better = await asyncio.to_thread(suggested, full, self._layout, self._embedder)
        return MemorySuggestions(
            suggestions=tuple(
                MemorySuggestion(
                    item=self._item((each.position, each.memory)),
                    better=each.better.name,
                    joining=joining(self._layout, each.position, each.better),
                )
                for each in better
            )
        )

    async def _warning(self, texts: Sequence[str], shelf: Shelf) -> CoverageWarning | None:
        said = await asyncio.to_thread(self._lint.uncovered, texts, shelf)
        return None if said is None else coverage_warning(said)

    def _named(self, request: MemoryForget) -> Sequence[Position]:
        """The positions that a request names in one way."""
        ways = (request.positions is not None, request.shelf is not None, request.everything)
        if sum(ways) != 1:
            raise InvalidParams(
                "Say in one way what to forget: positions; a shelf; or everything. Nothing was "
                "forgotten."
            )
        if request.positions is not None:
            return [Position(number) for number in request.positions]
        if request.shelf is not None:
            return shelf_named(self._layout, ShelfName(request.shelf)).positions
        return [position for shelf in self._layout.shelves for position in shelf.positions]

    def _items(self, full: Iterable[Full]) -> tuple[MemoryItem, ...]:
        return tuple(map(self._item, full))

    def _item(self, full: Full) -> MemoryItem:
        position, memory = full
        return MemoryItem(
            position=position,
            shelf=self._shelf_of[position].name,
            text=memory.text,
            written_at=memory.written_at,
        )

    def _choice(self, text: str, shelf: Shelf, full: frozenset[Position]) -> ShelfChoice:
        try:
            parts = parted(text, capacity_bytes(shelf.tokens))
        except DoesNotFit:
            parts = ()
        if len(parts) == 1:
            parts = (text,)
        return ShelfChoice(
            shelf=shelf.name,
            positions=len(shelf.positions),
            free=len(shelf.positions) - len(full.intersection(shelf.positions)),
            tokens=shelf.tokens,
            covered_by=self._covering(shelf),
            parts=parts,
        )

    def _shelf(self, shelf: Shelf, taken: frozenset[Position]) -> ShelfInfo:
        return ShelfInfo(
            shelf=shelf.name,
            positions=shelf.positions,
            full=len(taken.intersection(shelf.positions)),
            tokens=shelf.tokens,
            covered_by=self._covering(shelf),
        )

    def _covering(self, shelf: Shelf) -> tuple[str, ...]:
        return tuple(sorted(self._layout.required_charge_set(shelf.positions)))
