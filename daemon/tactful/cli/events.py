"""`tactful events tail`: what happened to the events of apps of late.

What is *not* here: events themselves (docs/events.md); what was said in them is not shown.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_wire import EventLine

WAIT_SECONDS = 30.0

_STYLES = {"handled": "green", "failed": "red", "dropped": "red", "again": "yellow"}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="See what apps are told of.", rich_markup_mode=None)
    # Without this a group of one command would be that command.
    group.callback()(_events)
    group.command("tail", epilog=examples("events tail", "events tail --follow"))(tail)
    app.add_typer(group, name="events")


def _events() -> None:
    """See what apps are told of."""


def tail(
    context: typer.Context,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Stay, and show what happens until Ctrl-C; with --json, a line for each.",
            show_default=False,
        ),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what became of the last events, oldest first."""
    import asyncio

    call = invocation(context, profile, as_json)
    if follow:
        asyncio.run(_follow(call))
        return
    found = asyncio.run(_last(call))
    data = {"events": [each.model_dump(mode="json") for each in found]}
    call.output.show(data, lambda console: _show_all(console, found))


async def _last(call: Invocation) -> tuple[EventLine, ...]:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.events_tail()


async def _follow(call: Invocation) -> None:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        number = 0
        found = await client.events_tail()
        while True:
            for each in found:
                number = each.number
                _show(call.output.console, each)
                call.output.finish(each.model_dump(mode="json"))
            found = await client.events_tail(number, WAIT_SECONDS)


def _show_all(console: Console, found: tuple[EventLine, ...]) -> None:
    if not found:
        console.print(
            "No event was queued for an app since the daemon was started. What you `tell` an app "
            "is handed over at once, and is in its history."
        )
    for each in found:
        _show(console, each)


def _show(console: Console, each: EventLine) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    when = datetime.fromtimestamp(each.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    line = Text.assemble(
        (f"{when}  ", "dim"),
        (f"{visible(each.app)}  ", "bold"),
        f"{each.kind} {each.id}  ",
        (visible(each.fate), _STYLES.get(each.fate, "")),
        (f"  {visible(each.about)}" if each.about else "", "dim"),
    )
    console.print(line, soft_wrap=True)
