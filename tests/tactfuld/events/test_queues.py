"""What waits for an app, and what gives way to what."""

from __future__ import annotations

from tactful.wire import Event, EventKind, FileChange
from tactfuld.events.queues import MOST_WAITING, Queue, popped, pushed


def said(text: str) -> Event:
    return Event(kind=EventKind.APP, sender="money", text=text)


def timer(name: str, at: int) -> Event:
    return Event(kind=EventKind.TIMER, timer=name, at=at)


def queue(*events: Event, telling: bool = False) -> Queue:
    found = Queue()
    for event in events:
        found, fits = pushed(found, event, telling=telling)
        assert fits
    return found


def test_each_event_has_an_id_of_its_own_also_after_others_are_gone() -> None:
    found = popped(popped(queue(said("a"), said("b")), 1), 2)
    assert found.waiting == ()
    after, _ = pushed(found, said("c"), telling=False)
    assert [event.id for event in after.waiting] == [3]


def test_of_a_timer_a_file_a_slot_and_the_policy_only_the_latest_waits() -> None:
    found = queue(
        timer("morning", 1),
        timer("evening", 2),
        said("a"),
        timer("morning", 3),
        Event(kind=EventKind.FILE, path="/a", change=FileChange.ADDED),
        Event(kind=EventKind.FILE, path="/b", change=FileChange.ADDED),
        Event(kind=EventKind.FILE, path="/a", change=FileChange.DELETED),
        Event(kind=EventKind.POLICY, policy="p1"),
        Event(kind=EventKind.BUDGET, slot="food", fresh_left=1),
        Event(kind=EventKind.POLICY, policy="p2"),
        Event(kind=EventKind.BUDGET, slot="food", fresh_left=2),
        said("a"),
    )
    assert [
        (e.id, e.timer or e.text or e.path or e.policy or e.fresh_left) for e in found.waiting
    ] == [
        (2, "evening"),
        (3, "a"),
        (4, "morning"),
        (6, "/b"),
        (7, "/a"),
        (10, "p2"),
        (11, 2),
        (12, "a"),
    ]


def test_what_is_being_told_is_not_taken_away() -> None:
    found = queue(timer("morning", 1), timer("morning", 2), telling=True)
    assert [event.at for event in found.waiting] == [1, 2]
    found, _ = pushed(found, timer("morning", 3), telling=True)
    assert [event.at for event in found.waiting] == [1, 3]


def test_there_is_never_too_much() -> None:
    found = queue(*(said(str(number)) for number in range(MOST_WAITING)))
    assert pushed(found, said("more"), telling=False) == (found, False)
    assert pushed(found, timer("morning", 1), telling=False) == (found, False)
