"""`tactful inbox`: what apps wanted their owner to read, and memories that they propose.

Decides how items are shown, and that a proposal goes where its owner says. What is *not* here:
filing a text (`remember`), and what apps may put there (the daemon).

Invariant: an app learns nothing of what is done here.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import NotFound, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_wire import InboxItem

PROPOSAL = "proposal"


def register(app: typer.Typer) -> None:
    group = typer.Typer(rich_markup_mode=None)
    group.callback(
        invoke_without_command=True,
        epilog=examples("inbox", "inbox accept 3 --shelf food.diet", "inbox dismiss --all"),
    )(inbox)
    group.command("accept")(accept)
    group.command("dismiss")(dismiss)
    app.add_typer(group, name="inbox")


def inbox(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Read notices of apps, and memories that they propose."""
    import asyncio

    if context.invoked_subcommand is not None:
        return
    call = invocation(context, profile, as_json)
    items = asyncio.run(_items(call))
    data = {"items": [item.model_dump(mode="json") for item in items]}
    call.output.show(data, lambda console: _show(console, call, items))


def accept(
    context: typer.Context,
    number: Annotated[
        int, typer.Argument(metavar="ID", help="The proposal's number.", show_default=False)
    ],
    shelf: Annotated[
        str | None,
        typer.Option(
            "--shelf",
            metavar="SLOT.SHELF",
            help="Where to file it; by default shelves are proposed.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Accept the shelf that is proposed, in spite of a warning too.",
            show_default=False,
        ),
    ] = False,
    split: Annotated[
        bool,
        typer.Option(
            "--split",
            help="Split a text that is too long for one position, between sentences.",
            show_default=False,
        ),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remember what an app proposes; the app is not told.

    The shelves of the slot that the app named are proposed first; any other can be chosen.
    """
    import asyncio

    from tactful.cli.remember import filed, show_filed
    from tactful.visible_text import visible

    call = invocation(context, profile, as_json)
    item = _proposal(asyncio.run(_items(call)), number)
    call.output.console.print(f"{visible(item.app)} proposes: {visible(item.text)}")
    stored = filed(call, item.text, shelf=shelf, yes=yes, split=split, slot=item.slot)
    asyncio.run(_remove(call, [number]))
    call.output.show(
        {"accepted": number, **stored.model_dump(mode="json")},
        lambda console: show_filed(console, stored),
    )


def dismiss(
    context: typer.Context,
    numbers: Annotated[
        list[int] | None,
        typer.Argument(metavar="ID...", help="Items by their numbers.", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything that is there.", show_default=False)
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take things out of the inbox; no app is told."""
    import asyncio

    call = invocation(context, profile, as_json)
    if bool(numbers) == everything:
        raise UsageError("Say what to take out, in one way: ID..., or --all.")
    removed = asyncio.run(_remove(call, numbers))
    things = "1 thing" if len(removed) == 1 else f"{len(removed)} things"
    call.output.console.print(f"Took {things} out of the inbox.")
    call.output.finish({"removed": list(removed)})


async def _items(call: Invocation) -> tuple[InboxItem, ...]:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.inbox()


async def _remove(call: Invocation, numbers: list[int] | None) -> tuple[int, ...]:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        ids = None if numbers is None else tuple(numbers)
        return await client.inbox_remove(ids, everything=ids is None)


def _proposal(items: tuple[InboxItem, ...], number: int) -> InboxItem:
    for item in items:
        if item.id == number and item.kind == PROPOSAL:
            return item
    raise NotFound(
        f"There is no proposal {number} in the inbox. `tactful inbox` lists those that there are."
    )


def _show(console: Console, call: Invocation, items: tuple[InboxItem, ...]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from tactful.visible_text import visible

    if not items:
        console.print("Nothing is there. Apps put notices and proposals here.")
        return
    for item in items:
        when = datetime.fromtimestamp(item.at).astimezone().strftime("%Y-%m-%d %H:%M")
        about = f"proposes for {item.slot}" if item.kind == PROPOSAL else item.title
        console.print(
            Text.assemble(
                (f"{item.id:>3}  ", "bold cyan"),
                (visible(item.app), "bold"),
                (f"  {when}  ", "dim"),
                visible(about),
            )
        )
        console.print(Padding(Text(visible(item.text)), (0, 0, 0, 5)))
    if any(item.kind == PROPOSAL for item in items):
        command = call.command("inbox accept ID")
        console.print(f"Remember what is proposed with: {command}", style="dim", soft_wrap=True)
