"""One turn through the gate: who may ask, what it costs, how long it takes, what the model is told.

The ledger and memory are the real sealed stores; the model is scripted, time is the test's own.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.app_hosting import InstantClock
from tests.fakes.daemon_site import (
    DEBT,
    DIABETES,
    GUEST,
    MEALS,
    NOBODY,
    PERIOD,
    PROMISES,
    STRANGER,
    VERSION,
    Site,
    site,
)
from tests.fakes.fixed_randomness import HighestTicket
from tests.fakes.in_memory_rows import BrokenRows, InMemoryRows
from tests.fakes.manual_clock import ManualClock
from tests.fakes.recording_engine import RecordingEngine

from tactful.errors import (
    Busy,
    Denied,
    InvalidParams,
    ModelFailed,
    NotReady,
    ShuttingDown,
    TactfulError,
)
from tactful.wire import Answer, Ask, ReleasedView
from tactful_core.interface import Release
from tactful_core.layout import Slot
from tactful_core.ledger import Refusal, UnreadableLedger
from tactful_core.promises import Grant
from tactful_core.values import (
    AppId,
    Position,
    Secret,
    ShelfName,
    SlotName,
    Units,
    epsilon_of,
    units_from_epsilon,
)
from tactful_policies import starter_text
from tactfuld.inference.engine import EngineState
from tactfuld.inference.errors import ModelError
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.inference.prompt import Prompt
from tactfuld.open_turn import FusedSpent
from tactfuld.policy.loading import parse_policy
from tactfuld.scorer import EmbeddingScorer
from tactfuld.store.ledger import LEDGER_FILE

CAP = units_from_epsilon(2)
THIRD = Units(CAP // 3)
NOTHING = {"diabetes": 0, "debt": 0}
QUERY = "What is an affordable dinner for tonight?"
MARKER = "kumquat marmalade"
FOOD = ("food",)


async def drop(_piece: str) -> None:
    """Nobody listens to the pieces."""


async def ask(
    at: Site,
    slots: tuple[str, ...] | None = FOOD,
    *,
    app: AppId = MEALS,
    query: str = QUERY,
    on_text: Callable[[str], Awaitable[None]] = drop,
) -> Answer:
    return await at.gate.ask(app, Ask(query=query, slots=slots), on_text)


class Diary:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.releases: list[tuple[Release, ...]] = []
        self.answers: list[str] = []
        self.queries: list[str] = []
        self.spent: list[FusedSpent] = []

    def started(self, turn: int, app: AppId, query: str, releases: tuple[Release, ...]) -> None:
        self.events.append((f"started by {app}", turn))
        self.releases.append(releases)
        self.queries.append(query)

    def text(self, turn: int, piece: str) -> None:
        self.events.append((piece, turn))

    def fused(self, turn: int, spent: FusedSpent) -> None:
        self.events.append(("fused", turn))
        self.spent.append(spent)

    def finished(self, turn: int, answer: str) -> None:
        self.events.append(("finished", turn))
        self.answers.append(answer)


async def watched(at: Site, *turns: tuple[str, ...], app: AppId = MEALS) -> list[Release]:
    """The releases of turns that each name these slots, in order."""
    diary = Diary()
    with at.gate.watching(app, diary):
        for slots in turns:
            await ask(at, slots, app=app)
    return [release for releases in diary.releases for release in releases]


def outcomes(releases: Sequence[Release]) -> list[tuple[str, bool, Refusal | None]]:
    return [(r.slot, bool(r.charged), r.refusal) for r in releases]


# --- who may ask --------------------------------------------------------------------------------


@pytest.mark.parametrize("app", [STRANGER, NOBODY])
@pytest.mark.parametrize("slots", [None, (), FOOD])
async def test_app_without_a_grant_is_denied_before_anything_happens(
    profile_dir: Path, app: AppId, slots: tuple[str, ...] | None
) -> None:
    clock = ManualClock()
    async with site(profile_dir, clock=clock) as at:
        with pytest.raises(Denied):
            await ask(at, slots, app=app)
        assert at.spent() == NOTHING
        assert at.engine.prompts == []
        assert clock.alarms == []


@pytest.mark.parametrize("slots", [("finance",), ("food", "finance"), ("no_such_slot", "food")])
async def test_slot_that_is_not_granted_denies_the_whole_turn_uncharged(
    profile_dir: Path, slots: tuple[str, ...]
) -> None:
    async with site(profile_dir) as at:
        with pytest.raises(Denied):
            await ask(at, slots, app=GUEST)
        assert at.spent() == NOTHING
        assert at.engine.prompts == []


async def test_router_activates_granted_slots_only(profile_dir: Path) -> None:
    async with site(profile_dir, embedder=HashEmbedder(4096)) as at:
        both = "cheap meals, dinner, groceries, my budget, bills, money and savings"
        assert [v.slot for v in (await ask(at, None, query=both)).views] == ["food", "finance"]
        assert [v.slot for v in (await ask(at, None, query=both, app=GUEST)).views] == ["food"]


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (EngineState.LOADING, NotReady),
        (EngineState.FAILED, ModelFailed),
        (EngineState.CLOSED, ShuttingDown),
    ],
)
async def test_nothing_is_charged_while_the_model_cannot_answer(
    profile_dir: Path, state: EngineState, error: type[TactfulError]
) -> None:
    async with site(profile_dir) as at:
        at.engine.enter(state)
        with pytest.raises(error):
            await ask(at)
        with pytest.raises(Denied):  # what is refused by policy says nothing of the model
            await ask(at, app=STRANGER)
        assert at.spent() == NOTHING


# --- what a turn releases -----------------------------------------------------------------------


async def test_answer_is_the_text_the_views_and_an_opaque_version(profile_dir: Path) -> None:
    pieces: list[str] = []

    async def on_text(piece: str) -> None:
        pieces.append(piece)

    async with site(profile_dir, randomness=HighestTicket()) as at:
        answer = await ask(at, on_text=on_text)
    assert answer == Answer(
        text="Lentil soup with bread.",
        views=(ReleasedView(slot="food", view="quick_meal"),),
        policy=VERSION,
    )
    assert pieces == ["Lentil ", "soup ", "with ", "bread."]
    assert PROMISES.digest not in answer.model_dump_json()


async def test_two_slots_are_released_in_the_order_of_the_policy(profile_dir: Path) -> None:
    async with site(profile_dir, randomness=HighestTicket()) as at:
        answer = await ask(at, ("finance", "food"))
        assert [(v.slot, v.view) for v in answer.views] == [
            ("food", "quick_meal"),
            ("finance", "grow_savings"),
        ]
        assert at.spent() == {"diabetes": THIRD, "debt": 2 * THIRD}
        (prompt,) = at.engine.prompts
        food, finance = "Suggest an omelette or a salad", "Suggest putting aside"
        assert prompt.user.index(food) < prompt.user.index(finance)


async def test_turn_that_concerns_no_slot_costs_nothing(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        answer = await ask(at, (), query="Why did Rome fall?")
        assert (answer.views, answer.text) == ((), "Lentil soup with bread.")
        assert at.spent() == NOTHING


async def test_guidance_of_the_released_view_reaches_the_model(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        for _ in range(5):
            answer = await ask(at)
            prompt = at.engine.prompts[-1]
            told = f"{prompt.system} {prompt.user}"
            for view in PROMISES.layout.slot(SlotName("food")).vocabulary:
                assert (view.guidance.split(";")[0] in told) is (view.name == answer.views[0].view)


async def test_memory_never_reaches_the_model(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        for shelf in at.promises.layout.shelves:
            await at.memory.remember(f"I like {MARKER}.", ShelfName(shelf.name), None, 1)
        rows = await at.memory.open_rows(tuple(Position(p) for p in range(1, 6)))
        assert all(MARKER in text for text in rows.reveal())  # it was there to be read
        for slots in (("health",), ("food", "finance"), ("health", "food", "finance"), None):
            answer = await ask(at, slots)
            assert MARKER not in answer.model_dump_json()
        assert len(at.engine.prompts) == 4
        for prompt in at.engine.prompts:
            for word in MARKER.split():
                assert word not in prompt.system + prompt.user


async def test_model_is_told_the_same_whatever_is_remembered_once_views_are_equal(
    profile_dir: Path,
) -> None:
    """C6: given query and views, the prompt is independent of memory."""
    told: list[Prompt] = []
    for number, text in enumerate(("", "I avoid sweets.", MARKER * 10)):
        memory = InMemoryRows({Position(p): text for p in range(1, 6)})
        folder = profile_dir / str(number)
        folder.mkdir()
        async with site(folder, memory=memory, randomness=HighestTicket()) as at:
            await ask(at, ("health", "food"))
            told += at.engine.prompts
    assert len(told) == 3
    assert len(set(told)) == 1


# --- caps ---------------------------------------------------------------------------------------


async def test_food_alone_is_charged_three_times_then_generic(profile_dir: Path) -> None:
    """B = 2, three charges per cap: spent exactly 2.000000, and never more."""
    async with site(profile_dir) as at:
        releases = await watched(at, FOOD, FOOD, FOOD, FOOD, FOOD)
        assert outcomes(releases) == [("food", True, None)] * 3 + [("food", False, Refusal.CAP)] * 2
        for release in releases[:3]:
            assert (release.units, release.charged) == (THIRD, frozenset({DIABETES, DEBT}))
            assert not release.fallback
        for release in releases[3:]:
            assert (release.units, release.view.name) == (0, "generic")
            assert release.fallback
        assert at.spent() == {"diabetes": CAP, "debt": CAP}
        assert {epsilon_of(units) for units in at.spent().values()} == {2.0}
    async with site(profile_dir) as again:
        assert again.spent() == {"diabetes": CAP, "debt": CAP}
        assert outcomes(await watched(again, FOOD)) == [("food", False, Refusal.CAP)]


async def test_one_exhausted_attribute_falls_back_and_charges_nobody(profile_dir: Path) -> None:
    """Figure 2: diabetes is used up by health, so food is generic while finance stays fresh."""
    health, finance = ("health",), ("finance",)
    async with site(profile_dir) as at:
        assert outcomes(await watched(at, health, health, health)) == [("health", True, None)] * 3
        assert at.spent() == {"diabetes": CAP, "debt": 0}
        assert outcomes(await watched(at, FOOD)) == [("food", False, Refusal.CAP)]
        assert at.spent() == {"diabetes": CAP, "debt": 0}
        (release,) = await watched(at, finance)
        assert (release.charged, release.units) == (frozenset({DEBT}), THIRD)
        assert at.spent() == {"diabetes": CAP, "debt": THIRD}


async def test_used_up_quota_falls_back_and_charges_nobody(profile_dir: Path) -> None:
    food = frozenset({SlotName("food")})
    quota = {DIABETES: units_from_epsilon("0.7")}
    limited = Grant(GUEST, food, quota)
    promises = replace(PROMISES, grants=(PROMISES.grants[0], limited))
    async with site(profile_dir, promises=promises) as at:
        assert outcomes(await watched(at, FOOD, FOOD, app=GUEST)) == [
            ("food", True, None),
            ("food", False, Refusal.QUOTA),
        ]
        assert at.spent() == {"diabetes": THIRD, "debt": THIRD}
        assert outcomes(await watched(at, FOOD)) == [("food", True, None)]


async def test_caps_hold_when_everybody_asks_at_once(profile_dir: Path) -> None:
    async with site(profile_dir, engine=RecordingEngine(max_waiting=64)) as at:
        async with asyncio.TaskGroup() as tasks:
            for number in range(12):
                app = (MEALS, GUEST)[number % 2]
                tasks.create_task(ask(at, app=app), name=f"turn {number}")
        assert at.spent() == {"diabetes": CAP, "debt": CAP}


async def test_damaged_ledger_answers_generically_and_tells_the_owner(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        await ask(at)
    with closing(sqlite3.connect(at.profile.data / LEDGER_FILE)) as connection:
        connection.execute("DROP TRIGGER entries_never_change")
        connection.execute("UPDATE entries SET sealed = zeroblob(200) WHERE sequence = 2")
        connection.commit()
    async with site(profile_dir) as at:
        releases = await watched(at, FOOD, ("finance",))
        assert outcomes(releases) == [
            ("food", False, Refusal.UNREADABLE),
            ("finance", False, Refusal.UNREADABLE),
        ]
        assert {release.view.name for release in releases} == {"generic"}
        assert isinstance(at.ledger.snapshot(), UnreadableLedger)
        assert any("ledger.db" in sentence for sentence in at.notices.sentences)


async def test_memory_that_cannot_be_read_shows_in_nothing_but_a_notice(profile_dir: Path) -> None:
    clock = ManualClock()
    async with site(
        profile_dir, memory=BrokenRows(), clock=clock, randomness=HighestTicket()
    ) as at:
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(ask(at), name="turn")
            assert await clock.asleep() == 1000.25
            clock.advance(PERIOD)
        assert turn.result().views == (ReleasedView(slot="food", view="quick_meal"),)
        assert at.spent() == {"diabetes": THIRD, "debt": THIRD}
        (notice,) = at.notices.sentences
        assert "slot food" in notice


# --- the fixed time of the stage ----------------------------------------------------------------


class SlowRows(InMemoryRows):
    """Memory that takes its time to be opened."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    async def open_rows(self, read_set: tuple[Position, ...]) -> Secret[tuple[str, ...]]:
        self._clock.advance(self._seconds)
        return await super().open_rows(read_set)


async def end_of_stage(at: Site, clock: ManualClock, slots: tuple[str, ...] = FOOD) -> float:
    """When the app can first see something of a turn: its stage has ended, its text begins."""
    diary, seen = Diary(), list[float]()

    async def on_text(_piece: str) -> None:
        seen.append(clock.time)

    with at.gate.watching(MEALS, diary):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ask(at, slots, on_text=on_text), name="turn")
            end = await clock.asleep()
            clock.advance(end - clock.time - 1 / 1024)
            for _ in range(20):
                await asyncio.sleep(0)
            assert (diary.events, seen, at.engine.prompts) == ([], [], [])
            clock.advance(1 / 1024)
    assert set(seen) == {end}
    return end


@pytest.mark.parametrize(
    ("work", "end"),
    [(0.0, 0.25), (0.125, 0.25), (0.2490234375, 0.25), (0.25, 0.5), (0.3, 0.5), (0.75, 1.0)],
)
async def test_stage_ends_at_its_deadline_or_the_next_multiple(
    profile_dir: Path, work: float, end: float
) -> None:
    clock = ManualClock(0.0)
    async with site(profile_dir, clock=clock, memory=SlowRows(clock, work)) as at:
        assert await end_of_stage(at, clock) == end
        told = [sentence for sentence in at.notices.sentences if "turn.deadline_ms" in sentence]
        assert len(told) == (end > PERIOD)


async def test_stage_takes_as_long_when_nothing_may_be_read(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        await watched(at, FOOD, FOOD, FOOD)
    for slots in (FOOD, ()):  # used up; no slot at all
        clock = ManualClock(0.0)
        async with site(profile_dir, clock=clock) as at:
            assert await end_of_stage(at, clock, slots) == PERIOD


async def test_two_slots_share_one_deadline(profile_dir: Path) -> None:
    clock = ManualClock(0.0)
    async with site(profile_dir, clock=clock, memory=SlowRows(clock, 0.1)) as at:
        assert await end_of_stage(at, clock, ("food", "finance")) == PERIOD


class FailingScorer(EmbeddingScorer):
    """Takes its time, and then fails even on public input."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        super().__init__(HashEmbedder())
        self._clock, self._seconds = clock, seconds

    async def relevance(self, query: str, slot: Slot) -> tuple[float, ...]:
        self._clock.advance(self._seconds)
        raise RuntimeError(MARKER)


@pytest.mark.parametrize(("work", "end"), [(0.0, 0.25), (0.2, 0.25), (0.3, 0.5)])
async def test_stage_that_fails_ends_at_the_same_time(
    profile_dir: Path, work: float, end: float
) -> None:
    clock = ManualClock(0.0)
    async with site(profile_dir, clock=clock, scorer=FailingScorer(clock, work)) as at:
        async with asyncio.TaskGroup() as tasks:

            async def failing() -> None:
                with pytest.raises(RuntimeError):
                    await ask(at)

            turn = tasks.create_task(failing(), name="turn")
            assert await clock.asleep() == end
            await asyncio.sleep(0)
            assert not turn.done()
            clock.advance(end)
        assert len(at.notices.sentences) == (end > PERIOD)
        assert MARKER not in "".join(at.notices.sentences) + at.log.getvalue()


# --- cancelling ---------------------------------------------------------------------------------


async def cancelled(turn: asyncio.Task[Answer]) -> bool:
    """Cancels a turn and waits for its end."""
    turn.cancel()
    await asyncio.wait([turn])
    return turn.cancelled()


async def test_turn_that_is_cancelled_while_it_waits_for_the_model_stays_charged(
    profile_dir: Path,
) -> None:
    opened = asyncio.Event()
    engine = RecordingEngine(gate=opened)
    async with site(profile_dir, engine=engine) as at, asyncio.TaskGroup() as tasks:
        diary = Diary()
        with at.gate.watching(MEALS, diary):
            turn = tasks.create_task(ask(at), name="turn")
            while not engine.prompts:  # noqa: ASYNC110 - the stores answer from threads
                await asyncio.sleep(0)
            assert await cancelled(turn)
        assert engine.ended == 1
        assert diary.events == [("started by meals", 1)]
        assert at.spent() == {"diabetes": THIRD, "debt": THIRD}
        opened.set()
        assert (await ask(at)).text  # the engine is free again
        assert at.spent() == {"diabetes": 2 * THIRD, "debt": 2 * THIRD}


async def test_turn_that_is_cancelled_while_it_streams_stays_charged(profile_dir: Path) -> None:
    first = asyncio.Event()

    async def on_text(_piece: str) -> None:
        first.set()
        await asyncio.Event().wait()

    async with site(profile_dir) as at, asyncio.TaskGroup() as tasks:
        turn = tasks.create_task(ask(at, on_text=on_text), name="turn")
        await first.wait()
        assert at.engine.ended == 0
        assert await cancelled(turn)
        assert at.engine.ended == 1
        assert at.spent() == {"diabetes": THIRD, "debt": THIRD}


async def test_turn_that_is_cancelled_while_its_stage_is_held_stays_charged(
    profile_dir: Path,
) -> None:
    clock = ManualClock()
    async with site(profile_dir, clock=clock) as at, asyncio.TaskGroup() as tasks:
        turn = tasks.create_task(ask(at), name="turn")
        await clock.asleep()
        assert await cancelled(turn)
        assert at.engine.prompts == []
        assert at.spent() == {"diabetes": THIRD, "debt": THIRD}


async def test_app_that_has_gone_away_ends_its_turn(profile_dir: Path) -> None:
    async def on_text(_piece: str) -> None:
        raise ConnectionResetError("The connection has ended.")

    async with site(profile_dir) as at:
        diary = Diary()
        with at.gate.watching(MEALS, diary), pytest.raises(ConnectionResetError):
            await ask(at, on_text=on_text)
        assert at.engine.ended == 1
        assert ("finished", 1) not in diary.events
        assert at.spent() == {"diabetes": THIRD, "debt": THIRD}


# --- errors of the model ------------------------------------------------------------------------


def broken(_prompt: Prompt) -> str:
    raise ModelError(f"llama.cpp failed on {MARKER}")


@pytest.mark.parametrize(
    ("engine", "error", "charge"),
    [
        (RecordingEngine(streams=0, max_waiting=0), Busy, 0),
        (RecordingEngine(context_length=4), InvalidParams, 0),
        (RecordingEngine(broken), ModelFailed, THIRD),
    ],
    ids=["busy", "too long", "broken"],
)
async def test_what_goes_wrong_with_the_model_is_named_and_charged_only_once_it_answers(
    profile_dir: Path, engine: RecordingEngine, error: type[TactfulError], charge: int
) -> None:
    async with site(profile_dir, engine=engine) as at:
        with pytest.raises(error) as raised:
            await ask(at, query=MARKER)
        assert type(raised.value) is error
        assert MARKER not in str(raised.value)
        assert at.spent() == {"diabetes": charge, "debt": charge}


async def test_engine_that_closes_meanwhile_means_that_the_daemon_stops(profile_dir: Path) -> None:
    engine = RecordingEngine(gate=asyncio.Event())
    async with site(profile_dir, engine=engine) as at, asyncio.TaskGroup() as tasks:

        async def refused() -> None:
            with pytest.raises(ShuttingDown):
                await ask(at)

        tasks.create_task(refused(), name="turn")
        while not engine.prompts:  # noqa: ASYNC110 - the stores answer from threads
            await asyncio.sleep(0)
        await engine.close()


# --- watchers -----------------------------------------------------------------------------------


async def test_watcher_is_told_the_views_then_the_pieces_then_the_answer(
    profile_dir: Path,
) -> None:
    order: list[str] = []

    async def on_text(piece: str) -> None:
        order.append(f"app heard {piece}")

    class Ordered(Diary):
        def text(self, turn: int, piece: str) -> None:
            super().text(turn, piece)
            order.append(f"owner saw {piece}")

    async with site(profile_dir, engine=RecordingEngine("Lentil soup.")) as at:
        diary = Ordered()
        with at.gate.watching(MEALS, diary):
            await ask(at, on_text=on_text)
    assert diary.events == [
        ("started by meals", 1),
        ("Lentil ", 1),
        ("soup.", 1),
        ("finished", 1),
    ]
    assert diary.answers == ["Lentil soup."]
    assert diary.queries == [QUERY]
    assert order == [
        "owner saw Lentil ",
        "app heard Lentil ",
        "owner saw soup.",
        "app heard soup.",
    ]


async def test_watcher_sees_its_own_app_and_only_while_it_watches(profile_dir: Path) -> None:
    clock = InstantClock()
    async with site(profile_dir, clock=clock) as at:
        meals, guest, both = Diary(), Diary(), Diary()
        await ask(at, ())
        with at.gate.watching(MEALS, meals), at.gate.watching(GUEST, guest):
            with at.gate.watching(MEALS, both):
                await ask(at, ())
            await ask(at, (), app=GUEST)
            await ask(at, ())
        await ask(at, ())
    started = [
        [event for event in diary.events if "started" in event[0]] for diary in (meals, guest, both)
    ]
    assert started == [
        [("started by meals", 2), ("started by meals", 4)],
        [("started by guest", 3)],
        [("started by meals", 2)],
    ]


async def test_refused_turn_is_shown_to_nobody(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        diary = Diary()
        with at.gate.watching(STRANGER, diary), pytest.raises(Denied):
            await ask(at, app=STRANGER)
        assert diary.events == []


# --- read rules ---------------------------------------------------------------------------------

LUNCH_READS_THE_DIET = parse_policy(
    starter_text("demo").replace(
        "\n  food:\n", "\n  food:\n    reads: [{when: [lunch], shelves: [diet]}]\n"
    ),
    source="policy.yaml",
)


async def test_a_question_charges_what_covers_the_shelves_that_it_reads(profile_dir: Path) -> None:
    async with site(profile_dir, promises=LUNCH_READS_THE_DIET) as at:
        await ask(at, query="a quick lunch")
        assert at.spent() == {"diabetes": THIRD, "debt": 0}
        await ask(at, query="a quick dinner")
        assert at.spent() == {"diabetes": 2 * THIRD, "debt": THIRD}


async def test_a_quote_is_for_the_shelves_that_the_question_reads(profile_dir: Path) -> None:
    async with site(profile_dir, promises=LUNCH_READS_THE_DIET) as at:
        for _ in range(3):
            await ask(at, slots=("finance",), query="rent")
        assert at.spent() == {"diabetes": 0, "debt": 3 * THIRD}
        (lunch,) = (await at.gate.quote(MEALS, Ask(query="lunch", slots=FOOD))).slots
        (dinner,) = (await at.gate.quote(MEALS, Ask(query="dinner", slots=FOOD))).slots
        assert (lunch.fresh_left, dinner.fresh_left) == (3, 0)
