"""One fused text: planned, reserved, read, drawn and settled.

Decides the order of these. What is *not* here: which positions are shown (`cells`), the rows of
token ids (`contexts`), the controls (`distributions`), whether a reservation fits and what a draw
costs (`tactful_core`), the turn around it (`gate`).

Invariants (GUARANTEE §5, C5, C6):

- what is drawn from is decided by public input, before anything is reserved; draws are reserved
  before a row is opened, and only rows that were reserved are opened;
- from then on nothing that memory causes can be seen: rows that cannot be read count as empty, and
  the owner is told;
- no more draws are made with memory than were reserved; what text there is after them, or where the
  public row is certain, is drawn from the public row alone;
- a draw is counted before it is made. The reservation is settled once, after the last draw, to the
  draws that were made: the first, that of the end mark and discarded ones included, those that the
  public row alone decided not;
- where nothing is reserved no row of memory is opened.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tactful_core.entries import Cell, FusedReserved, UnprotectedRead, new_entry_id
from tactful_core.fusion import FusedDraw, FusionParameters
from tactful_core.interface import MemoryReader, ReservationStore
from tactful_core.layout import Slot
from tactful_core.ledger import (
    Ledger,
    Refusal,
    Refused,
    UnreadableLedger,
    draws_left,
    fused_cap,
)
from tactful_core.promises import Promises
from tactful_core.sampling import Randomness
from tactful_core.values import AppId, AttributeName, Position, Secret
from tactfuld.fusing.cells import CellPlan, plan_cells
from tactfuld.fusing.contexts import (
    Contexts,
    Frame,
    around_each,
    bare_length,
    contexts,
    frame,
)
from tactfuld.fusing.distributions import Controls, masses
from tactfuld.inference.chat_template import Vocabulary
from tactfuld.inference.engine import Engine
from tactfuld.inference.errors import PromptTooLong
from tactfuld.inference.groups import GroupShape, SequenceGroup
from tactfuld.inference.prompt import Prompt


class Unfused(StrEnum):
    """Why a text is not fused; all of it follows from public input."""

    NO_BUDGET = "no_budget"
    NO_ROOM = "no_room"
    FUSION = "fusion"
    CAP = "cap"
    QUOTA = "quota"
    SHARE = "share"
    UNREADABLE = "unreadable"


class FusingNotices(Protocol):
    """Where the owner, and nobody else, is told; must not raise, since memory may cause it."""

    def fusing_failed(self) -> None: ...

    def memories_cut(self, positions: tuple[Position, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What is public about a text that is to be fused.

    Attributes:
        draws: the most tokens of it.
        memory: the most tokens that all places of a row take.
    """

    app: AppId
    slots: tuple[Slot, ...]
    prompt: Prompt = field(repr=False)
    draws: int
    memory: int


@dataclass(frozen=True, slots=True)
class NotFused:
    """The text is drawn from public input alone, at no charge."""

    reason: Unfused


class Draws:
    """Draws the tokens of one text, and counts what is charged; a `GroupDraw` of the engine.

    Attributes:
        reserved: draws that memory may have a part in.
        charged: those of them that were made.
        free: draws from the public row alone.
    """

    def __init__(
        self,
        draw: FusedDraw,
        public: FusedDraw,
        reserved: int,
        controls: Controls,
        barred: tuple[int, ...] = (),
    ) -> None:
        """`public` draws from the public row alone; no draw returns an id that is `barred`."""
        self._draw = draw
        self._public = public
        self._controls = controls
        self._barred = barred
        self._released: list[int] = []
        self.reserved = reserved
        self.charged = 0
        self.free = 0

    def __call__(self, logits: NDArray[np.float32]) -> int:
        rows = masses(logits, self._released, self._controls, self._barred)
        token = self._from_memory(rows) if self.charged < self.reserved else self._free(rows)
        self._released.append(token)
        return token

    def _from_memory(self, rows: NDArray[np.float64]) -> int:
        # Before the draw: one that fails in the middle has been made.
        self.charged += 1
        drawn = self._draw.draw(rows[0], rows[1:])
        if not drawn.charged:
            self.charged -= 1
            self.free += 1
        return drawn.token

    def _free(self, rows: NDArray[np.float64]) -> int:
        self.free += 1
        return self._public.draw(rows[0], rows[:0]).token


@dataclass(frozen=True, slots=True)
class Fusion:
    """A text that may be drawn: its rows, what draws from them, and what was reserved.

    Attributes:
        opening: how it begins; public.
        most: tokens that may be drawn, more than were reserved where the budget ends.
    """

    group: Secret[SequenceGroup]
    draws: Draws
    opening: str = field(repr=False)
    cells: tuple[Cell, ...]
    most: int

    @property
    def charged(self) -> frozenset[AttributeName]:
        """The attributes that pay for draws."""
        return frozenset[AttributeName]().union(*(cell.charged for cell in self.cells))


@dataclass(frozen=True, slots=True)
class Planned:
    """Everything public about the rows of a text."""

    plan: CellPlan
    frame: Frame

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(Cell(self.plan.positions(cell), cell) for cell in self.plan.cells)


class Fusing:
    """Makes fused texts. What it is given is the daemon's own but for the requests."""

    def __init__(
        self,
        charges: ReservationStore,
        memory: MemoryReader,
        randomness: Randomness,
        engine: Engine,
        notices: FusingNotices,
        controls: Controls | None = None,
    ) -> None:
        self._charges = charges
        self._memory = memory
        self._randomness = randomness
        self._engine = engine
        self._notices = notices
        self._controls = controls or Controls()

    @asynccontextmanager
    async def begun(
        self, asked: Asked, promises: Promises
    ) -> AsyncGenerator[Fusion | NotFused, None]:
        """A text that may be drawn within the block; settled at its end, however that comes.

        Until the block begins memory is read: enter it within the stage of fixed time. No draw may
        be made after the block.
        """
        ledger = self._charges.snapshot()
        if isinstance(ledger, UnreadableLedger):
            yield NotFused(Unfused.UNREADABLE)
            return
        parameters = ledger.fused.now
        budgeted = _budgeted(ledger, promises)
        found = await self._engine.with_vocabulary(
            lambda vocabulary: planned(asked, promises, budgeted, vocabulary)
        )
        if isinstance(found, NotFused) or parameters is None:
            yield found if isinstance(found, NotFused) else NotFused(Unfused.NO_BUDGET)
            return
        reservation = _reservation(asked, promises, ledger, found)
        refused = await self._admitted(reservation, promises)
        if refused is not None:
            yield NotFused(Unfused(refused))
            return
        draws = self._draws(found, parameters, reservation.draws)
        try:
            yield Fusion(
                Secret(SequenceGroup(await self._rows(found), found.frame.shared)),
                draws,
                asked.prompt.opening,
                reservation.cells,
                asked.draws,
            )
        finally:
            if reservation.cells:
                await self._charges.settle(reservation, draws.charged)

    async def _admitted(self, reservation: FusedReserved, promises: Promises) -> Refusal | None:
        """Writes down what may be drawn or shown; why it may not."""
        if reservation.cells:
            admission = await self._charges.reserve(reservation, promises)
            return admission.reason if isinstance(admission, Refused) else None
        for slot in promises.layout.slots:
            shown = reservation.unprotected & frozenset(slot.positions)
            if not shown:
                continue
            read = UnprotectedRead(
                id=new_entry_id(),
                epoch=reservation.epoch,
                app=reservation.app,
                slot=slot.name,
                positions=shown,
                policy=promises.digest,
            )
            if not await self._charges.record(read):
                return Refusal.UNREADABLE
        return None

    def _draws(self, found: Planned, parameters: FusionParameters, reserved: int) -> Draws:
        plan = found.plan
        draw = FusedDraw(
            parameters,
            cells=len(plan.cells),
            widest=plan.widest,
            randomness=self._randomness,
            skip_below=self._controls.skip_below,
        )
        public = FusedDraw(parameters, cells=0, widest=0, randomness=self._randomness)
        barred = found.frame.barred
        return Draws(draw, public, reserved if plan.cells else 0, self._controls, barred)

    async def _rows(self, found: Planned) -> tuple[tuple[int, ...], ...]:
        """The rows; those of empty memory where it cannot be read (C6)."""
        positions = tuple(place.position for place in found.frame.places)
        try:
            texts = await self._memory.open_rows(positions)
            made = await self._contexts(found, texts)
        except Exception:  # noqa: BLE001 - C6: whatever contents cause, nothing of it may show
            self._notices.fusing_failed()
            made = await self._contexts(found, Secret(("",) * len(positions)))
        if made.cut.reveal():
            self._notices.memories_cut(made.cut.reveal())
        return made.rows.reveal()

    async def _contexts(self, found: Planned, texts: Secret[tuple[str, ...]]) -> Contexts:
        return await self._engine.with_vocabulary(
            lambda vocabulary: contexts(found.frame, found.plan, texts, vocabulary.tokenizer)
        )


def planned(
    asked: Asked,
    promises: Promises,
    budgeted: frozenset[AttributeName],
    vocabulary: Vocabulary,
) -> Planned | NotFused:
    """The places and the public part of the rows, from public input alone.

    As many positions are shown as `asked.memory` and the model's context have room for beside the
    question and the answer; earlier turns get what these leave.
    """
    tokenizer, template = vocabulary.tokenizer, vocabulary.template
    most = vocabulary.context_length - asked.draws
    around = around_each(tokenizer)
    room = min(asked.memory, most - bare_length(asked.prompt, template, tokenizer))
    anything = plan_cells(asked.slots, promises, budgeted, room=sys.maxsize, around=around)
    if not anything.places:
        return NotFused(Unfused.NO_BUDGET)
    while room > 0:
        plan = plan_cells(asked.slots, promises, budgeted, room=room, around=around)
        if not plan.places:
            break
        public = frame(asked.prompt, plan, template, tokenizer, room=most)
        if _fits(plan, public, asked.draws, vocabulary.context_length):
            return Planned(plan, public)
        room = room * 3 // 4
    return NotFused(Unfused.NO_ROOM)


def _fits(plan: CellPlan, public: Frame, draws: int, context_length: int) -> bool:
    shape = GroupShape(1 + len(plan.cells), public.length, public.shared)
    try:
        shape.refuse_unless_it_fits(draws, context_length)
    except PromptTooLong:
        return False
    return True


def _budgeted(ledger: Ledger, promises: Promises) -> frozenset[AttributeName]:
    """The attributes that pay for fused text in the open epoch."""
    return frozenset(
        attribute.name
        for attribute in promises.layout.attributes
        if fused_cap(ledger, attribute, promises) is not None
    )


def _reservation(asked: Asked, promises: Promises, ledger: Ledger, found: Planned) -> FusedReserved:
    """For the draws of the whole text, or as many as are left."""
    shown = {place.position for place in found.plan.places}
    left = draws_left(ledger, asked.app, found.cells, promises)
    return FusedReserved(
        id=new_entry_id(),
        epoch=ledger.epoch,
        app=asked.app,
        slots=frozenset(slot.name for slot in asked.slots if shown & set(slot.positions)),
        cells=found.cells,
        unprotected=frozenset(found.plan.open_positions),
        draws=min(asked.draws, left) or asked.draws,
        policy=promises.digest,
    )
