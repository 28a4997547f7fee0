"""The event bus: what happens is queued for the apps that may hear of it, and told one at a time.

Decides what is an event, and when it is told, again told, or given up. What is *not* here: when a
timer is due (`schedule`), what gives way in a queue (`queues`), looking after folders (`files`),
and the app's process (`tactfuld.apps.host`).

| an event is told    | when                                                                  |
| ------------------- | --------------------------------------------------------------------- |
| at once             | the app runs, the profile is unlocked, and the model is ready          |
| again after a pause | the app ended meanwhile or was refused for now, up to `MOST_TRIES`     |
| no more             | it was handled, or the app failed at it                                |

Invariants:

- what is an event follows from the clock, the policy, the ledger's public sums, granted folders and
  what apps say: nothing here can see memory, and no write of memory comes by here;
- what an app is told is written down before it is told, and taken off after it was handled: it is
  told at least once, with the same id each time;
- an app that is slow, parked or broken keeps nobody else waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from tactful.errors import Busy, Locked, NotFound, NotReady, ShuttingDown, TactfulError
from tactful.wire import Budget, Event, EventKind, FileChange
from tactful_core.values import AppId, SlotName
from tactfuld.clock import Clock
from tactfuld.events.grants import EventGrant, EventGrants
from tactfuld.events.kept import BusState, TimerState, encode
from tactfuld.events.queues import Queue, popped, pushed
from tactfuld.events.schedule import begun, look, resumed
from tactfuld.events.tail import Fate, Tail
from tactfuld.events.whole import Keeping
from tactfuld.journal import failure
from tactfuld.notices import Notices

LOOK_SECONDS = 20.0
MOST_TRIES = 5
LONGEST_PAUSE = 600.0

_FOR_NOW = (NotReady, Busy, Locked, ShuttingDown)
"""Errors that say nothing about the event itself."""


@dataclass(frozen=True, slots=True)
class Public:
    """What the bus may know of an open profile; all of it is public input.

    Attributes:
        ready: whether a question could be answered now.
        policy: the opaque version that is in force.
        budget: as an app may ask for it itself.
    """

    ready: bool
    policy: str
    budget: Callable[[AppId], Budget]


class Apps(Protocol):
    """What the bus needs of `tactfuld.apps.host.AppHost`."""

    def runs(self, app: AppId, /) -> bool: ...

    async def deliver(self, app: AppId, event: Event, /) -> None: ...


class EventBus:
    """Queues events, and tells apps of them."""

    def __init__(
        self,
        state: BusState,
        *,
        apps: Apps,
        public: Callable[[], Public | None],
        keep: Callable[[bytes], None],
        clock: Clock,
        local: tzinfo,
        notices: Notices,
        journal: FilteringBoundLogger,
    ) -> None:
        """Nothing is told yet, and nobody may hear anything.

        Args:
            state: what was kept; the bus changes it.
            public: what is public of the open profile; `None` while it is locked.
            keep: writes what is to be kept; called in a thread.
            local: the machine's time zone.
        """
        self.tail = Tail()
        self._state = state
        self._apps = apps
        self._public = public
        self._clock = clock
        self._local = local
        self._notices = notices
        self._journal = journal
        self._grants: EventGrants = {}
        self._telling: dict[AppId, asyncio.Task[None] | None] = {}
        self._tries: dict[AppId, int] = {}
        self._not_before: dict[AppId, float] = {}
        self._keeping = Keeping(partial(encode, state), keep)
        self._news = asyncio.Event()
        for app, own in state.timers.items():
            for name, timer in own.items():
                progress = resumed(timer.schedule, timer.progress, local)
                state.timers[app][name] = TimerState(timer.schedule, progress)

    # --- who may hear what -----------------------------------------------------------------------

    @property
    def grants(self) -> EventGrants:
        """What the policy in force tells apps of."""
        return self._grants

    def grant(self, grants: EventGrants) -> None:
        """From now on these grants hold; what waits for apps that lost theirs is dropped."""
        self._grants = grants
        for app, queue in self._state.queues.items():
            grant = grants.get(app, EventGrant())
            allowed = tuple(event for event in queue.waiting if _may_hear(grant, event))
            self._set_queue(app, Queue(allowed, queue.last))
        self._state.timers = {app: self._timers(app, grant) for app, grant in grants.items()}
        self._state.below = {app: own for app, own in self._state.below.items() if app in grants}
        self._keeping.change()
        self._news.set()

    def hears(self, listener: AppId, sender: AppId) -> bool:
        """Whether the policy lets the one hear the other."""
        grant = self._grants.get(listener)
        return grant is not None and grant.takes(EventKind.APP) and sender in grant.hears

    def _timers(self, app: AppId, grant: EventGrant) -> dict[str, TimerState]:
        before, now = self._state.timers.get(app, {}), self._clock.now()
        timers = grant.timers if grant.takes(EventKind.TIMER) else {}
        return {
            name: before[name]
            if name in before and before[name].schedule == schedule
            else TimerState(schedule, begun(schedule, now, self._local))
            for name, schedule in timers.items()
        }

    # --- what happens ----------------------------------------------------------------------------

    def send(self, sender: AppId, listener: AppId, text: str) -> None:
        """One app tells another something, which may hear it."""
        self._push(listener, Event(kind=EventKind.APP, at=self._now, sender=sender, text=text))

    def file_changed(self, app: AppId, path: str, change: FileChange) -> None:
        """Something happened to a file in a folder that the app was granted."""
        event = Event(kind=EventKind.FILE, at=self._now, path=path, change=change)
        if _may_hear(self._grants.get(app, EventGrant()), event):
            self._push(app, event)

    def look(self) -> None:
        """Looks at the clock, and at what is public of the open profile."""
        for app, timers in self._state.timers.items():
            for name, timer in timers.items():
                self._look_at_timer(app, name, timer)
        public = self._public()
        if public is not None:
            self._look_at_policy(public.policy)
            for app, grant in self._grants.items():
                if grant.takes(EventKind.BUDGET) and grant.thresholds:
                    self._look_at_budget(app, grant, public)
        self._news.set()

    def _look_at_timer(self, app: AppId, name: str, timer: TimerState) -> None:
        progress, moment = look(timer.schedule, timer.progress, self._now, self._local)
        self._state.timers[app][name] = TimerState(timer.schedule, progress)
        if moment is not None:
            self._push(app, Event(kind=EventKind.TIMER, at=moment, timer=name))

    def _look_at_policy(self, policy: str) -> None:
        before, self._state.policy = self._state.policy, policy
        if before == policy:
            return
        self._keeping.change()
        for app, grant in self._grants.items():
            if before and grant.takes(EventKind.POLICY):
                self._push(app, Event(kind=EventKind.POLICY, at=self._now, policy=policy))

    def _look_at_budget(self, app: AppId, grant: EventGrant, public: Public) -> None:
        try:
            slots = public.budget(app).slots
        except TactfulError:
            return  # the app may ask about nothing now
        known = self._state.below.setdefault(app, {})
        for each in slots:
            least = grant.thresholds.get(SlotName(each.slot))
            if least is None or each.fresh_left is None:
                continue
            is_below, was_below = each.fresh_left < least, known.get(each.slot)
            known[each.slot] = is_below
            if was_below is not None and is_below != was_below:
                event = Event(
                    kind=EventKind.BUDGET,
                    at=self._now,
                    slot=each.slot,
                    fresh_left=each.fresh_left,
                )
                self._push(app, event)
            if was_below != is_below:
                self._keeping.change()

    @property
    def _now(self) -> int:
        return self._clock.now()

    def _push(self, app: AppId, event: Event) -> None:
        queue = self._state.queues.get(app, Queue(last=self._state.first_id))
        after, fits = pushed(queue, event, telling=self._telling.get(app) is not None)
        if not fits:
            self._notices.replace(
                f"events of {app}",
                f"So many events wait for the app {app} that others were left out. See "
                "`tactful apps list` and `tactful events tail`.",
            )
        self._set_queue(app, after)
        self._record(app, event, "waiting" if fits else "dropped", after.last if fits else 0)
        self._news.set()

    def _set_queue(self, app: AppId, queue: Queue) -> None:
        self._state.queues[app] = queue
        self._keeping.change()

    # --- telling ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Looks and tells until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_looking(), name="event looks")
                while True:
                    self._news.clear()
                    for app in self._due():
                        work = self._tell_logged(app)
                        self._telling[app] = group.create_task(work, name=f"events of {app}")
                    await self._news.wait()
        finally:
            self._keeping.change()
            await self.keep()

    async def _keep_looking(self) -> None:
        while True:
            self.look()
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_SECONDS)

    def _due(self) -> list[AppId]:
        """The apps that can be told something now and are not being told anything."""
        public = self._public()
        if public is None or not public.ready:
            return []
        now = self._clock.monotonic()
        return [
            app
            for app, queue in self._state.queues.items()
            if queue.waiting
            and self._telling.get(app) is None
            and self._not_before.get(app, now) <= now
            and self._apps.runs(app)
        ]

    async def _tell_logged(self, app: AppId) -> None:
        try:
            await self._tell(app)
        except Exception as error:  # noqa: BLE001 - one app's events must not end all others'
            self._journal.error("event_failed", app=app, failure=failure(error))
            self._not_before[app] = self._clock.monotonic() + LONGEST_PAUSE
        finally:
            self._telling[app] = None
            self._news.set()

    async def _tell(self, app: AppId) -> None:
        await self.keep()
        event = self._state.queues[app].waiting[0]
        try:
            await self._apps.deliver(app, event)
        except _FOR_NOW as error:
            self._refused(app, event, error)
        except NotFound:  # not hosted any more: it waits until it is, or is granted nothing
            self._not_before[app] = self._clock.monotonic() + LOOK_SECONDS
        except TactfulError as error:
            self._done(app, event, "failed")
            self._journal.info("event_not_handled", app=app, kind=event.kind, code=error.code)
        else:
            self._done(app, event, "handled")
        await self.keep()

    def _refused(self, app: AppId, event: Event, error: TactfulError) -> None:
        tries = self._tries[app] = self._tries.get(app, 0) + 1
        self._journal.info("event_refused", app=app, kind=event.kind, code=error.code, tries=tries)
        if tries < MOST_TRIES:
            pause = min(LOOK_SECONDS * 2 ** (tries - 1), LONGEST_PAUSE)
            self._not_before[app] = self._clock.monotonic() + pause
            self._record(app, event, "again", event.id)
            return
        self._notices.replace(
            f"event of {app}",
            f"The app {app} could not handle an event of the kind {event.kind} {tries} times, so "
            "it was given up. See `tactful apps logs` and `tactful events tail`.",
        )
        self._done(app, event, "failed")

    def _done(self, app: AppId, event: Event, fate: Fate) -> None:
        self._tries.pop(app, None)
        self._not_before.pop(app, None)
        self._set_queue(app, popped(self._state.queues[app], event.id))
        self._record(app, event, fate, event.id)

    def _record(self, app: AppId, event: Event, fate: Fate, id_: int) -> None:
        about = event.timer or event.sender or event.path or event.slot or ""
        self.tail.add(self._now, app, id_, event.kind, about, fate)

    async def keep(self) -> None:
        """Writes what has changed since it was written; returns once it is."""
        try:
            await self._keeping.keep()
        except OSError as problem:
            self._journal.warning("events_not_kept", errno=problem.errno)


def _may_hear(grant: EventGrant, event: Event) -> bool:
    match event.kind:
        case EventKind.TIMER:
            return grant.takes(event.kind) and event.timer in grant.timers
        case EventKind.APP:
            return grant.takes(event.kind) and event.sender in grant.hears
        case EventKind.FILE:
            path = event.path or ""
            inside = any(_is_inside(path, str(folder)) for folder in grant.folders)
            return grant.takes(event.kind) and inside
        case _:
            return grant.takes(event.kind)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
