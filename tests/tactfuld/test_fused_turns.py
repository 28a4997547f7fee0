"""A turn with `detail: fused` through the gate: what is reserved, drawn, settled, kept and said.

The ledger, memory and history are the real sealed stores; the model's logits depend on its rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.daemon_site import GUEST, MEALS, PERIOD, PROMISES, Site, site
from tests.fakes.fixed_randomness import HighestTicket
from tests.fakes.fused_policies import fused
from tests.fakes.in_memory_rows import BrokenRows, InMemoryRows
from tests.fakes.manual_clock import ManualClock
from tests.fakes.row_engine import RowEngine

from tactful.errors import Busy, Denied, ModelFailed
from tactful.wire import Answer, Ask, ReleasedView
from tactful_core.interface import Release
from tactful_core.ledger import Ledger
from tactful_core.values import AppId, Position, SlotName
from tactfuld.fusing.answering import Unfused
from tactfuld.fusing.contexts import CLOSING
from tactfuld.gate import TurnLimits
from tactfuld.inference.errors import ModelError
from tactfuld.inference.requests import Source
from tactfuld.open_turn import FusedSpent

FUSED = fused(PROMISES)
UNFUSED = replace(
    FUSED,
    layout=replace(
        FUSED.layout,
        attributes=tuple(replace(each, fusion=None) for each in FUSED.layout.attributes),
    ),
)
QUERY = "What is an affordable dinner for tonight?"
FOOD = ("food",)
MARKER = "walnuts"


async def drop(_piece: str) -> None:
    """Nobody listens to the pieces."""


async def ask(
    at: Site,
    *,
    app: AppId = MEALS,
    thread: str | None = None,
    slots: tuple[str, ...] = FOOD,
    on_text: Callable[[str], Awaitable[None]] = drop,
    watcher: Diary | None = None,
) -> Answer:
    question = Ask(query=QUERY, slots=slots, thread=thread, detail="fused")
    return await at.gate.ask(app, question, on_text, watcher=watcher)


class Diary:
    """A watcher that keeps what fused texts came to."""

    def __init__(self) -> None:
        self.spent: list[FusedSpent] = []
        self.releases: list[tuple[Release, ...]] = []

    def started(self, turn: int, app: AppId, query: str, releases: tuple[Release, ...]) -> None:
        self.releases.append(releases)

    def text(self, turn: int, piece: str) -> None: ...

    def fused(self, turn: int, spent: FusedSpent) -> None:
        self.spent.append(spent)

    def finished(self, turn: int, answer: str) -> None: ...


def engine_of(at: Site) -> RowEngine:
    assert isinstance(at.engine, RowEngine)
    return at.engine


def draws(at: Site) -> tuple[list[int], list[int]]:
    """Draws of reservations of the open epoch: those that are open, and those that were settled."""
    ledger = at.ledger.snapshot()
    assert isinstance(ledger, Ledger)
    sums = ledger.fused
    return [each.draws for each in sums.open.values()], list(sums.settled.values())


def fused_spent(at: Site) -> dict[str, int]:
    ledger = at.ledger.snapshot()
    assert isinstance(ledger, Ledger)
    return {a.name: ledger.fused.spent(a) for a in at.promises.layout.attributes}


async def test_answer_is_drawn_with_memory_and_settled_to_its_draws(profile_dir: Path) -> None:
    heard: list[str] = []

    async def on_text(piece: str) -> None:
        heard.append(piece)

    memory = InMemoryRows({FUSED.layout.slot(SlotName("food")).positions[0]: MARKER})
    diary = Diary()
    async with site(profile_dir, promises=FUSED, engine=RowEngine(), memory=memory) as at:
        answer = await ask(at, on_text=on_text, watcher=diary)
        engine, (spent,) = engine_of(at), diary.spent
        assert spent.draws + spent.free == engine.drawn
        assert draws(at) == ([], [spent.draws])
    assert answer.detail == "fused"
    assert "".join(heard) == answer.text
    assert answer.text.split()[-1].startswith("w")
    (group,) = engine.groups
    public, *private = group.rows
    assert [row != public for row in private] == [True, *[False] * (len(private) - 1)]
    assert 0 < spent.draws < spent.reserved
    assert spent.reason is None
    assert spent.cells == len(private) > 0
    assert "diabetes" in spent.charged


async def test_views_are_selected_as_usual(profile_dir: Path) -> None:
    views = {}
    for detail in ("views", "fused"):
        folder = profile_dir / detail
        folder.mkdir()
        async with site(
            folder, promises=FUSED, engine=RowEngine(), randomness=HighestTicket()
        ) as at:
            question = Ask.model_validate({"query": QUERY, "slots": FOOD, "detail": detail})
            answer = await at.gate.ask(MEALS, question, drop)
            views[detail] = (answer.views, at.spent())
            assert answer.detail == detail
    assert views["fused"] == views["views"]
    assert views["fused"][0] == (ReleasedView(slot="food", view="quick_meal"),)


async def test_a_question_about_views_costs_no_draws_and_opens_no_group(profile_dir: Path) -> None:
    async with site(profile_dir, promises=FUSED, engine=RowEngine()) as at:
        answer = await at.gate.ask(MEALS, Ask(query=QUERY, slots=FOOD), drop)
        assert answer.detail == "views"
        assert draws(at) == ([], [])
        assert engine_of(at).groups == []


async def test_over_the_budget_the_answer_is_one_of_views(profile_dir: Path) -> None:
    promises = fused(PROMISES, planned_draws=10)
    diary = Diary()
    async with site(profile_dir, promises=promises, engine=RowEngine()) as at:
        details: list[str] = []
        while not details or details[-1] == "fused":
            details.append((await ask(at, watcher=diary)).detail)
        before = fused_spent(at)
        answer = await ask(at, watcher=diary)
        assert fused_spent(at) == before
        assert answer.detail == "views"
        assert answer.text == "Lentil soup with bread."
    assert diary.spent[-1].reason is Unfused.CAP
    assert diary.spent[-1].draws == diary.spent[-1].reserved == 0
    assert 1 < len(details) < 100


@pytest.mark.parametrize("privacy", [True, False])
async def test_without_a_budget_the_answer_is_one_of_views(
    profile_dir: Path, *, privacy: bool
) -> None:
    promises = UNFUSED if privacy else replace(FUSED, privacy=None)
    diary = Diary()
    async with site(profile_dir, promises=promises, engine=RowEngine()) as at:
        assert (await ask(at, watcher=diary)).detail == "views"
    assert [spent.reason for spent in diary.spent] == [Unfused.NO_BUDGET]


async def test_rows_have_as_much_memory_as_the_settings_say(profile_dir: Path) -> None:
    async with site(profile_dir, promises=FUSED, engine=RowEngine()) as at:
        await ask(at)
        at.gate.change_limits(TurnLimits(PERIOD, answer_tokens=64, memory_tokens=60))
        await ask(at)
        at.gate.change_limits(TurnLimits(PERIOD, answer_tokens=64, memory_tokens=16))
        assert (await ask(at)).detail == "views"  # no place is so short
        more, fewer = engine_of(at).groups
    assert more.shape.length > fewer.shape.length
    assert fewer.shape.length - fewer.shape.shared <= 60 + len(CLOSING.split())


async def test_app_that_is_denied_gets_no_text(profile_dir: Path) -> None:
    async with site(profile_dir, promises=FUSED, engine=RowEngine()) as at:
        with pytest.raises(Denied):
            await ask(at, app=GUEST, slots=("finance",))
        assert draws(at) == ([], [])


# --- broken off -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 3])
async def test_cancelled_text_is_settled_to_the_draws_that_were_made(
    profile_dir: Path, pieces: int
) -> None:
    heard: list[str] = []
    enough = asyncio.Event()

    async def on_text(piece: str) -> None:
        heard.append(piece)
        if piece.startswith("w") and sum(each.startswith("w") for each in heard) == pieces:
            enough.set()
            await asyncio.Event().wait()

    async with site(profile_dir, promises=FUSED, engine=RowEngine()) as at:
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(ask(at, thread="a", on_text=on_text), name="ask")
            await enough.wait()
            asking.cancel()
        made = engine_of(at).drawn
        assert draws(at) == ([], [made])
        assert made >= pieces
        (turn,) = await at.history.thread(MEALS, "a")
        assert not turn.complete
        assert turn.answer == "".join(heard)


async def test_model_that_fails_midway_leaves_the_draws_it_made(profile_dir: Path) -> None:
    def fail(made: int) -> None:
        if made == 2:
            raise ModelError("The model broke.")

    async with site(profile_dir, promises=FUSED, engine=RowEngine()) as at:
        engine_of(at).before_draw = fail
        with pytest.raises(ModelFailed):
            await ask(at)
        assert draws(at) == ([], [2])


async def test_nothing_is_charged_where_the_queue_is_full(profile_dir: Path) -> None:
    async with (
        site(profile_dir, promises=FUSED, engine=RowEngine(streams=1, max_waiting=0)) as at,
        AsyncExitStack() as held,
    ):
        await held.enter_async_context(at.engine.place(Source(MEALS)))
        for detail in ("views", "fused"):
            question = Ask.model_validate({"query": QUERY, "slots": FOOD, "detail": detail})
            with pytest.raises(Busy):
                await at.gate.ask(MEALS, question, drop)
        assert not any(at.spent().values())
        assert draws(at) == ([], [])


# --- time and history -----------------------------------------------------------------------------


async def test_memory_is_read_within_the_stage_of_fixed_time(profile_dir: Path) -> None:
    clock = ManualClock()
    async with (
        site(profile_dir, promises=FUSED, engine=RowEngine(), clock=clock) as at,
        asyncio.TaskGroup() as tasks,
    ):
        asking = tasks.create_task(ask(at), name="ask")
        began = clock.time
        assert await clock.asleep() == began + PERIOD
        assert [len(each) for each in draws(at)] == [1, 0]  # reserved, and nothing drawn yet
        assert engine_of(at).groups == []
        clock.advance(PERIOD)
        assert (await asking).detail == "fused"


async def test_fused_text_is_public_in_the_next_turn(profile_dir: Path) -> None:
    """It conditions the thread's next question, in the part that all rows share."""
    async with site(profile_dir, promises=FUSED, engine=RowEngine()) as at:
        first = await ask(at, thread="a")
        for thread in ("a", "b"):
            await ask(at, thread=thread)
        tokenizer = await at.engine.with_vocabulary(lambda vocabulary: vocabulary.tokenizer)
        said = tokenizer.tokenize(first.text, special=False)
        _, same, other = engine_of(at).groups
    assert contains(same.rows[0][: same.shared], said)
    assert not contains(other.rows[0], said)


def contains(row: tuple[int, ...], part: list[int]) -> bool:
    return any(list(row[i : i + len(part)]) == part for i in range(len(row)))


async def test_memory_that_cannot_be_read_is_the_owners_notice(profile_dir: Path) -> None:
    async with site(profile_dir, promises=FUSED, engine=RowEngine(), memory=BrokenRows()) as at:
        assert (await ask(at)).detail == "fused"
        (group,) = engine_of(at).groups
        assert len(set(group.rows)) == 1
        assert any("fused answer" in sentence for sentence in at.notices.sentences)


async def test_nothing_of_memory_is_logged(profile_dir: Path) -> None:
    memory = InMemoryRows({Position(p): f"{MARKER} " * 60 for p in range(1, 9)})
    async with site(profile_dir, promises=FUSED, engine=RowEngine(), memory=memory) as at:
        answer = await ask(at)
        told = "\n".join((*at.notices.sentences, at.log.getvalue(), answer.model_dump_json()))
        assert "beginning only" in told
    assert MARKER not in told
