"""The app host with real child processes: whatever an app does ends in a state of that app.

Most run under `sandbox: off`, where a child can do more; `test_sandboxed_app_answers_events` shows
the same road through the real sandbox.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.app_hosting import InstantClock, ScriptedDaemon, hosting, usable_sandbox
from tests.fakes.app_site import install_app

from tactful.errors import (
    Denied,
    IdleTimeout,
    InternalError,
    NotFound,
    NotReady,
    ShuttingDown,
)
from tactful.profile import Profile
from tactful.wire import Answer, Event, EventKind, SettingGiven
from tactful_core.values import AppId
from tactfuld.apps.folders import FolderGrant
from tactfuld.apps.host import AppHost, HostRules
from tactfuld.apps.hosted import AppState, Conditions
from tactfuld.apps.sandbox import Bubblewrap, NoSandbox, Unconfined
from tactfuld.server.session import Caller

APP = AppId("probe")
OFF = Unconfined()
QUICK = HostRules(grace_seconds=0.2)

PROBE = """
import asyncio, os, signal, subprocess, sys, time
from pathlib import Path
from tactful.hooks import hookimpl
from tactful.manifest import Manifest
from tactful.wire import EventKind

@hookimpl
def tactful_manifest():
    return Manifest(name="probe", title="Probe", version="1", events=(EventKind.MESSAGE,))

def note(line):
    with open("notes", "a") as notes:
        notes.write(line + "\\n")

@hookimpl
async def tactful_on_event(event, agent):
    match event.text:
        case "ask":
            note((await agent.ask("what is for dinner?", ["food"])).text)
        case "stream":
            note("|".join([piece async for piece in agent.stream("what is for dinner?")]))
        case "die":
            os._exit(3)
        case "fail":
            raise ValueError("MARKER in the app's own words")
        case "print":
            print("said aloud", flush=True)
        case "wait":
            note("waits")
            try:
                await asyncio.sleep(10_000)
            except asyncio.CancelledError:
                note("cancelled")
                raise
        case "slow":
            note("begin")
            await agent.ask("anything")
            note("end")
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note(str(os.getpid()))
            time.sleep(10_000)
        case "offspring":
            note(str(subprocess.Popen(["sleep", "10000"]).pid))
        case "garbage":
            os.write(int(sys.argv[sys.argv.index("--fd") + 1]), b"\\xff\\xfe\\n")
            await asyncio.sleep(10_000)
"""


BEGINS = """
@hookimpl
async def tactful_start(agent):
    note("begins")
    await asyncio.sleep(0)
    note("begun")

@hookimpl
async def tactful_stop():
    note("stops")
"""


def message(text: str) -> Event:
    return Event(kind=EventKind.MESSAGE, text=text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path with the app `probe`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    install_app(tmp_path, "probe", PROBE)
    return tmp_path


@pytest.fixture
def notes(profile_dir: Path) -> Callable[[], list[str]]:
    """What `probe` has noted in its own folder."""
    path = Profile.at(profile_dir).state / "apps" / "probe" / "notes"
    return lambda: path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def until(condition: Callable[[], bool]) -> None:
    """Returns once the condition holds; the test's own time limit ends a vain wait."""
    while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
        await asyncio.sleep(0.01)


async def deliver_until_it_ends(host: AppHost, event: Event) -> None:
    """Delivers an event during which the host is stopped."""
    with pytest.raises(NotReady, match="ends with tactfuld"):
        await host.deliver(APP, event)


def ended(pid: int) -> bool:
    """Whether a process is gone, or dead and only waits for somebody to take note."""
    try:
        return Path("/proc", str(pid), "stat").read_text(encoding="ascii").split(") ")[1][0] == "Z"
    except FileNotFoundError:
        return True


def processes_in(folder: Path) -> list[str]:
    """The processes that run in the folder or were started with it in their command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            runs_there = process.joinpath("cwd").readlink().is_relative_to(folder)
            if runs_there or os.fsencode(folder) in process.joinpath("cmdline").read_bytes():
                found.append(process.name)
        except OSError:  # it ended meanwhile
            continue
    return found


def problem(host: AppHost, app: AppId = APP) -> str:
    state = host.state(app)
    assert state is not None
    assert state.problem is not None
    return state.problem


@pytest.mark.usefixtures("site")
async def test_app_that_is_named_no_more_ends_and_can_be_named_again(profile_dir: Path) -> None:
    async with hosting(profile_dir, OFF) as host:
        await host.start(APP)
        assert host.apps == {APP}
        await host.end(APP)
        assert (host.apps, host.state(APP)) == (frozenset(), None)
        with pytest.raises(NotFound):
            await host.deliver(APP, message("ask"))
        await host.end(APP)
        await host.start(APP)
        assert host.state(APP) == AppState("running")


@pytest.mark.usefixtures("site")
async def test_app_answers_events_and_its_connection_is_its_identity(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    daemon = ScriptedDaemon(answer="lentil soup")
    async with hosting(profile_dir, OFF, daemon=daemon) as host:
        assert host.state(APP) is None
        await host.start(APP)
        assert host.state(APP) == AppState("running")
        await host.deliver(APP, message("ask"))
        await host.deliver(APP, message("stream"))
        await host.deliver(APP, message("print"))
    assert notes() == ["lentil soup", "lenti|l soup"]
    assert [(app, ask.query, ask.slots) for app, ask in daemon.asked] == [
        (APP, "what is for dinner?", ("food",)),
        (APP, "what is for dinner?", None),
    ]
    assert "dinner" not in daemon.log.getvalue()
    log = Profile.at(profile_dir).state / "logs" / "probe.log"
    assert log.read_text(encoding="utf-8") == "said aloud\n"
    written = Profile.at(profile_dir).state / "apps" / "probe" / "notes"
    assert [path.stat().st_mode & 0o777 for path in (log, written)] == [0o600, 0o600]


@pytest.mark.usefixtures("site")
async def test_sandboxed_app_answers_events(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    async with hosting(profile_dir, await asyncio.to_thread(usable_sandbox)) as host:
        await host.start(APP)
        await host.deliver(APP, message("ask"))
        with pytest.raises(NotReady, match="ended with status 3"):
            await host.deliver(APP, message("die"))
        await until(lambda: host.state(APP) == AppState("running"))
        await host.deliver(APP, message("ask"))
    assert notes() == ["lentil soup", "lentil soup"]


@pytest.mark.usefixtures("site")
async def test_sandboxed_app_that_ignores_every_request_to_end_is_killed(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    sandbox = await asyncio.to_thread(usable_sandbox)
    async with hosting(profile_dir, sandbox, rules=QUICK) as host, asyncio.TaskGroup() as group:
        await host.start(APP)
        group.create_task(deliver_until_it_ends(host, message("stubborn")), name="tell")
        await until(lambda: len(notes()) == 1)
        await host.stop()
    # What runs in the sandbox's own process namespace is ended by the kernel, a moment later.
    await until(lambda: not processes_in(Profile.at(profile_dir).state))


@pytest.mark.usefixtures("site")
async def test_dead_app_is_started_again_after_a_pause(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    clock = InstantClock()
    async with hosting(profile_dir, OFF, clock=clock) as host:
        await host.start(APP)
        with pytest.raises(NotReady, match="ended with status 3"):
            await host.deliver(APP, message("die"))
        await until(lambda: host.state(APP) == AppState("running"))
        await host.deliver(APP, message("ask"))
    assert clock.slept == [1.0]
    assert notes() == ["lentil soup"]


async def test_app_that_ends_again_and_again_is_parked(
    tmp_path: Path, profile_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install_app(tmp_path, "probe", "import os\nos._exit(9)\n")
    clock = InstantClock()
    async with hosting(profile_dir, OFF, clock=clock) as host:
        await host.start(APP)
        await until(lambda: (state := host.state(APP)) is not None and state.state == "parked")
        assert clock.slept == [1.0, 4.0, 16.0]
        assert "status 9" in problem(host)
        with pytest.raises(NotReady, match="not started again"):
            await host.deliver(APP, message("ask"))


@pytest.mark.usefixtures("site")
async def test_app_that_was_stable_has_its_restarts_given_back(profile_dir: Path) -> None:
    rules = HostRules(pauses=(1.0,), stable_seconds=0.0)
    async with hosting(profile_dir, OFF, rules=rules) as host:
        await host.start(APP)
        for _ in range(2):
            with pytest.raises(NotReady, match="started again"):
                await host.deliver(APP, message("die"))
            await until(lambda: host.state(APP) == AppState("running"))


@pytest.mark.parametrize(
    ("replaced", "by", "said"),
    [
        ("tactful_on_event", "tactful_on_evnet", "Did you mean tactful_on_event?"),
        ('name="probe"', 'name="other"', "The manifest names the app other"),
        ("import asyncio", "import no_such_module", "ModuleNotFoundError"),
        ('title="Probe"', 'title=""', "an unsound Manifest: title"),
        (", events=(EventKind.MESSAGE,)", "", "its manifest lists no events"),
    ],
    ids=[
        "misspelt hook",
        "manifest of another app",
        "broken import",
        "unsound manifest",
        "hook without events",
    ],
)
async def test_app_that_cannot_be_loaded_is_parked_at_once_with_its_own_reason(
    site: Path, profile_dir: Path, replaced: str, by: str, said: str
) -> None:
    source = site / "probe_app.py"
    source.write_text(PROBE.replace(replaced, by), encoding="utf-8")
    clock = InstantClock()
    async with hosting(profile_dir, OFF, clock=clock) as host:
        await host.start(APP)
        with pytest.raises(NotReady):
            await host.deliver(APP, message("ask"))
        state = host.state(APP)
        assert state is not None
        assert state.state == "parked"
        assert said in problem(host)
        assert str(source) in problem(host)
    assert clock.slept == []


async def test_broken_app_harms_no_other(site: Path, profile_dir: Path) -> None:
    install_app(site, "broken", "raise RuntimeError('no')")
    async with hosting(profile_dir, OFF) as host:
        for app in (AppId("broken"), APP):
            await host.start(app)
        with pytest.raises(NotReady):
            await host.deliver(AppId("broken"), message("ask"))
        await host.deliver(APP, message("ask"))
        assert host.state(APP) == AppState("running")


async def test_app_that_is_not_installed_is_parked_with_the_reason(profile_dir: Path) -> None:
    async with hosting(profile_dir, OFF) as host:
        await host.start(AppId("nowhere"))
        assert "is not installed" in problem(host, AppId("nowhere"))


@pytest.mark.usefixtures("site")
async def test_without_a_sandbox_apps_do_not_start_and_the_reason_is_shown(
    profile_dir: Path,
) -> None:
    async with hosting(profile_dir, NoSandbox("Apps do not start: no walls.")) as host:
        await host.start(APP)
        assert host.state(APP) == AppState("parked", "Apps do not start: no walls.")
        with pytest.raises(NotReady, match="no walls"):
            await host.deliver(APP, message("ask"))
    assert not Profile.at(profile_dir).state.exists()


async def test_app_whose_sources_lie_beside_the_profile_is_parked(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Binding its folder would show it the profile. No sandbox is needed to see that."""
    monkeypatch.syspath_prepend(str(profile_dir))
    install_app(profile_dir, "probe", PROBE)
    async with hosting(profile_dir, Bubblewrap(Path("/nonexistent"), hardened=True)) as host:
        await host.start(APP)
        assert str(profile_dir) in problem(host)
        assert "private folder" in problem(host)


@pytest.mark.usefixtures("site")
async def test_app_whose_program_cannot_be_started_is_parked(profile_dir: Path) -> None:
    async with hosting(profile_dir, Bubblewrap(Path("/nonexistent"), hardened=True)) as host:
        await host.start(APP)
        assert "could not be started: No such file" in problem(host)


@pytest.mark.usefixtures("site")
async def test_app_whose_folder_cannot_be_made_is_parked(profile_dir: Path) -> None:
    (profile_dir / "state").write_text("in the way", encoding="utf-8")
    async with hosting(profile_dir, OFF) as host:
        await host.start(APP)
        assert "could not be made" in problem(host)


@pytest.mark.usefixtures("site")
async def test_failure_in_a_handler_ends_that_event_only(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    daemon = ScriptedDaemon()
    async with hosting(profile_dir, OFF, daemon=daemon) as host:
        await host.start(APP)
        with pytest.raises(InternalError, match="The app probe failed") as failed:
            await host.deliver(APP, message("fail"))
        assert "MARKER" not in str(failed.value)
        await host.deliver(APP, message("ask"))
    assert notes() == ["lentil soup"]
    assert "MARKER" not in daemon.log.getvalue()
    log = Profile.at(profile_dir).state / "logs" / "probe.log"
    assert "ValueError: MARKER in the app's own words" in log.read_text(encoding="utf-8")


@pytest.mark.usefixtures("site")
async def test_error_of_the_daemon_that_the_app_lets_through_keeps_its_name(
    profile_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_daemon: ScriptedDaemon, _caller: Caller, _ask: object) -> Answer:
        raise Denied("The policy\033[31m grants nothing.")

    monkeypatch.setattr(ScriptedDaemon, "_ask", refuse)
    async with hosting(profile_dir, OFF) as host:
        await host.start(APP)
        with pytest.raises(Denied, match="grants nothing") as refused:
            await host.deliver(APP, message("ask"))
        assert str(refused.value).isprintable()
        assert host.state(APP) == AppState("running")


async def test_app_is_told_of_no_event_before_it_has_begun(
    site: Path, profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    (site / "probe_app.py").write_text(PROBE + BEGINS, encoding="utf-8")
    async with hosting(profile_dir, OFF) as host:
        await host.start(APP)
        await host.deliver(APP, message("ask"))
        assert notes() == ["begins", "begun", "lentil soup"]
    assert notes()[-1] == "stops"


async def test_app_that_cannot_begin_is_started_again_then_parked_with_what_it_said(
    site: Path, profile_dir: Path
) -> None:
    (site / "probe_app.py").write_text(PROBE + BEGINS.replace("await", "1 / 0; await"))
    clock = InstantClock()
    async with hosting(profile_dir, OFF, clock=clock) as host:
        await host.start(APP)
        with pytest.raises(NotReady):
            await host.deliver(APP, message("ask"))
        await until(lambda: (state := host.state(APP)) is not None and state.state == "parked")
        assert clock.slept == [1.0, 4.0, 16.0]
        assert "It did not begin: The app probe failed. Its log says where." in problem(host)


async def test_app_that_never_begins_is_ended(site: Path, profile_dir: Path) -> None:
    (site / "probe_app.py").write_text(PROBE + BEGINS.replace("sleep(0)", "sleep(10_000)"))
    rules = HostRules(pauses=(), start_seconds=2.0)
    async with hosting(profile_dir, OFF, rules=rules) as host:
        await host.start(APP)
        with pytest.raises(NotReady, match="No reply to `start` came"):
            await host.deliver(APP, message("ask"))


@pytest.mark.usefixtures("site")
async def test_events_are_handled_one_at_a_time(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    async with hosting(profile_dir, OFF) as host:
        await host.start(APP)
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(host.deliver(APP, message("slow")), name=f"tell {number}")
    assert notes() == ["begin", "end"] * 3


@pytest.mark.usefixtures("site")
async def test_event_that_takes_too_long_is_cancelled_in_the_app(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    async with hosting(profile_dir, OFF, rules=HostRules(event_seconds=1.0)) as host:
        await host.start(APP)
        while "waits" not in notes():  # it may still have been loading
            with pytest.raises(IdleTimeout, match="did not handle the event"):
                await host.deliver(APP, message("wait"))
        await until(lambda: notes()[-1] == "cancelled")
        assert host.state(APP) == AppState("running")


@pytest.mark.usefixtures("site")
async def test_cancelled_delivery_is_cancelled_in_the_app(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    async with hosting(profile_dir, OFF) as host, asyncio.TaskGroup() as group:
        await host.start(APP)
        telling = group.create_task(host.deliver(APP, message("wait")), name="tell")
        await until(lambda: notes() == ["waits"])
        telling.cancel()
        await until(lambda: notes() == ["waits", "cancelled"])
        assert host.state(APP) == AppState("running")


@pytest.mark.usefixtures("site")
async def test_app_that_breaks_the_protocol_is_ended_and_started_again(profile_dir: Path) -> None:
    clock = InstantClock()
    async with hosting(profile_dir, OFF, clock=clock, rules=QUICK) as host:
        await host.start(APP)
        with pytest.raises(Exception, match="app"):
            await host.deliver(APP, message("garbage"))
        await until(lambda: clock.slept == [1.0] and host.state(APP) == AppState("running"))
        await host.deliver(APP, message("ask"))


@pytest.mark.usefixtures("site")
async def test_stopping_leaves_no_process_not_even_a_stubborn_one(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    async with hosting(profile_dir, OFF, rules=QUICK) as host, asyncio.TaskGroup() as group:
        await host.start(APP)
        await host.deliver(APP, message("offspring"))
        group.create_task(deliver_until_it_ends(host, message("stubborn")), name="tell")
        await until(lambda: len(notes()) == 2)
        await host.stop()
        assert host.state(APP) == AppState("stopped", "The app probe ends with tactfuld.")
        for pid in notes():
            await until(lambda pid=pid: ended(int(pid)))  # type: ignore[misc]
        with pytest.raises(ShuttingDown):
            await host.start(APP)


@pytest.mark.usefixtures("site")
async def test_cancelling_the_hosts_group_ends_the_children(
    profile_dir: Path, notes: Callable[[], list[str]]
) -> None:
    ready = asyncio.Event()

    async def daemon() -> None:
        async with hosting(profile_dir, OFF) as host:
            await host.start(APP)
            await host.deliver(APP, message("offspring"))
            ready.set()
            await asyncio.sleep(10_000)

    async with asyncio.TaskGroup() as group:
        running = group.create_task(daemon(), name="daemon")
        await ready.wait()
        running.cancel()
    await until(lambda: ended(int(notes()[0])))


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in Linux's /proc")
@pytest.mark.usefixtures("site")
async def test_lives_of_an_app_leave_no_descriptors_open(profile_dir: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    async with hosting(profile_dir, OFF, rules=HostRules(stable_seconds=0.0)) as host:
        await host.start(APP)
        for _ in range(2):
            with pytest.raises(NotReady):
                await host.deliver(APP, message("die"))
            await until(lambda: host.state(APP) == AppState("running"))
    assert descriptors() <= before


async def test_event_for_an_app_that_is_not_hosted_is_refused(profile_dir: Path) -> None:
    async with hosting(profile_dir, OFF) as host:
        with pytest.raises(NotFound, match="No app probe is hosted"):
            await host.deliver(APP, message("ask"))


@pytest.mark.usefixtures("site")
async def test_long_log_is_put_aside_when_the_app_starts(profile_dir: Path) -> None:
    logs = Profile.at(profile_dir).state / "logs"
    logs.mkdir(parents=True)
    (logs / "probe.log").write_bytes(b"x" * (1024 * 1024 + 1))
    async with hosting(profile_dir, OFF) as host:
        await host.start(APP)
        await host.deliver(APP, message("print"))
    assert (logs / "probe.log").read_text(encoding="utf-8") == "said aloud\n"
    assert (logs / "probe.log.1").stat().st_size > 1024 * 1024


CONDITIONS = """
@hookimpl
def tactful_settings():
    from tactful import Setting
    return [Setting(key="people", title="How many eat", default=2)]

@hookimpl
async def tactful_start(settings, folders):
    note(f"{settings['people']} {[(f.path, f.writable) for f in folders]}")
"""


async def test_app_is_told_what_the_owner_decided_and_begins_anew_when_that_changes(
    site: Path, profile_dir: Path, tmp_path: Path, notes: Callable[[], list[str]]
) -> None:
    (site / "probe_app.py").write_text(PROBE + CONDITIONS, encoding="utf-8")
    shared = tmp_path / "shared"
    shared.mkdir()
    more = Conditions(
        (FolderGrant(str(shared), writable=True),), (SettingGiven(key="people", value=5),)
    )
    async with hosting(profile_dir, OFF) as host:
        for conditions in (Conditions(), Conditions(), more):
            await host.host({APP: conditions})
            await host.deliver(APP, message("print"))
        await host.host({})
        assert host.apps == frozenset()
    assert notes() == ["2 []", f"5 [('{shared}', True)]"]


async def test_folder_that_another_app_could_replace_parks_the_app(
    site: Path, profile_dir: Path, tmp_path: Path
) -> None:
    """An app that writes `outer` could make `outer/inner` a link to anything of the owner's."""
    install_app(site, "other", PROBE.replace('"probe"', '"other"'))
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    wanted = {
        APP: Conditions((FolderGrant(str(inner), writable=False),)),
        AppId("other"): Conditions((FolderGrant(str(inner.parent), writable=True),)),
    }
    async with hosting(profile_dir, OFF) as host:
        await host.host(wanted)
        assert "may write" in problem(host)
        await host.deliver(AppId("other"), message("ask"))


async def test_setting_that_does_not_fit_is_said_where_the_app_is_listed(
    site: Path, profile_dir: Path
) -> None:
    (site / "probe_app.py").write_text(PROBE + CONDITIONS, encoding="utf-8")
    wrong = Conditions(settings=(SettingGiven(key="people", value="five"),))
    async with hosting(profile_dir, OFF, rules=HostRules(pauses=())) as host:
        await host.start(APP, wrong)
        with pytest.raises(NotReady, match="people of the app probe must be a whole number"):
            await host.deliver(APP, message("ask"))


async def test_parked_app_is_started_again_once_it_is_repaired(
    site: Path, profile_dir: Path
) -> None:
    source = site / "probe_app.py"
    source.write_text("raise RuntimeError('no')", encoding="utf-8")
    async with hosting(profile_dir, OFF) as host:
        await host.start(APP)
        with pytest.raises(NotReady):
            await host.deliver(APP, message("ask"))
        source.write_text(PROBE, encoding="utf-8")
        await host.restart(APP)
        await host.deliver(APP, message("ask"))
        with pytest.raises(NotFound):
            await host.restart(AppId("nowhere"))


DAEMON = """
import asyncio, sys
from pathlib import Path
from tactful.wire import Event
from tactfuld.apps.sandbox import Unconfined
from tests.fakes.app_hosting import hosting, usable_sandbox

async def daemon(confinement):
    async with hosting(Path(sys.argv[1]), confinement) as host:
        await host.start("probe")
        await host.deliver("probe", Event(kind="message", text="ask"))
        print("up", flush=True)
        await asyncio.sleep(10_000)

asyncio.run(daemon(usable_sandbox() if sys.argv[2] == "sandboxed" else Unconfined()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in Linux's /proc")
@pytest.mark.parametrize("walls", ["sandboxed", "unconfined"])
async def test_no_child_outlives_the_daemons_sudden_death(
    site: Path, profile_dir: Path, walls: str
) -> None:
    if walls == "sandboxed":
        await asyncio.to_thread(usable_sandbox)
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DAEMON, profile_dir, walls),
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(site)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert daemon.stdout is not None
    assert await daemon.stdout.readline() == b"up\n"
    state = Profile.at(profile_dir).state
    assert processes_in(state)
    daemon.kill()
    await daemon.wait()
    await until(lambda: not processes_in(state))
