"""An app's process: one app, then events; every failure has its place."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.app_site import install_app
from tests.fakes.no_budget import NoBudget

from tactful.app_main import EXIT_REFUSED, handle, load
from tactful.errors import Denied, InternalError, InvalidParams
from tactful.hooks import App, AppRefusedError
from tactful.wire import Answer, Detail, Event, EventKind

SOURCE = """
from tactful.errors import Denied
from tactful.hooks import hookimpl
from tactful.manifest import Manifest
from tactful.wire import EventKind

@hookimpl
def tactful_manifest():
    return Manifest(name="{name}", title="Probe", version="1", events=(EventKind.MESSAGE,))

@hookimpl
async def tactful_on_event(event, agent):
    if event.text == "fail":
        raise ValueError("MARKER in the app's own words")
    if event.text == "leave a stream":
        async for _piece in agent.stream("dinner?"):
            return
    if event.text == "catch":
        try:
            await agent.ask("dinner?")
        except Denied:
            return
    await agent.ask(event.text)
"""


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """An import folder of this test; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def event(text: str) -> Event:
    return Event(kind=EventKind.MESSAGE, text=text)


class Asker(NoBudget):
    """Refuses everything; a stream gets one piece and then waits."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cancelled = False

    async def ask(
        self,
        query: str,
        *,
        slots: tuple[str, ...] | None = None,
        thread: str | None = None,
        detail: Detail = "views",
        on_text: Callable[[str], None] | None = None,
    ) -> Answer:
        self.asked.append(query)
        if on_text is None:
            raise Denied("The policy does not grant this.")
        on_text("soup")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError("nobody ends this wait")


# --- loading ------------------------------------------------------------------------------------


def test_loads_the_named_app_and_imports_no_other(site: Path) -> None:
    install_app(site, "loads", SOURCE.format(name="loads"))
    install_app(site, "broken", "raise RuntimeError('imported')")
    assert load("loads").manifest.name == "loads"
    assert "broken_app" not in sys.modules


def test_refuses_a_name_that_is_not_installed_or_installed_twice(site: Path) -> None:
    with pytest.raises(AppRefusedError, match="nowhere is installed 0 times"):
        load("nowhere")
    install_app(site, "twin", SOURCE.format(name="twin"), package="first_twin_app")
    install_app(site, "twin", SOURCE.format(name="twin"), package="second_twin_app")
    with pytest.raises(AppRefusedError, match="twin is installed 2 times"):
        load("twin")


@pytest.mark.parametrize(
    ("first_line", "said"),
    [
        ("raise RuntimeError('MARKER')", ":1: The app bad could not be loaded: it raised Runtime"),
        ("import sys; sys.exit(0)", ":1: The app bad could not be loaded: it raised SystemExit"),
        ("def (", ":1: The app bad could not be loaded: it raised SyntaxError"),
    ],
    ids=["raises", "exits", "does not parse"],
)
def test_app_that_cannot_be_imported_is_refused_with_its_place(
    site: Path, capsys: pytest.CaptureFixture[str], first_line: str, said: str
) -> None:
    module = install_app(site, "bad", first_line)
    with pytest.raises(AppRefusedError) as refused:
        load("bad")
    assert str(refused.value).startswith(f"{module}{said}")
    assert "MARKER" not in str(refused.value)
    assert "Traceback" in capsys.readouterr().err


def test_hook_that_raises_while_the_app_is_loaded_is_refused_with_its_place(site: Path) -> None:
    source = SOURCE.format(name="bad").replace("    return Man", "    return 1 / 0, Man")
    module = install_app(site, "bad", source)
    with pytest.raises(AppRefusedError, match="ZeroDivisionError") as refused:
        load("bad")
    assert str(refused.value).startswith(f"{module}:9: ")


def test_unsound_manifest_is_refused_with_the_field(site: Path) -> None:
    module = install_app(site, "bad", SOURCE.format(name="bad").replace('"1"', '""'))
    with pytest.raises(AppRefusedError, match="an unsound Manifest: version: ") as refused:
        load("bad")
    assert str(refused.value).startswith(f"{module}:9: ")


# --- events -------------------------------------------------------------------------------------


async def loaded(name: str) -> App:
    """Loading reads files, which no loop does."""
    return await asyncio.to_thread(load, name)


async def test_failure_of_an_app_becomes_a_named_error_without_its_words(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install_app(site, "fails", SOURCE.format(name="fails"))
    app = await loaded("fails")
    with pytest.raises(InternalError, match="The app fails failed") as failed:
        await handle(app, event("fail"), Asker())
    assert "MARKER" not in str(failed.value)
    assert "ValueError: MARKER" in capsys.readouterr().err


async def test_error_of_the_daemon_keeps_its_name_unless_the_app_catches_it(site: Path) -> None:
    install_app(site, "asks", SOURCE.format(name="asks"))
    app, asker = await loaded("asks"), Asker()
    with pytest.raises(Denied):
        await handle(app, event("dinner?"), asker)
    await handle(app, event("catch"), asker)
    assert asker.asked == ["dinner?", "dinner?"]


async def test_stream_that_the_app_leaves_is_cancelled_with_its_event(site: Path) -> None:
    install_app(site, "leaves", SOURCE.format(name="leaves"))
    asker = Asker()
    await handle(await loaded("leaves"), event("leave a stream"), asker)
    assert asker.cancelled


async def test_event_that_the_manifest_does_not_list_is_refused(site: Path) -> None:
    install_app(site, "deaf", SOURCE.format(name="deaf"))
    app, asker = await loaded("deaf"), Asker()
    app.manifest = app.manifest.model_copy(update={"events": ()})
    with pytest.raises(InvalidParams, match="deaf does not take events of the kind message"):
        await handle(app, event("dinner?"), asker)
    assert asker.asked == []


# --- the process --------------------------------------------------------------------------------


def start(site: Path, app: str, theirs: socket.socket) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "tactful.app_main", "--app", app]
    return subprocess.Popen(
        [*command, "--fd", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={"PYTHONPATH": ":".join(["daemon", str(site)])},
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_process_ends_well_when_the_daemon_ends_the_connection(site: Path) -> None:
    install_app(site, "waits", SOURCE.format(name="waits"))
    ours, theirs = socket.socketpair()
    with contextlib.closing(ours), start(site, "waits", theirs) as process:
        theirs.close()
        ours.shutdown(socket.SHUT_WR)
        assert process.communicate() == ("", "")
    assert process.returncode == 0


STOPS = """
@hookimpl
async def tactful_stop():
    print("stopped in order", flush=True)
    await __import__("asyncio").sleep({seconds})
    print("never reached in time", flush=True)
"""


def test_process_lets_the_app_stop_but_does_not_wait_for_ever(site: Path) -> None:
    install_app(site, "stops", SOURCE.format(name="stops") + STOPS.format(seconds=10_000))
    ours, theirs = socket.socketpair()
    with contextlib.closing(ours), start(site, "stops", theirs) as process:
        theirs.close()
        ours.shutdown(socket.SHUT_WR)
        said, errors = process.communicate()
    assert process.returncode == 0
    assert said == "stopped in order\n"
    assert "TimeoutError" in errors


def test_process_of_a_refused_app_ends_with_78_and_the_sentence_as_its_last_line(
    site: Path,
) -> None:
    install_app(site, "bad", SOURCE.format(name="other"))
    ours, theirs = socket.socketpair()
    with contextlib.closing(ours), start(site, "bad", theirs) as process:
        theirs.close()
        said, errors = process.communicate()
    assert process.returncode == EXIT_REFUSED == 78
    assert said == ""
    assert "The manifest names the app other" in errors.splitlines()[-1]
