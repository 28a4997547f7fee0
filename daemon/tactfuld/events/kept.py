"""What the event bus keeps from one run of the daemon to the next, in one file.

Decides its form. What is *not* here: what it means (`schedule`, `queues`, `bus`).

That all of it is in one file is what makes an event come at least once: a timer has come as far as
its event waits in the queue, whenever the daemon is killed.

The file lies in the state folder, open to nobody else, and is not sealed: it has what apps said to
each other, which is theirs, and moments, names and numbers that are public input.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tactful.wire import Event
from tactful_core.values import AppId
from tactfuld.events.queues import Queue
from tactfuld.events.schedule import Progress, Schedule

EVENTS_FILE = "events.json"


@dataclass(frozen=True, slots=True)
class TimerState:
    """A timer of an app, as it was set, and how far it has come."""

    schedule: Schedule
    progress: Progress


@dataclass(slots=True)
class BusState:
    """What the bus knows.

    Attributes:
        queues: of each app.
        timers: of each app, by their names.
        below: for which slots an app has no more fresh answers than its threshold.
        policy: the opaque version that apps were told of last; empty if none was in force yet.
        first_id: below all ids that an app without a queue gets.
    """

    queues: dict[AppId, Queue] = field(default_factory=dict)
    timers: dict[AppId, dict[str, TimerState]] = field(default_factory=dict)
    below: dict[AppId, dict[str, bool]] = field(default_factory=dict)
    policy: str = ""
    first_id: int = 0


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Queue(_Model):
    waiting: list[Event]
    last: Annotated[int, Field(ge=0)]


class _Timer(_Model):
    cron: str
    zone: str | None
    seen: int
    since: int
    lived: list[tuple[int, int]]


class _Record(_Model):
    queues: dict[str, _Queue]
    timers: dict[str, dict[str, _Timer]]
    below: dict[str, dict[str, bool]]
    policy: str
    first_id: int = 0


def encode(state: BusState) -> bytes:
    """The content of the file."""
    queues: dict[str, _Queue] = {
        app: _Queue(waiting=list(queue.waiting), last=queue.last)
        for app, queue in state.queues.items()
    }
    timers: dict[str, dict[str, _Timer]] = {
        app: {name: _timer(timer) for name, timer in own.items()}
        for app, own in state.timers.items()
    }
    below: dict[str, dict[str, bool]] = {app: dict(own) for app, own in state.below.items()}
    record = _Record(
        queues=queues, timers=timers, below=below, policy=state.policy, first_id=state.first_id
    )
    return record.model_dump_json(exclude_defaults=True).encode()


def decode(content: bytes) -> BusState:
    """What a file says.

    Raises:
        ValueError: it is damaged.
    """
    record = _Record.model_validate_json(content)
    timers = {
        AppId(app): {name: _state(timer) for name, timer in own.items()}
        for app, own in record.timers.items()
    }
    for own in timers.values():
        for state in own.values():
            state.schedule.prepare()
    return BusState(
        queues={
            AppId(app): Queue(tuple(queue.waiting), queue.last)
            for app, queue in record.queues.items()
        },
        timers=timers,
        below={AppId(app): dict(own) for app, own in record.below.items()},
        policy=record.policy,
        first_id=record.first_id,
    )


def load(file: Path, now: int) -> tuple[BusState, bool]:
    """What is kept in a file, and whether it could be read; reads, so call it in a thread.

    A damaged one is put aside. Which ids were given is then not known any more, so those of new
    events begin at `now`, in seconds since 1970: no app was told of so many.
    """
    try:
        return decode(file.read_bytes()), True
    except FileNotFoundError:
        return BusState(), True
    except (OSError, ValidationError, ValueError):
        if file.exists():
            file.replace(file.with_suffix(".damaged"))
        return BusState(first_id=now), False


def _timer(timer: TimerState) -> _Timer:
    schedule, progress = timer.schedule, timer.progress
    return _Timer(
        cron=schedule.cron,
        zone=schedule.zone,
        seen=progress.seen,
        since=progress.since,
        lived=list(progress.lived),
    )


def _state(timer: _Timer) -> TimerState:
    progress = Progress(timer.seen, timer.since, tuple(timer.lived))
    return TimerState(Schedule(timer.cron, timer.zone), progress)
