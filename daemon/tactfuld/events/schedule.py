"""When a timer is due: by the calendar, whatever becomes of the clock.

Decides from a cron expression, a time zone and what the clock showed before. What is *not* here:
reading a clock, and telling the app (`bus`).

A timer is looked at every few seconds; between two looks the machine may have slept, or its clock
may have been set. So a look asks which moment of the schedule came last since the look before:

- after a gap, however many moments lay in it, the last of them is due, once: the run that catches
  up;
- a clock that goes back by less than a day makes nothing due a second time: the stretches of time
  that were lived through, and the moments that were caught up with, are known;
- a clock that goes back by more was wrong for days: what is known of those is forgotten, because a
  day that is missed is worse than one that is told twice.

Invariant: what a timer knows is of bounded size, however long it runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAY = 24 * 3600
GAP = 600
"""Seconds between two looks from which on the time between counts as not lived through."""
MOST_STRETCHES = 64
_LOCAL = Path("/etc/localtime")

Stretch = tuple[int, int]
"""Seconds since 1970: after the first, up to and with the second."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a timer is set for.

    Attributes:
        cron: five fields, as in crontab(5).
        zone: an IANA name; `None` for the machine's own time.
    """

    cron: str
    zone: str | None = None

    def prepare(self) -> None:
        """Reads what the rest needs; call it in a thread, before anything else.

        Raises:
            OSError, ValueError: this machine does not know the zone.
        """
        self.next(0, UTC)

    def last(self, until: int, local: tzinfo) -> int | None:
        """The last moment up to and with `until`, in seconds since 1970."""
        return self._first(until + 1, local, reverse=True)

    def next(self, after: int, local: tzinfo) -> int | None:
        """The first moment after `after`."""
        return self._first(after, local, reverse=False)

    def _first(self, seconds: int, local: tzinfo, *, reverse: bool) -> int | None:
        from cronsim import CronSim

        zone = local if self.zone is None else _zone(self.zone)
        start = datetime.fromtimestamp(seconds, zone)
        found = next(CronSim(self.cron, start, reverse=reverse), None)
        return None if found is None else int(found.timestamp())


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a timer has come.

    Attributes:
        seen: what the clock showed at the last look.
        since: from when on it has gone by without a gap.
        lived: earlier stretches of which nothing is due again, none of them over a day away.
        due: the first moment after `seen`; `None` if there is none.
    """

    seen: int
    since: int
    lived: tuple[Stretch, ...] = ()
    due: int | None = None


def begun(schedule: Schedule, now: int, local: tzinfo) -> Progress:
    """A timer that was set now; nothing before is due."""
    return Progress(now, now, (), schedule.next(now, local))


def look(
    schedule: Schedule, before: Progress, now: int, local: tzinfo
) -> tuple[Progress, int | None]:
    """How far it is now, and the moment that is due, if one is."""
    if now < before.seen:
        if now < before.seen - DAY:
            return begun(schedule, now, local), None
        lived = _kept((*before.lived, (before.since, before.seen)), now)
        return Progress(now, now, lived, schedule.next(now, local)), None
    gap = now - before.seen > GAP
    if not gap and (before.due is None or now < before.due):
        return replace(before, seen=now), None
    moment = _latest(schedule, before, now, local)
    due = schedule.next(now, local)
    if not gap:
        return Progress(now, before.since, _kept(before.lived, now), due), moment
    caught = () if moment is None else ((moment - 1, moment),)
    lived = _kept((*before.lived, (before.since, before.seen), *caught), now)
    return Progress(now, now, lived, due), moment


def resumed(schedule: Schedule, before: Progress, local: tzinfo) -> Progress:
    """What was kept from another run; what follows from the schedule is found anew."""
    return replace(before, due=schedule.next(before.seen, local))


def _latest(schedule: Schedule, before: Progress, now: int, local: tzinfo) -> int | None:
    """The last moment since the look before that was not lived through."""
    until = now
    while (moment := schedule.last(until, local)) is not None and moment > before.seen:
        around = [start for start, end in before.lived if start < moment <= end]
        if not around:
            return moment
        until = min(around)
    return None


def _kept(stretches: tuple[Stretch, ...], now: int) -> tuple[Stretch, ...]:
    """Those not over a day away, and not more than there is room for, the latest."""
    near = {(s, e) for s, e in stretches if s < e and now - DAY <= e and s <= now + DAY}
    return tuple(sorted(near)[-MOST_STRETCHES:])


def local_zone() -> tzinfo:
    """The machine's time zone, with its rules; UTC where it does not say. Reads a file."""
    named = os.environ.get("TZ", "").removeprefix(":")
    try:
        if named:
            return ZoneInfo(named)
        with _LOCAL.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return UTC
