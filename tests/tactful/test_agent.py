"""The agent asks, streams and ends with its event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tactful.agent import Agent
from tactful.app_log import AppLog
from tactful.app_state import AppState
from tactful.errors import Denied
from tactful.wire import (
    Answer,
    AnswerKind,
    Budget,
    Detail,
    OfferedView,
    SlotBudget,
    SlotVocabulary,
    Vocabulary,
)

ANSWER = Answer(text="lentil soup", views=(), policy="p1")
VIEWS = Vocabulary(
    slots=(SlotVocabulary(slot="food", views=(OfferedView(view="generic", guidance="Answer."),)),),
    policy="p1",
)
LEFT = Budget(slots=(SlotBudget(slot="food", answer=AnswerKind.FRESH, fresh_left=3),))


@dataclass
class ScriptedAsker:
    """Answers in pieces; waits before the last one if `hold` is set, or fails after the first."""

    pieces: tuple[str, ...] = ("lentil", " soup")
    failure: Exception | None = None
    hold: asyncio.Event | None = None
    asked: list[tuple[str, tuple[str, ...] | None]] = field(default_factory=list)
    threads: list[str | None] = field(default_factory=list)
    details: list[Detail] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    told: list[tuple[str, str, str]] = field(default_factory=list)

    async def ask(
        self,
        query: str,
        *,
        slots: tuple[str, ...] | None = None,
        thread: str | None = None,
        detail: Detail = "views",
        on_text: Callable[[str], None] | None = None,
    ) -> Answer:
        self.asked.append((query, slots))
        self.threads.append(thread)
        self.details.append(detail)
        try:
            if on_text is not None:
                on_text(self.pieces[0])
            if self.failure is not None:
                raise self.failure
            if self.hold is not None:
                await self.hold.wait()
            if on_text is not None:
                for piece in self.pieces[1:]:
                    on_text(piece)
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("answered")
        return ANSWER

    async def budget(self) -> Budget:
        self.asked.append(("budget", None))
        if self.failure is not None:
            raise self.failure
        return LEFT

    async def vocabulary(self) -> Vocabulary:
        return VIEWS

    async def notify(self, text: str, title: str = "") -> None:
        self.told.append(("notify", text, title))

    async def propose(self, text: str, slot: str) -> None:
        self.told.append(("propose", text, slot))

    async def send(self, app: str, text: str) -> None:
        self.told.append(("send", app, text))

    async def quote(
        self, query: str, *, slots: tuple[str, ...] | None = None, thread: str | None = None
    ) -> Budget:
        self.asked.append((f"quote {query}", slots))
        self.threads.append(thread)
        if self.failure is not None:
            raise self.failure
        return LEFT


async def test_ask_returns_the_whole_answer() -> None:
    asker = ScriptedAsker()
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        assert await agent.ask("dinner?") == ANSWER
        assert await agent.ask("dinner?", ["food", "finance"]) == ANSWER
        assert await agent.ask("dinner?", []) == ANSWER
    assert [slots for _, slots in asker.asked] == [None, ("food", "finance"), ()]


async def test_what_is_left_is_asked_for_without_asking() -> None:
    asker = ScriptedAsker()
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        assert await agent.budget() == LEFT
        assert await agent.quote("dinner?") == LEFT
        assert await agent.quote("dinner?", ["food", "finance"]) == LEFT
    assert asker.asked == [
        ("budget", None),
        ("quote dinner?", None),
        ("quote dinner?", ("food", "finance")),
    ]


async def test_refusal_to_say_what_is_left_is_raised() -> None:
    asker = ScriptedAsker(failure=Denied("The policy does not grant it."))
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        with pytest.raises(Denied):
            await agent.budget()
        with pytest.raises(Denied):
            await agent.quote("dinner?")


async def test_thread_is_passed_on_with_every_kind_of_question() -> None:
    asker = ScriptedAsker()
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        await agent.ask("dinner?")
        await agent.ask("dinner?", thread="a")
        await agent.quote("dinner?", thread="b")
        assert [piece async for piece in agent.stream("dinner?", thread="c")]
    assert asker.threads == [None, "a", "b", "c"]


async def test_detail_is_passed_on_and_is_views_by_default() -> None:
    asker = ScriptedAsker()
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        await agent.ask("dinner?")
        await agent.ask("dinner?", detail="fused")
        assert [piece async for piece in agent.stream("dinner?", detail="fused")]
    assert asker.details == ["views", "fused", "fused"]


async def test_stream_gives_the_pieces_in_order() -> None:
    asker = ScriptedAsker(pieces=("a", "b", "c"))
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        assert [piece async for piece in agent.stream("dinner?", ["food"])] == ["a", "b", "c"]
    assert asker.asked == [("dinner?", ("food",))]


async def test_stream_gives_a_piece_before_the_answer_is_complete() -> None:
    asker = ScriptedAsker(hold=asyncio.Event())
    assert asker.hold is not None
    async with asyncio.TaskGroup() as group:
        stream = Agent(asker, group).stream("dinner?")
        assert await anext(stream) == "lentil"
        assert asker.ended == []
        asker.hold.set()
        assert await anext(stream) == " soup"


@pytest.mark.parametrize("failure", [Denied("The policy does not grant it."), RuntimeError("no")])
async def test_error_of_a_stream_is_raised_where_it_is_read_and_can_be_caught_there(
    failure: Exception,
) -> None:
    """It must not end the whole event, as an exception in a task of the event's group would."""
    asker = ScriptedAsker(failure=failure)
    got: list[str] = []
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        stream = agent.stream("dinner?")
        got.append(await anext(stream))
        with pytest.raises(type(failure)):
            await anext(stream)
        asker.failure = None
        assert await agent.ask("dinner?") == ANSWER
    assert got == ["lentil"]


async def test_closing_a_stream_cancels_its_question() -> None:
    asker = ScriptedAsker(hold=asyncio.Event())
    async with asyncio.TaskGroup() as group:
        stream = Agent(asker, group).stream("dinner?")
        await anext(stream)
        await stream.aclose()
    assert asker.ended == ["cancelled"]


async def test_stream_that_was_left_ends_with_the_event() -> None:
    asker = ScriptedAsker(hold=asyncio.Event())
    kept = []
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        stream = agent.stream("dinner?")
        kept.append(stream)  # so that nothing but the agent can end it
        await anext(stream)
        agent.close()
    assert asker.ended == ["cancelled"]
    await kept[0].aclose()


async def test_cancelling_whoever_asks_cancels_the_question() -> None:
    asker = ScriptedAsker(hold=asyncio.Event())
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        asking = group.create_task(agent.ask("dinner?"), name="ask")
        await asyncio.sleep(0)
        asking.cancel()
    assert asker.ended == ["cancelled"]


async def test_vocabulary_is_what_the_daemon_says() -> None:
    async with asyncio.TaskGroup() as group:
        assert await Agent(ScriptedAsker(), group).vocabulary() == VIEWS


async def test_notices_proposals_and_texts_go_out_as_they_were_given() -> None:
    asker = ScriptedAsker()
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group)
        await agent.notify("Soup is on.", "Dinner")
        await agent.notify("Soup is on.")
        await agent.propose("I like soup.", "food")
        await agent.send("money", "soup costs 3")
    assert asker.told == [
        ("notify", "Soup is on.", "Dinner"),
        ("notify", "Soup is on.", ""),
        ("propose", "I like soup.", "food"),
        ("send", "money", "soup costs 3"),
    ]


async def test_what_an_app_keeps_outlives_the_event(tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        await Agent(ScriptedAsker(), group, state=AppState(tmp_path)).state.set("seen", [1, 2])
    async with asyncio.TaskGroup() as group:
        state = Agent(ScriptedAsker(), group, state=AppState(tmp_path)).state
        assert await state.get("seen") == [1, 2]


async def test_a_logged_text_is_one_line_of_the_log() -> None:
    written: list[str] = []
    async with asyncio.TaskGroup() as group:
        Agent(ScriptedAsker(), group, log=AppLog(written.append)).log("two\nlines")
    assert [line.partition(" ")[2] for line in written] == ["two lines\n"]
