"""Apps that note what they are told, for tests of the event bus."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tactful.wire import Event
from tactful_core.values import AppId


@dataclass
class NotedApps:
    """Implements `tactfuld.events.bus.Apps`.

    Attributes:
        told: what was handled, by whom.
        down: apps that do not run.
        failures: what the next attempts of an app end with, first ones first.
        held: an app handles nothing before its event is set.
    """

    told: list[tuple[AppId, Event]] = field(default_factory=list)
    down: set[AppId] = field(default_factory=set)
    failures: dict[AppId, list[Exception]] = field(default_factory=dict)
    held: dict[AppId, asyncio.Event] = field(default_factory=dict)
    tried: list[tuple[AppId, int]] = field(default_factory=list)

    def runs(self, app: AppId) -> bool:
        return app not in self.down

    async def deliver(self, app: AppId, event: Event) -> None:
        self.tried.append((app, event.id))
        if app in self.held:
            await self.held[app].wait()
        if self.failures.get(app):
            raise self.failures[app].pop(0)
        self.told.append((app, event))

    def heard(self, app: AppId) -> list[Event]:
        """What this app handled."""
        return [event for each, event in self.told if each == app]
