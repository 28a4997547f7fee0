"""`tactful remember` and `tactful memory list`: what the owner files, and what is filed.

Decides how memory is listed. What is *not* here: which position a text gets (the daemon).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.cli.memory_accept import memory_accept
from tactful.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_wire import MemoryList, Remembered


def register(app: typer.Typer) -> None:
    app.command()(remember)
    group = typer.Typer(help="Look at what is remembered.", rich_markup_mode=None)
    group.command("list")(memory_list)
    group.command("accept")(memory_accept)
    app.add_typer(group, name="memory")


def remember(
    context: typer.Context,
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT...",
            help="What to remember; without it, or with -, it is read from standard input.",
            show_default=False,
        ),
    ] = None,
    shelf: Annotated[
        str,
        typer.Option("--shelf", metavar="SLOT.SHELF", help="Where to file it.", show_default=False),
    ] = "",
    position: Annotated[
        int | None,
        typer.Option(
            "--position",
            metavar="N",
            help="Put it at this position; by default the first empty one of the shelf.",
            show_default=False,
        ),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remember something."""
    import asyncio

    from tactful.cli.questions import given_text

    call = invocation(context, profile, as_json)
    if not shelf:
        raise UsageError(
            "Say where to file it: --shelf SLOT.SHELF. "
            "The shelves are listed by: tactful memory list"
        )
    wanted = given_text(
        call.output.notes,
        " ".join(text or ()),
        question="What shall I remember? ",
        nothing="There is nothing to remember: the text is empty.",
    )
    stored = asyncio.run(_remember(call, wanted, shelf, position))
    call.output.show(
        stored.model_dump(mode="json"),
        lambda console: console.print(f"Remembered in {stored.shelf}, position {stored.position}."),
    )


def memory_list(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """List everything that is remembered, and the shelves."""
    import asyncio

    call = invocation(context, profile, as_json)
    found = asyncio.run(_list(call))
    call.output.show(found.model_dump(mode="json"), lambda console: _show(console, found))


async def _remember(call: Invocation, text: str, shelf: str, position: int | None) -> Remembered:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.remember(text, shelf, position)


async def _list(call: Invocation) -> MemoryList:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_list()


def _show(console: Console, memory: MemoryList) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    for shelf in memory.shelves:
        covered = ", ".join(shelf.covered_by)
        console.print(
            Text.assemble(
                (visible(shelf.shelf), "bold cyan"),
                (f"  {shelf.full} of {len(shelf.positions)} full", "dim"),
                (f"  protected: {visible(covered)}" if covered else "  not protected", "dim"),
            )
        )
        table = Table.grid(padding=(0, 2))
        for item in (item for item in memory.items if item.shelf == shelf.shelf):
            day = datetime.fromtimestamp(item.written_at).astimezone().strftime("%Y-%m-%d")
            table.add_row(
                Text(f"{item.position:>3}"), Text(visible(item.text)), Text(day, style="dim")
            )
        if table.row_count:
            console.print(Padding(table, (0, 0, 0, 2), expand=False))
