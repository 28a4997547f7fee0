"""`tactful demo`: a temporary profile, a real daemon, ten questions under a budget.

Decides the order of events and that nothing of them stays behind. What is *not* here: the story
(`demo_story`), how it looks (`demo_screen`), and everything that the daemon does.

Invariants:

- the daemon is stopped and the folder removed on every way out: the end, an error, Ctrl-C, a
  request to terminate; with `--keep DIR` the folder stays;
- where apps cannot be sandboxed, the demo's own profile says `sandbox: off`, and the screen says
  so; no other profile is touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation, surroundings
from tactful.errors import AlreadyExists, InternalError, ModelFailed, UsageError

if TYPE_CHECKING:
    from types import FrameType

    from tactful.cli.demo_screen import DemoScreen
    from tactful.cli.passphrase import Passphrase
    from tactful.owner_client import OwnerClient
    from tactful.owner_wire import LedgerReply, Turn

TERMINATED = 143
KEPT_PASSPHRASE = "passphrase.txt"  # noqa: S105 - a file's name
MOST_SOCKET_BYTES = 100
"""A socket's path has at most 104 bytes on macOS, 108 on Linux."""


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    context: typer.Context,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Make the demo's profile in this new folder, and leave it there.",
            show_default=False,
        ),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Watch an app get tactful answers under a budget.

    The demo makes a profile of its own and removes it afterwards; yours is not touched.
    """
    if profile is not None or surroundings(context).profile is not None:
        raise UsageError(
            "The demo makes a profile of its own and touches no other; leave --profile out. "
            "To keep what it makes, use --keep DIR."
        )
    with _terminated_like_interrupted(), _folder(keep) as folder:
        call = invocation(context, folder, as_json)
        turns, found = _play(call, kept=keep is not None)
        call.output.finish(report(turns, found))


def report(turns: list[Turn], found: LedgerReply) -> dict[str, object]:
    """What `tactful demo --json` prints; attributes in the order of the policy."""
    order = [line.attribute for line in found.lines]
    return {
        "turns": [
            {
                "turn": turn.turn,
                "query": turn.query,
                "selections": [
                    {
                        "slot": chosen.slot,
                        "view": chosen.view,
                        "epsilon": round(chosen.epsilon, 6),
                        "charged": sorted(chosen.charged, key=order.index),
                        "fallback": chosen.fallback,
                    }
                    for chosen in turn.selections
                ],
                "answer": turn.answer,
            }
            for turn in turns
        ],
        "ledgers": {
            line.attribute: {"spent": round(line.spent, 6), "cap": round(line.cap, 6)}
            for line in found.lines
        },
    }


def _play(call: Invocation, *, kept: bool) -> tuple[list[Turn], LedgerReply]:
    import asyncio

    from tactful.cli import process, profile_setup
    from tactful.cli.children import stop_child
    from tactful.cli.demo_screen import DemoScreen
    from tactful.cli.progress import spinner

    target = process.Target(call.profile, call.folder)
    passphrase = _new_passphrase(call, kept=kept)
    screen = DemoScreen(call.output.console, call.profile, kept=kept)
    screen.opening()
    profile_setup.install_model(call, target)
    screen.sandbox(_make_profile(call, passphrase))
    with spinner(call.output.notes, "starting the daemon"):
        child = process.start_daemon(target, passphrase, detached=True)
    try:
        turns, found = asyncio.run(_tell_the_story(call, screen))
    finally:
        stop_child(child)
    screen.closing(found)
    return turns, found


def _make_profile(call: Invocation, passphrase: Passphrase) -> str | None:
    """Makes the demo's profile; returns why apps run without a sandbox, if they do."""
    from tactful.cli import process, profile_setup
    from tactful.cli.demo_story import STARTER

    target = process.Target(call.profile, call.folder)
    options = ["--starter", STARTER, "--key", "passphrase", "--no-recovery"]
    made = profile_setup.initialise(call, target, options, passphrase)
    if made.sandbox_problem is None:
        return None
    _empty(call.profile.config, call.profile.data, call.profile.state)
    profile_setup.initialise(call, target, [*options, "--sandbox", "off"], passphrase)
    return made.sandbox_problem


async def _tell_the_story(call: Invocation, screen: DemoScreen) -> tuple[list[Turn], LedgerReply]:
    from tactful.cli.demo_story import QUESTIONS
    from tactful.cli.waiting import until_model_is_loaded
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        status = await until_model_is_loaded(client, call.output.notes)
        if status.model.state == "failed":
            raise ModelFailed(status.model.problem or "The model did not load.")
        screen.model(status.model.name)
        await _remember(client, screen)
        screen.questions(len(QUESTIONS))
        turns = [turn for question in QUESTIONS for turn in await _ask(client, screen, question)]
        return turns, await client.ledger()


async def _remember(client: OwnerClient, screen: DemoScreen) -> None:
    from tactful.cli.demo_story import MEMORIES

    for position, shelf, text in MEMORIES:
        await client.remember(text, shelf, position)
    screen.memories(MEMORIES)


async def _ask(client: OwnerClient, screen: DemoScreen, question: str) -> tuple[Turn, ...]:
    from tactful.cli.demo_story import APP

    reply = await client.tell(
        APP, question, on_turn=screen.turns.started, on_text=screen.turns.text
    )
    screen.turns.finished()
    if not reply.turns:
        raise InternalError(f"The app {APP} took the message and asked nothing; see its log.")
    return reply.turns


def _new_passphrase(call: Invocation, *, kept: bool) -> Passphrase:
    """A random one; a kept profile keeps it beside itself, or nobody could open it again."""
    import secrets

    from tactful.cli.passphrase import Passphrase

    text = secrets.token_urlsafe(24)
    if kept and call.folder is not None:
        file = call.folder / KEPT_PASSPHRASE
        file.touch(mode=0o600)
        file.write_text(f"{text}\n", encoding="utf-8")
    return Passphrase(text)


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The demo's folder: a new one that is removed afterwards, or the one to be kept."""
    if keep is not None:
        yield _new_folder(keep.expanduser().absolute())
        return
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="tactful-demo-", dir=_short_parent()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise AlreadyExists(f"The folder {folder} is not empty; --keep needs a new or empty one.")
    return folder


def _short_parent() -> str | None:
    """`None` for the system's temporary folder, unless sockets in it would have too long a path."""
    import tempfile

    longest = Path(tempfile.gettempdir()) / "tactful-demo-12345678" / "run" / "owner.sock"
    if len(bytes(longest)) > MOST_SOCKET_BYTES and Path("/tmp").is_dir():  # noqa: S108
        return "/tmp"  # noqa: S108 - mkdtemp makes a private folder in it
    return None


def _empty(*folders: Path) -> None:
    import shutil

    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Lets a request to terminate, or a closed terminal, do what Ctrl-C does; its status is 143.

    An event loop has its own way to be interrupted, so whatever handles Ctrl-C now is called.
    """
    import signal

    terminated = False

    def leave(_number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise SystemExit(TERMINATED)
        handler(signal.SIGINT, frame)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if terminated:
            raise SystemExit(TERMINATED) from interrupt
        raise
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
