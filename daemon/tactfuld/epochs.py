"""When a calendar epoch opens by itself, and when the public tick of a day is.

Decides from the policy's rule, the local calendar and how long the open epoch has really lasted.
What is *not* here: what a new epoch means (`tactful_core.ledger`), what changes at a tick
(`policy_in_force`), and the owner's `epoch new`.

Invariants (GUARANTEE §3):

- a period is the number of its first day since 1970, so periods of all rules compare; an epoch
  opens only for a later period than any before, and than the one in which the open epoch began: a
  clock that steps back opens nothing twice;
- an epoch lasts at least its nominal length, measured by the monotonic clock while the daemon runs
  (a clock set forward does not shorten it) and by the calendar while it does not;
- a tick is the first look at another day of the policy than the one before, so it is missed by no
  sleep of the machine; a clock that is set brings it early or once more, which loosens nothing;
- nothing here depends on memory, nor on what was asked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from structlog.typing import FilteringBoundLogger

from tactful_core.ledger import UnreadableLedger
from tactful_core.promises import EpochRule, Renewal
from tactfuld.clock import Clock
from tactfuld.store.ledger import LedgerStore

AGE_FILE = "epoch.json"
LOOK_SECONDS = 60.0

_DAY = 24 * 3600
_NOMINAL_SECONDS = {Renewal.WEEKLY: 7 * _DAY, Renewal.MONTHLY: 28 * _DAY}
_LONGEST = 1e10
"""Seconds, three centuries: beyond it no calendar follows."""
_EPOCH_DAY = date(1970, 1, 1).toordinal()

OpenEpoch = Callable[[int, int | None], Awaitable[int | None]]
"""Opens an epoch for a period (0: by hand) after the one that is open; as `LedgerStore` does."""


@dataclass(frozen=True, slots=True)
class EpochAge:
    """How long an epoch has lasted.

    Attributes:
        seconds: counted so far.
        seen_at: until when it was counted, in seconds since 1970; not before any time that the
            calendar showed, nor before that much time had passed since.
    """

    epoch: int
    seconds: float
    seen_at: float


def period_of(rule: EpochRule, local: datetime) -> int:
    """The period that a local time lies in; 0 where epochs open by hand only.

    A period begins at the tick of its first day: the first of a month, or a Monday.
    """
    if rule.renewal is Renewal.MANUAL:
        return 0
    day = _day_of(rule, local)
    if rule.renewal is Renewal.MONTHLY:
        first = day.replace(day=1)
    else:
        first = day - timedelta(days=day.weekday())
    return first.toordinal() - _EPOCH_DAY


def tick_day(rule: EpochRule, seconds: float) -> int:
    """The day that a moment lies in, counted from 1970; days begin at the tick, local time."""
    return _day_of(rule, local_time(seconds)).toordinal() - _EPOCH_DAY


def next_tick(rule: EpochRule, seconds: float) -> int:
    """When the next day begins, in seconds since 1970."""
    tomorrow = _day_of(rule, local_time(seconds)) + timedelta(days=1)
    naive = datetime(tomorrow.year, tomorrow.month, tomorrow.day)  # noqa: DTZ001 - local time
    return int((naive + timedelta(minutes=rule.tick)).timestamp())


def _day_of(rule: EpochRule, local: datetime) -> date:
    return (local - timedelta(minutes=rule.tick)).date()


def due_period(rule: EpochRule, began: datetime, now: datetime, last: int) -> int | None:
    """The period for which a new epoch may open now, if one may.

    Args:
        began: `now` less the age of the open epoch, in local time like `now`.
        last: the latest period that an epoch was opened for.
    """
    period = period_of(rule, now)
    if period <= max(last, period_of(rule, began)):
        return None
    lasted = now.timestamp() - began.timestamp()
    return period if lasted >= _NOMINAL_SECONDS.get(rule.renewal, 0) else None


def grown(age: EpochAge, epoch: int, seconds: float, now: float) -> EpochAge:
    """The age of `epoch` after some more seconds; 0 if it was another one until now.

    `seen_at` never goes back, and goes on with the time that passes: a clock that is set back and
    right again must not make it pass twice.
    """
    whole = age.seconds + seconds if age.epoch == epoch else 0.0
    return EpochAge(epoch, whole, max(age.seen_at + seconds, now))


class EpochRenewal:
    """Looks once a minute whether a calendar epoch is due, and opens it."""

    def __init__(
        self,
        rule: Callable[[], EpochRule],
        ledger: LedgerStore,
        open_epoch: OpenEpoch,
        file: Path,
        clock: Clock,
        journal: FilteringBoundLogger,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            rule: the one in force at the moment.
            file: keeps the age of the open epoch between runs.
        """
        self._rule = rule
        self._ledger = ledger
        self._open_epoch = open_epoch
        self._file = file
        self._clock = clock
        self._journal = journal

    async def run(self) -> None:
        """Runs until it is cancelled; only counts where epochs open by hand only."""
        now, moment = self._clock.now(), self._clock.monotonic()
        age = await asyncio.to_thread(_read, self._file) or EpochAge(0, 0.0, now)
        passed = max(0.0, now - age.seen_at)
        while True:
            age = await self._look(age, passed)
            await self._clock.sleep_until(moment + LOOK_SECONDS)
            before, moment = moment, self._clock.monotonic()
            passed = moment - before

    async def _look(self, age: EpochAge, passed: float) -> EpochAge:
        """Opens an epoch if one is due; the age of the one that is open then."""
        ledger, now = self._ledger.snapshot(), self._clock.now()
        if isinstance(ledger, UnreadableLedger):
            return age
        age = grown(age, ledger.epoch, passed, now)
        began, shown = local_time(now - age.seconds), local_time(now)
        period = due_period(self._rule(), began, shown, ledger.period)
        if period is not None:
            epoch = await self._open_epoch(period, ledger.epoch)
            if epoch is not None:
                self._journal.info("epoch_opened", epoch=epoch, period=period)
                age = grown(age, epoch, 0.0, now)
        await self._keep(age)
        return age

    async def _keep(self, age: EpochAge) -> None:
        try:
            await asyncio.to_thread(_write, self._file, age)
        except OSError as problem:
            self._journal.warning("epoch_age_not_kept", errno=problem.errno)


def local_time(seconds: float) -> datetime:
    """A moment as the machine's calendar shows it."""
    return datetime.fromtimestamp(seconds).astimezone()


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    epoch: Annotated[int, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0, le=_LONGEST)]
    seen_at: Annotated[float, Field(ge=0, le=_LONGEST)]


def _read(file: Path) -> EpochAge | None:
    """`None` where the file is missing or damaged: the epoch then counts from now."""
    try:
        record = _Record.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
    return EpochAge(record.epoch, record.seconds, record.seen_at)


def _write(file: Path, age: EpochAge) -> None:
    record = _Record.model_construct(
        epoch=age.epoch, seconds=age.seconds, seen_at=age.seen_at
    )  # unchecked: what a mad clock makes of it is refused when it is read
    beside = file.with_name(f"{file.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as text:
        text.write(record.model_dump_json())
    beside.replace(file)
