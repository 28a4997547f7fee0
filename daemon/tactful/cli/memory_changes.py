"""`tactful memory edit`, `move` and `forget`: changing what is filed.

Decides that forgetting is meant, and a text that its shelf's attributes do not cover, and what the
owner is told afterwards. What is *not* here: what may be moved where, what a text implies, and how
a memory is destroyed (the daemon).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import DoesNotFit, InvalidParams, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_wire import MemoryItem, Moved, Remembered, ShelfChoice

_UNCHANGED = "Nothing was changed."
_KEPT = "Nothing was forgotten."

PositionArgument = Annotated[
    int,
    typer.Argument(metavar="N", help="The memory's position in the list.", show_default=False),
]


def register(group: typer.Typer) -> None:
    group.command("edit")(edit)
    group.command("move")(move)
    group.command("forget")(forget)


def edit(
    context: typer.Context,
    number: PositionArgument,
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT...",
            help="The new text, or - for standard input; on a terminal an editor opens without it.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Write it in spite of a warning.", show_default=False),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a memory anew.

    The editor is VISUAL or EDITOR. It gets a file in a folder of yours that is kept in memory, and
    the file is deleted afterwards; where there is no such folder, the text is asked for instead. If
    the text seems to imply an attribute that does not cover the shelf, you are asked first.
    """
    import asyncio

    from tactful.cli.questions import given_text

    call = invocation(context, profile, as_json)
    words = " ".join(text or ())
    if not words and call.can_ask:
        _edit_by_hand(call, asyncio.run(_memory(call, number)), yes)
        return
    new = given_text(
        call.output.notes, words, question="", nothing=f"The new text is empty. {_UNCHANGED}"
    )
    if not yes:
        _warn(call, asyncio.run(_warning(call, number, new)))
    _show_edited(call, asyncio.run(_edit(call, number, new)))


def move(
    context: typer.Context,
    number: PositionArgument,
    shelf: Annotated[
        str, typer.Argument(metavar="SLOT.SHELF", help="Where it belongs.", show_default=False)
    ],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move a memory to another shelf.

    It is refused if something would no longer protect the memory there.
    """
    import asyncio

    call = invocation(context, profile, as_json)
    moved = asyncio.run(_move(call, number, shelf))
    call.output.show(moved.model_dump(mode="json"), lambda console: _show_moved(console, moved))


def forget(
    context: typer.Context,
    numbers: Annotated[
        list[int] | None,
        typer.Argument(
            metavar="N...", help="Memories by their positions in the list.", show_default=False
        ),
    ] = None,
    shelf: Annotated[
        str | None,
        typer.Option(
            "--shelf", metavar="SLOT.SHELF", help="Every memory of a shelf.", show_default=False
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every memory.", show_default=False)
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Do not ask; needed without a terminal and with --json.",
            show_default=False,
        ),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget memories: by position, those of a shelf, or all.

    They are overwritten, and the key that sealed them is destroyed. Backups made before still hold
    them, under their own key. No budget comes back: what apps have seen they have seen.
    """
    import asyncio

    call = invocation(context, profile, as_json)
    positions = tuple(dict.fromkeys(numbers or ()))
    if sum((bool(positions), shelf is not None, everything)) != 1:
        raise UsageError("Say what to forget, in one way: N..., --shelf SLOT.SHELF, or --all.")
    if not yes:
        _confirm(call, _named(positions, shelf))
    forgotten = asyncio.run(_forget(call, positions, shelf, everything))
    call.output.show(
        {"forgotten": forgotten},
        lambda console: _show_forgotten(console, forgotten, len(positions)),
    )


async def _memory(call: Invocation, position: int) -> MemoryItem:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_show(position)


async def _warning(call: Invocation, position: int, text: str) -> ShelfChoice:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        shelf = (await client.memory_show(position)).shelf
        return (await client.memory_propose(text, shelf)).choices[0]


async def _edit(call: Invocation, position: int, text: str) -> Remembered:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_edit(position, text)


async def _move(call: Invocation, position: int, shelf: str) -> Moved:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_move(position, shelf)


async def _forget(
    call: Invocation, positions: tuple[int, ...], shelf: str | None, everything: bool
) -> int:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_forget(positions or None, shelf=shelf, everything=everything)


def _warn(call: Invocation, choice: ShelfChoice) -> None:
    """Raises `UsageError` if something is to be said and the owner does not agree all the same."""
    from tactful.cli.coverage_warnings import agreed

    if choice.warning is not None:
        agreed(call, choice.warning, choice.shelf, given_up=_UNCHANGED, elsewhere=False)


def _edit_by_hand(call: Invocation, item: MemoryItem, yes: bool) -> None:
    """Opens an editor, again for as long as the daemon refuses the text and the owner goes on."""
    import asyncio

    from tactful.cli.editing import edited
    from tactful.cli.questions import answer

    text = item.text
    while True:
        text = edited(call.output.notes, text)
        if text == item.text:
            call.output.console.print(_UNCHANGED)
            return
        if not yes:
            _warn(call, asyncio.run(_warning(call, item.position, text)))
        try:
            changed = asyncio.run(_edit(call, item.position, text))
        except (DoesNotFit, InvalidParams) as refused:
            call.output.notes.print(f"{refused} {_UNCHANGED}")
            if answer(call.output.notes, "Enter to edit it again, or n: "):
                raise
        else:
            _show_edited(call, changed)
            return


def _confirm(call: Invocation, what: str) -> None:
    """Raises `UsageError` unless the owner says yes."""
    from tactful.cli.questions import answer

    if not call.can_ask:
        raise UsageError(f"Forgetting wants to be confirmed: give --yes. {_KEPT}")
    call.output.notes.print(
        f"This forgets {what} for good. It gives no budget back: what apps have seen they have "
        "seen, and the ledgers stay as they are."
    )
    if answer(call.output.notes, "Type yes to forget: ") != "yes":
        raise UsageError(f"That was not `yes`. {_KEPT}")


def _named(positions: tuple[int, ...], shelf: str | None) -> str:
    from tactful.cli.positions import in_short
    from tactful.visible_text import visible

    if positions:
        word = "the memory at position" if len(positions) == 1 else "the memories at positions"
        return f"{word} {in_short(sorted(positions))}"
    return "every memory" if shelf is None else f"every memory of {visible(shelf)}"


def _show_edited(call: Invocation, changed: Remembered) -> None:
    from tactful.cli.coverage_warnings import told

    (position,) = changed.positions
    said = "" if changed.warning is None else f" {told(changed.warning, changed.shelf)}"
    call.output.show(
        changed.model_dump(mode="json"),
        lambda console: console.print(
            f"Position {position} of {changed.shelf} is written anew.{said}"
        ),
    )


def _show_moved(console: Console, moved: Moved) -> None:
    from tactful.visible_text import visible

    console.print(f"Moved to {moved.shelf}, position {moved.position}.")
    if moved.joined:
        console.print(
            f"There it is protected for {visible(', '.join(moved.joined))} as well, from now on: "
            "what apps were told because of it before stays outside of that."
        )


def _show_forgotten(console: Console, forgotten: int, named: int) -> None:
    memories = "1 memory is" if forgotten == 1 else f"{forgotten} memories are"
    empty = named - forgotten
    others = f" {empty} of the positions you named held none." if empty > 0 else ""
    console.print(
        f"{memories} forgotten, and the key that sealed them is destroyed.{others} Backups made "
        "before still hold what was remembered then, under their own key. The ledgers stay as they "
        "are."
    )
