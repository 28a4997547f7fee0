"""What the owner asks, through the real client and the real socket; the model is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.daemon_site import (
    GUEST,
    MEALS,
    PROMISES,
    Site,
    dialled,
    hosting_apps,
    listening,
    site,
    until,
)
from tests.fakes.fused_policies import fused
from tests.fakes.recording_engine import RecordingEngine
from tests.fakes.row_engine import RowEngine

from tactful.app_client import AppClient
from tactful.errors import Denied, ModelFailed, NotFound
from tactful.owner_client import OwnerClient
from tactful.owner_wire import TurnStarted
from tactful_core.ledger import Ledger
from tactful_core.promises import Promises
from tactfuld.inference.engine import EngineState

QUERY = "What is an affordable dinner for tonight?"


@asynccontextmanager
async def desk(
    folder: Path, engine: RecordingEngine | None = None, promises: Promises = PROMISES
) -> AsyncIterator[tuple[Site, OwnerClient]]:
    """A site without hosted apps, and the owner connected to it."""
    engine = engine or RecordingEngine("Lentil soup.")
    async with (
        site(folder, engine=engine, promises=promises) as at,
        hosting_apps(at) as host,
        listening(at, host),
        OwnerClient.connect(at.profile) as owner,
    ):
        yield at, owner


async def test_answer_for_oneself_streams_and_costs_nothing(profile_dir: Path) -> None:
    heard: list[str] = []
    async with desk(profile_dir) as (at, owner):
        await owner.remember("I avoid sweets.", "food.diet")
        reply = await owner.ask(QUERY, on_text=heard.append)
        assert (reply.text, reply.read, reply.remembered) == ("Lentil soup.", 1, 1)
        assert heard == ["Lentil ", "soup."]
        assert at.spent() == {"diabetes": 0, "debt": 0}
        assert "I avoid sweets." in at.engine.owner_prompts[0].user
        assert at.engine.prompts == []


async def test_question_as_an_app_is_a_turn_of_that_app(profile_dir: Path) -> None:
    seen: list[TurnStarted | str] = []
    async with desk(profile_dir) as (at, owner):
        await owner.remember("I avoid sweets.", "food.diet")
        turn = await owner.ask_as(
            "meals", QUERY, slots=("food",), on_turn=seen.append, on_text=seen.append
        )
        spent = at.spent()
        (told,) = at.engine.prompts
    assert (turn.turn, turn.app, turn.query, turn.answer) == (1, "meals", QUERY, "Lentil soup.")
    (chosen,) = turn.selections
    assert (chosen.slot, chosen.charged) == ("food", ("diabetes", "debt"))
    assert all(units > 0 for units in spent.values())
    started, *pieces = seen
    assert isinstance(started, TurnStarted)
    assert started.selections == turn.selections
    assert pieces == ["Lentil ", "soup."]
    assert "I avoid sweets." not in told.system + told.user


async def test_question_as_an_app_goes_on_with_a_thread_and_enters_its_history(
    profile_dir: Path,
) -> None:
    async with desk(profile_dir) as (at, owner):
        await owner.ask(QUERY)
        for query in (QUERY, "And for tomorrow?"):
            await owner.ask_as(MEALS, query, slots=(), thread="evening")
        await owner.ask_as(MEALS, "A snack?", slots=())
    earlier = [[turn.query for turn in prompt.earlier] for prompt in at.engine.prompts]
    assert earlier == [[], [QUERY], []]


async def test_fused_question_as_an_app_shows_what_it_cost(profile_dir: Path) -> None:
    heard: list[str] = []
    engine = RowEngine(script="Lentil soup.")
    async with desk(profile_dir, engine, fused(PROMISES)) as (at, owner):
        turn = await owner.ask_as(
            "meals", QUERY, slots=("food",), detail="fused", on_text=heard.append
        )
        plain = await owner.ask_as("meals", QUERY, slots=("food",))
        ledger = at.ledger.snapshot()
    assert isinstance(ledger, Ledger)
    assert plain.fused is None
    assert turn.fused is not None
    assert turn.answer == "".join(heard)
    assert (turn.fused.reason, turn.fused.reserved) == (None, 64)
    assert set(turn.fused.charged) == {"diabetes", "debt"}
    assert turn.fused.draws + turn.fused.free == engine.drawn
    assert list(ledger.fused.settled.values()) == [turn.fused.draws]


async def test_owner_is_told_why_nothing_was_fused(profile_dir: Path) -> None:
    promises = replace(fused(PROMISES), privacy=None)
    async with desk(profile_dir, promises=promises) as (_at, owner):
        turn = await owner.ask_as("meals", QUERY, slots=("food",), detail="fused")
    assert turn.answer == "Lentil soup."
    assert turn.fused is not None
    assert turn.fused.reason is not None
    assert "no budget" in turn.fused.reason


async def test_only_the_turn_that_was_asked_for_is_shown(profile_dir: Path) -> None:
    seen: list[TurnStarted | str] = []
    gate = asyncio.Event()
    engine = RecordingEngine("Lentil soup.", gate=gate)
    async with desk(profile_dir, engine) as (at, owner):
        token = (await owner.apps_grant("meals")).token
        async with AppClient.connect(at.profile, token) as meals, asyncio.TaskGroup() as tasks:
            asking = owner.ask_as("meals", QUERY, slots=(), on_turn=seen.append)
            turn = tasks.create_task(asking, name="owner")
            await until(lambda: len(engine.prompts) == 1)
            tasks.create_task(meals.ask("A snack?", slots=()), name="app")
            await until(lambda: len(engine.prompts) == 2)
            gate.set()
        assert turn.result().query == QUERY
    assert [started.query for started in seen if isinstance(started, TurnStarted)] == [QUERY]


async def test_app_that_the_policy_does_not_name_is_a_sentence(profile_dir: Path) -> None:
    async with desk(profile_dir) as (at, owner):
        with pytest.raises(NotFound, match=r"no app stranger.*policy\.yaml"):
            await owner.ask_as("stranger", QUERY)
        assert at.engine.prompts == []


@pytest.mark.parametrize(("app", "slots"), [("nobody", None), (GUEST, ("finance",))])
async def test_what_the_policy_does_not_grant_is_denied(
    profile_dir: Path, app: str, slots: tuple[str, ...] | None
) -> None:
    async with desk(profile_dir) as (at, owner):
        with pytest.raises(Denied):
            await owner.ask_as(app, QUERY, slots=slots)
        assert at.spent() == {"diabetes": 0, "debt": 0}


async def test_error_of_the_turn_reaches_the_owner(profile_dir: Path) -> None:
    async with desk(profile_dir) as (at, owner):
        at.engine.enter(EngineState.FAILED)
        with pytest.raises(ModelFailed):
            await owner.ask_as(MEALS, QUERY)
        with pytest.raises(ModelFailed):
            await owner.ask(QUERY)
        at.engine.enter(EngineState.READY)


@pytest.mark.parametrize("method", ["ask.owner", "ask.as"])
async def test_owner_who_goes_away_ends_the_answer(profile_dir: Path, method: str) -> None:
    engine = RecordingEngine(gate=asyncio.Event())
    async with desk(profile_dir, engine) as (at, owner):
        secret = at.profile.owner_secret_file.read_text()
        params = {"question": QUERY} if method == "ask.owner" else {"app": MEALS, "query": QUERY}
        async with dialled(at.profile.owner_socket) as raw:
            await raw.ask("in", "authenticate", token=secret)
            await raw.say(id=1, method=method, params=params)
            await until(lambda: len(engine.owner_prompts + engine.prompts) == 1)
            raw.vanish()
        await until(lambda: engine.owner_ended + engine.ended == 1)
        assert (await owner.status()).ready


async def test_cancelled_question_ends_the_answer(profile_dir: Path) -> None:
    engine = RecordingEngine(gate=asyncio.Event())
    async with desk(profile_dir, engine) as (_, owner), asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(owner.ask(QUERY), name="ask")
        await until(lambda: len(engine.owner_prompts) == 1)
        asking.cancel()
        await until(lambda: engine.owner_ended == 1)


async def test_apps_have_neither_method(profile_dir: Path) -> None:
    async with desk(profile_dir) as (at, owner):
        token = (await owner.apps_grant("meals")).token
        async with dialled(at.profile.app_socket) as raw:
            await raw.ask("in", "authenticate", token=token)
            for method in ("ask.owner", "ask.as"):
                await raw.say(id=method, method=method, params={"question": QUERY})
                assert await raw.hear_error() == (method, "unknown_method")
        assert at.engine.owner_prompts == []
