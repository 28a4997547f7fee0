"""What the owner's tools may call, through the real client and the real socket.

The app is `meals` in a process of its own; the model is scripted.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.fakes.daemon_site import (
    DEBT,
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
from tests.fakes.recording_engine import RecordingEngine
from tests.tactfuld.inference.gpus import H200, ONE_GPU

from tactful.app_client import AppClient
from tactful.errors import DoesNotFit, ModelFailed, NotAuthenticated, NotFound, Unusable
from tactful.owner_client import OwnerClient
from tactful.owner_wire import GpuStatus, LedgerLine, ShelfInfo, Turn, TurnStarted
from tactful.wire import Ask
from tactful_core.entries import UnprotectedRead, new_entry_id
from tactful_core.layout import Layout
from tactful_core.promises import Promises
from tactful_core.values import AppId, Position, SlotName, units_from_epsilon
from tactfuld.apps.host import AppHost
from tactfuld.apps.tokens import FILE_NAME
from tactfuld.inference.engine import EngineState
from tactfuld.inference.footprint import Footprint
from tactfuld.inference.offload import Offload
from tactfuld.store.ledger import LEDGER_FILE

QUERY = "What is an affordable dinner for tonight?"
TEXT = "I avoid sweets and sugary drinks."


@dataclass(frozen=True, slots=True)
class Office:
    """The owner's connection and what is behind it."""

    at: Site
    host: AppHost
    owner: OwnerClient


@asynccontextmanager
async def office(
    folder: Path, *, engine: RecordingEngine | None = None, promises: Promises | None = None
) -> AsyncIterator[Office]:
    """A site that the owner is connected to."""
    async with (
        site(folder, engine=engine, promises=promises) as at,
        hosting_apps(at) as host,
        listening(at, host),
        OwnerClient.connect(at.profile) as owner,
    ):
        yield Office(at, host, owner)


async def drop(_piece: str) -> None:
    """Nobody listens to the pieces."""


async def spend(at: Site, slot: str, times: int) -> None:
    for _ in range(times):
        await at.gate.ask(MEALS, Ask(query=QUERY, slots=(slot,)), drop)


# --- status and stop ----------------------------------------------------------------------------


async def test_status_tells_what_the_daemon_is_doing(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        here.at.notices.add("Look here.")
        status = await here.owner.status()
        assert (status.pid, status.ready, status.positions) == (os.getpid(), True, 5)
        assert status.policy == PROMISES.digest
        assert status.profile == str(here.at.profile.data)
        assert (status.key_source, status.sandbox) == ("a test", "off")
        assert (status.model.state, status.model.progress) == ("ready", 1.0)
        assert status.notices == ("Look here.",)
        assert [(app.app, app.slots, app.state) for app in status.apps] == [
            ("meals", ("finance", "food", "health"), "outside"),
            ("guest", ("food",), "outside"),
            ("nobody", (), "outside"),
        ]


@pytest.mark.parametrize("layers", [31, 0])
async def test_status_tells_where_the_models_layers_are(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch, layers: int
) -> None:
    async with office(profile_dir) as here:
        assert (await here.owner.status()).model.gpu is None
        devices = (H200,) if layers else ()
        found = Offload(ONE_GPU, 31, layers, devices)
        monkeypatch.setattr(type(here.at.engine), "offload", found)
        assert (await here.owner.status()).model.gpu == GpuStatus(
            supported=True,
            offloaded=layers > 0,
            layers=31,
            offloaded_layers=layers,
            place="CUDA0 (NVIDIA H200)" if layers else "the processor",
        )


@pytest.mark.parametrize("state", [EngineState.LOADING, EngineState.FAILED])
async def test_status_is_answered_without_a_model(profile_dir: Path, state: EngineState) -> None:
    async with office(profile_dir) as here:
        here.at.engine.enter(state)
        status = await here.owner.status()
        assert (status.ready, status.model.state) == (False, state)


@pytest.mark.parametrize("state", [EngineState.ASLEEP, EngineState.PAUSED])
async def test_a_model_that_will_answer_the_owner_is_ready(
    profile_dir: Path, state: EngineState
) -> None:
    async with office(profile_dir) as here:
        here.at.engine.enter(state)
        status = await here.owner.status()
        assert (status.ready, status.model.state) == (True, state)


async def test_status_tells_memory(profile_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with office(profile_dir) as here:
        status = await here.owner.status()
        assert status.resident_bytes is not None
        assert status.resident_bytes > 1 << 20
        assert status.model.memory_bytes is None
        taken = Footprint(weights=100, kv_cache=20, context=512)
        monkeypatch.setattr(type(here.at.engine), "memory", taken)
        assert (await here.owner.status()).model.memory_bytes == 120


async def test_stop_is_answered_and_then_the_daemon_stops(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        assert not here.at.stopped.is_set()
        await here.owner.stop()
        assert here.at.stopped.is_set()


# --- memory -------------------------------------------------------------------------------------


async def test_memory_is_listed_with_its_shelf_its_time_and_its_public_capacity(
    profile_dir: Path,
) -> None:
    async with office(profile_dir) as here:
        stored = await here.owner.remember(TEXT, "food.diet")
        assert (stored.positions, stored.shelf) == ((2,), "food.diet")
        named = await here.owner.remember("Rent is due.", "finance.bills", 5)
        assert (named.positions, named.shelf) == ((5,), "finance.bills")
        listed = await here.owner.memory_list()
    assert [(i.position, i.shelf, i.text, i.written_at) for i in listed.items] == [
        (2, "food.diet", TEXT, here.at.clock.now()),
        (5, "finance.bills", "Rent is due.", here.at.clock.now()),
    ]
    assert listed.shelves[:3] == (
        ShelfInfo(
            shelf="health.condition", positions=(1,), full=0, tokens=48, covered_by=("diabetes",)
        ),
        ShelfInfo(shelf="food.diet", positions=(2,), full=1, tokens=48, covered_by=("diabetes",)),
        ShelfInfo(
            shelf="food.groceries",
            positions=(3,),
            full=0,
            tokens=48,
            covered_by=("debt", "diabetes"),
        ),
    )


async def test_refusal_to_remember_does_not_repeat_the_text(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.owner.remember(TEXT, "food.diet")
        for text, shelf, error in (
            (TEXT, "food.diet", DoesNotFit),
            ("kumquat " * 500, "food.groceries", DoesNotFit),
            ("kumquat", "food.sweets", NotFound),
        ):
            with pytest.raises(error) as refused:
                await here.owner.remember(text, shelf)
            assert "kumquat" not in str(refused.value)
            assert TEXT not in str(refused.value)
        assert "kumquat" not in here.at.log.getvalue()


# --- the ledger ---------------------------------------------------------------------------------


def line(
    attribute: str, spent: float, *, closed: bool = False, exposed: bool = False
) -> LedgerLine:
    return LedgerLine(
        attribute=attribute,
        spent=spent,
        cap=2.0,
        promised=2.0,
        lifetime=spent,
        closed=closed,
        exposed=exposed,
    )


def without_fused(lines: Iterable[LedgerLine]) -> tuple[LedgerLine, ...]:
    """What the lines say of views."""
    return tuple(each.model_copy(update={"fused": None}) for each in lines)


async def test_ledger_is_shown_in_epsilon_and_closes_exactly_at_the_cap(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        ledger = await here.owner.ledger()
        assert (ledger.epoch, ledger.readable) == (1, True)
        assert without_fused(ledger.lines) == (line("diabetes", 0.0), line("debt", 0.0))
        await spend(here.at, "food", 2)
        ledger = await here.owner.ledger()
        assert not any(shown.closed for shown in ledger.lines)
        await spend(here.at, "food", 3)
        ledger = await here.owner.ledger()
        assert without_fused(ledger.lines) == (
            line("diabetes", 2.0, closed=True),
            line("debt", 2.0, closed=True),
        )


async def test_each_attribute_has_its_own_account(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await spend(here.at, "health", 3)
        diabetes, debt = without_fused((await here.owner.ledger()).lines)
        assert diabetes == line("diabetes", 2.0, closed=True)
        assert debt == line("debt", 0.0)


async def test_attribute_whose_shelves_were_read_unprotected_is_exposed(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        bills = frozenset({Position(5)})
        read = UnprotectedRead(new_entry_id(), 1, MEALS, SlotName("finance"), bills, "before")
        assert await here.at.ledger.record(read)
        assert without_fused((await here.owner.ledger()).lines) == (
            line("diabetes", 0.0),
            line("debt", 0.0, closed=True, exposed=True),
        )


async def test_damaged_ledger_counts_as_exhausted(profile_dir: Path) -> None:
    async with site(profile_dir) as at:
        pass
    with closing(sqlite3.connect(at.profile.data / LEDGER_FILE)) as connection:
        connection.execute("DROP TABLE entries")
    async with office(profile_dir) as here:
        ledger = await here.owner.ledger()
        assert (ledger.readable, ledger.epoch) == (False, 0)
        assert without_fused(ledger.lines) == (
            line("diabetes", 2.0, closed=True),
            line("debt", 2.0, closed=True),
        )
        assert (await here.owner.status()).notices


# --- tell ---------------------------------------------------------------------------------------


async def test_tell_shows_the_turns_of_the_app_as_they_happen(profile_dir: Path) -> None:
    seen: list[TurnStarted | str] = []
    async with office(profile_dir, engine=RecordingEngine("Lentil soup.")) as here:
        await here.host.start(MEALS)
        reply = await here.owner.tell("meals", QUERY, on_turn=seen.append, on_text=seen.append)
        assert [app.state for app in (await here.owner.apps_list()).apps][:1] == ["running"]
    (turn,) = reply.turns
    assert (turn.turn, turn.app, turn.query, turn.answer) == (1, "meals", QUERY, "Lentil soup.")
    (chosen,) = turn.selections
    assert (chosen.slot, chosen.charged, chosen.fallback) == ("food", ("diabetes", "debt"), False)
    assert chosen.epsilon == pytest.approx(2 / 3)
    first, *pieces = seen
    assert isinstance(first, TurnStarted)
    assert first.selections == turn.selections
    assert (first.turn, first.query) == (1, QUERY)
    assert pieces == ["Lentil ", "soup."]


async def test_tell_shows_who_paid_until_nobody_can(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.host.start(MEALS)
        turns: list[Turn] = []
        for _ in range(4):
            turns += (await here.owner.tell("meals", QUERY)).turns
    shown = [chosen for turn in turns for chosen in turn.selections]
    assert [chosen.fallback for chosen in shown] == [False, False, False, True]
    assert shown[-1].reason == "the budget of this topic is used up"
    assert (shown[-1].view, shown[-1].epsilon, shown[-1].charged) == ("generic", 0.0, ())


async def test_tell_shows_nothing_of_other_apps(profile_dir: Path) -> None:
    gate = asyncio.Event()
    async with office(profile_dir, engine=RecordingEngine(gate=gate)) as here:
        await here.host.start(MEALS)
        token = (await here.owner.apps_grant("guest")).token
        async with AppClient.connect(here.at.profile, token) as guest, asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(here.owner.tell("meals", QUERY), name="tell")
            tasks.create_task(guest.ask("A snack?", slots=("food",)), name="ask")
            await until(lambda: len(here.at.engine.prompts) == 2)
            gate.set()
        assert [turn.app for turn in telling.result().turns] == ["meals"]


async def test_turn_that_began_before_the_message_ends_as_usual(profile_dir: Path) -> None:
    """An outside program speaks as the same app, and its turn ends while the owner watches."""
    gate = asyncio.Event()
    async with office(profile_dir, engine=RecordingEngine(gate=gate)) as here:
        await here.host.start(MEALS)
        token = (await here.owner.apps_grant("meals")).token
        async with AppClient.connect(here.at.profile, token) as other, asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(other.ask("Earlier?", slots=("food",)), name="ask")
            await until(lambda: len(here.at.engine.prompts) == 1)
            telling = tasks.create_task(here.owner.tell("meals", QUERY), name="tell")
            await until(lambda: len(here.at.engine.prompts) == 2)
            gate.set()
        assert asking.result().text
        assert [turn.query for turn in telling.result().turns] == [QUERY]


@pytest.mark.parametrize("app", ["stranger", "guest"])
async def test_tell_refuses_an_app_that_is_not_hosted(profile_dir: Path, app: str) -> None:
    async with office(profile_dir) as here:
        with pytest.raises(NotFound, match=app):
            await here.owner.tell(app, QUERY)


async def test_error_of_the_turn_reaches_the_owner(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.host.start(MEALS)
        here.at.engine.enter(EngineState.FAILED)
        with pytest.raises(ModelFailed, match="meals"):
            await here.owner.tell("meals", QUERY)
        here.at.engine.enter(EngineState.READY)
        assert (await here.owner.tell("meals", QUERY)).turns


async def test_owner_who_goes_away_ends_the_turn_and_its_charge_stays(profile_dir: Path) -> None:
    engine = RecordingEngine(gate=asyncio.Event())
    async with office(profile_dir, engine=engine) as here:
        await here.host.start(MEALS)
        secret = here.at.profile.owner_secret_file.read_text()
        async with dialled(here.at.profile.owner_socket) as raw:
            await raw.ask("in", "authenticate", token=secret)
            await raw.say(id=1, method="tell", params={"app": "meals", "text": QUERY})
            assert (await raw.hear())["method"] == "notifications/turn"
            raw.vanish()
        await until(lambda: engine.ended == 1)
        assert all(units == units_from_epsilon(2) // 3 for units in here.at.spent().values())
        assert (await here.owner.status()).ready


async def test_two_messages_are_handled_one_after_the_other(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.host.start(MEALS)
        async with asyncio.TaskGroup() as tasks:
            telling = [
                tasks.create_task(here.owner.tell("meals", text), name=text)
                for text in ("First dinner?", "Second dinner?")
            ]
        assert [[turn.query for turn in task.result().turns] for task in telling] == [
            ["First dinner?"],
            ["Second dinner?"],
        ]


# --- apps ---------------------------------------------------------------------------------------


async def test_granted_token_lets_a_program_ask(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        granted = await here.owner.apps_grant("guest")
        assert granted.app == "guest"
        async with AppClient.connect(here.at.profile, granted.token) as guest:
            answer = await guest.ask(QUERY, slots=("food",))
        assert answer.text
        assert granted.token not in here.at.log.getvalue()


async def test_app_that_the_policy_does_not_name_gets_no_token(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        with pytest.raises(NotFound, match=r"policy\.yaml"):
            await here.owner.apps_grant("stranger")
        assert here.at.tokens.apps == frozenset()


async def test_another_token_ends_the_old_one_and_its_connections(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        old = (await here.owner.apps_grant("guest")).token
        async with AppClient.connect(here.at.profile, old) as guest:
            new = (await here.owner.apps_grant("guest")).token
            await guest.wait_ended()
        async with AppClient.connect(here.at.profile, new) as guest:
            assert (await guest.ask(QUERY, slots=())).text
        with pytest.raises(NotAuthenticated):
            async with AppClient.connect(here.at.profile, old):
                pass


async def test_revoked_program_is_disconnected(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        token = (await here.owner.apps_grant("guest")).token
        async with AppClient.connect(here.at.profile, token) as guest:
            await here.owner.apps_revoke("guest")
            await guest.wait_ended()
        with pytest.raises(NotFound):
            await here.owner.apps_revoke("guest")


async def test_question_that_runs_is_ended_when_its_program_is_revoked(profile_dir: Path) -> None:
    """And what it was charged stays charged."""
    engine = RecordingEngine(gate=asyncio.Event())
    async with office(profile_dir, engine=engine) as here:
        token = (await here.owner.apps_grant("guest")).token
        async with (
            AppClient.connect(here.at.profile, token) as guest,
            asyncio.TaskGroup() as tasks,
        ):

            async def ask() -> None:
                with pytest.raises(NotAuthenticated, match="revoked"):
                    await guest.ask(QUERY, slots=("food",))

            asking = tasks.create_task(ask(), name="ask")
            await until(lambda: len(engine.prompts) == 1)
            await here.owner.apps_revoke("guest")
            await asking
        await until(lambda: engine.ended == 1)
        assert any(here.at.spent().values())


async def test_token_of_an_app_that_left_the_policy_can_be_revoked(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        gone = AppId("gone")
        await asyncio.to_thread(here.at.tokens.issue, gone)
        await here.owner.apps_revoke("gone")
        assert here.at.tokens.apps == frozenset()


async def test_running_app_is_told_apart_from_one_outside(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.host.start(MEALS)
        shown = {app.app: (app.state, app.problem) for app in (await here.owner.apps_list()).apps}
        assert shown == {
            "meals": ("running", None),
            "guest": ("outside", None),
            "nobody": ("outside", None),
        }


async def test_app_that_cannot_run_says_why(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        await here.host.start(GUEST)  # no installed package has an app of this name
        shown = {app.app: app for app in (await here.owner.apps_list()).apps}
        assert shown["guest"].state == "parked"
        assert "not installed" in (shown["guest"].problem or "")


async def test_charge_of_a_shared_shelf_is_that_of_the_smallest_cap(profile_dir: Path) -> None:
    """An attribute with room for a smaller, shared charge is not told to be closed."""
    layout = PROMISES.layout
    attributes = tuple(
        replace(a, cap=units_from_epsilon(1)) if a.name == DEBT else a for a in layout.attributes
    )
    promises = replace(PROMISES, layout=Layout(layout.slots, attributes))
    async with office(profile_dir, promises=promises) as here:
        await spend(here.at, "food", 3)
        diabetes, debt = (await here.owner.ledger()).lines
        assert (diabetes.spent, diabetes.closed) == (1.0, False)
        assert (debt.spent, debt.cap, debt.closed) == (1.0, 1.0, True)


async def test_token_that_cannot_be_kept_is_not_issued(profile_dir: Path) -> None:
    async with office(profile_dir) as here:
        (here.at.profile.state / FILE_NAME).mkdir()  # in the way of the file
        with pytest.raises(Unusable, match="Nothing changed"):
            await here.owner.apps_grant("guest")
        assert here.at.tokens.apps == frozenset()
