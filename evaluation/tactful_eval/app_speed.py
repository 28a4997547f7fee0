"""What a hostile app costs the daemon and the other apps in time: ratios, measured in one run.

Decides what is timed: a question of a program outside (the daemon's own latency) and an event that
a hosted app handles by asking once (the daemon, the app, the daemon, and back), while a third app
does its worst in the real sandbox, and while it does nothing. Quiet and hostile spells take turns,
each after a rest of its own and in either order, so that what else the machine does meets them
alike. The answer itself is made at once: a model's work would only hide the difference. What is
*not* here: in which state each case ends, which is tested (`tests/security/test_hostile_apps.py`).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import structlog
from structlog.typing import EventDict

from tactful.app_client import AppClient
from tactful.errors import TactfulError
from tactful.peer import Peer
from tactful.profile import Profile
from tactful.wire import Answer, AppMethod, Ask, Event, EventKind
from tactful_core.values import AppId
from tactfuld.apps.host import AppHost, HostRules
from tactfuld.apps.sandbox import Bubblewrap, NoSandbox, Unconfined, choose_confinement
from tactfuld.apps.tokens import FILE_NAME, AppTokens
from tactfuld.clock import SystemClock
from tactfuld.server.listeners import APP_LIMITS, MOST_CONNECTIONS, AppDoor
from tactfuld.server.session import Caller, Method
from tactfuld.server.sockets import bind_unix, release_unix, serve_socket

GOOD, HOSTILE, OUTSIDE = AppId("good"), AppId("hostile"), AppId("outside")
CASES = ("flood", "endless line", "connections", "block", "crash", "fork", "stubborn", "print")

_REST_SECONDS = 0.2

_APP = """
import asyncio, json, os, signal, subprocess, sys, time
from tactful import EventKind, Manifest, hookimpl

FD = int(sys.argv[sys.argv.index("--fd") + 1])

@hookimpl
def tactful_manifest():
    return Manifest(name="{name}", title="Measured", version="1", events=(EventKind.MESSAGE,))

def send(content):
    while content:
        try:
            content = content[os.write(FD, content):]
        except BlockingIOError:
            time.sleep(0.001)

@hookimpl
async def tactful_on_event(event, agent):
    what, _, seconds = event.text.partition("|")
    ends = time.monotonic() + float(seconds or 0)
    match what:
        case "ask":
            await agent.ask("what is for dinner?")
        case "flood":
            number = 0
            while time.monotonic() < ends:
                number += 1
                send(json.dumps(dict(jsonrpc="2.0", id=f"f{{number}}", method="ask",
                                     params=dict(query="dinner?"))).encode() + b"\\n")
        case "endless line":
            while time.monotonic() < ends:
                send(b"x" * 1024 * 1024)
        case "block":
            time.sleep(float(seconds))
        case "crash":
            os._exit(3)
        case "fork":
            busy = "import time; ends = time.time() + float({{}})\\nwhile time.time() < ends: pass"
            busy = [sys.executable, "-I", "-S", "-c", busy.format(seconds)]
            for child in [subprocess.Popen(busy) for _ in range(30)]:
                await asyncio.to_thread(child.wait)
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while time.monotonic() < ends:
                pass
        case "print":
            while time.monotonic() < ends:
                print("x" * 1023)
"""

_CONNECTIONS = """
import socket, sys
connections = []
for _ in range(1000):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    connection.connect(sys.argv[1])
    connections.append(connection)
"""


@dataclass(frozen=True, slots=True)
class CaseSpeed:
    """One case; times in milliseconds.

    Attributes:
        daemon: median time of the question from outside, over that of the quiet spells.
        app: the same of the other app's event.
        daemon_p90, app_p90: the same of the 90th percentiles.
    """

    case: str
    daemon: float
    app: float
    daemon_p90: float
    app_p90: float
    quiet_daemon_ms: float
    quiet_app_ms: float


@dataclass(frozen=True, slots=True)
class AppSpeed:
    """All cases; `worst` is the largest ratio of medians."""

    sandbox: str
    cases: tuple[CaseSpeed, ...]
    worst: float


@dataclass(slots=True)
class _Times:
    daemon: list[float] = field(default_factory=list)
    app: list[float] = field(default_factory=list)


def app_speed(
    folder: Path | None = None,
    cases: Sequence[str] = CASES,
    rounds: int = 4,
    seconds: float = 1.0,
) -> AppSpeed:
    """Measures in a temporary folder inside `folder` (default: the system's), then removes it.

    Args:
        rounds: how often each case is measured, with as many quiet spells.
        seconds: the length of each spell.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix="tf-") as made:
        return asyncio.run(_measured(Path(made), cases, rounds, seconds))


async def _measured(folder: Path, cases: Sequence[str], rounds: int, seconds: float) -> AppSpeed:
    quiet = {case: _Times() for case in cases}
    hostile = {case: _Times() for case in cases}
    async with _site(folder) as site:
        await site.warm_up()
        for number in range(rounds):
            for case in cases:
                for attacked in (False, True) if number % 2 else (True, False):
                    await site.recover()
                    if attacked:
                        async with site.attacked(case, seconds):
                            await site.spell(hostile[case], seconds)
                    else:
                        await site.spell(quiet[case], seconds)
    found = tuple(_speed(case, quiet[case], hostile[case]) for case in cases)
    worst = max(max(each.daemon, each.app) for each in found)
    return AppSpeed(site.sandbox, found, round(worst, 2))


class _Site:
    """A host with two apps and a program outside."""

    def __init__(self, host: AppHost, client: AppClient, socket: Path, sandbox: str) -> None:
        self._host = host
        self._client = client
        self._socket = socket
        self.sandbox = sandbox

    async def warm_up(self) -> None:
        for app in (GOOD, HOSTILE):
            await self._host.start(app)
            await self._host.deliver(app, _message("ask"))

    async def spell(self, times: _Times, seconds: float) -> None:
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            times.daemon.append(await _timed(lambda: self._client.ask("what is for dinner?")))
            times.app.append(await _timed(lambda: self._host.deliver(GOOD, _message("ask"))))
            await asyncio.sleep(0.002)

    @asynccontextmanager
    async def attacked(self, case: str, seconds: float) -> AsyncIterator[None]:
        """The hostile app is at it during the block."""
        async with asyncio.TaskGroup() as tasks:
            attack = tasks.create_task(self._attack(case, seconds), name=case)
            yield
            attack.cancel()

    async def _attack(self, case: str, seconds: float) -> None:
        if case == "connections":
            program = (sys.executable, "-I", "-c", _CONNECTIONS, str(self._socket))
            process = await asyncio.create_subprocess_exec(
                *program, stderr=asyncio.subprocess.DEVNULL
            )
            await process.wait()
            return
        again = case in {"crash", "endless line"}
        while True:
            with suppress(TactfulError):
                await self._host.deliver(HOSTILE, _message(f"{case}|{seconds}"))
            if not again:
                return
            await asyncio.sleep(0.05)

    async def recover(self) -> None:
        """Until the hostile app is as it was, and everybody has had a rest."""
        await self._host.restart(HOSTILE)
        await self._host.deliver(HOSTILE, _message("ask"))
        await asyncio.sleep(_REST_SECONDS)


@asynccontextmanager
async def _site(folder: Path) -> AsyncIterator[_Site]:
    profile, site = Profile.at(folder / "p"), folder / "site"
    await asyncio.to_thread(_install, site)
    sys.path.insert(0, str(site))
    confinement = await asyncio.to_thread(choose_confinement, "required")
    if isinstance(confinement, NoSandbox):
        confinement = Unconfined()
    log = structlog.wrap_logger(structlog.PrintLogger(), processors=[_silent])
    tokens = await asyncio.to_thread(AppTokens.load, profile.state / FILE_NAME)
    door = AppDoor(tokens, {AppMethod.ASK: Method(Ask, _answer)}, log)
    listener = await asyncio.to_thread(bind_unix, profile.app_socket)

    def serve(app: AppId, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Peer:
        return door.hosted(app, reader, writer)

    try:
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            serving = tasks.create_task(
                serve_socket(
                    listener, door.serve, limits=APP_LIMITS, most=MOST_CONNECTIONS, log=log
                ),
                name="app.sock",
            )
            host = AppHost(
                tasks,
                profile=profile,
                home=Path.home(),
                confinement=confinement,
                serve=serve,
                clock=SystemClock(),
                journal=log,
                rules=HostRules(wire=APP_LIMITS, event_seconds=60.0),
            )
            token = await asyncio.to_thread(tokens.issue, OUTSIDE)
            client = await stack.enter_async_context(AppClient.connect(profile, token))
            name = "bubblewrap" if isinstance(confinement, Bubblewrap) else "off"
            try:
                yield _Site(host, client, profile.app_socket, name)
            finally:
                await host.stop()
                serving.cancel()
    finally:
        sys.path.remove(str(site))
        await asyncio.to_thread(release_unix, listener, profile.app_socket)


def _install(site: Path) -> None:
    site.mkdir(parents=True)
    for name in (GOOD, HOSTILE):
        module = f"measured_{name}"
        (site / f"{module}.py").write_text(_APP.format(name=name), encoding="utf-8")
        metadata = site / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[tactful.apps]\n{name} = {module}\n")


async def _answer(_caller: Caller, _question: Ask) -> Answer:
    return Answer(text="lentils", views=(), policy="p")


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1000


def _message(text: str) -> Event:
    return Event(kind=EventKind.MESSAGE, text=text)


def _silent(_logger: object, _name: str, _event: EventDict) -> EventDict:
    raise structlog.DropEvent


def _speed(case: str, quiet: _Times, hostile: _Times) -> CaseSpeed:
    return CaseSpeed(
        case=case,
        daemon=round(median(hostile.daemon) / median(quiet.daemon), 2),
        app=round(median(hostile.app) / median(quiet.app), 2),
        daemon_p90=round(_p90(hostile.daemon) / _p90(quiet.daemon), 2),
        app_p90=round(_p90(hostile.app) / _p90(quiet.app), 2),
        quiet_daemon_ms=round(median(quiet.daemon), 2),
        quiet_app_ms=round(median(quiet.app), 2),
    )


def _p90(times: Sequence[float]) -> float:
    return quantiles(times, n=10)[-1] if len(times) > 1 else times[0]
