"""What waits to be told to an app, in order.

Decides what gives way to what, and that there is never too much. What is *not* here: telling it
(`bus`), and keeping it (`kept`).

Invariants:

- an event has an id that no other event of the app ever has, and keeps it until it was handled;
- at most `MOST_WAITING` wait; of a timer, a file, a slot and the policy only the latest news;
- what is being told is not taken away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tactful.wire import Event, EventKind

MOST_WAITING = 64
"""Of one app."""


@dataclass(frozen=True, slots=True)
class Queue:
    """One app's events.

    Attributes:
        waiting: oldest first; the first may be being told.
        last: the id that was given last.
    """

    waiting: tuple[Event, ...] = ()
    last: int = 0


def pushed(before: Queue, event: Event, *, telling: bool) -> tuple[Queue, bool]:
    """With one more event, under a new id; whether there was room for it.

    Args:
        telling: whether the first one is being told.
    """
    fixed = before.waiting[:1] if telling else ()
    subject = _subject(event)
    waiting = [
        each
        for each in before.waiting[len(fixed) :]
        if subject is None or _subject(each) != subject
    ]
    if len(fixed) + len(waiting) >= MOST_WAITING:
        return before, False
    named = event.model_copy(update={"id": before.last + 1})
    return Queue((*fixed, *waiting, named), before.last + 1), True


def popped(before: Queue, id_: int) -> Queue:
    """Without the event of that id."""
    return replace(before, waiting=tuple(each for each in before.waiting if each.id != id_))


def _subject(event: Event) -> object:
    """What a later event takes the place of an earlier one for; `None`: of none."""
    match event.kind:
        case EventKind.TIMER:
            return event.kind, event.timer
        case EventKind.FILE:
            return event.kind, event.path
        case EventKind.BUDGET:
            return event.kind, event.slot
        case EventKind.POLICY:
            return event.kind
        case _:
            return None
