"""When a calendar epoch opens by itself.

Decides from the policy's rule, the local calendar and how long the open epoch has really lasted.
What is *not* here: what a new epoch means (`tactful_core.ledger`), and the owner's `epoch new`.

Invariants (GUARANTEE §3):

- a period is the number of its first day since 1970, so periods of all rules compare; an epoch
  opens only for a later period than any before: a clock that steps back opens nothing twice;
- an epoch lasts at least its nominal length, measured by the monotonic clock while the daemon runs
  (a clock set forward does not shorten it) and by the calendar while it does not;
- nothing here depends on memory, nor on what was asked.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from tactful_core.ledger import UnreadableLedger
from tactful_core.promises import EpochRule, Renewal
from tactfuld.clock import Clock
from tactfuld.store.ledger import LedgerStore

AGE_FILE = "epoch.json"
LOOK_SECONDS = 60.0

_DAY = 24 * 3600
_NOMINAL_SECONDS = {Renewal.WEEKLY: 7 * _DAY, Renewal.MONTHLY: 28 * _DAY}
_EPOCH_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class EpochAge:
    """How long an epoch has lasted.

    Attributes:
        seconds: counted so far.
        seen_at: when it was counted last, in seconds since 1970.
    """

    epoch: int
    seconds: float
    seen_at: int


def period_of(rule: EpochRule, local: datetime) -> int:
    """The period that a local time lies in; 0 where epochs open by hand only.

    A period begins at the tick of its first day: the first of a month, or a Monday.
    """
    if rule.renewal is Renewal.MANUAL:
        return 0
    day = (local - timedelta(minutes=rule.tick)).date()
    if rule.renewal is Renewal.MONTHLY:
        first = day.replace(day=1)
    else:
        first = day - timedelta(days=day.weekday())
    return first.toordinal() - _EPOCH_DAY


def due_period(rule: EpochRule, local: datetime, last: int, age: EpochAge) -> int | None:
    """The period for which a new epoch may open now, if one may.

    Args:
        last: the latest period that an epoch was opened for.
    """
    period = period_of(rule, local)
    if period <= last or age.seconds < _NOMINAL_SECONDS.get(rule.renewal, 0):
        return None
    return period


def resumed(age: EpochAge | None, epoch: int, now: int) -> EpochAge:
    """The age of an epoch when the daemon starts: the time it was down counts by the calendar."""
    if age is None or age.epoch != epoch:
        return EpochAge(epoch, 0.0, now)
    return EpochAge(epoch, age.seconds + max(0, now - age.seen_at), now)


def grown(age: EpochAge, epoch: int, monotonic_seconds: float, now: int) -> EpochAge:
    """The age after some time in which the daemon ran."""
    if age.epoch != epoch:
        return EpochAge(epoch, 0.0, now)
    return replace(age, seconds=age.seconds + monotonic_seconds, seen_at=now)


class EpochRenewal:
    """Looks once a minute whether a calendar epoch is due, and opens it."""

    def __init__(
        self,
        rule: EpochRule,
        ledger: LedgerStore,
        file: Path,
        clock: Clock,
        journal: FilteringBoundLogger,
    ) -> None:
        """`file` keeps the age of the open epoch between runs."""
        self._rule = rule
        self._ledger = ledger
        self._file = file
        self._clock = clock
        self._journal = journal

    async def run(self) -> None:
        """Runs until it is cancelled; does nothing where epochs open by hand only."""
        if self._rule.renewal is Renewal.MANUAL:
            return
        kept = await asyncio.to_thread(_read, self._file)
        age = resumed(kept, self._epoch(), self._clock.now())
        moment = self._clock.monotonic()
        while True:
            await self._look(age)
            await self._clock.sleep_until(moment + LOOK_SECONDS)
            before, moment = moment, self._clock.monotonic()
            age = grown(age, self._epoch(), moment - before, self._clock.now())

    async def _look(self, age: EpochAge) -> None:
        ledger = self._ledger.snapshot()
        if isinstance(ledger, UnreadableLedger):
            return
        await asyncio.to_thread(_write, self._file, age)
        local = datetime.fromtimestamp(self._clock.now()).astimezone()
        period = due_period(self._rule, local, ledger.period, age)
        if period is not None:
            epoch = await self._ledger.open_next_epoch(period)
            self._journal.info("epoch_opened", epoch=epoch, period=period)

    def _epoch(self) -> int:
        ledger = self._ledger.snapshot()
        return 0 if isinstance(ledger, UnreadableLedger) else ledger.epoch


def _read(file: Path) -> EpochAge | None:
    """`None` where the file is missing or damaged: the epoch then counts from now."""
    try:
        found = json.loads(file.read_text(encoding="ascii"))
        return EpochAge(int(found["epoch"]), float(found["seconds"]), int(found["seen_at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, age: EpochAge) -> None:
    record = {"epoch": age.epoch, "seconds": age.seconds, "seen_at": age.seen_at}
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(json.dumps(record), encoding="ascii")
    beside.replace(file)
