"""The hosted apps: one child each, started, spoken to, restarted, and given up with a reason.

Decides when a child runs and what the owner is told when it does not. What is *not* here: what a
child may ask (`tactfuld.server`, through `serve`), its walls (`sandbox`), its process (`child`).

| state   | entered                                        | left                                 |
| ------- | ---------------------------------------------- | ------------------------------------ |
| running | the child was started and its connection served | the child or its connection ended    |
| stopped | the child ended; the host was stopped          | after a pause, by starting it again  |
| (gone)  | the policy names it no more                    | by being named again                 |
| parked  | it cannot start, refused itself (exit 78), or ended too often | by `restart`           |

Invariants:

- the connection of a child is its identity: nothing that it sends says who it is;
- one event at a time is delivered to an app, so whatever it asks meanwhile belongs to that event;
- whatever one app does ends in a state of that app; no failure of its own ends the daemon's tasks;
- no child outlives `stop`, nor the cancellation of the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from tactful.app_main import EXIT_REFUSED
from tactful.errors import (
    IdleTimeout,
    NotFound,
    NotReady,
    ShuttingDown,
    TactfulError,
    Unusable,
)
from tactful.peer import Limits as WireLimits
from tactful.peer import Peer
from tactful.profile import Profile
from tactful.wire import Begin, Empty, Event, FolderGiven, HostedMethod
from tactful_core.values import AppId
from tactfuld.apps.child import Child, Launch, last_words, prepare, safe_to_show
from tactfuld.apps.folders import (
    FolderRefusedError,
    OpenFolder,
    open_folders,
    whole_path,
)
from tactfuld.apps.hosted import NO_CONDITIONS, AppState, Conditions, Hosted, Life
from tactfuld.apps.installed import NotInstalledError, find_installed
from tactfuld.apps.limits import Limits
from tactfuld.apps.sandbox import Confinement, NoSandbox, SandboxError
from tactfuld.clock import Clock
from tactfuld.journal import failure

Serve = Callable[[AppId, asyncio.StreamReader, asyncio.StreamWriter], Peer]
"""The daemon's side of an app's connection, not yet running."""


@dataclass(frozen=True, slots=True)
class HostRules:
    """How patient the host is.

    Attributes:
        pauses: seconds before each restart; the app is parked when they are used up.
        stable_seconds: a child that ran this long has its restarts given back.
        grace_seconds: to end when the connection closes, and again after SIGTERM.
        start_seconds: to be loaded and begin.
        event_seconds: to handle one event.
        limits: of a child's resources.
        wire: of its connection; the same that `serve` gives its peers.
    """

    pauses: tuple[float, ...] = (1.0, 4.0, 16.0)
    stable_seconds: float = 60.0
    grace_seconds: float = 2.0
    start_seconds: float = 60.0
    event_seconds: float = 600.0
    limits: Limits = field(default_factory=Limits)
    wire: WireLimits = field(default_factory=WireLimits)


class AppHost:
    """Runs apps in child processes; its tasks live in the group that it is given."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        *,
        profile: Profile,
        home: Path,
        confinement: Confinement,
        serve: Serve,
        clock: Clock,
        journal: FilteringBoundLogger,
        rules: HostRules | None = None,
    ) -> None:
        """Nothing runs yet.

        Args:
            home: the owner's home folder, which no app may read.
        """
        self._group = group
        self._profile = profile
        self._home = home
        self._own = (profile.config, profile.data, profile.state, profile.runtime)
        self._confinement = confinement
        self._serve = serve
        self._clock = clock
        self._journal = journal
        self._rules = rules or HostRules()
        self._hosted: dict[AppId, Hosted] = {}
        self._writable: frozenset[Path] = frozenset()
        self._changing = asyncio.Lock()
        self._stopping = False

    @property
    def apps(self) -> frozenset[AppId]:
        """The apps that are hosted, whether they run or are parked."""
        return frozenset(self._hosted)

    async def host(self, wanted: Mapping[AppId, Conditions]) -> None:
        """Hosts these apps under these conditions and no others; an app whose conditions are other
        ones than before ends and begins anew.

        Raises:
            ShuttingDown: the host was stopped.
        """
        async with self._changing:
            for app in self.apps:
                if wanted.get(app) != self._hosted[app].conditions:
                    await self.end(app)
            self._writable = frozenset(
                whole_path(folder.path, self._home)
                for conditions in wanted.values()
                for folder in conditions.folders
                if folder.writable
            )
            for app, conditions in wanted.items():
                await self.start(app, conditions)

    async def start(self, app: AppId, conditions: Conditions = NO_CONDITIONS) -> None:
        """Starts an app that is not hosted yet; returns once it runs or is parked.

        Raises:
            ShuttingDown: the host was stopped.
        """
        if self._stopping:
            raise ShuttingDown(f"The app {app} was not started: tactfuld is stopping.")
        if app not in self._hosted:
            hosted = self._hosted[app] = Hosted(app, conditions)
            hosted.task = self._group.create_task(self._supervise(hosted), name=f"app {app}")
        await self._hosted[app].begun.wait()

    async def restart(self, app: AppId) -> None:
        """Ends an app and starts it anew, also one that is parked.

        Raises:
            NotFound: the app is not hosted.
            ShuttingDown: the host was stopped.
        """
        hosted = self._hosted.get(app)
        if hosted is None:
            raise NotFound(
                f"No app {app} is hosted here. Name an installed app that the policy lists."
            )
        await self.end(app)
        await self.start(app, hosted.conditions)

    async def deliver(
        self,
        app: AppId,
        event: Event,
        during: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Lets an app handle an event; waits for its turn and until the app is done.

        Args:
            during: makes a context that is open from the event's turn to its end.

        Raises:
            NotFound: the app is not hosted.
            NotReady: it does not run, or ended meanwhile.
            TactfulError: what the app answered instead, or that it took too long.
        """
        hosted = self._hosted.get(app)
        if hosted is None:
            raise NotFound(
                f"No app {app} is hosted here. Name an installed app that the policy lists."
            )
        async with hosted.turn:
            life = hosted.life
            if life is None:
                raise NotReady(hosted.sentence())
            await life.begun.wait()
            if life.over.is_set():
                raise NotReady(hosted.sentence())
            try:
                seconds = self._rules.event_seconds
                with during():
                    await life.peer.call(HostedMethod.EVENT, event, Empty, timeout=seconds)
            except TactfulError as error:
                if isinstance(error, IdleTimeout):
                    await self._see_that_it_answers(life)
                if life.child.hung_up or life.hangs.is_set():
                    await life.over.wait()
                    raise NotReady(hosted.sentence()) from error
                said = safe_to_show(str(error))
                raise type(error)(f"The app {app} did not handle the event. {said}") from error

    async def _see_that_it_answers(self, life: Life) -> None:
        """After an event that ran out of time: an app that is not even able to let go is ended."""
        try:
            seconds = self._rules.grace_seconds
            await life.peer.call(HostedMethod.PING, Empty(), Empty, timeout=seconds)
        except IdleTimeout:
            life.last_words = " It did not answer any more after an event that took too long."
            life.hangs.set()
        except TactfulError:
            return

    async def end(self, app: AppId) -> None:
        """Ends an app that may not be hosted any more; waits until it is gone."""
        hosted = self._hosted.pop(app, None)
        if hosted is not None and hosted.task is not None:
            hosted.task.cancel()
            await asyncio.wait([hosted.task])

    def state(self, app: AppId) -> AppState | None:
        """The state of an app; `None` if it was never started here."""
        hosted = self._hosted.get(app)
        return hosted.state if hosted is not None else None

    async def stop(self) -> None:
        """Ends every child and waits until all are gone. Nothing starts afterwards."""
        self._stopping = True
        tasks = [hosted.task for hosted in self._hosted.values() if hosted.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- one app's life ----------------------------------------------------------------------

    async def _supervise(self, hosted: Hosted) -> None:
        try:
            hosted.folders = await self._folders(hosted)
            launch = await self._prepare(hosted)
            await self._keep_running(hosted, launch)
        except _ParkedError as parked:
            hosted.enter(AppState("parked", str(parked)))
            self._journal.warning("app_parked", app=hosted.app)
        except asyncio.CancelledError:
            hosted.enter(AppState("stopped", f"The app {hosted.app} ends with tactfuld."))
            raise
        except Exception as error:  # noqa: BLE001 - one app's host must not end all others
            self._journal.error("app_host_failed", app=hosted.app, failure=failure(error))
            hosted.enter(
                AppState("parked", f"The app {hosted.app} could not be hosted; see the log.")
            )

    async def _folders(self, hosted: Hosted) -> tuple[OpenFolder, ...]:
        try:
            return await asyncio.to_thread(
                open_folders,
                hosted.conditions.folders,
                home=self._home,
                private=self._own,
                writable=self._writable,
            )
        except FolderRefusedError as refused:
            raise _ParkedError(f"The app {hosted.app} does not start. {refused}") from refused

    async def _prepare(self, hosted: Hosted) -> Launch:
        confinement = self._confinement
        if isinstance(confinement, NoSandbox):
            raise _ParkedError(confinement.problem)
        try:
            installed = await asyncio.to_thread(find_installed, hosted.app, self._profile.state)
            return await asyncio.to_thread(
                prepare,
                installed,
                confinement,
                state=self._profile.state,
                private=(self._home, *self._own),
                limits=self._rules.limits,
                granted=hosted.folders,
            )
        except (NotInstalledError, SandboxError, Unusable) as error:
            raise _ParkedError(str(error)) from error
        except OSError as error:
            raise _ParkedError(
                f"The folders of the app {hosted.app} could not be made in {self._profile.state}: "
                f"{error.strerror}."
            ) from error

    async def _keep_running(self, hosted: Hosted, launch: Launch) -> None:
        pauses = list(self._rules.pauses)
        while True:
            began = self._clock.monotonic()
            status, said = await self._live(hosted, launch)
            self._journal.info("app_ended", app=hosted.app, status=status)
            if status == EXIT_REFUSED:
                reason = await asyncio.to_thread(last_words, launch.log)
                raise _ParkedError(reason or f"The app {hosted.app} refused to be loaded.")
            if self._clock.monotonic() - began >= self._rules.stable_seconds:
                pauses = list(self._rules.pauses)
            ending = (
                f"The app {hosted.app} ended with status {status}; its log is {launch.log}.{said}"
            )
            if not pauses:
                raise _ParkedError(
                    f"{ending} It ended so often that it is not started again. Repair it, then "
                    f"start it with `tactful apps restart {hosted.app}`."
                )
            hosted.enter(AppState("stopped", f"{ending} It will be started again."))
            await self._clock.sleep_until(self._clock.monotonic() + pauses.pop(0))

    async def _live(self, hosted: Hosted, launch: Launch) -> tuple[int, str]:
        """One child from start to end: its exit status, and what else there is to say."""
        try:
            child = await Child.start(launch, self._rules.wire)
        except OSError as error:
            raise _ParkedError(
                f"The app {hosted.app} could not be started: {error.strerror}."
            ) from error
        said = ""
        try:
            async with self._serve(hosted.app, child.reader, child.writer).running() as peer:
                self._journal.info("app_started", app=hosted.app)
                life = Life(child, peer)
                hosted.runs(life)
                await _until_it_ends(life, self._begin(life, hosted))
                said = life.last_words
        finally:
            status = await child.end(self._rules.grace_seconds)
        return status, said

    async def _begin(self, life: Life, hosted: Hosted) -> None:
        """Lets a child begin; returns only if it could not."""
        seconds = self._rules.start_seconds
        begin = Begin(
            settings=hosted.conditions.settings,
            folders=tuple(
                FolderGiven(path=str(folder.path), writable=folder.writable)
                for folder in hosted.folders
            ),
        )
        try:
            await life.peer.call(HostedMethod.START, begin, Empty, timeout=seconds)
        except TactfulError as error:
            self._journal.info("app_not_begun", app=hosted.app, code=error.code)
            if not life.child.hung_up:
                life.last_words = f" It did not begin: {safe_to_show(str(error))}"
            return
        life.begun.set()
        await life.over.wait()


class _ParkedError(Exception):
    """The app is given up; the message is for the owner."""


async def _until_it_ends(life: Life, begin: Coroutine[None, None, None]) -> None:
    """Returns when the process or its connection has ended, or there is no use in waiting."""
    async with asyncio.TaskGroup() as group:
        ends = [
            group.create_task(begin, name="app begins"),
            group.create_task(life.child.wait(), name="app process"),
            group.create_task(life.peer.wait_ended(), name="app connection"),
            group.create_task(_set(life.hangs), name="app hangs"),
        ]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()


async def _set(event: asyncio.Event) -> None:
    await event.wait()
