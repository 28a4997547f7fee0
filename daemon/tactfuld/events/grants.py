"""What the policy lets each app hear: kinds of events, timers, folders, other apps, thresholds.

Decides nothing but the form; all of it is public input. What is *not* here: when something happens
(`schedule`, `files`, `bus`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tactful.wire import EventKind
from tactful_core.values import AppId, SlotName
from tactfuld.events.schedule import Schedule
from tactfuld.policy.document import AppPart, PolicyDocument


@dataclass(frozen=True, slots=True)
class EventGrant:
    """What one app is told of.

    Attributes:
        timers: by the names that the policy gives them.
        folders: where files are looked after.
        hears: the apps whose texts it gets.
        thresholds: the numbers of fresh answers of which it hears that they were crossed.
    """

    kinds: frozenset[EventKind] = frozenset()
    timers: Mapping[str, Schedule] = field(default_factory=lambda: MappingProxyType({}))
    folders: tuple[Path, ...] = ()
    hears: frozenset[AppId] = frozenset()
    thresholds: Mapping[SlotName, int] = field(default_factory=lambda: MappingProxyType({}))

    def takes(self, kind: EventKind) -> bool:
        """Whether the app is told of such events."""
        return kind in self.kinds


EventGrants = Mapping[AppId, EventGrant]


def event_grants(document: PolicyDocument) -> EventGrants:
    """Of every app that the policy tells of anything; reads, so call it in a thread."""
    found = {AppId(name): _grant(part) for name, part in document.apps.items()}
    for grant in found.values():
        for schedule in grant.timers.values():
            schedule.prepare()
    return MappingProxyType({app: grant for app, grant in found.items() if grant.kinds})


def _grant(part: AppPart) -> EventGrant:
    return EventGrant(
        kinds=frozenset(EventKind(kind) for kind in part.events),
        timers=MappingProxyType(
            {name: Schedule(timer.cron, timer.zone) for name, timer in part.timers.items()}
        ),
        folders=tuple(Path(folder).expanduser() for folder in part.folders),
        hears=frozenset(AppId(app) for app in part.hears),
        thresholds=MappingProxyType(
            {SlotName(slot): most for slot, most in part.budget_below.items()}
        ),
    )
