"""The event bus: what is an event, who hears of it, and how often."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.fakes.noted_apps import NotedApps
from tests.fakes.two_clocks import TwoClocks

from tactful.errors import Denied, InternalError, NotFound, NotReady
from tactful.wire import AnswerKind, Budget, Event, EventKind, FileChange, SlotBudget
from tactful_core.values import AppId, SlotName
from tactfuld.events.bus import LOOK_SECONDS, MOST_TRIES, EventBus, Public
from tactfuld.events.grants import EventGrant
from tactfuld.events.kept import BusState, TimerState, decode, encode, load
from tactfuld.events.queues import MOST_WAITING, Queue
from tactfuld.events.schedule import Progress, Schedule
from tactfuld.journal import LogLevel, open_journal
from tactfuld.notices import Notices

MEALS, MONEY, GUEST = map(AppId, ("meals", "money", "guest"))
START = 1_793_620_800  # 2026-11-02 12:00 UTC
EVERYTHING = frozenset(EventKind)
FOLDER = Path("/srv/recipes")


def grant(**changes: object) -> EventGrant:
    parts: dict[str, object] = {
        "kinds": EVERYTHING,
        "timers": {"hourly": Schedule("0 * * * *")},
        "folders": (FOLDER,),
        "hears": frozenset({MONEY}),
        "thresholds": {SlotName("food"): 2},
    }
    return EventGrant(**{**parts, **changes})  # type: ignore[arg-type]


@dataclass
class Home:
    """A bus with everything around it.

    Attributes:
        left: fresh answers of the slot food.
        kept: what the bus had written last.
    """

    state: BusState = field(default_factory=BusState)
    clock: TwoClocks = field(default_factory=lambda: TwoClocks(START))
    apps: NotedApps = field(default_factory=NotedApps)
    ready: bool = True
    locked: bool = False
    policy: str = "p1"
    left: int | None = 5
    denied: bool = False
    kept: bytes = b""
    broken_disk: bool = False

    def __post_init__(self) -> None:
        self.journal = open_journal(io.StringIO(), LogLevel("debug"))
        self.notices = Notices(self.journal)
        self.bus = EventBus(
            self.state,
            apps=self.apps,
            public=self.public,
            keep=self.keep,
            clock=self.clock,
            local=UTC,
            notices=self.notices,
            journal=self.journal,
        )
        self.bus.grant({MEALS: grant()})

    def public(self) -> Public | None:
        return None if self.locked else Public(self.ready, self.policy, self.budget)

    def budget(self, _app: AppId) -> Budget:
        if self.denied:
            raise Denied("The policy does not grant this.")
        slots = (
            SlotBudget(slot="food", answer=AnswerKind.FRESH, fresh_left=self.left),
            SlotBudget(slot="other", answer=AnswerKind.FRESH, fresh_left=0),
        )
        return Budget(slots=slots)

    def keep(self, content: bytes) -> None:
        if self.broken_disk:
            raise OSError(28, "no space left")
        self.kept = content

    def waiting(self, app: AppId = MEALS) -> list[tuple[EventKind, int]]:
        queue = self.state.queues.get(app)
        return [] if queue is None else [(event.kind, event.id) for event in queue.waiting]

    async def passes(self, seconds: float = LOOK_SECONDS) -> None:
        """Time passes, and the bus has looked."""
        await self.clock.asleep()
        self.clock.advance(seconds)
        await self.settled()

    async def settled(self) -> None:
        """Whatever can be told without time passing was told."""
        for _ in range(50):
            await asyncio.sleep(0.001)


@asynccontextmanager
async def running(home: Home) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(home.bus.run())
        await home.clock.asleep()
        yield
        task.cancel()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - a thread of the bus takes part in it
        await asyncio.sleep(0.001)


# --- what is an event -----------------------------------------------------------------------------


def test_a_timer_is_an_event_when_it_is_due() -> None:
    home = Home()
    home.bus.look()
    assert home.waiting() == []
    home.clock.advance(3600)
    home.bus.look()
    (event,) = home.state.queues[MEALS].waiting
    assert (event.kind, event.timer, event.at, event.id) == (
        EventKind.TIMER,
        "hourly",
        START + 3600,
        1,
    )
    home.bus.look()
    assert len(home.waiting()) == 1


def test_an_app_hears_those_that_the_policy_lets_it_hear() -> None:
    home = Home()
    assert home.bus.hears(MEALS, MONEY)
    assert not home.bus.hears(MEALS, GUEST)
    assert not home.bus.hears(MONEY, MEALS)
    home.bus.grant({MEALS: grant(kinds=EVERYTHING - {EventKind.APP})})
    assert not home.bus.hears(MEALS, MONEY)


def test_files_are_told_to_those_that_were_granted_their_folder() -> None:
    home = Home()
    home.bus.grant({MEALS: grant(), GUEST: grant(folders=(Path("/srv"),), kinds=frozenset())})
    for path in ("/srv/recipes/soup.md", "/srv/recipes.txt", "/srv/other/x", "/srv/recipes"):
        home.bus.file_changed(MEALS, path, FileChange.ADDED)
        home.bus.file_changed(GUEST, path, FileChange.ADDED)
    paths = [event.path for event in home.state.queues[MEALS].waiting]
    assert paths == ["/srv/recipes/soup.md", "/srv/recipes"]
    assert home.waiting(GUEST) == []


def test_a_threshold_is_an_event_each_time_it_is_crossed_and_not_before() -> None:
    home = Home()
    ids: list[int] = []
    for left in (5, 1, 0, 1, 2, 7, None, 1):
        home.left = left
        home.bus.look()
        ids += [id_ for _, id_ in home.waiting() if id_ not in ids]
        if home.waiting():
            (event,) = home.state.queues[MEALS].waiting
            assert (event.kind, event.slot) == (EventKind.BUDGET, "food")
            assert (event.fresh_left or 0) < 2 or event.id == 2
    assert ids == [1, 2, 3]


def test_an_app_that_begins_below_a_threshold_is_not_told_so() -> None:
    home = Home(left=0)
    home.bus.look()
    home.denied = True
    home.bus.look()
    assert home.waiting() == []


def test_another_version_of_the_policy_is_an_event_and_the_first_is_none() -> None:
    home = Home()
    home.bus.look()
    home.locked = True
    home.bus.look()
    home.locked = False
    home.bus.look()
    assert home.waiting() == []
    home.policy = "p2"
    home.bus.look()
    (event,) = home.state.queues[MEALS].waiting
    assert (event.kind, event.policy) == (EventKind.POLICY, "p2")


@pytest.mark.parametrize("kind", EVERYTHING - {EventKind.MESSAGE})
def test_a_kind_that_is_not_granted_is_never_told(kind: EventKind) -> None:
    home = Home()
    home.bus.grant({MEALS: grant(kinds=EVERYTHING - {kind})})
    home.bus.look()
    home.clock.advance(3600)
    home.policy, home.left = "p2", 1
    home.bus.look()
    home.bus.file_changed(MEALS, "/srv/recipes/a", FileChange.ADDED)
    told = {each for each, _ in home.waiting()}
    assert told == EVERYTHING - {kind, EventKind.MESSAGE, EventKind.APP}


def test_what_waits_is_dropped_with_what_granted_it() -> None:
    home = Home()
    home.bus.look()
    home.clock.advance(3600)
    home.bus.look()
    home.bus.send(MONEY, MEALS, "hello")
    home.bus.file_changed(MEALS, "/srv/recipes/a", FileChange.ADDED)
    home.bus.grant({MEALS: grant(timers={}, folders=())})
    assert [kind for kind, _ in home.waiting()] == [EventKind.APP]
    home.bus.grant({})
    assert home.waiting() == []
    home.bus.grant({MEALS: grant()})
    home.bus.send(MONEY, MEALS, "again")
    assert home.waiting() == [(EventKind.APP, 4)]


# --- telling --------------------------------------------------------------------------------------


async def test_events_are_told_in_order_one_at_a_time() -> None:
    home = Home()
    home.apps.held[MEALS] = asyncio.Event()
    async with running(home):
        for text in "abc":
            home.bus.send(MONEY, MEALS, text)
        await until(lambda: bool(home.apps.tried))
        await home.settled()
        assert home.apps.tried == [(MEALS, 1)]
        home.apps.held[MEALS].set()
        await until(lambda: len(home.apps.told) == 3)
    assert [event.text for event in home.apps.heard(MEALS)] == ["a", "b", "c"]
    assert [event.id for event in home.apps.heard(MEALS)] == [1, 2, 3]
    assert home.waiting() == []


async def test_a_slow_app_keeps_only_itself_waiting() -> None:
    home = Home()
    home.bus.grant({MEALS: grant(), GUEST: grant()})
    home.apps.held[MEALS] = asyncio.Event()
    async with running(home):
        for number in range(MOST_WAITING + 5):
            home.bus.send(MONEY, MEALS, str(number))
        for number in range(5):
            home.bus.send(MONEY, GUEST, str(number))
        await until(lambda: len(home.apps.heard(GUEST)) == 5)
        assert len(home.waiting()) == MOST_WAITING
        assert any("left out" in sentence for sentence in home.notices.sentences)
        fates = [record.fate for record in home.bus.tail.after(0) if record.app == MEALS]
        assert fates.count("dropped") == 5


@pytest.mark.parametrize("hindrance", ["locked", "loading", "down"])
async def test_events_wait_for_a_profile_a_model_and_an_app(hindrance: str) -> None:
    home = Home()
    home.locked, home.ready = hindrance == "locked", hindrance != "loading"
    home.apps.down = {MEALS} if hindrance == "down" else set()
    async with running(home):
        home.bus.send(MONEY, MEALS, "hello")
        await home.settled()
        await home.passes()
        assert home.apps.tried == []
        home.locked, home.ready, home.apps.down = False, True, set()
        await home.passes()
        await until(lambda: bool(home.apps.told))


async def test_an_app_that_ends_meanwhile_is_told_again_with_the_same_id() -> None:
    home = Home()
    home.apps.failures[MEALS] = [NotReady("it ended"), NotReady("it ended")]
    async with running(home):
        home.bus.send(MONEY, MEALS, "hello")
        await until(lambda: len(home.apps.tried) == 1)
        await home.settled()
        assert home.apps.tried == [(MEALS, 1)]
        await home.passes(LOOK_SECONDS)
        await until(lambda: len(home.apps.tried) == 2)
        await home.passes(LOOK_SECONDS)
        assert len(home.apps.tried) == 2
        await home.passes(LOOK_SECONDS)
        await until(lambda: bool(home.apps.told))
    assert home.apps.tried == [(MEALS, 1)] * 3
    fates = [record.fate for record in home.bus.tail.after(0)]
    assert fates == ["waiting", "again", "again", "handled"]


async def test_what_can_never_be_handled_is_given_up_and_the_next_is_told() -> None:
    home = Home()
    home.apps.failures[MEALS] = [NotReady("it ended") for _ in range(MOST_TRIES)]
    async with running(home):
        home.bus.send(MONEY, MEALS, "poison")
        home.bus.send(MONEY, MEALS, "hello")
        for _ in range(40):
            await home.passes(LOOK_SECONDS)
            if home.apps.told:
                break
    assert [event.text for event in home.apps.heard(MEALS)] == ["hello"]
    assert home.apps.tried == [*[(MEALS, 1)] * MOST_TRIES, (MEALS, 2)]
    assert any("given up" in sentence for sentence in home.notices.sentences)


async def test_an_app_that_fails_by_itself_is_not_told_again() -> None:
    home = Home()
    home.apps.failures[MEALS] = [InternalError("it failed"), NotFound("gone"), RuntimeError("bug")]
    async with running(home):
        home.bus.send(MONEY, MEALS, "a")
        await until(lambda: home.waiting() == [])
        assert [record.fate for record in home.bus.tail.after(0)] == ["waiting", "failed"]


async def test_what_is_told_was_written_down_before() -> None:
    """Killed while an app is told of an event, the daemon tells it again, under the same id."""
    home = Home()
    home.apps.held[MEALS] = asyncio.Event()
    async with running(home):
        home.bus.send(MONEY, MEALS, "hello")
        await until(lambda: bool(home.apps.tried))
        after = Home(state=decode(home.kept), clock=home.clock)
        assert after.waiting() == [(EventKind.APP, 1)]
    async with running(after):
        await until(lambda: bool(after.apps.told))
        after.bus.send(MONEY, MEALS, "next")
        await until(lambda: len(after.apps.told) == 2)
    assert [event.id for event in after.apps.heard(MEALS)] == [1, 2]
    assert decode(after.kept).queues[MEALS].waiting == ()


async def test_a_full_disk_keeps_nobody_from_being_told() -> None:
    home = Home(broken_disk=True)
    async with running(home):
        home.bus.send(MONEY, MEALS, "hello")
        await until(lambda: bool(home.apps.told))
    assert home.kept == b""


# --- what is kept ---------------------------------------------------------------------------------


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    home = Home()
    home.bus.look()
    home.clock.advance(3600)
    home.left, home.policy = 1, "p2"
    home.bus.look()
    home.bus.send(MONEY, MEALS, "hello é")
    home.bus.file_changed(MEALS, "/srv/recipes/a", FileChange.ADDED)
    file = tmp_path / "events.json"
    file.write_bytes(encode(home.state))
    again, sound = load(file, 0)
    assert sound
    assert again.queues == home.state.queues
    assert encode(again) == encode(home.state)
    assert again.below == {MEALS: {"food": True}}


@pytest.mark.parametrize("content", [b"", b"{", b'{"queues":{}}', b"\xff"])
def test_a_damaged_file_is_put_aside_and_no_id_is_given_twice(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "events.json"
    file.write_bytes(content)
    state, sound = load(file, START)
    assert not sound
    assert file.with_suffix(".damaged").read_bytes() == content
    home = Home(state=state)
    home.bus.send(MONEY, MEALS, "hello")
    assert home.waiting() == [(EventKind.APP, START + 1)]


EVENTS = st.builds(
    Event,
    kind=st.sampled_from(EventKind),
    id=st.integers(0, 2**40),
    at=st.integers(0, 2**40),
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    timer=st.none() | st.just("morning"),
    path=st.none() | st.just("/srv/é"),
    change=st.none() | st.sampled_from(FileChange),
    fresh_left=st.none() | st.integers(0, 99),
)
NAMES = st.sampled_from([MEALS, MONEY, GUEST])
TIMERS = st.builds(
    TimerState,
    st.sampled_from([Schedule("0 7 * * *"), Schedule("* * * * *", "Europe/Paris")]),
    st.builds(
        Progress,
        st.integers(0, 2**40),
        st.integers(0, 2**40),
        st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19)), max_size=3).map(tuple),
    ),
)
STATES = st.builds(
    BusState,
    queues=st.dictionaries(
        NAMES, st.builds(Queue, st.lists(EVENTS, max_size=3).map(tuple), st.integers(0, 2**40))
    ),
    timers=st.dictionaries(NAMES, st.dictionaries(st.just("morning"), TIMERS)),
    below=st.dictionaries(NAMES, st.dictionaries(st.just("food"), st.booleans())),
    policy=st.sampled_from(["", "p1"]),
    first_id=st.integers(0, 2**40),
)


@settings(max_examples=50, deadline=None)
@given(STATES)
def test_whatever_is_kept_is_read_as_it_was(state: BusState) -> None:
    assert decode(encode(state)) == state


@settings(max_examples=50, deadline=None)
@given(STATES, st.data())
def test_a_file_that_was_cut_is_refused(state: BusState, data: st.DataObject) -> None:
    content = encode(state)
    with pytest.raises(ValidationError):
        decode(content[: data.draw(st.integers(0, len(content) - 1))])
