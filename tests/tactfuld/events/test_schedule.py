"""When timers are due, whatever becomes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tactfuld.events.schedule import (
    DAY,
    GAP,
    MOST_STRETCHES,
    Progress,
    Schedule,
    begun,
    look,
    resumed,
)

PARIS = ZoneInfo("Europe/Paris")
DAILY = Schedule("0 7 * * *")
TICK = 20
START = int(datetime(2026, 11, 2, 12, 0, tzinfo=UTC).timestamp())


def at(hour: int, minute: int = 0, *, day: int = 0) -> int:
    """A moment, in days after the start's."""
    return START + day * DAY + (hour - 12) * 3600 + minute * 60


class Calendar:
    """A timer and a clock; `runs` has the moments that were due."""

    def __init__(self, schedule: Schedule = DAILY, now: int = START) -> None:
        self.schedule = schedule
        self.now = now
        self.progress = begun(schedule, now, UTC)
        self.runs: list[int] = []

    def set(self, now: int) -> None:
        """The clock shows something else at the next look."""
        self.now = now
        self.progress, due = look(self.schedule, self.progress, now, UTC)
        self.runs += [] if due is None else [due]

    def live(self, until: int, tick: int = TICK) -> None:
        """Time passes as it does."""
        while self.now < until:
            self.set(min(self.now + tick, until))


def test_runs_once_a_day_and_not_when_it_is_set() -> None:
    calendar = Calendar()
    calendar.live(at(6, 59, day=3))
    assert calendar.runs == [at(7, day=1), at(7, day=2)]
    calendar.live(at(7, day=3))
    assert calendar.runs[-1] == at(7, day=3)


@pytest.mark.parametrize("days", [1, 5, 400])
def test_a_gap_is_caught_up_with_once(days: int) -> None:
    calendar = Calendar()
    calendar.set(at(12, day=days))
    assert calendar.runs == [at(7, day=days)]
    calendar.live(at(8, day=days + 1))
    assert calendar.runs == [at(7, day=days), at(7, day=days + 1)]


def test_a_short_step_back_makes_nothing_due_twice() -> None:
    calendar = Calendar()
    calendar.live(at(7, 5, day=1))
    for _ in range(3):
        calendar.set(at(6, 50, day=1))
        calendar.live(at(7, 5, day=1))
    assert calendar.runs == [at(7, day=1)]
    calendar.live(at(8, day=2))
    assert calendar.runs == [at(7, day=1), at(7, day=2)]


def test_a_step_forward_and_back_again_runs_each_moment_once() -> None:
    """At ten in the evening the clock shows ten in the morning of the next day, for an hour."""
    calendar = Calendar()
    calendar.live(at(22))
    calendar.set(at(10, day=1))
    calendar.live(at(11, day=1))
    assert calendar.runs == [at(7, day=1)]
    calendar.set(at(23))
    calendar.live(at(8, day=3))
    assert calendar.runs == [at(7, day=1), at(7, day=2), at(7, day=3)]


def test_what_a_wrong_clock_skipped_is_run_when_it_comes() -> None:
    """A step into the next evening skips the moments between; they are real days all the same."""
    calendar = Calendar(Schedule("0 */6 * * *"))
    calendar.set(at(19))
    assert calendar.runs == [at(18)]
    calendar.set(at(12, 1))
    calendar.live(at(12, day=1))
    assert calendar.runs == [at(18), at(24), at(30), at(36)]


def test_a_clock_that_was_wrong_for_days_misses_no_day_when_it_is_right_again() -> None:
    calendar = Calendar()
    calendar.set(at(13, day=30))
    calendar.live(at(14, day=30))
    calendar.set(at(14))
    calendar.live(at(8, day=31))
    assert calendar.runs == [at(7, day=30), *(at(7, day=day) for day in range(1, 32))]


def test_what_was_kept_catches_up_after_a_restart_and_runs_nothing_twice() -> None:
    calendar = Calendar()
    calendar.live(at(8, day=1))
    kept = Progress(calendar.progress.seen, calendar.progress.since, calendar.progress.lived)
    calendar.progress = resumed(DAILY, kept, UTC)
    calendar.set(at(9, day=1))
    assert calendar.runs == [at(7, day=1)]
    calendar.progress = resumed(DAILY, kept, UTC)
    calendar.set(at(9, day=3))
    assert calendar.runs == [at(7, day=1), at(7, day=3)]


def test_a_timer_that_never_comes_again_is_never_due() -> None:
    calendar = Calendar(Schedule("0 0 29 2 *"), now=START)
    calendar.live(START + 3600)
    assert calendar.runs == []
    assert Schedule("0 0 29 2 *").next(START, UTC) == int(
        datetime(2028, 2, 29, tzinfo=UTC).timestamp()
    )


@pytest.mark.parametrize(
    ("cron", "day", "expected"),
    [
        ("30 2 * * *", datetime(2026, 3, 29, tzinfo=PARIS), ["2026-03-29T03:00:00+02:00"]),
        ("30 2 * * *", datetime(2026, 10, 25, tzinfo=PARIS), ["2026-10-25T02:30:00+02:00"]),
        ("0 7 * * *", datetime(2026, 3, 29, tzinfo=PARIS), ["2026-03-29T07:00:00+02:00"]),
    ],
)
def test_where_clocks_change_it_runs_once(cron: str, day: datetime, expected: list[str]) -> None:
    schedule, start = Schedule(cron, "Europe/Paris"), int(day.timestamp())
    calendar = Calendar(schedule, start)
    calendar.live(start + 23 * 3600, tick=300)
    told = [datetime.fromtimestamp(run, PARIS).isoformat() for run in calendar.runs]
    assert told == expected


def test_without_a_zone_it_follows_the_machines_time() -> None:
    moment = DAILY.next(START, PARIS)
    assert moment is not None
    assert datetime.fromtimestamp(moment, PARIS).hour == 7
    assert DAILY.last(moment, PARIS) == moment
    assert DAILY.last(moment - 1, PARIS) == moment - DAY


def test_what_it_knows_stays_small_whatever_the_clock_does() -> None:
    calendar = Calendar(Schedule("* * * * *"))
    for number in range(2000):
        calendar.set(calendar.now + (GAP * 2 if number % 2 else -GAP))
    assert len(calendar.progress.lived) <= MOST_STRETCHES


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("live"), st.integers(1, 30 * 3600)),
            st.tuples(st.just("sleep"), st.integers(1, 40 * 3600)),
            st.tuples(st.just("step"), st.integers(-20 * 3600, 20 * 3600)),
        ),
        max_size=8,
    )
)
def test_no_moment_runs_twice_and_none_is_missed(story: list[tuple[str, int]]) -> None:
    """Whatever the clock does, of steps under a day that are undone in the end.

    A moment that has really come was run: it, or a later one that it was caught up with.
    """
    calendar, real = Calendar(), START
    off, gaps = 0, list[tuple[int, int]]()
    for what, seconds in story:
        match what:
            case "live":
                calendar.live(calendar.now + seconds, tick=300)
                real += seconds
            case "sleep":
                gaps.append((calendar.now, calendar.now + seconds))
                real += seconds
                calendar.set(calendar.now + seconds)
            case _:
                step = max(min(seconds, 20 * 3600 - off), -20 * 3600 - off)
                off += step
                gaps.append((calendar.now, calendar.now + step))
                calendar.set(calendar.now + step)
    if off:
        gaps.append((calendar.now, real))
        calendar.set(real)
    calendar.live(real + 2 * DAY, tick=300)
    assert len(calendar.runs) == len(set(calendar.runs))
    for day in range(1, (real + 2 * DAY - START) // DAY + 1):
        moment = at(7, day=day)
        if moment <= real + 2 * DAY and moment not in calendar.runs:
            assert any(low < moment <= high for low, high in gaps), timedelta(seconds=moment)


def test_without_what_was_lived_through_the_step_back_would_run_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control for the tests of steps back."""
    monkeypatch.setattr("tactfuld.events.schedule._kept", lambda _stretches, _now: ())
    calendar = Calendar()
    calendar.live(at(7, 5, day=1))
    calendar.set(at(6, 50, day=1))
    calendar.live(at(7, 5, day=1))
    assert calendar.runs == [at(7, day=1), at(7, day=1)]
