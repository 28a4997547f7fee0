"""Apps take turns, are refused for their own requests alone, and are told their end once."""

import asyncio
import threading
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tactfuld.inference.errors import EngineBusy, EngineClosed
from tactfuld.inference.places import AppLine
from tactfuld.inference.prompt import Prompt
from tactfuld.inference.requests import Forgetting, Request, Source


def line(most: int = 4) -> AppLine:
    return AppLine(threading.Condition(), most)


def asked(app: str) -> Request:
    return Request(Prompt("", ""), 1, Source(app))


def begun(apps: AppLine, most: int = 100) -> list[Request]:
    """Requests in the order in which a worker begins them."""
    found: list[Request] = []
    while len(found) < most and (first := apps.first()):
        assert apps.take(first[0])
        found.append(first[0])
    return found


async def told(request: Request) -> list[object]:
    await asyncio.sleep(0)
    return [request.pieces.get_nowait() for _ in range(request.pieces.qsize())]


async def test_one_that_asks_ten_at_once_does_not_push_anothers_aside() -> None:
    apps = line()
    for _ in range(10):
        apps.join(asked("greedy"))
    apps.join(asked("modest"))
    assert [request.source.app for request in begun(apps, 3)] == ["greedy", "modest", "greedy"]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_every_app_has_its_turn_in_every_round(order: str) -> None:
    async def run() -> list[str]:
        apps = line()
        for app in order:
            apps.join(asked(app))
        return [request.source.app for request in begun(apps)]

    found = asyncio.run(run())
    assert sorted(found) == sorted(order)
    for place, app in enumerate(found):
        rounds = found[:place].count(app)
        # Whoever still waits has been begun as often as anybody, or once less.
        waiting = {other for other in order if found[:place].count(other) < order.count(other)}
        assert all(found[:place].count(other) >= rounds - 1 for other in waiting)


async def test_an_apps_own_requests_begin_in_their_order() -> None:
    apps = line()
    requests = [asked(app) for app in ("a", "b", "a", "a", "b")]
    for request in requests:
        apps.join(request)
    found = begun(apps)
    for app in ("a", "b"):
        mine = [request for request in requests if request.source.app == app]
        assert [request for request in found if request.source.app == app] == mine


def test_places_are_an_apps_own() -> None:
    apps = line(most=2)
    with ExitStack() as held:
        held.enter_context(apps.place(Source("a")))
        held.enter_context(apps.place(Source("a", "thread")))
        with pytest.raises(EngineBusy):
            held.enter_context(apps.place(Source("a")))
        held.enter_context(apps.place(Source("b")))
    with apps.place(Source("a")):
        assert not apps.occupied


async def test_who_leaves_the_line_is_not_begun() -> None:
    apps = line()
    first, second = asked("a"), asked("b")
    apps.join(first)
    apps.join(second)
    assert apps.first() == (first, second)
    assert not apps.cancel(first)
    assert not apps.take(first)
    assert begun(apps) == [second]
    assert await told(first) == []


async def test_one_that_was_begun_is_told_its_end_once() -> None:
    apps = line()
    request = asked("a")
    apps.join(request)
    assert begun(apps) == [request]
    before = apps.occupied
    assert apps.cancel(request)
    apps.end(request, None)
    assert (before, apps.occupied) == (True, False)
    assert not apps.cancel(request)
    assert await told(request) == [None]


async def test_closing_sends_away_who_waits_and_leaves_the_end_of_others_to_the_worker() -> None:
    apps = line()
    answered, waiting = asked("a"), asked("a")
    apps.join(answered)
    begun(apps)
    apps.join(waiting)
    error = EngineClosed()
    apps.close(error)
    assert await told(waiting) == [error]
    assert await told(answered) == []
    assert apps.work(0) == "closed"
    assert apps.occupied


async def test_says_whether_there_is_work() -> None:
    apps = line()
    assert apps.work(0) == "none"
    request = asked("a")
    apps.join(request)
    assert apps.work(None) == "some"
    apps.cancel(request)
    assert apps.work(0) == "none"


async def test_a_worker_that_waits_for_ever_is_woken_to_forget() -> None:
    apps, what = line(), Forgetting(None, overwrite=True)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(asyncio.to_thread(apps.work, None))
        await asyncio.sleep(0)
        apps.forget(what)
    assert waiting.result() == "forgetting"
    assert (apps.forgettings(), apps.forgettings()) == ((what,), ())
    assert apps.work(0) == "none"
