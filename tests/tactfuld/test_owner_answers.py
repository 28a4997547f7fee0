"""Answers to the owner: from which memories, and that nothing of them reaches anybody else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.daemon_site import MEALS, Site, site, until
from tests.fakes.planted import found_below
from tests.fakes.recording_engine import RecordingEngine

from tactful.errors import Busy, InvalidParams, ModelFailed, NotReady, ShuttingDown, TactfulError
from tactful.owner_wire import OwnersAnswer
from tactful.wire import Ask
from tactful_core.values import Secret, ShelfName
from tactfuld.inference.engine import EngineState
from tactfuld.inference.errors import ModelError

MEMORIES = {
    "health.condition": "My knee hurts when I climb stairs.",
    "food.diet": "I never eat pork.",
    "food.groceries": "Oat milk is what I buy on Fridays.",
    "finance.bills": "The rent is due on the third.",
}
LONG = "word " * 200
MARKER = "kumquat-7731-marmalade"


async def drop(_piece: str) -> None:
    """Nobody listens to the pieces."""


async def filled(at: Site, memories: dict[str, str] = MEMORIES) -> None:
    for shelf, text in memories.items():
        await at.memory.remember(text, ShelfName(shelf), None, 0)


async def asked(at: Site, question: str = "When is the rent due?") -> OwnersAnswer:
    return await at.answers.answer(question, drop)


# --- which memories -----------------------------------------------------------------------------


async def test_all_of_memory_is_read_where_it_fits_in_order_of_position(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        await filled(at)
        reply = await asked(at)
    assert (reply.text, reply.read, reply.remembered) == ("Lentil soup with bread.", 4, 4)
    (prompt,) = at.engine.owner_prompts
    assert prompt.user.split("\n")[1:5] == [f"- {s}: {text}" for s, text in MEMORIES.items()]
    assert prompt.user.endswith("When is the rent due?")


@pytest.mark.parametrize(
    ("question", "shelf"),
    [("When is the rent due?", "finance.bills"), ("Do I eat pork?", "food.diet")],
)
async def test_where_it_does_not_fit_the_closest_to_the_question_are_read(
    profile_dir: Path, question: str, shelf: str
) -> None:
    # The answer takes 64 of these; the instruction, the question and one note fit the rest.
    async with site(profile_dir, engine=RecordingEngine(context_length=64 + 35)) as at:
        await filled(at)
        reply = await asked(at, question)
    assert (reply.read, reply.remembered) == (1, 4)
    (prompt,) = at.engine.owner_prompts
    assert [text for text in MEMORIES.values() if text in prompt.user] == [MEMORIES[shelf]]


async def test_as_many_are_read_as_fit_and_no_more(profile_dir: Path) -> None:
    """One more is read as soon as there is room for it, to the token."""
    left_when_first: dict[int, int] = {}
    async with site(profile_dir) as at:
        await filled(at)
        for context in range(64 + 18, 64 + 62):
            at.engine._context_length = context
            reply = await asked(at)
            prompt = at.engine.owner_prompts[-1]
            assert prompt.user.count("\n- ") == reply.read >= max(left_when_first, default=0)
            left = await at.engine.room(Secret(prompt), max_tokens=64)
            left_when_first.setdefault(reply.read, left)
    assert left_when_first.keys() == {0, 1, 2, 3, 4}
    assert all(left == 0 for read, left in left_when_first.items() if read)


async def test_without_memories_the_question_is_asked_alone(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        reply = await asked(at)
    assert (reply.read, reply.remembered) == (0, 0)
    assert [prompt.user for prompt in at.engine.owner_prompts] == ["When is the rent due?"]


# --- nobody else ---------------------------------------------------------------------------------


async def test_nothing_is_charged_noted_logged_or_written(profile_dir: Path) -> None:
    async with site(profile_dir, engine=RecordingEngine(f"{MARKER} is what it is.")) as at:
        await filled(at, {"food.diet": f"I like {MARKER}."})
        before, log = at.ledger.snapshot(), at.log.getvalue()
        reply = await asked(at, f"What about {MARKER}?")
        assert MARKER in reply.text
        assert at.ledger.snapshot() == before
        assert at.log.getvalue() == log
        assert at.notices.sentences == ()
        assert found_below(profile_dir, MARKER) == []
        assert at.engine.prompts == []


async def test_app_is_answered_as_if_the_owner_had_asked_nothing(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        await filled(at)
        await asked(at, "What is for dinner?")
        await at.gate.ask(MEALS, Ask(query="Dinner?", slots=()), drop)
    (told,) = at.engine.prompts
    assert not [text for text in MEMORIES.values() if text in told.user + told.system]
    assert told.earlier == ()


async def test_app_is_answered_while_the_owners_answer_is_written(profile_dir: Path) -> None:
    """And until the app's is, the owner's stands still."""
    heard: list[str] = []
    begun, served = asyncio.Event(), asyncio.Event()

    async def hear(piece: str) -> None:
        heard.append(piece)
        begun.set()
        await served.wait()

    async with site(profile_dir, engine=RecordingEngine(LONG)) as at, asyncio.TaskGroup() as tasks:
        tasks.create_task(at.answers.answer("What?", hear), name="owner")
        await begun.wait()
        during: list[int] = []

        async def listen(_piece: str) -> None:
            served.set()
            during.append(len(heard))

        await at.gate.ask(MEALS, Ask(query="Dinner?", slots=()), listen)
    assert len(during) == 64
    assert during[-1] - during[0] <= 1
    assert during[-1] < len(heard) == 64


async def test_cancelled_question_stops_the_model(profile_dir: Path) -> None:
    engine = RecordingEngine(gate=asyncio.Event())
    async with site(profile_dir, engine=engine) as at, asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(asked(at), name="owner")
        await until(lambda: len(engine.owner_prompts) == 1)
        asking.cancel()
        await until(lambda: engine.owner_ended == 1)


# --- what goes wrong ------------------------------------------------------------------------------


async def test_question_that_does_not_fit_is_refused_with_a_sentence(profile_dir: Path) -> None:
    async with site(profile_dir, engine=RecordingEngine(context_length=120)) as at:
        await filled(at)
        with pytest.raises(InvalidParams, match=r"context of 120 tokens.*model\.context") as caught:
            await asked(at, f"{MARKER} " * 100)
    assert MARKER not in str(caught.value)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (EngineState.LOADING, NotReady),
        (EngineState.FAILED, ModelFailed),
        (EngineState.CLOSED, ShuttingDown),
    ],
)
async def test_without_a_model_nothing_is_answered(
    profile_dir: Path, state: EngineState, error: type[TactfulError]
) -> None:
    async with site(profile_dir) as at:
        at.engine.enter(state)
        with pytest.raises(error):
            await asked(at)
        at.engine.enter(EngineState.READY)


async def test_the_owner_is_answered_while_apps_are_not(profile_dir: Path) -> None:
    """On battery; who asks for themselves wants an answer."""
    async with site(profile_dir) as at:
        admitted: list[bool] = []

        async def admit(*, owner: bool = False, here: bool = False) -> None:
            admitted.append(owner)

        at.engine.admit = admit  # type: ignore[method-assign]
        assert (await asked(at)).text
    assert admitted == [True]


async def test_too_many_questions_are_refused(profile_dir: Path) -> None:
    engine = RecordingEngine(gate=asyncio.Event(), max_waiting=1)
    async with site(profile_dir, engine=engine) as at, asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(asked(at), name=f"owner {n}") for n in range(2)]
        await until(lambda: len(engine.owner_prompts) == 2)
        with pytest.raises(Busy, match="your questions"):
            await asked(at)
        for task in waiting:
            task.cancel()


async def test_model_that_fails_is_a_sentence(profile_dir: Path) -> None:
    def broken(_prompt: object) -> str:
        raise ModelError("It could not continue.")

    async with site(profile_dir, engine=RecordingEngine(broken)) as at:
        with pytest.raises(ModelFailed, match="It could not continue"):
            await asked(at)
