"""`tactful apps` and `tactful tell`: who may ask, how much, and sending an app a message.

What is *not* here: installing apps (`app_install`), granting them something (`app_grants`), and
what an app may ask for, which only the policy file says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli import app_grants, app_install
from tactful.cli.app_grants import AppArgument
from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_wire import AppsList, AppToken, TellReply


def register(app: typer.Typer) -> None:
    app.command(epilog=examples('tell meals "What could I cook tonight?"'))(tell)
    group = typer.Typer(help="Install apps, and say what they get.", rich_markup_mode=None)
    app_install.register(group)
    app_grants.register(group)
    group.command("list")(apps_list)
    group.command("restart", epilog=examples("apps restart meals"))(apps_restart)
    group.command("logs", epilog=examples("apps logs meals --lines 20"))(apps_logs)
    group.command("grant")(apps_grant)
    group.command("revoke")(apps_revoke)
    group.command("quota", epilog=examples("apps quota meals diabetes 0.5"))(apps_quota)
    app.add_typer(group, name="apps")


def tell(
    context: typer.Context,
    app: AppArgument,
    text: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="The message.", show_default=False)
    ],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send an app a message and watch what it asks and gets."""
    import asyncio

    call = invocation(context, profile, as_json)
    reply = asyncio.run(_tell(call, app, " ".join(text)))
    if not reply.turns:
        call.output.console.print(f"The app {app} took the message and asked nothing.")
    call.output.finish(reply.model_dump(mode="json"))


def apps_list(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """List the apps: which run, and why one does not."""
    import asyncio

    from tactful.cli.status_panel import show_apps

    call = invocation(context, profile, as_json)
    found = asyncio.run(_apps(call))
    call.output.show(found.model_dump(mode="json"), lambda console: show_apps(console, found.apps))


def apps_restart(
    context: typer.Context,
    app: AppArgument,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start an app anew, also one that is parked."""
    import asyncio

    call = invocation(context, profile, as_json)
    asyncio.run(_restart(call, app))
    call.output.console.print(f"The app {app} was started anew. See: tactful apps list")
    call.output.finish({"restarted": app})


def apps_logs(
    context: typer.Context,
    app: AppArgument,
    lines: Annotated[
        int, typer.Option("--lines", min=1, max=10_000, help="How many lines, from the end.")
    ] = 50,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the end of what an app has written.

    That is its standard output and error, and whatever it logs. It is the app's own text: it may
    say anything.
    """
    from tactful.cli.app_logs import end_of_log
    from tactful.visible_text import visible

    call = invocation(context, profile, as_json)
    file = call.profile.state / "logs" / f"{app}.log"
    found = [visible(line) for line in end_of_log(file, app, lines)]
    data = {"app": app, "file": str(file), "lines": found}
    call.output.show(data, lambda console: _show_lines(console, found))


def apps_grant(
    context: typer.Context,
    app: AppArgument,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Issue a token to an outside program.

    It takes the place of any earlier one, and is shown once.
    """
    import asyncio

    call = invocation(context, profile, as_json)
    token = asyncio.run(_grant(call, app))
    socket = str(call.profile.app_socket)
    call.output.show(
        {**token.model_dump(mode="json"), "socket": socket},
        lambda console: _show_token(console, token, socket),
    )


def apps_revoke(
    context: typer.Context,
    app: AppArgument,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take an outside program's token back, at once."""
    import asyncio

    call = invocation(context, profile, as_json)
    asyncio.run(_revoke(call, app))
    call.output.console.print(f"The token of {app} is no longer valid.")
    call.output.finish({"revoked": app})


def apps_quota(
    context: typer.Context,
    app: AppArgument,
    attribute: Annotated[
        str, typer.Argument(metavar="ATTRIBUTE", help="What the app may use up the cap of.")
    ],
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="The most, such as 0.5.", show_default=False),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take the quota away.", show_default=False)
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Limit how much of a cap an app may use up.

    This edits policy.yaml; comments and all the rest stay as they are. A running daemon takes a
    lower quota over at once, and a higher one at its next daily tick.
    """
    from tactful.cli.policy_child import ask_child
    from tactful.cli.policy_diff import show_changes
    from tactful.errors import UsageError

    if (value is None) != remove:
        raise UsageError("Give either a value, such as 0.5, or --remove.")
    call = invocation(context, profile, as_json)
    command = ["apps-quota", f"--app={app}", f"--attribute={attribute}"]
    if value is not None:
        command.append(f"--value={value}")
    data = ask_child(call, command, "changing the policy")
    call.output.show(data, lambda console: show_changes(console, data["changes"]))


async def _tell(call: Invocation, app: str, text: str) -> TellReply:
    from tactful.cli.turns import TurnScreen
    from tactful.cli.waiting import until_model_is_loaded
    from tactful.owner_client import OwnerClient

    screen = TurnScreen(call.output.console)
    async with OwnerClient.connect(call.profile) as client:
        await until_model_is_loaded(client, call.output.notes)
        reply = await client.tell(app, text, on_turn=screen.started, on_text=screen.text)
    screen.finished()
    return reply


async def _apps(call: Invocation) -> AppsList:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.apps_list()


async def _restart(call: Invocation, app: str) -> None:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        await client.apps_restart(app)


async def _grant(call: Invocation, app: str) -> AppToken:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.apps_grant(app)


async def _revoke(call: Invocation, app: str) -> None:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        await client.apps_revoke(app)


def _show_token(console: Console, token: AppToken, socket: str) -> None:
    console.print(f"Token for {token.app}, shown this once:\n")
    console.print(f"  {token.token}\n", soft_wrap=True)
    console.print(f"It opens {socket}.", soft_wrap=True)
    console.print(
        "An outside program runs as you, without a sandbox: you trust it not to open your files. "
        "What it may ask is what the policy says."
    )


def _show_lines(console: Console, lines: list[str]) -> None:
    from rich.text import Text

    for line in lines:
        console.print(Text(line), soft_wrap=True)
    if not lines:
        console.print("It has written nothing.")
