"""`tactful memory list`, `show`, `search` and `suggest`: what is filed.

Decides how memories are shown. What is *not* here: filing them (`remember`), changing and
forgetting them (`memory_changes`), and what is found or suggested (the daemon).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli import memory_changes
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.cli.memory_accept import memory_accept
from tactful.cli.memory_migrate import memory_migrate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.text import Text

    from tactful.owner_wire import MemoryItem, MemoryList, MemorySuggestion

SHOWN = 10

PositionArgument = Annotated[
    int,
    typer.Argument(metavar="N", help="The memory's position in the list.", show_default=False),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="See, search, change and forget what is remembered.", rich_markup_mode=None
    )
    group.command("list")(memory_list)
    group.command("accept")(memory_accept)
    group.command("migrate")(memory_migrate)
    group.command("show")(show)
    group.command("search")(search)
    group.command("suggest")(suggest)
    memory_changes.register(group)
    app.add_typer(group, name="memory")


def memory_list(
    context: typer.Context,
    shelf: Annotated[
        str | None,
        typer.Option("--shelf", metavar="SLOT.SHELF", help="This shelf only.", show_default=False),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List everything that is remembered, and the shelves."""
    import asyncio

    call = invocation(context, profile, as_json)
    found = asyncio.run(_list(call, shelf))
    call.output.show(found.model_dump(mode="json"), lambda console: _show_list(console, found))


def show(
    context: typer.Context,
    number: PositionArgument,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one memory, whole."""
    import asyncio

    call = invocation(context, profile, as_json)
    found = asyncio.run(_memory(call, number))
    call.output.show(found.model_dump(mode="json"), lambda console: _show_item(console, found))


def search(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORDS...", help="What to look for.", show_default=False),
    ],
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=500, help="Show at most so many.")
    ] = SHOWN,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find memories that have some words, or mean the like.

    The daemon opens all of memory for it and forgets the words again; there is no index.
    """
    import asyncio

    call = invocation(context, profile, as_json)
    found = asyncio.run(_search(call, " ".join(words), limit))
    call.output.show(
        {"items": [item.model_dump(mode="json") for item in found]},
        lambda console: _show_found(console, found),
    )


def suggest(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Find memories that would stand better on another shelf.

    Only shelves are suggested where everything still protects a memory that protects it now.
    Nothing is moved.
    """
    import asyncio

    call = invocation(context, profile, as_json)
    found = asyncio.run(_suggest(call))
    call.output.show(
        {"suggestions": [each.model_dump(mode="json") for each in found]},
        lambda console: _show_suggestions(console, call, found),
    )


async def _list(call: Invocation, shelf: str | None) -> MemoryList:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_list(shelf)


async def _memory(call: Invocation, position: int) -> MemoryItem:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_show(position)


async def _search(call: Invocation, words: str, limit: int) -> tuple[MemoryItem, ...]:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_search(words, limit)


async def _suggest(call: Invocation) -> tuple[MemorySuggestion, ...]:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_suggest()


def _show_list(console: Console, memory: MemoryList) -> None:
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
        _show_table(console, (item for item in memory.items if item.shelf == shelf.shelf))


def _show_table(console: Console, items: Iterable[MemoryItem], *, shelves: bool = False) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    table = Table.grid(padding=(0, 2))
    for item in items:
        place = (Text(visible(item.shelf), style="cyan"),) if shelves else ()
        day = Text(_moment(item, "%Y-%m-%d"), style="dim")
        table.add_row(Text(f"{item.position:>3}"), *place, Text(visible(item.text)), day)
    if table.row_count:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _show_item(console: Console, item: MemoryItem) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    console.print(_heading(item))
    console.print(Text(visible(item.text, keep="\n")))


def _show_found(console: Console, found: tuple[MemoryItem, ...]) -> None:
    if not found:
        console.print("Nothing that is remembered is like that.")
        return
    _show_table(console, found, shelves=True)


def _show_suggestions(
    console: Console, call: Invocation, found: tuple[MemorySuggestion, ...]
) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from tactful.visible_text import visible

    if not found:
        console.print("Every memory stands where it seems to belong.")
        return
    for each in found:
        console.print(_heading(each.item))
        joining = ", ".join(each.joining)
        also = f", where it is also protected for {visible(joining)}" if joining else ""
        better = Text.assemble(
            visible(each.item.text),
            "\nIt would stand better on ",
            (visible(each.better), "cyan"),
            f"{also}:\n",
            (call.command(f"memory move {each.item.position} {each.better}"), "bold"),
        )
        console.print(Padding(better, (0, 0, 0, 5), expand=False))


def _heading(item: MemoryItem) -> Text:
    from rich.text import Text

    from tactful.visible_text import visible

    when = _moment(item, "%Y-%m-%d %H:%M")
    return Text.assemble(
        (f"{item.position:>3}  ", "bold cyan"), visible(item.shelf), (f"  {when}", "dim")
    )


def _moment(item: MemoryItem, form: str) -> str:
    return datetime.fromtimestamp(item.written_at).astimezone().strftime(form)
