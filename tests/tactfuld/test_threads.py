"""Turns are kept, and a thread's earlier ones condition its next: exactly those, nothing of memory.

The stores are the real sealed ones; the model is scripted and keeps what it was prompted with.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, closing
from pathlib import Path

import pytest
from tests.fakes.daemon_site import GUEST, MEALS, STRANGER, Site, site
from tests.fakes.fixed_randomness import HighestTicket
from tests.fakes.in_memory_rows import InMemoryRows
from tests.fakes.recording_engine import RecordingEngine

from tactful.errors import Denied, ModelFailed
from tactful.wire import Answer, Ask
from tactful_core.values import AppId, Position, ShelfName
from tactfuld.inference.errors import ModelError
from tactfuld.inference.fake_embedder import HashEmbedder
from tactfuld.inference.places import Place
from tactfuld.inference.prompt import EarlierTurn, Prompt
from tactfuld.inference.requests import Source
from tactfuld.store.connection import Writer
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.released_turn import ReleasedTurn, Retention

MARKER = "kumquat marmalade"
ABOUT_FOOD = "meals, dinner, groceries"


async def drop(_piece: str) -> None:
    """Nobody listens to the pieces."""


async def ask(
    at: Site,
    query: str,
    thread: str | None = None,
    *,
    app: AppId = MEALS,
    slots: tuple[str, ...] | None = (),
    on_text: Callable[[str], Awaitable[None]] = drop,
) -> Answer:
    return await at.gate.ask(app, Ask(query=query, slots=slots, thread=thread), on_text)


def echo(prompt: Prompt) -> str:
    """An answer by which its question can be told; guidance stands around the question."""
    *_, question, _ending = prompt.user.split("\n\n")
    return f"About {question}"


def answered(*queries: str) -> tuple[EarlierTurn, ...]:
    return tuple(EarlierTurn(query, f"About {query}") for query in queries)


async def kept(at: Site) -> list[ReleasedTurn]:
    """All turns, oldest first."""
    return [turn for _, turn in reversed(await at.history.listing(None, None, 100))]


class BreakingEngine(RecordingEngine):
    """Fails after two pieces."""

    async def generate(
        self, prompt: Prompt, *, max_tokens: int, place: Place | None = None
    ) -> AsyncGenerator[str, None]:
        given = 0
        reply = super().generate(prompt, max_tokens=max_tokens, place=place)
        async with aclosing(reply) as pieces:
            async for piece in pieces:
                if given == 2:
                    raise ModelError("It broke.")
                given += 1
                yield piece


# --- what a thread brings along -----------------------------------------------------------------


async def test_prompt_has_the_earlier_turns_of_its_own_app_and_thread_and_no_other(
    profile_dir: Path,
) -> None:
    asked = [
        (MEALS, "a", "meals in a, 1"),
        (GUEST, "a", "guest in a, 1"),
        (MEALS, "b", "meals in b, 1"),
        (MEALS, None, "meals alone, 1"),
        (GUEST, "b", "guest in b, 1"),
        (MEALS, "a", "meals in a, 2"),
        (GUEST, "a", "guest in a, 2"),
        (MEALS, None, "meals alone, 2"),
        (MEALS, "b", "meals in b, 2"),
        (GUEST, None, "guest alone, 1"),
        (MEALS, "a", "meals in a, 3"),
    ]
    async with site(profile_dir, engine=RecordingEngine(echo)) as at:
        for app, thread, query in asked:
            await ask(at, query, thread, app=app)
        assert [prompt.earlier for prompt in at.engine.prompts] == [
            (),
            (),
            (),
            (),
            (),
            answered("meals in a, 1"),
            answered("guest in a, 1"),
            (),
            answered("meals in b, 1"),
            (),
            answered("meals in a, 1", "meals in a, 2"),
        ]


async def test_thread_goes_on_after_a_restart(profile_dir: Path) -> None:
    async with site(profile_dir, engine=RecordingEngine(echo)) as at:
        await ask(at, "first", "a")
    async with site(profile_dir, engine=RecordingEngine(echo)) as at:
        await ask(at, "second", "a")
        (prompt,) = at.engine.prompts
        assert prompt.earlier == answered("first")


async def test_forgotten_turn_conditions_nothing_more_and_refunds_nothing(
    profile_dir: Path,
) -> None:
    async with site(profile_dir, engine=RecordingEngine(echo)) as at:
        await ask(at, "first", "a", slots=("food",))
        await ask(at, "second", "a", slots=("food",))
        spent = at.spent()
        assert min(spent.values()) > 0
        await at.history.forget([1])
        assert at.spent() == spent
        await ask(at, "third", "a")
        assert at.engine.prompts[-1].earlier == answered("second")


async def test_without_retention_every_question_stands_alone(profile_dir: Path) -> None:
    engine, nothing = RecordingEngine(echo), Retention(turns=0, days=90)
    async with site(profile_dir, engine=engine, retention=nothing) as at:
        await ask(at, "first", "a")
        await ask(at, "second", "a")
        assert [prompt.earlier for prompt in at.engine.prompts] == [(), ()]
        assert await kept(at) == []


async def test_model_is_told_the_same_of_earlier_turns_whatever_is_remembered(
    profile_dir: Path,
) -> None:
    """C6: stores that differ in memory, and from which the same was released, prompt the same."""
    told: list[list[Prompt]] = []
    for number, text in enumerate(("", "I avoid sweets.", MARKER * 10)):
        memory = InMemoryRows({Position(p): text for p in range(1, 6)})
        folder = profile_dir / str(number)
        folder.mkdir()
        engine = RecordingEngine(echo)
        async with site(folder, memory=memory, randomness=HighestTicket(), engine=engine) as at:
            for query in ("first", "second", "third"):
                await ask(at, query, "a", slots=("health", "food"))
            told.append(at.engine.prompts)
    assert told[0] == told[1] == told[2]
    assert [len(prompt.earlier) for prompt in told[0]] == [0, 1, 2]


async def test_memory_is_in_no_record_of_a_turn(profile_dir: Path) -> None:
    async with site(profile_dir, engine=RecordingEngine(echo)) as at:
        for shelf in at.promises.layout.shelves:
            await at.memory.remember(f"I like {MARKER}.", ShelfName(shelf.name), None, 1)
        rows = await at.memory.open_rows(tuple(Position(p) for p in range(1, 6)))
        assert all(MARKER in text for text in rows.reveal()), "it was there to be read"
        for _ in range(3):
            await ask(at, "dinner?", "a", slots=("health", "food", "finance"))
        turns = await kept(at)
        assert len(turns) == 3
        for turn in turns:
            assert MARKER not in turn.query + turn.answer + repr(turn)


async def test_earlier_turns_make_way_for_the_question(profile_dir: Path) -> None:
    """The engine leaves out what does not fit; see its contract for which."""
    engine = RecordingEngine(echo, context_length=130)
    async with site(profile_dir, engine=engine) as at:
        for number in range(6):
            await ask(at, f"{'word ' * 8}{number}", "a")
        assert len(at.engine.prompts[-1].earlier) == 5
        assert engine.replies == 6


# --- routing ------------------------------------------------------------------------------------


async def test_follow_up_is_about_what_its_thread_was_about(profile_dir: Path) -> None:
    async with site(profile_dir, embedder=HashEmbedder(4096)) as at:

        async def active(query: str, thread: str | None) -> list[str]:
            return [v.slot for v in (await ask(at, query, thread, slots=None)).views]

        assert await active(ABOUT_FOOD, "a") == ["food"]
        assert await active("And for tomorrow?", "a") == ["food"]
        assert await active("And then?", "a") == ["food"], "a follow-up of a follow-up"
        assert await active("And for tomorrow?", None) == []
        assert await active("And for tomorrow?", "b") == []
        question = Ask(query="And later?", thread="a")
        assert [s.slot for s in (await at.gate.quote(MEALS, question)).slots] == ["food"]
        alone = Ask(query="And later?")
        assert (await at.gate.quote(MEALS, alone)).slots == ()


# --- what is recorded ---------------------------------------------------------------------------


async def test_turn_is_recorded_with_its_views_for_the_owners_eyes(profile_dir: Path) -> None:
    async with site(profile_dir, randomness=HighestTicket()) as at:
        asked_at = at.clock.now()
        for _ in range(4):
            await ask(at, "Dinner?", "evening", slots=("food",))
        first, *_, last = await kept(at)
        assert (first.app, first.thread, first.at) == (MEALS, "evening", asked_at)
        assert (first.query, first.answer) == ("Dinner?", "Lentil soup with bread.")
        assert first.complete
        assert [(v.slot, v.view, v.fallback) for v in first.views] == [
            ("food", "quick_meal", False)
        ]
        assert [(v.slot, v.view, v.fallback) for v in last.views] == [("food", "generic", True)]


async def test_turn_is_there_once_its_reply_is(profile_dir: Path) -> None:
    """Else the next question of its thread might not know of it."""
    async with site(profile_dir) as at:
        for number in range(1, 6):
            await ask(at, "Dinner?", "a")
            assert len(await kept(at)) == number


async def test_what_was_released_before_a_cancellation_is_recorded(profile_dir: Path) -> None:
    second = asyncio.Event()
    pieces: list[str] = []

    async def on_text(piece: str) -> None:
        pieces.append(piece)
        if len(pieces) == 2:
            second.set()
            await asyncio.Event().wait()

    async with site(profile_dir) as at, asyncio.TaskGroup() as tasks:
        turn = tasks.create_task(ask(at, "Dinner?", "a", on_text=on_text), name="turn")
        await second.wait()
        turn.cancel()
        await asyncio.wait([turn])
        assert turn.cancelled()
        (told,) = await kept(at)
        assert (told.query, told.answer, told.complete) == ("Dinner?", "Lentil soup ", False)
        await ask(at, "And?", "a")
        assert at.engine.prompts[-1].earlier == (EarlierTurn("Dinner?", "Lentil soup"),)


async def test_what_was_released_before_a_failure_is_recorded(profile_dir: Path) -> None:
    async with site(profile_dir, engine=BreakingEngine()) as at:
        with pytest.raises(ModelFailed):
            await ask(at, "Dinner?")
        (told,) = await kept(at)
        assert (told.answer, told.complete) == ("Lentil soup ", False)


async def test_turn_without_an_answer_is_recorded_and_conditions_nothing(
    profile_dir: Path,
) -> None:
    def broken(_prompt: Prompt) -> str:
        raise ModelError("It broke.")

    async with site(profile_dir, engine=RecordingEngine(broken)) as at:
        for query in ("first", "second"):
            with pytest.raises(ModelFailed):
                await ask(at, query, "a")
        assert [(t.query, t.answer, t.complete) for t in await kept(at)] == [
            ("first", "", False),
            ("second", "", False),
        ]
        assert at.engine.prompts[-1].earlier == ()


async def test_refused_question_is_not_recorded(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        with pytest.raises(Denied):
            await ask(at, "Dinner?", "a", app=STRANGER)
        with pytest.raises(Denied):
            await ask(at, "Dinner?", "a", slots=("no_such_slot",))
        await at.gate.quote(MEALS, Ask(query="Dinner?", thread="a"))
        assert await kept(at) == []


async def test_app_is_answered_the_same_when_history_cannot_be_written(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(profile_dir, randomness=HighestTicket()) as at:
        well = await ask(at, "Dinner?", "a")
        run = Writer.run

        async def full(writer: Writer, work: Callable[[sqlite3.Connection], object]) -> object:
            if writer.path.name == "history.db":
                raise sqlite3.OperationalError(f"no room for {MARKER}")
            return await run(writer, work)

        monkeypatch.setattr(Writer, "run", full)
        assert await ask(at, "Dinner?", "a") == well
        assert len(await kept(at)) == 1
        (notice,) = at.notices.sentences
        assert "could not be written to released history" in notice
        assert MARKER not in notice + at.log.getvalue()


async def test_app_is_answered_when_its_earlier_turns_are_damaged(profile_dir: Path) -> None:
    async with site(profile_dir, engine=RecordingEngine(echo)) as at:
        await ask(at, "first", "a")
        await ask(at, "second", "a")
        with closing(sqlite3.connect(at.profile.data / HISTORY_FILE)) as connection:
            connection.execute("UPDATE turns SET sealed = zeroblob(1052) WHERE number = 1")
            connection.commit()
        assert (await ask(at, "third", "a")).text == "About third"
        assert at.engine.prompts[-1].earlier == answered("second")
        assert any("cannot be opened" in sentence for sentence in at.notices.sentences)


async def test_earlier_turns_are_read_once_the_place_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the engine is told of turns that are forgotten after they were read for a prompt."""
    happened: list[str] = []
    place, thread = RecordingEngine.place, HistoryStore.thread

    def placed(engine: RecordingEngine, source: Source) -> AbstractAsyncContextManager[Place]:
        happened.append("place")
        return place(engine, source)

    async def read(store: HistoryStore, app: AppId, name: str) -> tuple[ReleasedTurn, ...]:
        happened.append("read")
        return await thread(store, app, name)

    monkeypatch.setattr(RecordingEngine, "place", placed)
    monkeypatch.setattr(HistoryStore, "thread", read)
    async with site(tmp_path) as at:
        await ask(at, "Dinner?", "a")
    assert happened == ["place", "read"]
