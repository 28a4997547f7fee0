"""Whatever a hostile app does ends in a state that docs/apps.md names, and others are served.

What it costs the others in time is measured by `python -m tactful_eval bench apps`.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.fakes.app_hosting import InstantClock, hosting, usable_sandbox
from tests.fakes.app_site import install_app

from tactful.errors import IdleTimeout, InternalError, NotReady, TactfulError
from tactful.profile import Profile
from tactful.wire import Event, EventKind
from tactful_core.values import AppId
from tactfuld.apps.host import AppHost, HostRules
from tactfuld.apps.limits import Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's bubblewrap")

HOSTILE, GOOD = AppId("hostile"), AppId("good")
DOCUMENT = (Path(__file__).parents[2] / "docs" / "apps.md").read_text(encoding="utf-8")

SOURCE = """
import asyncio, json, os, signal, socket, subprocess, sys, time
from tactful import EventKind, Manifest, hookimpl

@hookimpl
def tactful_manifest():
    return Manifest(name="{name}", title="Probe", version="1", events=(EventKind.MESSAGE,))

FD = int(sys.argv[sys.argv.index("--fd") + 1])

def note(line):
    with open("notes", "a") as notes:
        notes.write(line + "\\n")

def all_of(content):
    while content:
        try:
            content = content[os.write(FD, content):]
        except BlockingIOError:
            time.sleep(0.001)

@hookimpl
async def tactful_on_event(event, agent):
    match event.text:
        case "ask":
            note((await agent.ask("what is for dinner?")).text)
        case "flood":
            for number in range(300):
                all_of(json.dumps(dict(jsonrpc="2.0", id=f"f{{number}}", method="ask",
                                       params=dict(query="dinner?"))).encode() + b"\\n")
        case "endless line":
            os.set_blocking(FD, True)
            for _ in range(1024):
                all_of(b"x" * 1024 * 1024)
        case "block":
            note("blocks")
            time.sleep(10_000)
        case "sleep":
            note("sleeps")
            await asyncio.sleep(10_000)
        case "crash":
            os._exit(3)
        case "fork":
            children = []
            try:
                for _ in range(40):
                    children.append(subprocess.Popen(["sleep", "10000"]))
            finally:
                note(str(len(children)))
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note("stubborn")
            time.sleep(10_000)
        case "print":
            for _ in range(3 * 1024):
                print("x" * 1023)
        case "connect":
            refused = 0
            for _ in range(1000):
                with socket.socket(socket.AF_UNIX) as connection:
                    try:
                        connection.connect(os.environ["HOME"] + "/../../../run/app.sock")
                    except OSError:
                        refused += 1
            note(str(refused))
"""


def message(text: str) -> Event:
    return Event(kind=EventKind.MESSAGE, text=text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in (HOSTILE, GOOD):
        install_app(tmp_path, name, SOURCE.format(name=name))
    return tmp_path


@pytest.fixture
def notes(profile_dir: Path) -> Path:
    """What the hostile app has noted in its own folder."""
    return Profile.at(profile_dir).state / "apps" / HOSTILE / "notes"


@asynccontextmanager
async def both(profile_dir: Path, rules: HostRules | None = None) -> AsyncIterator[AppHost]:
    """A host with both apps in the real sandbox, and a clock on which pauses take no time."""
    sandbox = await asyncio.to_thread(usable_sandbox)
    async with hosting(profile_dir, sandbox, clock=InstantClock(), rules=rules) as host:
        for app in (HOSTILE, GOOD):
            await host.start(app)
        yield host
        await served(host, GOOD)  # whatever happened


async def served(host: AppHost, app: AppId) -> None:
    """Returns once the app has handled an event; one may run out of time on a busy machine."""
    while True:
        try:
            await host.deliver(app, message("ask"))
        except TactfulError:
            await asyncio.sleep(0.05)
        else:
            return


async def until_state(host: AppHost, state: str) -> str:
    """Waits for a state of the hostile app; its sentence."""
    while (found := host.state(HOSTILE)) is None or found.state != state:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return found.problem or ""


async def until_noted(notes: Path, line: str) -> None:
    while not notes.exists() or line not in notes.read_text(encoding="utf-8"):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.mark.usefixtures("site")
async def test_app_that_floods_goes_on_and_is_answered_no_more_than_may_run(
    profile_dir: Path,
) -> None:
    async with both(profile_dir) as host:
        await host.deliver(HOSTILE, message("flood"))
        assert (await until_state(host, "running")) == ""


@pytest.mark.usefixtures("site")
async def test_app_that_sends_an_endless_line_is_ended_and_at_last_parked(
    profile_dir: Path,
) -> None:
    async with both(profile_dir) as host:
        while (state := host.state(HOSTILE)) is None or state.state != "parked":
            with pytest.raises(Exception, match="app"):
                await host.deliver(HOSTILE, message("endless line"))
            await asyncio.sleep(0.01)
        assert "ended so often" in (state.problem or "")


@pytest.mark.usefixtures("site")
async def test_app_that_sleeps_in_a_handler_loses_the_event_and_goes_on(
    profile_dir: Path, notes: Path
) -> None:
    async with both(profile_dir, HostRules(event_seconds=2.0, grace_seconds=30.0)) as host:
        with pytest.raises(IdleTimeout, match="did not handle the event"):
            await host.deliver(HOSTILE, message("sleep"))
        assert (await until_state(host, "running")) == ""
        await served(host, HOSTILE)


@pytest.mark.usefixtures("site")
async def test_app_that_blocks_in_a_handler_is_ended_and_started_again(
    profile_dir: Path, notes: Path
) -> None:
    """It cannot even be told that its event was cancelled."""
    async with both(profile_dir, HostRules(event_seconds=2.0, grace_seconds=1.0)) as host:
        await served(host, HOSTILE)
        with pytest.raises(NotReady, match="did not answer any more"):
            await host.deliver(HOSTILE, message("block"))
        await served(host, HOSTILE)


@pytest.mark.usefixtures("site")
async def test_app_that_crashes_in_a_loop_is_parked(profile_dir: Path) -> None:
    async with both(profile_dir) as host:
        while (state := host.state(HOSTILE)) is None or state.state != "parked":
            with pytest.raises(NotReady):
                await host.deliver(HOSTILE, message("crash"))
            await asyncio.sleep(0.01)
        assert "ended so often" in (state.problem or "")


@pytest.mark.usefixtures("site")
async def test_processes_that_an_app_starts_die_with_it(profile_dir: Path, notes: Path) -> None:
    async with both(profile_dir) as host:
        await host.deliver(HOSTILE, message("fork"))
        await until_noted(notes, "40")
        folder = notes.parent
        assert await asyncio.to_thread(running_in, folder) >= 40
        await host.end(HOSTILE)
        while await asyncio.to_thread(running_in, folder):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.skipif(os.geteuid() == 0, reason="the kernel does not count the processes of root")
@pytest.mark.usefixtures("site")
async def test_app_may_start_only_so_many_processes(profile_dir: Path, notes: Path) -> None:
    async with both(profile_dir, HostRules(limits=Limits(processes=20))) as host:
        with pytest.raises(InternalError):
            await host.deliver(HOSTILE, message("fork"))
        assert int(notes.read_text(encoding="utf-8")) < 20


@pytest.mark.usefixtures("site")
async def test_app_that_ignores_being_asked_to_end_is_killed(
    profile_dir: Path, notes: Path
) -> None:
    async with (
        both(profile_dir, HostRules(grace_seconds=0.2)) as host,
        asyncio.TaskGroup() as tasks,
    ):
        telling = tasks.create_task(host.deliver(HOSTILE, message("stubborn")), name="tell")
        await until_noted(notes, "stubborn")
        telling.cancel()
        await host.end(HOSTILE)
        while await asyncio.to_thread(running_in, notes.parent):  # noqa: ASYNC110 - the kernel ends
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("site")
async def test_app_that_writes_without_end_has_a_log_of_bounded_size(profile_dir: Path) -> None:
    bound = 1024 * 1024
    async with both(profile_dir, HostRules(limits=Limits(file_bytes=bound))) as host:
        with pytest.raises(InternalError, match="The app hostile failed"):
            await host.deliver(HOSTILE, message("print"))
        log = Profile.at(profile_dir).state / "logs" / "hostile.log"
        assert 0 < log.stat().st_size <= bound
        assert (await until_state(host, "running")) == ""


@pytest.mark.usefixtures("site")
async def test_app_in_the_sandbox_reaches_no_socket_of_the_daemon(
    profile_dir: Path, notes: Path
) -> None:
    async with both(profile_dir) as host:
        await host.deliver(HOSTILE, message("connect"))
        await until_noted(notes, "1000")


def running_in(folder: Path) -> int:
    """How many processes run in a folder."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += process.joinpath("cwd").readlink().is_relative_to(folder)
        except OSError:  # it ended meanwhile
            continue
    return found


def test_document_names_each_case_and_its_state() -> None:
    [table] = re.findall(r"\| what a hostile app does .*?\n\n", DOCUMENT, re.DOTALL)
    for case in ("floods", "without a newline", "connections", "sleeps", "blocks", "ends again",
                 "processes", "SIGTERM", "without end", "memory", "processor"):  # fmt: skip
        assert case in table
    states = re.findall(r"\| `(\w+)`[^|]*\|$", table, re.MULTILINE)
    assert len(states) == table.count("\n") - 3
    assert set(states) <= {"running", "stopped", "parked"}
