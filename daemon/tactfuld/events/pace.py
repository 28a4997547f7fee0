"""How often an app may do something that others have to look at.

Decides by what the app itself did and by the clock. What is *not* here: what it did.
"""

from __future__ import annotations

from dataclasses import dataclass

from tactful_core.values import AppId
from tactfuld.clock import Clock


@dataclass(frozen=True, slots=True)
class Allowance:
    """So many at once, and one more each `seconds`."""

    burst: int
    seconds: float


class Pace:
    """Counts for each app by itself; an app that does too much takes nothing from another."""

    def __init__(self, allowance: Allowance, clock: Clock) -> None:
        self._allowance = allowance
        self._clock = clock
        self._next: dict[AppId, float] = {}

    def allows(self, app: AppId) -> bool:
        """Whether the app may do it now; if so, it counts as done."""
        now, every = self._clock.monotonic(), self._allowance.seconds
        earliest = now - self._allowance.burst * every
        due = max(self._next.get(app, earliest), earliest) + every
        if due > now:
            return False
        self._next[app] = due
        return True
