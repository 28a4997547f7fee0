"""What runs in an app's process: load one app, then let it handle events until the daemon ends.

Decides in which order a child loads and serves. What is *not* here: the walls around the process
and its limits (`tactfuld.apps`), the checks of hooks and manifest (`hooks`).

Invariants:

- only the app that was named is imported;
- nothing but the protocol is written to the connection: standard output and error go to the log;
- an app that cannot be loaded is refused in one sentence, the last line of its log, with status
  `EXIT_REFUSED`; any other failure of the app ends one event, not the process.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from pydantic import ValidationError

from tactful.agent import Agent, Asker
from tactful.app_client import AppClient
from tactful.app_log import AppLog
from tactful.app_state import AppState
from tactful.errors import InternalError, InvalidParams, TactfulError
from tactful.hooks import ENTRY_POINTS, App, AppRefusedError, Circumstances
from tactful.manifest import Description
from tactful.wire import Begin, Event

EXIT_REFUSED = 78
"""EX_CONFIG: starting the app again would end the same way."""

STOP_SECONDS = 1.0
"""How long `tactful_stop` may take; less than the daemon waits before it ends the process."""


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m tactful.app_main --app NAME --fd N [--describe]`."""
    parser = argparse.ArgumentParser(prog="tactful.app_main", description="Runs one tactful app.")
    parser.add_argument("--app", required=True, help="its name in the group tactful.apps")
    parser.add_argument("--fd", required=True, type=int, help="the connection to the daemon")
    parser.add_argument(
        "--describe", action="store_true", help="write what the app says of itself to it, and end"
    )
    chosen = parser.parse_args(arguments)
    if chosen.describe:
        return describe(chosen.app, chosen.fd)
    with socket.socket(fileno=chosen.fd) as connection:
        connection.set_inheritable(False)
        try:
            app = load(chosen.app)
        except AppRefusedError as refused:
            _log(str(refused))
            return EXIT_REFUSED
        asyncio.run(serve(app, connection))
    return 0


def describe(name: str, descriptor: int) -> int:
    """Writes what an app says of itself, as JSON, to a descriptor; the exit status."""
    os.set_inheritable(descriptor, False)
    with os.fdopen(descriptor, "w", encoding="utf-8") as answer:
        try:
            app = load(name)
        except AppRefusedError as refused:
            _log(str(refused))
            return EXIT_REFUSED
        answer.write(Description(manifest=app.manifest, settings=app.settings).model_dump_json())
    return 0


def load(name: str) -> App:
    """Imports the one installed app of this name, and checks it.

    Raises:
        AppRefusedError: it cannot be loaded; what the app itself raised is in the log.
    """
    found = list(entry_points(group=ENTRY_POINTS, name=name))
    if len(found) != 1:
        raise AppRefusedError(
            f"The app {name} is installed {len(found)} times. Exactly one package must have an "
            f"entry point {name} in the group {ENTRY_POINTS}."
        )
    try:
        return App.checked(name, found[0].load())
    except AppRefusedError:
        raise
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
        )
        raise AppRefusedError(
            f"{_place(error, found[0])}The app {name} makes an unsound {error.title}: {wrong}"
        ) from error
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise AppRefusedError(
            f"{_place(error, found[0])}The app {name} could not be loaded: it raised "
            f"{type(error).__name__}. The log says more."
        ) from error


async def serve(app: App, connection: socket.socket) -> None:
    """Begins, handles events until the daemon ends the connection, and stops."""
    given = Circumstances({setting.key: setting.default for setting in app.settings})
    state, log = AppState(Path()), AppLog(sys.stderr.write)

    async def on_start(begin: Begin, client: AppClient) -> None:
        nonlocal given
        try:
            given = app.circumstances(begin)
        except AppRefusedError as refused:
            raise InvalidParams(str(refused)) from refused
        await _with_agent(app, client, lambda agent: app.start(agent, given), state, log)

    async def on_event(event: Event, client: AppClient) -> None:
        await handle(app, event, client, given, state, log)

    async with AppClient.over(connection, on_event, on_start) as client:
        await client.wait_ended()
    await _stop(app)


async def handle(
    app: App,
    event: Event,
    asker: Asker,
    given: Circumstances | None = None,
    state: AppState | None = None,
    log: AppLog | None = None,
) -> None:
    """Lets the app handle one event, with an agent that ends with it.

    Args:
        given: what the owner decided; nothing if `None`.

    Raises:
        InvalidParams: the app does not take such events.
        InternalError: the app failed; its log says where.
        TactfulError: an error of the daemon that the app did not catch.
    """
    if event.kind not in app.manifest.events:
        raise InvalidParams(
            f"The app {app.manifest.name} does not take events of the kind {event.kind}: its "
            "manifest does not list them."
        )
    told = app.circumstances(Begin()) if given is None else given
    await _with_agent(app, asker, lambda agent: app.on_event(event, agent, told), state, log)


async def _with_agent(
    app: App,
    asker: Asker,
    hook: Callable[[Agent], Awaitable[None]],
    state: AppState | None,
    log: AppLog | None,
) -> None:
    """Runs a hook with an agent that ends with it; a defect of the app's is told by name only."""
    failure: TactfulError | None = None
    async with asyncio.TaskGroup() as group:
        agent = Agent(asker, group, state=state, log=log)
        try:
            await hook(agent)
        except TactfulError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - an app's defect ends one call, not the process
            await asyncio.to_thread(_complain, error)
            failure = InternalError(f"The app {app.manifest.name} failed. Its log says where.")
        finally:
            agent.close()
    if failure is not None:
        raise failure


async def _stop(app: App) -> None:
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await app.stop()
    except Exception as error:  # noqa: BLE001 - it ends anyway
        _complain(error)


def _complain(error: Exception) -> None:
    """Writes to the log where the app failed; a log that is full takes no more."""
    with suppress(OSError):
        traceback.print_exception(error)


def _place(error: BaseException, entry: EntryPoint) -> str:
    """`file:line: ` of the app's own code that raised, or does not parse."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: "
    spec = importlib.util.find_spec(entry.module.partition(".")[0])
    if spec is None:
        return ""
    own = tuple(spec.submodule_search_locations or [spec.origin or ""])
    frames = traceback.extract_tb(error.__traceback__)
    written = [frame for frame in frames if frame.filename.startswith(own)]
    return f"{written[-1].filename}:{written[-1].lineno}: " if written else ""


def _log(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
