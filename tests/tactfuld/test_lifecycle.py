"""The daemon's life in this process, where a blocked event loop is noticed.

The model is the real one; what needs a process of its own is in `tests.end_to_end`.
"""

from __future__ import annotations

import asyncio
import gc
import io
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.typing import FilteringBoundLogger
from tests.fakes.daemon_site import POLICY, PROMISES
from tests.model_fixture import embedded_model
from tests.tactfuld.store import samples

from tactful.app_client import AppClient
from tactful.errors import (
    AlreadyRunning,
    DaemonDown,
    Denied,
    KeyUnavailable,
    Locked,
    PassphraseNeeded,
    PolicyRefused,
    TactfulError,
    Unusable,
)
from tactful.owner_client import OwnerClient
from tactful.profile import Profile
from tactful.wire import SettingGiven
from tactful_core.sealing import PassphraseParameters, RowSealer
from tactful_core.values import AppId, Secret
from tactfuld import unlocked
from tactfuld.apps.folders import FolderGrant
from tactfuld.apps.hosted import Conditions
from tactfuld.apps.sandbox import Bubblewrap, Confinement, NoSandbox, Unconfined
from tactfuld.gate import Gate
from tactfuld.inference.llama_api import LlamaContext
from tactfuld.inference.llama_engine import LlamaEngine
from tactfuld.journal import LogLevel, open_journal
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.ring import KeyRing, create_keys
from tactfuld.keys.sources import PassphraseSource
from tactfuld.lifecycle import Start, _sandbox_word, _signals, _wanted, serve
from tactfuld.locking import hold
from tactfuld.passphrases import Handed
from tactfuld.policy.document import AppPart
from tactfuld.policy.loading import parse_document
from tactfuld.settings import parse_settings
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LedgerStore, ledger_place
from tactfuld.store.memory import MemoryStore, memory_place
from tactfuld.unlocked import opaque_version

__all__ = ["embedded_model"]

PASSPHRASE = Secret("correct horse battery staple")
CHEAP = PassphraseParameters(salt=b"0123456789abcdef", iterations=1, lanes=1, memory_kib=8)
SETTINGS = "sandbox: off\nturn: {deadline_ms: 50}\nanswer: {max_tokens: 4}\n"


@pytest.fixture
async def profile(profile_dir: Path) -> Profile:
    """A whole profile, as `init` makes it."""
    made = Profile.at(profile_dir)
    for folder in (made.config, made.data, made.state):
        folder.mkdir(mode=0o700)
    made.policy_file.write_text(POLICY)
    made.settings_file.write_text(SETTINGS)
    source = PassphraseSource(PASSPHRASE, CHEAP)
    keys = await asyncio.to_thread(create_keys, made.data, source)
    await MemoryStore.create(memory_place(made), PROMISES.layout, keys)
    await LedgerStore.create(ledger_place(made), keys)
    await HistoryStore.create(made.data / HISTORY_FILE, keys)
    return made


@dataclass(slots=True)
class Running:
    """A daemon in this process."""

    profile: Profile
    log: io.StringIO
    task: asyncio.Task[None]

    @property
    def events(self) -> list[str]:
        """What it has logged, by name."""
        return [json.loads(line)["event"] for line in self.log.getvalue().splitlines()]


def start_of(
    profile: Profile,
    log: io.StringIO,
    announce: Callable[[], None] = lambda: None,
    passphrase: Secret[str] | None = PASSPHRASE,
) -> Start:
    def journal(level: LogLevel) -> FilteringBoundLogger:
        return open_journal(log, level)

    return Start(profile, Handed(passphrase), journal, announce)


@asynccontextmanager
async def running(profile: Profile) -> AsyncIterator[Running]:
    """A daemon that accepts connections; it has ended after the block."""
    log, loop, ready = io.StringIO(), asyncio.get_running_loop(), asyncio.Event()

    def announce() -> None:
        loop.call_soon_threadsafe(ready.set)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(serve(start_of(profile, log, announce)), name="daemon")
        waiting = tasks.create_task(ready.wait(), name="ready")
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        try:
            yield Running(profile, log, task)
        finally:
            waiting.cancel()
            task.cancel()


async def until_loaded(owner: OwnerClient) -> None:
    while not (await owner.status()).ready:  # noqa: ASYNC110 - there is nothing else to wait for
        await asyncio.sleep(0.05)


def sockets(profile: Profile) -> list[str]:
    return sorted(path.name for path in profile.runtime.glob("*"))


# --- from start to end --------------------------------------------------------------------------


async def test_daemon_serves_both_sockets_until_the_owner_stops_it(
    profile: Profile, embedded_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole day, and no call of it has blocked the event loop."""
    assert embedded_model.exists()
    erased, tidy = threading.Event(), LlamaContext.clear

    def noted(context: LlamaContext, *, erase: bool) -> None:
        tidy(context, erase=erase)
        erased.set()

    monkeypatch.setattr(LlamaContext, "clear", noted)
    async with running(profile) as daemon:
        assert sockets(profile) == ["app.sock", "owner.sock"]
        async with OwnerClient.connect(profile) as owner:
            await until_loaded(owner)
            await owner.remember("I avoid sweets.", "food.diet")
            turns = (await owner.tell("meals", "What can I cook for dinner?")).turns
            assert [chosen.slot for turn in turns for chosen in turn.selections] == ["food"]
            token = (await owner.apps_grant("guest")).token
            async with AppClient.connect(profile, token) as guest:
                answer = await guest.ask("A snack?", slots=("food",), thread="noon")
            assert answer.policy not in ("", PROMISES.digest)
            kept = [(turn.app, turn.thread) for turn in (await owner.history_list()).turns]
            assert kept == [("guest", "noon"), ("meals", None)]
            erased.clear()
            assert await owner.history_forget(app="guest", thread="noon") == 1
            assert await asyncio.to_thread(erased.wait, 60)
            status = await owner.status()
            assert (status.sandbox, status.key_source) == ("off", "passphrase")
            await owner.stop()
        await daemon.task
        assert sockets(profile) == []
    assert daemon.events[:2] == ["unlocked", "app_started"]
    assert [e for e in daemon.events if e in ("ready", "stopping", "stopped")] == [
        "ready",
        "stopping",
        "stopped",
    ]
    with hold(profile.data):
        pass
    with pytest.raises(DaemonDown):
        async with OwnerClient.connect(profile):
            pass


async def test_changed_settings_hold_for_the_next_turn(
    profile: Profile, embedded_model: Path
) -> None:
    """Answers get as long as the file says, fewer turns are kept, and the log says less, without a
    new start."""
    assert embedded_model.exists()
    async with running(profile) as daemon, OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        token = (await owner.apps_grant("guest")).token
        async with AppClient.connect(profile, token) as guest:
            short = await guest.ask("A snack?", slots=("food",))
            profile.settings_file.write_text(
                SETTINGS.replace("max_tokens: 4", "max_tokens: 40")
                + "logging: {level: error}\nhistory: {turns: 1}\n"
            )
            assert (await owner.reload()).waiting == ()
            long = await guest.ask("Another snack?", slots=("food",))
        assert len(long.text) > 2 * len(short.text)
        kept = [turn.query for turn in (await owner.history_list()).turns]
        assert kept == ["Another snack?"]
        await owner.stop()
        await daemon.task
    assert "ready" in daemon.events
    assert "stopping" not in daemon.events


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_asks_for_an_orderly_stop(
    profile: Profile, embedded_model: Path, number: signal.Signals
) -> None:
    assert embedded_model.exists()
    async with running(profile) as daemon:
        os.kill(os.getpid(), number)
        await daemon.task
    assert sockets(profile) == []
    assert daemon.events[-3:] == ["stopping", "locked", "stopped"]


async def test_signals_are_given_back_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    stopping = asyncio.Event()
    with _signals(stopping):
        os.kill(os.getpid(), signal.SIGTERM)
        await stopping.wait()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == [
        signal.SIG_DFL if was is signal.SIG_DFL else signal.default_int_handler for was in before
    ]


# --- starts that fail ---------------------------------------------------------------------------


async def refused(profile: Profile, passphrase: Secret[str] | None = PASSPHRASE) -> TactfulError:
    """How a start ends that must fail: with one error, and nothing was served."""
    announced: list[None] = []
    start = start_of(profile, io.StringIO(), lambda: announced.append(None), passphrase)
    with pytest.raises((TactfulError, ExceptionGroup)) as raised:
        await serve(start)
    error: BaseException = raised.value
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    assert isinstance(error, TactfulError)
    assert announced == []
    return error


async def test_held_folder_is_not_served(profile: Profile) -> None:
    with hold(profile.data):
        assert isinstance(await refused(profile), AlreadyRunning)
    assert not profile.runtime.exists()


async def test_wrong_passphrase_does_not_start(profile: Profile) -> None:
    error = await refused(profile, Secret("kumquat"))
    assert isinstance(error, KeyUnavailable)
    assert "kumquat" not in str(error)


async def test_missing_passphrase_does_not_start(profile: Profile) -> None:
    assert isinstance(await refused(profile, None), PassphraseNeeded)


async def test_folder_without_a_store_does_not_start(profile: Profile) -> None:
    (profile.data / KEY_FILE).unlink()
    assert isinstance(await refused(profile), Unusable)


@pytest.mark.parametrize("name", ["policy_file", "settings_file"])
async def test_file_with_a_mistake_does_not_start(profile: Profile, name: str) -> None:
    path: Path = getattr(profile, name)
    path.write_text(f"{path.read_text()}kumquat: 1\n")
    error = await refused(profile)
    assert isinstance(error, PolicyRefused)
    assert f"{path.name}:" in str(error)


async def test_other_shelves_than_those_of_the_store_do_not_start(profile: Profile) -> None:
    text = profile.policy_file.read_text()
    profile.policy_file.write_text(text.replace("diet: {positions: 1", "diet: {positions: 2"))
    assert isinstance(await refused(profile), Unusable)


async def test_socket_that_somebody_listens_on_is_left_alone(
    profile: Profile, embedded_model: Path
) -> None:
    assert embedded_model.exists()
    profile.runtime.mkdir(mode=0o700)
    for path in (profile.owner_socket, profile.app_socket):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            other.bind(str(path))
            other.listen()
            assert isinstance(await refused(profile), AlreadyRunning)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.connect(str(path))  # it still listens there
        path.unlink()
        assert sockets(profile) == []
    with hold(profile.data):  # and the folder was let go
        pass


async def test_model_that_cannot_be_loaded_is_told_to_the_owner_and_charges_nobody(
    profile: Profile, tmp_path: Path
) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF nonsense")
    profile.settings_file.write_text(f"{SETTINGS}model: {{use: {tmp_path / 'broken.gguf'}}}\n")
    async with running(profile) as daemon, OwnerClient.connect(profile) as owner:
        status = await owner.status()
        while status.model.state == "loading":
            await asyncio.sleep(0.02)
            status = await owner.status()
        assert (status.model.state, status.ready, status.model.name) == ("failed", False, "broken")
        assert status.model.problem
        with pytest.raises(TactfulError, match="model"):
            await owner.tell("meals", "What can I cook for dinner?")
        assert {shown.spent for shown in (await owner.ledger()).lines} == {0.0}
        await owner.stop()
        await daemon.task


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_views_are_drawn_by_what_the_model_says_if_the_owner_wants_that(
    profile: Profile, embedded_model: Path
) -> None:
    """With the real model: scoring works, is charged, and the owner hears how long it takes."""
    assert embedded_model.exists()
    profile.settings_file.write_text(f"{SETTINGS}scorer: model\n")
    async with running(profile) as daemon, OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        token = (await owner.apps_grant("guest")).token
        async with AppClient.connect(profile, token) as guest:
            answer = await guest.ask("A snack?", slots=("food",))
        assert [view.slot for view in answer.views] == ["food"]
        assert max(shown.spent for shown in (await owner.ledger()).lines) > 0.0
        notices = (await owner.status()).notices
        assert any("scorer: model" in notice for notice in notices)
        assert not any("could not be read or scored" in notice for notice in notices)
        await owner.stop()
        await daemon.task


async def test_part_that_fails_to_open_closes_what_is_open(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, embedded_model: Path
) -> None:
    assert embedded_model.exists()
    closed: list[str] = []
    close = LlamaEngine.close

    async def closing(engine: LlamaEngine) -> None:
        await close(engine)
        closed.append("engine")

    def fail(*_: object) -> None:
        raise Unusable("The methods could not be made.")

    monkeypatch.setattr(LlamaEngine, "close", closing)
    monkeypatch.setattr(unlocked, "owner_methods", fail)
    assert isinstance(await refused(profile), Unusable)
    assert "engine" in closed  # closing is idempotent
    with hold(profile.data):
        pass


# --- locking ------------------------------------------------------------------------------------


async def test_locked_daemon_serves_nobody_until_it_is_unlocked(
    profile: Profile, embedded_model: Path
) -> None:
    assert embedded_model.exists()
    async with running(profile) as daemon, OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        await owner.remember("I avoid sweets.", "food.diet")
        token = (await owner.apps_grant("guest")).token
        async with AppClient.connect(profile, token) as guest:
            await guest.ask("A snack?", slots=("food",))
            await owner.lock()
            told = set[tuple[str, str]]()
            for question in (guest.ask("A snack?"), guest.budget(), guest.quote("A snack?")):
                with pytest.raises(Locked) as refusal:
                    await question
                told.add((refusal.value.code, str(refusal.value)))
            assert len(told) == 1
            for request in (owner.memory_list(), owner.ledger(), owner.apps_list()):
                with pytest.raises(Locked):
                    await request
            status = await owner.status()
            assert status.locked
            assert (status.positions, status.apps, status.notices) == (0, (), ())
            with pytest.raises(PassphraseNeeded):
                await owner.unlock()
            with pytest.raises(KeyUnavailable):
                await owner.unlock("kumquat")
            assert (await owner.status()).locked
            await owner.unlock(PASSPHRASE.reveal())
            await until_loaded(owner)
            assert [item.text for item in (await owner.memory_list()).items] == ["I avoid sweets."]
            await guest.ask("A snack?", slots=("food",))
        await owner.stop()
        await daemon.task
    assert [e for e in daemon.events if e in ("locked", "unlocked")] == [
        "unlocked",
        "locked",
        "unlocked",
        "locked",
    ]


async def test_nothing_holds_keys_and_stores_while_it_is_locked(
    profile: Profile, embedded_model: Path
) -> None:
    assert embedded_model.exists()
    async with running(profile) as daemon, OwnerClient.connect(profile) as owner:
        await owner.ledger()
        assert alive() == {"KeyRing", "MemoryStore", "LedgerStore", "RowSealer", "Gate"}
        await owner.lock()
        assert alive() == set()
        await owner.stop()
        await daemon.task


async def test_locked_daemon_can_be_stopped(profile: Profile, embedded_model: Path) -> None:
    assert embedded_model.exists()
    async with running(profile) as daemon, OwnerClient.connect(profile) as owner:
        await owner.lock()
        await owner.lock()
        await owner.stop()
        await daemon.task
    assert sockets(profile) == []


def alive() -> set[str]:
    """The kinds of things with keys in them that this process still refers to."""
    gc.collect()
    kinds = (KeyRing, MemoryStore, LedgerStore, RowSealer, Gate)
    return {type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds)}


# --- small decisions ----------------------------------------------------------------------------


def test_version_that_apps_see_changes_with_the_policy_and_names_none() -> None:
    one, other = samples.keys().store_id, samples.keys(b"T").store_id
    version = opaque_version(PROMISES.digest, one)
    assert version == opaque_version(PROMISES.digest, one)
    assert (
        len({version, opaque_version("another", one), opaque_version(PROMISES.digest, other)}) == 3
    )
    assert PROMISES.digest not in version
    assert version not in PROMISES.digest
    assert len(version) == 16


@pytest.mark.parametrize(
    ("confinement", "word"),
    [
        (Unconfined(), "off"),
        (Bubblewrap(Path("/usr/bin/bwrap"), hardened=True), "bubblewrap"),
        (NoSandbox("Apps do not start: bwrap is not on this machine."), "Apps do not start"),
    ],
)
def test_sandbox_is_told_in_a_word_or_a_sentence(confinement: Confinement, word: str) -> None:
    assert _sandbox_word(confinement).startswith(word)


# --- a policy that changes ----------------------------------------------------------------------


async def told(owner: OwnerClient, words: str) -> None:
    """Returns once a notice has these words."""
    while not any(words in sentence for sentence in (await owner.status()).notices):  # noqa: ASYNC110 - another task watches files
        await asyncio.sleep(0.02)


async def test_a_changed_policy_takes_away_at_once_and_waits_with_the_rest(
    profile: Profile, embedded_model: Path
) -> None:
    """Real files, real stores: revoked at once, looser in a new epoch, also after a restart."""
    assert embedded_model.exists()
    changed = POLICY.replace("cap: 2.0", "cap: 3.0").replace("guest:\n    slots: [food]", "guest:")
    assert changed.count("cap: 3.0") == 2
    async with running(profile), OwnerClient.connect(profile) as owner:
        await until_loaded(owner)
        token = (await owner.apps_grant("guest")).token
        async with AppClient.connect(profile, token) as guest:
            first = await guest.ask("A snack?", slots=("food",))
            beside = profile.policy_file.with_name("policy.yaml.new")
            beside.write_text(changed)
            beside.replace(profile.policy_file)
            await told(owner, "in a new epoch only: attributes.diabetes.cap, attributes.debt.cap")
            with pytest.raises(Denied):
                await guest.ask("A snack?", slots=("food",))
            assert {line.cap for line in (await owner.ledger()).lines} == {2.0}
        meals = await owner.ask_as("meals", "A snack?", slots=("food",))
        assert meals.selections
        assert first.policy
    async with running(profile) as daemon, OwnerClient.connect(profile) as owner:
        status = await owner.status()
        assert status.staged is not None
        assert status.staged.at_epoch == ("attributes.diabetes.cap", "attributes.debt.cap")
        assert {line.cap for line in (await owner.ledger()).lines} == {2.0}
        epoch = await owner.epoch_show()
        assert [line.lifetime_after for line in epoch.lines] == pytest.approx([4 / 3 + 3.0] * 2)
        opened = await owner.epoch_new(epoch.epoch)
        assert opened.staged.at_epoch == ()
        assert {line.cap for line in (await owner.ledger()).lines} == {3.0}
        assert (await owner.status()).notices == ()
        assert "policy_in_force" in daemon.events


async def test_half_written_and_deleted_policies_change_nothing(
    profile: Profile, embedded_model: Path
) -> None:
    assert embedded_model.exists()
    async with running(profile), OwnerClient.connect(profile) as owner:
        before = (await owner.status()).policy
        profile.policy_file.write_text(POLICY[: POLICY.index("attributes:") + 40])
        await told(owner, "policy.yaml has problems")
        profile.policy_file.unlink()
        await told(owner, "there is no policy here")
        status = await owner.status()
        assert status.policy == before
        assert [app.app for app in status.apps] == ["meals", "guest", "nobody"]
        profile.policy_file.write_text(POLICY)
        looked = await owner.reload()
        assert (looked.policy_problem, looked.policy_waits) == (None, None)
        assert (await owner.status()).notices == ()


async def test_a_policy_at_once_is_in_force_and_named(
    profile: Profile, embedded_model: Path
) -> None:
    assert embedded_model.exists()
    async with running(profile), OwnerClient.connect(profile) as owner:
        profile.policy_file.write_text(POLICY.replace("cap: 2.0", "cap: 3.0"))
        await owner.reload()
        staged = (await owner.status()).staged
        assert staged is not None
        with pytest.raises(Unusable):
            await owner.policy_apply("0123456789abcdef")
        assert not (await owner.epoch_show()).staged.at_once
        applied = await owner.policy_apply(staged.written)
        assert (applied.at_once, applied.at_epoch) == (True, ())
        assert {line.cap for line in (await owner.ledger()).lines} == {3.0}


def test_hosted_apps_are_those_that_are_installed_and_granted_something() -> None:
    apps = {
        "meals": AppPart(slots=("food",), folders={"~/Recipes": "read", "/srv/menu": "write"}),
        "nobody": AppPart(),
        "guest": AppPart(slots=("food",)),
    }
    document = parse_document(POLICY, source="policy.yaml").model_copy(update={"apps": apps})
    installed = frozenset(map(AppId, ("meals", "nobody", "letters")))
    folders = (FolderGrant("~/Recipes", writable=False), FolderGrant("/srv/menu", writable=True))
    settings = parse_settings("apps: {meals: {people: 5, pace: 0.5}, letters: {a: b}}", source="")
    given = (SettingGiven(key="people", value=5), SettingGiven(key="pace", value=0.5))
    assert _wanted(document, installed, settings) == {AppId("meals"): Conditions(folders, given)}
