"""What is kept of one turn of an app, and for how long.

Decides the form of a turn's record (`SPEC.md` §9) and which turns are too old or too many. What is
*not* here: the file that they are kept in (`history`), what they are good for (`gate`).

Invariant: no `repr` shows a question or an answer.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful_core.errors import SealError
from tactful_core.values import AppId, SlotName, ViewName

MOST_OF_ONE_APP = 10_000
"""An app that begins ever new threads fills the disk no further."""

_SECONDS_OF_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Retention:
    """How many turns of one app and thread are kept, and for how many days."""

    turns: int
    days: int


@dataclass(frozen=True, slots=True)
class TurnView:
    """The view that conditioned a turn for one slot; `fallback` if nothing could be charged."""

    slot: SlotName
    view: ViewName
    fallback: bool


@dataclass(frozen=True, slots=True)
class ReleasedTurn:
    """What one turn of an app asked and was shown.

    Attributes:
        thread: the app's conversation; `None` for a question that stood alone.
        at: seconds since 1970.
        complete: whether `answer` is whole; it is what was released before the turn broke off.
    """

    app: AppId
    thread: str | None
    at: int
    query: str = field(repr=False)
    answer: str = field(repr=False)
    complete: bool
    views: tuple[TurnView, ...]


@dataclass(frozen=True, slots=True)
class TurnKey:
    """What decides whose turn it is and how long it is kept."""

    app: AppId
    thread: str | None
    at: int

    @classmethod
    def of(cls, turn: ReleasedTurn) -> TurnKey:
        return cls(turn.app, turn.thread, turn.at)


@dataclass(frozen=True, slots=True)
class TurnsGone:
    """Turns that are kept no longer: some of these threads, or (`None`) all there were.

    Attributes:
        by_owner: whether the owner said so; else they were too old or too many.
    """

    threads: frozenset[tuple[AppId, str | None]] | None
    by_owner: bool


Index = Mapping[int, TurnKey]
"""The turns that are kept, by number, oldest first."""


def expired(index: Index, retention: Retention, now: int) -> frozenset[int]:
    """The numbers of the turns that are not kept any longer."""
    gone: set[int] = set()
    of_thread: defaultdict[tuple[AppId, str | None], int] = defaultdict(int)
    of_app: defaultdict[AppId, int] = defaultdict(int)
    oldest = now - retention.days * _SECONDS_OF_A_DAY
    for number in sorted(index, reverse=True):
        key = index[number]
        thread = key.app, key.thread
        kept = of_thread[thread] < retention.turns and of_app[key.app] < MOST_OF_ONE_APP
        if not kept or key.at < oldest:
            gone.add(number)
            continue
        of_thread[thread] += 1
        of_app[key.app] += 1
    return frozenset(gone)


class _ViewRecord(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    slot: str
    view: str
    fallback: bool


class _TurnRecord(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    app: str
    thread: str | None
    at: Annotated[int, Field(ge=0)]
    query: str
    answer: str
    complete: bool
    views: list[_ViewRecord]


def encode(turn: ReleasedTurn) -> bytes:
    """The turn's record."""
    return json.dumps(asdict(turn), separators=(",", ":")).encode("ascii")


def decode(data: bytes) -> ReleasedTurn:
    """The turn of a record.

    Raises:
        SealError: this version writes no such record.
    """
    try:
        record = _TurnRecord.model_validate_json(data)
    except ValidationError:
        # Not chained: pydantic's error would carry the record along.
        raise SealError("A turn is not in a form that this version writes.") from None
    return ReleasedTurn(
        app=AppId(record.app),
        thread=record.thread,
        at=record.at,
        query=record.query,
        answer=record.answer,
        complete=record.complete,
        views=tuple(
            TurnView(SlotName(each.slot), ViewName(each.view), each.fallback)
            for each in record.views
        ),
    )
