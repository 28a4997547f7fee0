"""The life of the daemon: start, ready, orderly stop.

Decides the order in which sockets, apps and the vault are opened and closed. What is *not* here:
what is open while the profile is unlocked (`unlocked`), and what any part does.

Invariants:

- the data folder is held from before keys are read until everything is closed;
- a part that cannot be opened ends the start with a sentence, and nothing was served;
- what needs keys, and the model, which was given what they open, are open only while the vault is
  (`vault`); sockets, apps and what follows from the policy alone stay while it is locked;
- stopping closes the sockets first, then apps, the model and the stores, in that order; a turn in
  flight is cancelled and keeps its charge.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from tactful.errors import ShuttingDown, Unusable
from tactful.owner_wire import OwnerMethod
from tactful.peer import Limits
from tactful.profile import Profile
from tactful.wire import AppMethod, Event
from tactful_core.values import AppId
from tactfuld.app_settings import settings_given
from tactfuld.apps.folders import FolderGrant
from tactfuld.apps.host import AppHost, HostRules
from tactfuld.apps.hosted import Conditions
from tactfuld.apps.installed import installed_beside, installed_names
from tactfuld.apps.sandbox import (
    Bubblewrap,
    Confinement,
    NoSandbox,
    Unconfined,
    choose_confinement,
)
from tactfuld.apps.tokens import FILE_NAME, AppTokens
from tactfuld.clock import SystemClock
from tactfuld.coverage import Detector, shipped_weights
from tactfuld.events.bus import EventBus, Public
from tactfuld.events.desktop import Desktop
from tactfuld.events.files import FolderWatch
from tactfuld.events.grants import event_grants
from tactfuld.events.inbox import INBOX_FILE, Inbox
from tactfuld.events.kept import EVENTS_FILE
from tactfuld.events.kept import load as load_events
from tactfuld.events.schedule import local_zone
from tactfuld.idle_lock import IdleLock
from tactfuld.inference.embedder import WordLlamaEmbedder
from tactfuld.journal import LogLevel
from tactfuld.keys.ring import KeyRing
from tactfuld.locking import hold
from tactfuld.notices import Notices
from tactfuld.passphrases import Handed
from tactfuld.policy.document import PolicyDocument
from tactfuld.policy.loading import load_document
from tactfuld.policy.record import RECORD_FILE
from tactfuld.policy_in_force import PolicyInForce
from tactfuld.reload import Reloading
from tactfuld.server.listeners import (
    APP_LIMITS,
    MOST_CONNECTIONS,
    OWNER_LIMITS,
    AppDoor,
    OwnerDoor,
    write_owner_secret,
)
from tactfuld.server.lock_methods import LockParts, lock_methods
from tactfuld.server.reload_methods import reload_methods
from tactfuld.server.session import AUTHENTICATE, MethodTable
from tactfuld.server.sockets import Serve as ServeConnection
from tactfuld.server.sockets import bind_unix, release_unix, serve_socket
from tactfuld.settings import Settings, load_settings
from tactfuld.store.whole_file import replace_file
from tactfuld.unlocked import Around, Unlocked
from tactfuld.unlocking import unlock
from tactfuld.vault import Opened, Vault


@dataclass(frozen=True, slots=True)
class Start:
    """What a daemon is started with.

    Attributes:
        announce: called once in a thread, when both sockets accept connections.
    """

    profile: Profile
    passphrase: Handed
    journal: Callable[[LogLevel], FilteringBoundLogger]
    announce: Callable[[], None]


async def serve(start: Start) -> None:
    """Runs the daemon until SIGTERM, SIGINT or the owner's `stop`.

    Raises:
        TactfulError: it could not start; the message says what to do.
    """
    profile = start.profile
    settings = await asyncio.to_thread(load_settings, profile.settings_file)
    written = await asyncio.to_thread(load_document, profile.policy_file)
    with hold(profile.data):
        level = LogLevel(settings.logging.level)
        journal = start.journal(level)
        daemon = _Daemon(profile, settings, written, journal, level)
        await daemon.run(start.passphrase, start.announce)
        journal.info("stopped")


_APP_NAMES = frozenset(map(str, AppMethod)) - {AUTHENTICATE}
_OWNER_NAMES = frozenset(map(str, OwnerMethod)) - {AUTHENTICATE}


class _Daemon:
    """Everything that stays while the profile is locked."""

    def __init__(
        self,
        profile: Profile,
        settings: Settings,
        written: PolicyDocument,
        journal: FilteringBoundLogger,
        level: LogLevel,
    ) -> None:
        self._profile = profile
        self._settings = settings
        self._written = written
        self._journal = journal
        self._level = level
        self._notices = Notices(journal)
        self._clock = SystemClock()
        self._stopping = asyncio.Event()

    async def run(self, passphrase: Handed, announce: Callable[[], None]) -> None:
        """Serves until it is asked to stop."""
        with _signals(self._stopping):
            await self._serve(passphrase, announce)

    async def _serve(self, passphrase: Handed, announce: Callable[[], None]) -> None:
        profile, clock = self._profile, self._clock
        tokens = await asyncio.to_thread(AppTokens.load, profile.state / FILE_NAME)
        confinement = await asyncio.to_thread(choose_confinement, self._settings.sandbox)
        embedder = await asyncio.to_thread(WordLlamaEmbedder.load)
        detector = Detector(await asyncio.to_thread(shipped_weights), embedder)

        def opening(ring: KeyRing) -> AbstractAsyncContextManager[Opened]:
            return unlocked.opened(ring)

        async with asyncio.TaskGroup() as tasks:
            vault = Vault(tasks, partial(unlock, profile), opening)
            desktop = Desktop(tasks, lambda: self._settings.notices.desktop, clock)
            inbox = await asyncio.to_thread(
                Inbox.load, profile.state / INBOX_FILE, self._journal, desktop.shown
            )
            apps = AppDoor(tokens, vault.app_table(_APP_NAMES), self._journal)
            host = self._host(tasks, confinement, apps)
            idle = IdleLock(self._settings.lock.idle_minutes, vault.lock, clock)
            bus = await self._bus(host, lambda: unlocked.public)
            private = (profile.config, profile.data, profile.state, profile.runtime)
            folders = FolderWatch(lambda: bus.grants, bus.file_changed, private, self._journal)

            async def host_granted() -> None:
                bus.grant(await asyncio.to_thread(event_grants, policy.document))
                folders.look_again()
                await self._host_granted(host, policy.document)

            def settings_of_apps() -> None:
                tasks.create_task(host_granted(), name="settings of apps")

            policy = PolicyInForce(
                tasks,
                profile.state / RECORD_FILE,
                self._written,
                host_granted,
                clock,
                self._notices,
                self._journal,
            )
            around = Around(
                profile=profile,
                embedder=embedder,
                detector=detector,
                tokens=tokens,
                host=host,
                inbox=inbox,
                bus=bus,
                sandbox=_sandbox_word(confinement),
                notices=self._notices,
                clock=clock,
                journal=self._journal,
                revoked=apps.revoked,
                stop=self._stopping.set,
                watched=idle.watched,
            )
            unlocked = Unlocked(around, self._settings, policy)
            reloading = Reloading(
                profile,
                self._settings,
                partial(self._take_over, unlocked, settings_of_apps),
                policy.take,
                self._notices,
                self._journal,
            )
            await vault.open(passphrase.take())
            idling = tasks.create_task(idle.run(), name="idle lock")
            watching = tasks.create_task(reloading.run(), name="reloading")
            keeping = tasks.create_task(inbox.run(), name="inbox")
            locks = LockParts(
                vault=vault,
                profile=str(profile.data),
                key_source=lambda: unlocked.key_source,
                sandbox=around.sandbox,
                stop=self._stopping.set,
            )
            always = idle.watched({**lock_methods(locks), **reload_methods(reloading.look)})
            async with self._accepting(vault.owner_table(always, _OWNER_NAMES), apps):
                await host_granted()
                telling = tasks.create_task(_told(bus, folders), name="events")
                self._journal.info("ready", policy=policy.promises.digest)
                await asyncio.to_thread(announce)
                await self._stopping.wait()
                self._journal.info("stopping")
            for task in (idling, watching, telling, keeping):
                task.cancel()
            await host.stop()
            await vault.lock()

    @asynccontextmanager
    async def _accepting(self, table: MethodTable, apps: AppDoor) -> AsyncIterator[None]:
        """Serves both sockets during the block; the owner's secret is a new one."""
        secret = await asyncio.to_thread(write_owner_secret, self._profile.owner_secret_file)
        owner = OwnerDoor(secret, table, self._journal)
        async with (
            self._listening(self._profile.owner_socket, owner.serve, OWNER_LIMITS),
            self._listening(self._profile.app_socket, apps.serve, APP_LIMITS),
        ):
            yield

    def _take_over(
        self, unlocked: Unlocked, apps_changed: Callable[[], None], settings: Settings
    ) -> None:
        """Makes settings that may change while the daemon runs hold from now on."""
        before, self._settings = self._settings, settings
        if settings.apps != before.apps:
            apps_changed()
        self._level.set(settings.logging.level)
        unlocked.take_over(settings)

    async def _bus(self, host: AppHost, public: Callable[[], Public | None]) -> EventBus:
        file = self._profile.state / EVENTS_FILE
        state, sound = await asyncio.to_thread(load_events, file, self._clock.now())
        if not sound:
            self._journal.warning("events_damaged")
        return EventBus(
            state,
            apps=_Running(host),
            public=public,
            keep=partial(replace_file, file, durably=True),
            clock=self._clock,
            local=await asyncio.to_thread(local_zone),
            notices=self._notices,
            journal=self._journal,
        )

    def _host(self, tasks: asyncio.TaskGroup, confinement: Confinement, apps: AppDoor) -> AppHost:
        return AppHost(
            tasks,
            profile=self._profile,
            home=Path.home(),
            confinement=confinement,
            serve=apps.hosted,
            clock=SystemClock(),
            journal=self._journal,
            rules=HostRules(wire=APP_LIMITS),
        )

    async def _host_granted(self, host: AppHost, granted: PolicyDocument) -> None:
        """Makes the hosted apps those that are installed and granted something."""
        try:
            installed = await asyncio.to_thread(installed_names, self._profile.state)
        except Unusable as problem:
            self._notices.add(str(problem))
            installed = await asyncio.to_thread(installed_beside)
        with suppress(ShuttingDown):
            await host.host(_wanted(granted, installed, self._settings))

    @asynccontextmanager
    async def _listening(
        self, path: Path, serve_one: ServeConnection, limits: Limits
    ) -> AsyncIterator[None]:
        """Accepts connections during the block; ends all of them after it."""
        listener = await asyncio.to_thread(bind_unix, path)
        try:
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(
                    serve_socket(
                        listener,
                        serve_one,
                        limits=limits,
                        most=MOST_CONNECTIONS,
                        log=self._journal,
                    ),
                    name=path.name,
                )
                try:
                    yield
                finally:
                    serving.cancel()
        finally:
            await asyncio.to_thread(release_unix, listener, path)


class _Running:
    """The hosted apps as the event bus sees them."""

    def __init__(self, host: AppHost) -> None:
        self._host = host

    def runs(self, app: AppId) -> bool:
        state = self._host.state(app)
        return state is not None and state.state == "running"

    async def deliver(self, app: AppId, event: Event) -> None:
        await self._host.deliver(app, event)


async def _told(bus: EventBus, folders: FolderWatch) -> None:
    """Tells apps what happens, until it is cancelled."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bus.run(), name="event bus")
        tasks.create_task(folders.run(), name="folders")


def _wanted(
    granted: PolicyDocument, installed: frozenset[AppId], settings: Settings
) -> dict[AppId, Conditions]:
    """The installed apps that the policy grants something, and no others."""
    return {
        AppId(name): Conditions(
            tuple(FolderGrant(path, how == "write") for path, how in part.folders.items()),
            settings_given(settings, name),
        )
        for name, part in granted.apps.items()
        if AppId(name) in installed and (part.slots or part.events or part.folders)
    }


@contextmanager
def _signals(stopping: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask for an orderly stop during the block."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _sandbox_word(confinement: Confinement) -> str:
    match confinement:
        case Bubblewrap():
            return "bubblewrap"
        case NoSandbox(problem=problem):
            return problem
        case Unconfined():
            return "off"
