"""Calendar epochs: each period once, none early, whatever happens to the clock or the daemon."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.kept_log import KeptLog
from tests.fakes.two_clocks import TwoClocks
from tests.tactfuld.store import samples

from tactful_core.entries import EpochOpened
from tactful_core.ledger import Ledger
from tactful_core.promises import EpochRule, Renewal
from tactfuld.epochs import (
    AGE_FILE,
    LOOK_SECONDS,
    EpochAge,
    EpochRenewal,
    due_period,
    grown,
    next_tick,
    period_of,
    tick_day,
)
from tactfuld.store.ledger import LedgerPlace, LedgerStore

HOUR, DAY = 3600, 24 * 3600
WEEKLY, MONTHLY = EpochRule(Renewal.WEEKLY), EpochRule(Renewal.MONTHLY)
NOMINAL = {WEEKLY: 7 * DAY, MONTHLY: 28 * DAY}
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
ATTRIBUTES = samples.layout().attributes


def number_of(day: date) -> int:
    return (day - date(1970, 1, 1)).days


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[ZoneInfo]:
    """The machine's time zone; UTC unless a test names another."""
    name = getattr(request, "param", "UTC")
    monkeypatch.setenv("TZ", name)
    time.tzset()
    yield ZoneInfo(name)
    monkeypatch.undo()
    time.tzset()


# --- which period it is -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "local", "first_day"),
    [
        (MONTHLY, "2026-02-28T23:59", date(2026, 2, 1)),
        (MONTHLY, "2026-03-01T00:00", date(2026, 2, 1)),
        (MONTHLY, "2026-03-01T02:59", date(2026, 2, 1)),
        (MONTHLY, "2026-03-01T03:00", date(2026, 3, 1)),
        (MONTHLY, "2026-01-01T02:59", date(2025, 12, 1)),
        (MONTHLY, "2028-02-29T12:00", date(2028, 2, 1)),
        (WEEKLY, "2026-03-02T02:59", date(2026, 2, 23)),
        (WEEKLY, "2026-03-02T03:00", date(2026, 3, 2)),
        (WEEKLY, "2026-03-08T23:59", date(2026, 3, 2)),
        (WEEKLY, "2026-01-01T12:00", date(2025, 12, 29)),
        (EpochRule(Renewal.MONTHLY, tick=0), "2026-03-01T00:00", date(2026, 3, 1)),
        (EpochRule(Renewal.MONTHLY, tick=0), "2026-02-28T23:59", date(2026, 2, 1)),
        (EpochRule(Renewal.MONTHLY, tick=1439), "2026-03-01T23:58", date(2026, 2, 1)),
        (EpochRule(Renewal.MONTHLY, tick=1439), "2026-03-01T23:59", date(2026, 3, 1)),
    ],
)
def test_a_period_begins_at_the_tick_of_its_first_day(
    rule: EpochRule, local: str, first_day: date
) -> None:
    assert period_of(rule, datetime.fromisoformat(local)) == number_of(first_day)


def test_without_a_calendar_there_is_one_period() -> None:
    for year in (1970, 2026, 2999):
        assert period_of(EpochRule(Renewal.MANUAL), datetime(year, 1, 1, tzinfo=UTC)) == 0


@given(
    st.sampled_from([WEEKLY, MONTHLY]),
    st.integers(0, 1439),
    st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001 - local times
    st.timedeltas(timedelta(0), timedelta(days=400)),
)
def test_later_local_times_have_no_earlier_period(
    rule: EpochRule, tick: int, local: datetime, later: timedelta
) -> None:
    rule = EpochRule(rule.renewal, tick)
    period = period_of(rule, local)
    first = date(1970, 1, 1) + timedelta(days=period)
    assert first.day == 1 if rule.renewal is Renewal.MONTHLY else first.weekday() == 0
    assert (
        timedelta(0)
        <= local - datetime.combine(first, datetime.min.time()) - timedelta(minutes=tick)
        < timedelta(days=31)
    )
    assert period <= period_of(rule, local + later)


@pytest.mark.parametrize("zone", ["America/New_York"], indirect=True)
def test_the_hour_that_comes_twice_begins_a_month_once(zone: ZoneInfo) -> None:
    """1 November 2026, 01:00 to 02:00 local: the tick is at 01:30 of both."""
    rule = EpochRule(Renewal.MONTHLY, tick=90)
    october, november = number_of(date(2026, 10, 1)), number_of(date(2026, 11, 1))
    tick = datetime(2026, 11, 1, 1, 30, tzinfo=zone)
    moments = [tick + timedelta(minutes=minutes) for minutes in (-1, 0, 29)]
    moments += [moment.replace(fold=1) for moment in moments]
    periods = [period_of(rule, moment.astimezone(UTC).astimezone(zone)) for moment in moments]
    assert periods == [october, november, november] * 2
    assert [due_period(rule, LONG_AGO, moment, november) for moment in moments] == [None] * 6


# --- whether an epoch is due --------------------------------------------------------------------

MARCH = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
FEBRUARY_NUMBER, MARCH_NUMBER = number_of(date(2026, 2, 1)), number_of(date(2026, 3, 1))


def test_an_epoch_is_due_in_a_later_period_only() -> None:
    assert due_period(MONTHLY, LONG_AGO, MARCH, FEBRUARY_NUMBER) == MARCH_NUMBER
    assert due_period(MONTHLY, LONG_AGO, MARCH, MARCH_NUMBER) is None
    assert due_period(MONTHLY, LONG_AGO, MARCH, MARCH_NUMBER + 1) is None
    assert due_period(MONTHLY, LONG_AGO, MARCH - timedelta(minutes=1), FEBRUARY_NUMBER) is None


@pytest.mark.parametrize("rule", NOMINAL)
def test_an_epoch_is_due_after_its_nominal_length_only(rule: EpochRule) -> None:
    """A month is as long as February; here both begin in the period before, and late."""
    now = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)
    for seconds, due in ((NOMINAL[rule] - 1, False), (NOMINAL[rule], True)):
        began = now - timedelta(seconds=seconds)
        assert period_of(rule, began) < period_of(rule, now)
        assert (due_period(rule, began, now, 0) is not None) == due


def test_an_epoch_that_began_in_a_period_is_the_one_of_that_period() -> None:
    """A new profile's first epoch, which was opened for none."""
    first = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)
    assert due_period(MONTHLY, first, first + timedelta(days=30), 0) is None
    february = first + timedelta(days=31)
    assert due_period(MONTHLY, first, february, 0) == FEBRUARY_NUMBER


def test_by_hand_is_never_due() -> None:
    for last in (0, MARCH_NUMBER):
        assert due_period(EpochRule(Renewal.MANUAL), LONG_AGO, MARCH, last) is None


def test_changing_the_rule_keeps_the_order_of_periods() -> None:
    """A week that began before this month, and a month that began before this week."""
    sunday, wednesday = (datetime(2026, 3, day, 12, 0, tzinfo=UTC) for day in (1, 4))
    assert due_period(WEEKLY, LONG_AGO, sunday, MARCH_NUMBER) is None
    week = period_of(WEEKLY, wednesday)
    assert due_period(MONTHLY, LONG_AGO, wednesday, week) is None


# --- how old an epoch is ------------------------------------------------------------------------


def test_age_grows_by_what_has_passed_and_is_none_for_another_epoch() -> None:
    age = EpochAge(3, 100.0, seen_at=5000)
    assert grown(age, 3, 60.0, 5060) == EpochAge(3, 160.0, 5060)
    assert grown(age, 4, 60.0, 5060) == EpochAge(4, 0.0, 5060)


@pytest.mark.parametrize("epoch", [3, 4])
def test_what_was_seen_of_the_calendar_goes_on_with_time_and_never_back(epoch: int) -> None:
    age = EpochAge(3, 100.0, seen_at=5000)
    assert grown(age, epoch, 60.0, 1000).seen_at == 5060
    assert grown(age, epoch, 60.0, 9000).seen_at == 9000


# --- the renewal at work ------------------------------------------------------------------------


@dataclass
class Machine:
    """A machine on which the daemon runs and does not run, with its real ledger.

    Attributes:
        opened: when each calendar epoch was opened: true seconds since the beginning, and period.
    """

    place: LedgerPlace
    clock: TwoClocks
    rule: EpochRule = MONTHLY
    log: KeptLog = field(default_factory=KeptLog)
    opened: list[tuple[float, int]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.place.mark.with_name(AGE_FILE)

    def renewal(self, store: LedgerStore) -> EpochRenewal:
        return EpochRenewal(
            lambda: self.rule, store, store.open_next_epoch, self.file, self.clock, self.log.log
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LedgerStore]:
        """The daemon runs, and has looked once."""
        opening = LedgerStore.open(self.place, samples.keys(), ATTRIBUTES, print)
        async with opening as store, asyncio.TaskGroup() as group:
            renewal = self.renewal(store)
            self.clock.alarms.clear()
            task = group.create_task(renewal.run(), name="epochs")
            await self._looked(store, 0)
            try:
                yield store
            finally:
                task.cancel()

    async def run(self, store: LedgerStore, *steps: float) -> None:
        """Time passes; the renewal looks at the end of each step."""
        for seconds in steps:
            before = len(self.clock.alarms)
            self.clock.advance(seconds)
            await self._looked(store, before)

    def down(self, seconds: float) -> None:
        """Time passes while no daemon runs."""
        self.clock.advance(seconds)

    async def _looked(self, store: LedgerStore, before: int) -> None:
        while len(self.clock.alarms) == before:  # noqa: ASYNC110 - files answer from threads
            await asyncio.sleep(0)
        ledger = store.snapshot()
        assert isinstance(ledger, Ledger)
        known = self.opened[-1][1] if self.opened else 0
        if ledger.period != known:
            self.opened.append((self.clock.time, ledger.period))


async def machine(folder: Path, start: datetime, rule: EpochRule = MONTHLY) -> Machine:
    place = samples.place(folder)
    await LedgerStore.create(place, samples.keys())
    return Machine(place, TwoClocks(start.timestamp()), rule)


def epoch_of(store: LedgerStore) -> int:
    ledger = store.snapshot()
    assert isinstance(ledger, Ledger)
    return ledger.epoch


JANUARY = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)


@pytest.mark.usefixtures("zone")
async def test_the_daemon_opens_an_epoch_when_the_month_begins(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    async with here.running() as store:
        await here.run(store, 31 * DAY - 60)
        assert epoch_of(store) == 1, "a minute before the tick"
        await here.run(store, 60)
        assert epoch_of(store) == 2
        await here.run(store, *[HOUR] * 48)
        assert epoch_of(store) == 2
    assert here.log.records == [
        {
            "event": "epoch_opened",
            "epoch": 2,
            "period": number_of(date(2026, 2, 1)),
            "level": "info",
        }
    ]


@pytest.mark.usefixtures("zone")
async def test_it_looks_once_a_minute(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    async with here.running() as store:
        begun = here.clock.time
        await here.run(store, 60, 60)
        assert here.clock.alarms == [begun + LOOK_SECONDS * n for n in (1, 2, 3)]


@pytest.mark.usefixtures("zone")
async def test_a_new_profile_keeps_its_first_epoch_for_the_nominal_length(tmp_path: Path) -> None:
    """Made in the middle of a month: the next first of a month is too early."""
    here = await machine(tmp_path, datetime(2026, 1, 20, 12, 0, tzinfo=UTC))
    async with here.running() as store:
        await here.run(store, *[DAY] * 27)
        assert epoch_of(store) == 1
        await here.run(store, DAY)
        assert epoch_of(store) == 2
        await here.run(store, *[DAY] * 20)
        assert epoch_of(store) == 2, "nor is the one after that begun early"


@pytest.mark.usefixtures("zone")
async def test_time_without_the_daemon_counts_by_the_calendar(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    async with here.running() as store:
        await here.run(store, DAY)
    here.down(35 * DAY)
    async with here.running() as store:
        assert epoch_of(store) == 2
    here.down(100 * DAY)
    async with here.running() as store:
        assert epoch_of(store) == 3, "periods that nobody saw are not made up for"
        await here.run(store, *[HOUR] * 5)
        assert epoch_of(store) == 3


@pytest.mark.usefixtures("zone")
async def test_clock_set_forward_opens_nothing_early(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    async with here.running() as store:
        await here.run(store, DAY)
        here.clock.set_by(300 * DAY)
        await here.run(store, *[HOUR] * 20)
    async with here.running() as store:  # nor after a restart
        await here.run(store, HOUR)
        assert epoch_of(store) == 1


@pytest.mark.usefixtures("zone")
async def test_clock_set_back_opens_nothing_twice(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    async with here.running() as store:
        await here.run(store, 31 * DAY)
        assert epoch_of(store) == 2
        here.clock.set_by(-31 * DAY)
        await here.run(store, *[DAY] * 40)  # the month begins for a second time
        assert epoch_of(store) == 2


@pytest.mark.usefixtures("zone")
async def test_clock_set_back_and_right_again_does_not_age_an_epoch(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    async with here.running() as store:
        await here.run(store, 20 * DAY)
        here.clock.set_by(-20 * DAY)
        await here.run(store, HOUR)
    here.clock.set_by(20 * DAY)
    here.down(5 * DAY)
    async with here.running() as store:
        assert json.loads(here.file.read_text())["seconds"] == 25 * DAY + HOUR
        await here.run(store, *[HOUR] * 24)
        assert epoch_of(store) == 1


@pytest.mark.usefixtures("zone")
async def test_epoch_opened_by_hand_lasts_its_nominal_length(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    async with here.running() as store:
        await here.run(store, 30 * DAY)
        assert await store.open_next_epoch(0) == 2
        await here.run(store, *[DAY] * 27)
        assert epoch_of(store) == 2
        await here.run(store, 2 * DAY)
        assert epoch_of(store) == 3


@pytest.mark.usefixtures("zone")
async def test_by_hand_only_means_never(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY, EpochRule(Renewal.MANUAL))
    async with here.running() as store:
        await here.run(store, *[400 * DAY] * 3)
        assert epoch_of(store) == 1


@pytest.mark.usefixtures("zone")
async def test_a_rule_that_changes_holds_from_the_next_look_on(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY, EpochRule(Renewal.MANUAL))
    async with here.running() as store:
        await here.run(store, 40 * DAY)
        assert epoch_of(store) == 1
        here.rule = MONTHLY
        await here.run(store, HOUR)
        assert epoch_of(store) == 2


# --- the tick -----------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["America/New_York"], indirect=True)
@pytest.mark.parametrize("tick", [0, 90, 150, 180, 1439])
def test_a_day_begins_at_its_tick_also_where_the_clock_is_put_forward_or_back(
    zone: ZoneInfo, tick: int
) -> None:
    """8 March and 1 November 2026 have 23 and 25 hours."""
    rule = EpochRule(tick=tick)
    for first in (datetime(2026, 3, 6, 12, tzinfo=zone), datetime(2026, 10, 30, 12, tzinfo=zone)):
        now = first.timestamp()
        for _ in range(5):
            coming = next_tick(rule, now)
            assert now < coming <= now + 26 * HOUR
            assert tick_day(rule, coming) > tick_day(rule, now)
            assert tick_day(rule, coming - 1) <= tick_day(rule, now) + 1
            now = coming


def test_later_times_have_no_earlier_day() -> None:
    rule = EpochRule(tick=180)
    days = [tick_day(rule, 1_790_000_000 + step * HOUR) for step in range(24 * 30)]
    assert days == sorted(days)
    assert len(set(days)) in {30, 31}


@pytest.mark.usefixtures("zone")
async def test_unreadable_ledger_is_left_alone(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    here.place.database.write_bytes(b"no database")
    opening = LedgerStore.open(here.place, samples.keys(), ATTRIBUTES, print)
    async with opening as store, asyncio.TaskGroup() as group:
        renewal = here.renewal(store)
        task = group.create_task(renewal.run(), name="epochs")
        await here.clock.asleep()
        here.clock.advance(400 * DAY)
        while len(here.clock.alarms) == 1:  # noqa: ASYNC110 - files answer from threads
            await asyncio.sleep(0)
        task.cancel()
    assert here.place.database.read_bytes() == b"no database"


DAMAGED = {
    "missing": None,
    "empty": "",
    "no JSON": "{",
    "a list": "[1, 2, 3]",
    "a field missing": '{"epoch": 1, "seconds": 1e9}',
    "a field more": '{"epoch": 1, "seconds": 1e9, "seen_at": 0, "x": 1}',
    "infinite": '{"epoch": 1, "seconds": Infinity, "seen_at": 0}',
    "not a number": '{"epoch": 1, "seconds": NaN, "seen_at": 0}',
    "seen infinitely late": '{"epoch": 1, "seconds": 0, "seen_at": Infinity}',
    "negative": '{"epoch": 1, "seconds": -5, "seen_at": 0}',
    "texts": '{"epoch": "1", "seconds": "1e9", "seen_at": "0"}',
    "deep": "[" * 100_000,
    "not ASCII": '{"epoch": 1, "seconds": 1e9, "seen_at": 0, "ä": 1}',
}


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("name", DAMAGED)
async def test_epoch_whose_age_is_not_known_counts_from_now(tmp_path: Path, name: str) -> None:
    here = await machine(tmp_path, JANUARY + timedelta(days=45))
    damage = DAMAGED[name]
    if damage is not None:
        here.file.write_text(damage)
    async with here.running() as store:
        assert epoch_of(store) == 1
        assert json.loads(here.file.read_text())["seconds"] == 0
        await here.run(store, *[DAY] * 27)
        assert epoch_of(store) == 1
        await here.run(store, DAY)
        assert epoch_of(store) == 2


@pytest.mark.usefixtures("zone")
async def test_age_of_another_epoch_counts_from_now(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    here.file.write_text('{"epoch": 7, "seconds": 1e9, "seen_at": 0}')
    async with here.running() as store:
        assert json.loads(here.file.read_text())["epoch"] == 1
        assert epoch_of(store) == 1


@pytest.mark.usefixtures("zone")
async def test_age_that_cannot_be_kept_stops_nothing(tmp_path: Path) -> None:
    """A full disk or a folder that is gone must not end the daemon with its task."""
    here = await machine(tmp_path, JANUARY)
    here.file.with_name(f"{AGE_FILE}.new").mkdir()
    async with here.running() as store:
        await here.run(store, 31 * DAY)
        assert epoch_of(store) == 2
    assert "epoch_age_not_kept" in here.log.events


@pytest.mark.usefixtures("zone")
async def test_age_file_is_private(tmp_path: Path) -> None:
    here = await machine(tmp_path, JANUARY)
    async with here.running():
        pass
    assert here.file.stat().st_mode & 0o777 == 0o600


# --- a year -------------------------------------------------------------------------------------


def year_of(rule: EpochRule, first: datetime) -> list[tuple[datetime, int]]:
    """When each period is opened, by a machine that runs for a year and looks every hour."""
    zone, begun, last, opened = first.tzinfo, first.timestamp(), 0, []
    for hour in range(365 * 24):
        now = datetime.fromtimestamp(first.timestamp() + hour * HOUR, zone)
        period = due_period(rule, datetime.fromtimestamp(begun, zone), now, last)
        if period is not None:
            begun, last = now.timestamp(), period
            opened.append((now, period))
    return opened


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("rule", [WEEKLY, MONTHLY], ids=["weekly", "monthly"])
def test_a_year_of_running_opens_each_period_once_near_its_tick(rule: EpochRule, name: str) -> None:
    """Also where the clocks change, so that a week has an hour less or more."""
    zone = ZoneInfo(name)
    first = datetime(2026, 6, 1, 3, 0, tzinfo=zone)  # a Monday
    opened = year_of(rule, first)
    days = [date(1970, 1, 1) + timedelta(days=period) for _, period in opened]
    if rule is WEEKLY:
        assert days == [first.date() + timedelta(days=7 * n) for n in range(1, 53)]
    else:
        assert days == [date(2026 + n // 12, n % 12 + 1, 1) for n in range(6, 17)]
    begun = first.timestamp()
    for (moment, _), day in zip(opened, days, strict=True):
        tick = datetime.combine(day, first.time(), zone)
        assert 0 <= moment.timestamp() - tick.timestamp() <= HOUR
        assert moment.timestamp() - begun >= NOMINAL[rule], "by the clock that goes on evenly"
        begun = moment.timestamp()


@pytest.mark.parametrize("zone", ["Europe/Berlin"], indirect=True)
async def test_a_year_of_the_real_renewal(tmp_path: Path, zone: ZoneInfo) -> None:
    first = datetime(2026, 1, 1, 3, 0, tzinfo=zone)
    here = await machine(tmp_path, first)
    async with here.running() as store:
        await here.run(store, *[DAY] * 365)
        entries = await store.entries()
    periods = [entry.period for entry in entries if isinstance(entry, EpochOpened)]
    days = [date(1970, 1, 1) + timedelta(days=period) for period in periods]
    assert days[1:12] == [date(2026, month, 1) for month in range(2, 13)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(1, 40)),
        st.tuples(st.just("down"), st.integers(1, 60)),
        st.tuples(st.just("set"), st.integers(-90, 90)),
        st.tuples(st.just("by hand"), st.just(0)),
    ),
    max_size=8,
)


@settings(max_examples=25)
@given(rule=st.sampled_from([WEEKLY, MONTHLY]), steps=STEPS)
def test_no_way_of_running_and_setting_the_clock_opens_an_epoch_early_or_twice(
    rule: EpochRule, steps: list[tuple[str, int]]
) -> None:
    """The calendar is set while the daemon runs; time without it counts by the calendar."""

    async def play(folder: Path) -> None:
        here = await machine(folder, JANUARY, rule)
        begun, waiting, step = here.clock.time, list(steps), ("", 0)
        by_hand: list[float] = [begun]
        while waiting:
            async with here.running() as store:
                while waiting and (step := waiting.pop(0))[0] != "down":
                    if step[0] == "run":
                        await here.run(store, *[DAY] * step[1])
                    elif step[0] == "set":
                        here.clock.set_by(step[1] * DAY)
                        await here.run(store, LOOK_SECONDS)
                    else:
                        assert await store.open_next_epoch(0)
                        by_hand.append(here.clock.time)
            if step[0] == "down":
                here.down(step[1] * DAY)
        periods = [period for _, period in here.opened]
        assert periods == sorted(set(periods))
        by_calendar = [moment for moment, _ in here.opened]
        for moment in by_calendar:
            before = [other for other in (*by_hand, *by_calendar) if other < moment]
            assert moment - max(before) >= NOMINAL[rule]

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))
