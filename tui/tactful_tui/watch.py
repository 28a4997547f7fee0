"""What is known about the daemon, and how that changes: a state machine without I/O.

| what was heard | the phase after it, whatever it was before |
| --- | --- |
| nothing yet | connecting |
| everything that was asked for | live |
| the daemon's state, and a refusal of the rest | refusing |
| that no daemon is running | down |
| any other reason why there is no connection | lost |

Decides what stays known when the daemon goes away. What is *not* here: asking (`watching`), and
how any of it looks.

Invariants:

- the last figures are kept until newer ones replace them, and are current only while live;
- live means that there is no problem; every other phase after the first answer has one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tactful.errors import DaemonDown, ShuttingDown, TactfulError
from tactful.owner_wire import HistoryItem, LedgerReply, Status


class Phase(StrEnum):
    """Where the connection stands."""

    CONNECTING = "connecting"
    LIVE = "live"
    REFUSING = "refusing"
    """The daemon answers, but does not show its figures."""
    DOWN = "down"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Figures:
    """What the panels show, as it was at one moment; `renewal` is unknown for a damaged ledger."""

    at: datetime
    ledger: LedgerReply
    renewal: str | None
    turns: tuple[HistoryItem, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """Everything that the screen is drawn from."""

    phase: Phase = Phase.CONNECTING
    status: Status | None = None
    figures: Figures | None = None
    problem: str | None = None

    @property
    def current(self) -> bool:
        """Whether the figures are those of now."""
        return self.phase is Phase.LIVE


def answered(status: Status, figures: Figures) -> Watch:
    """The daemon told everything."""
    return Watch(Phase.LIVE, status, figures)


def refused(watch: Watch, status: Status, error: TactfulError) -> Watch:
    """The daemon told its state and nothing more, as one that is locked does."""
    return replace(watch, phase=Phase.REFUSING, status=status, problem=str(error))


def lost(watch: Watch, error: TactfulError) -> Watch:
    """There is no connection."""
    down = isinstance(error, (DaemonDown, ShuttingDown))
    return replace(watch, phase=Phase.DOWN if down else Phase.LOST, problem=str(error))
