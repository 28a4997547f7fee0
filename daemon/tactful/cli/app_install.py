"""`tactful apps add`, `update` and `remove`: an app and its own environment.

Decides what the owner reads about it. What is *not* here: installing (`tactfuld`), and granting an
app something (`app_grants`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.app_grants import (
    AllOption,
    AppArgument,
    grant_what_is_wanted,
    is_said,
    show_wishes,
)
from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.cli.policy_child import ask_child

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_client import OwnerClient


def register(group: typer.Typer) -> None:
    group.command("add", epilog=examples("apps add ./shopping", "apps add tactful-shopping"))(add)
    group.command("update", epilog=examples("apps update shopping"))(update)
    group.command("remove", epilog=examples("apps remove shopping"))(remove)


def add(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A folder, a wheel, or a package's name.")
    ],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Install an app into an environment of its own.

    A folder is built in the sandbox; everything else is installed from wheels, by pip and from the
    package index that you configured for it. It is granted nothing yet.
    """
    call = invocation(context, profile, as_json)
    data = ask_child(call, ["apps-add", f"--source={source}"], "installing the app")
    call.output.show(data, lambda console: _show_added(console, data))


def update(
    context: typer.Context,
    app: AppArgument,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="A folder, a wheel, or a package's name; by default where it came from.",
            show_default=False,
        ),
    ] = None,
    everything: AllOption = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Install an app anew, and ask again if it asks for more.

    What it was granted stays as it is, unless you grant more. A running daemon starts the new one
    at once.
    """
    call = invocation(context, profile, as_json)
    command = ["apps-update", f"--app={app}"]
    if source is not None:
        command.append(f"--source={source}")
    data = ask_child(call, command, "installing the app")
    data["restarted"] = _with_daemon(call, lambda client: client.apps_restart(app))
    data["changes"] = []
    if data["more"]:
        _show_more(call.output.notes, data)
        if is_said(call, everything):
            data["changes"] = grant_what_is_wanted(call, data, everything=everything)["changes"]
    call.output.show(data, lambda console: _show_updated(console, data))


def remove(
    context: typer.Context,
    app: AppArgument,
    with_data: Annotated[
        bool,
        typer.Option("--with-data", help="Delete the app's own folder too.", show_default=False),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take an app away, and what it was granted.

    Its token goes too, if it had one. None of its code runs for it. Its own folder stays, unless
    you say otherwise.
    """
    call = invocation(context, profile, as_json)
    _with_daemon(call, lambda client: client.apps_revoke(app))
    command = ["apps-remove", f"--app={app}", *(["--with-data"] if with_data else [])]
    data = ask_child(call, command, "removing the app")
    call.output.show(data, lambda console: _show_removed(console, data))


def _with_daemon(call: Invocation, ask: Callable[[OwnerClient], Awaitable[None]]) -> bool:
    """Whether a daemon runs that knows of what it is asked about, and did it."""
    import asyncio

    from tactful.errors import DaemonDown, Locked, NotFound
    from tactful.owner_client import OwnerClient

    async def asking() -> None:
        async with OwnerClient.connect(call.profile) as client:
            await ask(client)

    try:
        asyncio.run(asking())
    except (DaemonDown, Locked, NotFound):
        return False
    return True


def _show_added(console: Console, data: dict[str, Any]) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    console.print(Text(f"Installed {data['app']}: {visible(data['title'])}, {data['version']}"))
    parts = ", ".join(f"{name} {version}" for name, version in data["contents"].items())
    console.print(Text(f"In its environment: {parts}", style="dim"), soft_wrap=True)
    show_wishes(console, data)
    console.print(f"\nIt is granted nothing yet: tactful apps enable {data['app']}")


def _show_more(console: Console, data: dict[str, Any]) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    console.print(Text(f"The app {data['app']} now asks for more:"))
    for phrase in data["more"]:
        console.print(Text(f"  {visible(phrase)}", style="yellow"))


def _show_updated(console: Console, data: dict[str, Any]) -> None:
    from tactful.cli.policy_diff import show_changes

    told = f"{data['app']} is now {data['package_version']} (before: {data['before']})."
    console.print(told)
    if data["changes"]:
        show_changes(console, data["changes"])
    elif data["more"]:
        console.print(
            "It asks for more than it is granted; nothing was granted. "
            f"See: tactful apps show {data['app']}"
        )


def _show_removed(console: Console, data: dict[str, Any]) -> None:
    console.print(f"The app {data['app']} is gone, and so is what it was granted.")
    if data["kept"]:
        console.print(f"What it kept for itself is still in {data['kept']}", soft_wrap=True)
