"""Clients find the daemon, prove who they are, and turn everything that goes wrong into a name."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.kept_log import KeptLog
from tests.fakes.raw_connection import RawConnection, raw_side

from tactful import dialling
from tactful.app_client import AppClient
from tactful.errors import (
    AlreadyExists,
    Cancelled,
    DaemonDown,
    Denied,
    InternalError,
    InvalidParams,
    NoPermission,
    NotAuthenticated,
    ShuttingDown,
    TactfulError,
    UnknownMethod,
    Unusable,
)
from tactful.owner_client import OwnerClient
from tactful.owner_wire import (
    AppName,
    AppsList,
    AppStatus,
    AppToken,
    AuditDistance,
    Distance,
    EpochHistory,
    EpochLine,
    EpochNew,
    EpochReply,
    EpochSums,
    LedgerReply,
    MemoryList,
    MemoryOf,
    ModelStatus,
    Remember,
    Remembered,
    Replay,
    Selection,
    StagedPolicy,
    Status,
    Tell,
    TellReply,
    Turn,
    TurnStarted,
)
from tactful.peer import Limits, Peer, open_streams
from tactful.profile import Profile
from tactful.wire import (
    Answer,
    AnswerKind,
    Ask,
    Budget,
    Empty,
    Event,
    EventKind,
    Message,
    ReleasedView,
    SlotBudget,
)
from tactful_core.values import AppId
from tactfuld.server.session import (
    OWNER,
    Caller,
    Identity,
    Method,
    MethodTable,
    Patience,
    Session,
)
from tactfuld.server.sockets import bind_unix, release_unix, serve_socket

_LIMITS = Limits()
_SELECTION = Selection(slot="food", view="generic", epsilon=0.0, charged=(), fallback=True)
_MEALS = AppStatus(app="meals", slots=("food",), state="running")
_STATUS = Status(
    version="0.1.0",
    pid=1,
    ready=True,
    profile="p",
    key_source="keyring",
    sandbox="off",
    policy="abc",
    positions=5,
    model=ModelStatus(name="m", state="ready", progress=1.0),
    apps=(_MEALS,),
    notices=(),
)


_STAGED = StagedPolicy(
    written="5eed",
    at_tick=("attributes.debt.cap",),
    tick_at=20_000,
    at_epoch=(),
    other_shelves=False,
    at_once=False,
)
_EPOCH = EpochReply(
    epoch=3,
    staged=_STAGED,
    renewal="monthly",
    lines=(EpochLine(attribute="debt", lifetime_now=4.0, lifetime_after=6.0),),
)
_HISTORY = EpochHistory(epochs=(EpochSums(epoch=1, spent={"debt": 1.5}),))
_LEFT = Budget(slots=(SlotBudget(slot="food", answer=AnswerKind.STANDING, fresh_left=0),))


class OwnerMethods:
    """Answers the owner's methods with what it was given."""

    def __init__(self) -> None:
        self.stopped = False
        self.revoked: list[str] = []

    @property
    def table(self) -> MethodTable:
        return {
            "status": Method(Empty, self._status),
            "stop": Method(Empty, self._stop),
            "remember": Method(Remember, self._remember),
            "memory.list": Method(MemoryOf, self._memory_list),
            "ledger": Method(Empty, self._ledger),
            "epoch.show": Method(Empty, self._epoch_show),
            "epoch.new": Method(EpochNew, self._epoch_new),
            "epoch.history": Method(Empty, self._epoch_history),
            "audit.distance": Method(AuditDistance, self._audit_distance),
            "audit.replay": Method(Empty, self._audit_replay),
            "tell": Method(Tell, self._tell),
            "apps.list": Method(Empty, self._apps_list),
            "apps.grant": Method(AppName, self._grant),
            "apps.revoke": Method(AppName, self._revoke),
        }

    async def _status(self, caller: Caller, _: Empty) -> Status:
        assert caller.identity is OWNER
        return _STATUS

    async def _stop(self, _caller: Caller, _: Empty) -> Empty:
        self.stopped = True
        return Empty()

    async def _remember(self, _caller: Caller, request: Remember) -> Remembered:
        return Remembered(positions=(request.position or 7,), shelf=request.shelf)

    async def _memory_list(self, _caller: Caller, _: MemoryOf) -> MemoryList:
        return MemoryList(items=(), shelves=())

    async def _ledger(self, _caller: Caller, _: Empty) -> LedgerReply:
        return LedgerReply(epoch=1, readable=True, lines=())

    async def _epoch_show(self, _caller: Caller, _: Empty) -> EpochReply:
        return _EPOCH

    async def _epoch_new(self, _caller: Caller, request: EpochNew) -> EpochReply:
        if request.after != _EPOCH.epoch:
            raise AlreadyExists("That epoch is not the open one.")
        return _EPOCH.model_copy(update={"epoch": request.after + 1})

    async def _epoch_history(self, _caller: Caller, _: Empty) -> EpochHistory:
        return _HISTORY

    async def _audit_distance(self, _caller: Caller, request: AuditDistance) -> Distance:
        return Distance(beforehand=float(len(request.positions)), cover=("debt",), afterwards=None)

    async def _audit_replay(self, _caller: Caller, _: Empty) -> Replay:
        return Replay(entries=5, matches=True)

    async def _tell(self, caller: Caller, request: Tell) -> TellReply:
        turn = Turn(turn=1, app=request.app, query="q", selections=(_SELECTION,), answer="a b")
        started = TurnStarted(
            request=caller.request_id, turn=1, app="meals", query="q", selections=(_SELECTION,)
        )
        await caller.notify("notifications/turn", started)
        for piece in ("a ", "b"):
            await caller.progress(piece)
        return TellReply(turns=(turn,))

    async def _apps_list(self, _caller: Caller, _: Empty) -> AppsList:
        return AppsList(apps=(_MEALS,))

    async def _grant(self, _caller: Caller, request: AppName) -> AppToken:
        return AppToken(app=request.app, token="shown once")

    async def _revoke(self, _caller: Caller, request: AppName) -> Empty:
        self.revoked.append(request.app)
        return Empty()


class AppMethods:
    """Answers questions; `hold` keeps an answer back until it is cancelled."""

    def __init__(self) -> None:
        self.asked: list[Ask] = []
        self.quoted: list[Ask] = []
        self.holding = asyncio.Event()
        self.cancelled = asyncio.Event()

    @property
    def table(self) -> MethodTable:
        return {
            "ask": Method(Ask, self._ask),
            "budget": Method(Empty, self._budget),
            "quote": Method(Ask, self._quote),
        }

    async def _budget(self, _caller: Caller, _: Empty) -> Budget:
        return _LEFT

    async def _quote(self, _caller: Caller, question: Ask) -> Budget:
        self.quoted.append(question)
        if question.query == "forbidden":
            raise Denied("The policy does not grant this. Ask the owner.")
        return _LEFT

    async def _ask(self, caller: Caller, question: Ask) -> Answer:
        self.asked.append(question)
        if question.query == "hold":
            self.holding.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        if question.query == "forbidden":
            raise Denied("The policy does not grant this. Ask the owner.")
        await caller.progress("some ")
        await caller.progress("pie")
        return Answer(
            text="some pie", views=(ReleasedView(slot="food", view="generic"),), policy="abc"
        )


@pytest.fixture
def profile(profile_dir: Path) -> Profile:
    made = Profile.at(profile_dir)
    made.state.mkdir(mode=0o700)
    made.owner_secret_file.write_text("the secret\n")
    return made


@asynccontextmanager
async def _daemon(path: Path, table: MethodTable, token: str, who: Identity) -> AsyncIterator[None]:
    async def identify(given: str) -> Identity | None:
        return who if given == token else None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Session(
            reader,
            writer,
            table=table,
            authenticate=identify,
            identity=None,
            limits=_LIMITS,
            log=KeptLog().log,
            patience=Patience(30.0, refusal_seconds=0.01),
        ).run()

    listener = await asyncio.to_thread(bind_unix, path)
    try:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(
                serve_socket(listener, serve, limits=_LIMITS, most=8, log=KeptLog().log),
                name="daemon",
            )
            try:
                yield
            finally:
                serving.cancel()
    finally:
        await asyncio.to_thread(release_unix, listener, path)


@asynccontextmanager
async def _owner(profile: Profile) -> AsyncIterator[tuple[OwnerClient, OwnerMethods]]:
    methods = OwnerMethods()
    async with (
        _daemon(profile.owner_socket, methods.table, "the secret", OWNER),
        OwnerClient.connect(profile) as client,
    ):
        yield client, methods


@asynccontextmanager
async def _app(profile: Profile) -> AsyncIterator[tuple[AppClient, AppMethods]]:
    methods = AppMethods()
    async with (
        _daemon(profile.app_socket, methods.table, "a token", AppId("meals")),
        AppClient.connect(profile, "a token") as client,
    ):
        yield client, methods


# --- the owner ----------------------------------------------------------------------------------


async def test_owner_methods_bring_typed_replies(profile: Profile) -> None:
    async with _owner(profile) as (client, methods):
        assert await client.status() == _STATUS
        assert await client.remember("pie", "food.diet") == Remembered(
            positions=(7,), shelf="food.diet"
        )
        assert (await client.remember("pie", "food.diet", position=2)).positions == (2,)
        assert await client.memory_list() == MemoryList(items=(), shelves=())
        assert (await client.ledger()).epoch == 1
        assert await client.apps_list() == AppsList(apps=(_MEALS,))
        assert (await client.apps_grant("meals")).token == "shown once"
        await client.apps_revoke("meals")
        assert methods.revoked == ["meals"]
        await client.stop()
        assert methods.stopped


async def test_epochs_and_audits_bring_typed_replies(profile: Profile) -> None:
    async with _owner(profile) as (client, _):
        assert await client.epoch_show() == _EPOCH
        assert (await client.epoch_new(3)).epoch == 4
        with pytest.raises(AlreadyExists):
            await client.epoch_new(2)
        assert await client.epoch_history() == _HISTORY
        assert await client.audit_distance((1, 4)) == Distance(
            beforehand=2.0, cover=("debt",), afterwards=None
        )
        assert await client.audit_replay() == Replay(entries=5, matches=True)


async def test_tell_shows_turns_and_text_while_they_happen(profile: Profile) -> None:
    seen: list[object] = []
    async with _owner(profile) as (client, _):
        reply = await client.tell(
            "meals",
            "hello",
            on_turn=lambda turn: seen.append(turn.selections),
            on_text=seen.append,
        )
        assert seen == [(_SELECTION,), "a ", "b"]
        assert reply.turns[0].answer == "a b"
        assert await client.tell("meals", "hello") == reply


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.remember("", "food.diet"),
        lambda client: client.remember("x" * 8001, "food.diet"),
        lambda client: client.remember("zebra \udcff", "food.diet"),
        lambda client: client.tell("Not A Name", "zebra"),
        lambda client: client.apps_grant("../zebra"),
        lambda client: client.audit_distance(()),
    ],
)
async def test_values_the_wire_refuses_are_named_before_they_are_sent(
    profile: Profile, call: Callable[[OwnerClient], Awaitable[object]]
) -> None:
    async with _owner(profile) as (client, _):
        with pytest.raises(InvalidParams) as caught:
            await call(client)
        assert "zebra" not in str(caught.value)
        assert await client.status() == _STATUS


# --- finding the daemon -------------------------------------------------------------------------


async def _fails(profile: Profile) -> TactfulError:
    try:
        async with OwnerClient.connect(profile):
            raise AssertionError("There is no daemon to connect to.")
    except TactfulError as error:
        return error


async def test_no_profile_is_no_daemon(profile_dir: Path) -> None:
    error = await _fails(Profile.at(profile_dir / "nothing"))
    assert isinstance(error, DaemonDown)
    assert "tactful start" in str(error)


async def test_stale_socket_is_no_daemon(profile: Profile) -> None:
    (await asyncio.to_thread(bind_unix, profile.owner_socket)).close()
    assert isinstance(await _fails(profile), DaemonDown)


async def test_daemon_that_accepts_nobody_is_a_sentence(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "CONNECT_SECONDS", 0.2)
    profile.runtime.mkdir(mode=0o700)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as busy,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first,
    ):
        busy.bind(os.fspath(profile.owner_socket))
        busy.listen(0)
        first.connect(os.fspath(profile.owner_socket))
        error = await _fails(profile)
    assert isinstance(error, DaemonDown)
    assert "does not accept" in str(error)


async def test_wrong_secret_is_refused(profile: Profile) -> None:
    async with _daemon(profile.owner_socket, {}, "another secret", OWNER):
        assert isinstance(await _fails(profile), NotAuthenticated)


@pytest.mark.parametrize("damage", ["missing", "not text", "empty"])
async def test_secret_that_cannot_be_read_is_a_sentence(profile: Profile, damage: str) -> None:
    secret = profile.owner_secret_file
    match damage:
        case "missing":
            secret.unlink()
        case "not text":
            secret.write_bytes(b"\xffzebra")
        case _:
            secret.write_text("")
    async with _daemon(profile.owner_socket, {}, "the secret", OWNER):
        error = await _fails(profile)
    assert isinstance(error, Unusable)
    assert "zebra" not in str(error)
    assert "zebra" not in repr(error.__context__)


async def test_path_too_long_for_a_socket_is_a_sentence(profile_dir: Path) -> None:
    error = await _fails(Profile.at(profile_dir / ("x" * 120)))
    assert isinstance(error, Unusable)
    assert "shorter" in str(error)


async def test_secret_is_not_sent_to_a_process_of_another_user(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "peer_uid", lambda _: os.geteuid() + 1)
    with await asyncio.to_thread(bind_unix, profile.owner_socket) as listener:
        assert isinstance(await _fails(profile), NoPermission)
        with listener.accept()[0] as accepted:
            assert accepted.recv(100) == b""


async def test_daemon_that_stops_is_named_in_the_call(profile: Profile) -> None:
    methods = AppMethods()
    async with asyncio.TaskGroup() as tasks:
        ready, stop = asyncio.Event(), asyncio.Event()

        async def daemon() -> None:
            async with _daemon(profile.app_socket, methods.table, "a token", AppId("meals")):
                ready.set()
                await stop.wait()

        tasks.create_task(daemon(), name="daemon")
        await ready.wait()
        async with AppClient.connect(profile, "a token") as client, asyncio.TaskGroup() as asking:
            task = asking.create_task(_outcome(client.ask("hold")), name="ask")
            await methods.holding.wait()
            stop.set()
            assert isinstance(await task, ShuttingDown)
            assert isinstance(await _outcome(client.ask("again")), ShuttingDown)


async def test_daemon_that_dies_is_named_in_the_call(profile: Profile) -> None:
    with await asyncio.to_thread(bind_unix, profile.app_socket) as listener:
        listener.setblocking(False)
        async with asyncio.TaskGroup() as tasks:
            connecting = tasks.create_task(_fails_as_app(profile), name="connect")
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            async with raw_side(sock) as raw:
                assert (await raw.hear())["method"] == "authenticate"
                raw.vanish()
            assert isinstance(await connecting, DaemonDown)


async def _fails_as_app(profile: Profile) -> TactfulError:
    try:
        async with AppClient.connect(profile, "a token"):
            raise AssertionError("The daemon should have died.")
    except TactfulError as error:
        return error


async def _outcome(call: Awaitable[object]) -> object:
    try:
        return await call
    except TactfulError as error:
        return error


# --- apps ---------------------------------------------------------------------------------------


async def test_app_asks_and_hears_the_answer_in_pieces(profile: Profile) -> None:
    pieces: list[str] = []
    async with _app(profile) as (client, methods):
        answer = await client.ask("dinner?", slots=["food"], on_text=pieces.append)
        assert answer.text == "some pie"
        assert pieces == ["some ", "pie"]
        assert methods.asked == [Ask(query="dinner?", slots=("food",))]
        assert (await client.ask("dinner?", thread="evening")).text == "some pie"
        assert methods.asked[1:] == [Ask(query="dinner?", thread="evening")]
        await client.quote("dinner?", thread="evening")
        assert methods.quoted == [Ask(query="dinner?", thread="evening")]


async def test_app_hears_what_is_left_without_asking(profile: Profile) -> None:
    async with _app(profile) as (client, methods):
        assert await client.budget() == _LEFT
        assert await client.quote("dinner?") == _LEFT
        assert await client.quote("dinner?", slots=("food",)) == _LEFT
        with pytest.raises(Denied):
            await client.quote("forbidden")
        assert methods.asked == []
        assert methods.quoted == [
            Ask(query="dinner?"),
            Ask(query="dinner?", slots=("food",)),
            Ask(query="forbidden"),
        ]


async def test_refusal_of_the_daemon_keeps_its_name(profile: Profile) -> None:
    async with _app(profile) as (client, _):
        with pytest.raises(Denied, match="does not grant"):
            await client.ask("forbidden")


async def test_app_with_a_wrong_token_is_refused(profile: Profile) -> None:
    async with _daemon(profile.app_socket, {}, "a token", AppId("meals")):
        with pytest.raises(NotAuthenticated):
            async with AppClient.connect(profile, "another token"):
                pass


async def test_giving_up_on_an_answer_stops_it_in_the_daemon(profile: Profile) -> None:
    async with _app(profile) as (client, methods), asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(client.ask("hold"), name="ask")
        await methods.holding.wait()
        asking.cancel()
        await methods.cancelled.wait()
        assert (await client.ask("dinner?")).text == "some pie"


# --- hosted apps --------------------------------------------------------------------------------


@asynccontextmanager
async def _hosted(
    on_event: Callable[[Event, AppClient], Awaitable[None]],
) -> AsyncIterator[tuple[Peer, AppClient]]:
    """The daemon's peer and the hosted app's client, over one inherited socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    session = Session(
        *await open_streams(ours, _LIMITS),
        table=AppMethods().table,
        authenticate=None,
        identity=AppId("meals"),
        limits=_LIMITS,
        log=KeptLog().log,
    )
    async with session.peer.running() as peer, AppClient.over(theirs, on_event) as client:
        yield peer, client


_EVENT = Event(kind=EventKind.MESSAGE, text="hello")


async def test_hosted_app_can_ask_while_it_handles_an_event() -> None:
    answers: list[str] = []

    async def on_event(event: Event, client: AppClient) -> None:
        assert event == _EVENT
        answers.append((await client.ask("dinner?")).text)

    async with _hosted(on_event) as (daemon, _):
        assert await daemon.call("event", _EVENT, Empty) == Empty()
        assert await daemon.call("event", _EVENT, Empty) == Empty()
    assert answers == ["some pie", "some pie"]


async def test_what_an_event_handler_raises_reaches_the_daemon() -> None:
    async def named(_event: Event, _client: AppClient) -> None:
        raise Denied("The app does not want this. Send something else.")

    async def unnamed(_event: Event, _client: AppClient) -> None:
        raise ValueError("zebra")

    async with _hosted(named) as (daemon, _):
        with pytest.raises(Denied, match="does not want"):
            await daemon.call("event", _EVENT, Empty)
    async with _hosted(unnamed) as (daemon, _):
        with pytest.raises(InternalError) as caught:
            await daemon.call("event", _EVENT, Empty)
        assert "zebra" not in str(caught.value)


async def test_hosted_app_answers_nothing_but_events() -> None:
    async def on_event(_event: Event, _client: AppClient) -> None:
        raise AssertionError("No event was sent.")

    class Wrong(Message):
        kind: str = "zebra"

    async with _hosted(on_event) as (daemon, _):
        for method in ("ask", "authenticate", "events"):
            with pytest.raises(UnknownMethod):
                await daemon.call(method, Empty(), Empty)
        with pytest.raises(InvalidParams) as caught:
            await daemon.call("event", Wrong(), Empty)
        assert "zebra" not in str(caught.value)


async def test_hosted_app_sees_the_end_of_its_connection() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def on_event(_event: Event, _client: AppClient) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with _hosted(on_event) as (daemon, client), asyncio.TaskGroup() as tasks:
        telling = tasks.create_task(_outcome(daemon.call("event", _EVENT, Empty)), name="event")
        await started.wait()
        await daemon.close()
        await client.wait_ended()
        assert cancelled.is_set()
        assert isinstance(await telling, Cancelled)


async def test_outside_program_answers_no_requests(profile: Profile) -> None:
    with await asyncio.to_thread(bind_unix, profile.app_socket) as listener:
        listener.setblocking(False)
        async with asyncio.TaskGroup() as tasks:
            release = asyncio.Event()

            async def connect() -> None:
                async with AppClient.connect(profile, "a token"):
                    await release.wait()

            tasks.create_task(connect(), name="connect")
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            async with raw_side(sock) as raw:
                await _let_in(raw)
                reply: dict[str, Any] = await raw.ask(1, "event", kind="message", text="x")
                assert reply["error"]["data"]["code"] == "unknown_method"
                release.set()
                await raw.hear_end()


async def _let_in(raw: RawConnection) -> None:
    request = await raw.hear()
    assert request["params"] == {"protocol": 1, "token": "a token"}
    await raw.say(id=request["id"], result={})
