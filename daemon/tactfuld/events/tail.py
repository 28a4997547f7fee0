"""The events of late, for the owner's eyes.

Decides how many are kept, and what of each: kind, app and fate, never what was said in it. What is
*not* here: the events themselves (`queues`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Literal

from tactful.wire import EventKind
from tactful_core.values import AppId

MOST_RECORDS = 500

Fate = Literal["waiting", "handled", "failed", "again", "dropped"]
"""What became of an event: queued, done, given up for the app's error, to be told once more,
or left out because too many waited."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One thing that happened to one event.

    Attributes:
        number: counts records from 1, for as long as the daemon runs.
        at: seconds since 1970.
        about: the timer, path, sender or slot that the event is about; may be empty.
    """

    number: int
    at: int
    app: AppId
    id: int
    kind: EventKind
    about: str
    fate: Fate


class Tail:
    """The last records."""

    def __init__(self) -> None:
        self._records: deque[EventRecord] = deque(maxlen=MOST_RECORDS)
        self._added = asyncio.Event()
        self._number = 0

    def add(self, at: int, app: AppId, id_: int, kind: EventKind, about: str, fate: Fate) -> None:
        self._number += 1
        self._records.append(EventRecord(self._number, at, app, id_, kind, about, fate))
        self._added.set()
        self._added = asyncio.Event()

    def after(self, number: int) -> tuple[EventRecord, ...]:
        """The records after that number, oldest first."""
        return tuple(record for record in self._records if record.number > number)

    async def wait(self, number: int, seconds: float) -> tuple[EventRecord, ...]:
        """The same, as soon as there is one, or none after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while not (found := self.after(number)):
                    await self._added.wait()
                return found
        except TimeoutError:
            return ()
