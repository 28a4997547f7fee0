"""What a policy makes of one fused answer, from public input alone.

Decides what `tactful policy explain` says about text that is written from memory itself: how many
private contexts it has, who pays how much, how many tokens an epoch buys, and how long an answer
takes. What is *not* here: views (`policy.explanation`), what is left today (`fused_accounts`).

Invariant: memory, ledgers and clocks have no part in it; two owners with one policy are told the
same. So the speed is stated and not measured: that of the built-in model on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tactful_core.entries import Cell, EntryId, EpochOpened
from tactful_core.fused_ledger import FusedAccount
from tactful_core.layout import Slot
from tactful_core.ledger import draws_left, replay
from tactful_core.promises import Promises
from tactful_core.values import AppId, epsilon_of
from tactfuld.fused_accounts import epsilon_at
from tactfuld.fusing.cells import MOST_CELLS, plan_cells

ROOM = 4096
"""Tokens of a context that all places of an answer may take here, whatever the model is."""

STATED_TOKENS_PER_SECOND = 50.0
"""Of the built-in model on two cores, with no private context."""

_SLOWER: tuple[tuple[int, float], ...] = ((0, 1.0), (1, 1.3), (2, 1.6), (4, 2.6), (MOST_CELLS, 4.1))
"""How much longer a token takes with so many private contexts in one batch (GUARANTEE §5)."""


@dataclass(frozen=True, slots=True)
class FusedPayer:
    """An attribute that fused text is charged to.

    Attributes:
        epsilon: what the policy lets it cost in an epoch.
        answer: the epsilon of a first whole answer, at the policy's delta; later ones cost less.
    """

    attribute: str
    epsilon: float
    answer: float


@dataclass(frozen=True, slots=True)
class FusedExplained:
    """One fused answer to a question.

    Attributes:
        contexts: private ones, each computed with every token.
        left_out: shelves that no context shows: an attribute that they may imply has no budget.
        tokens: the most of one answer.
        epoch_tokens: the most of an epoch in which nobody else asks.
        seconds: of an answer of all its tokens, at the stated speed.
    """

    contexts: int
    payers: tuple[FusedPayer, ...]
    left_out: tuple[str, ...]
    delta: float
    tokens: int
    epoch_tokens: int
    tokens_per_second: float
    seconds: float


def fused_explained(
    promises: Promises, app: AppId, slots: Sequence[Slot], tokens: int
) -> FusedExplained | None:
    """What a fused answer about these slots does; `None` where no text may be fused from them.

    Args:
        slots: with the shelves that the turn reads.
        tokens: the most of one answer, from the settings.
    """
    parameters, privacy = promises.calibrated(), promises.privacy
    if parameters is None or privacy is None:
        return None
    budgeted = {a.name for a in promises.layout.attributes if a.fusion is not None}
    plan = plan_cells(slots, promises, budgeted, room=ROOM, around=0)
    cells = tuple(Cell(plan.positions(charged), charged) for charged in plan.cells)
    if not cells:
        return None
    account = FusedAccount(app, cells, parameters)
    opened = replay([EpochOpened(EntryId("0" * 32), 1, 0, parameters)])
    shown = {place.position for place in plan.places}
    speed = STATED_TOKENS_PER_SECOND / _slower(len(cells))
    return FusedExplained(
        contexts=len(cells),
        payers=tuple(
            FusedPayer(
                attribute.name,
                epsilon_of(attribute.fusion),
                epsilon_at(parameters.alpha, tokens * account.loss(attribute), privacy.delta),
            )
            for attribute in promises.layout.attributes
            if attribute.fusion is not None and account.loss(attribute)
        ),
        left_out=tuple(
            shelf.name
            for slot in slots
            for shelf in slot.shelves
            if shown.isdisjoint(shelf.positions)
        ),
        delta=float(privacy.delta),
        tokens=tokens,
        epoch_tokens=draws_left(opened, app, cells, promises),
        tokens_per_second=round(speed, 1),
        seconds=round(tokens / speed, 1),
    )


def _slower(contexts: int) -> float:
    """Between the measured numbers of contexts, on a straight line."""
    for (few, quick), (many, slow) in pairwise(_SLOWER):
        if contexts <= many:
            return quick + (slow - quick) * (contexts - few) / (many - few)
    return _SLOWER[-1][1]
