"""`tactful remember`: what the owner files.

Decides how a shelf is chosen, and that a split or a shelf without cover is meant. What is *not*
here: which shelves suit a text, what it implies, where it may be split and which position it gets
(the daemon).

Invariant: a text goes to the shelf that the owner named or accepted, whole unless they agreed to a
split; where nobody can be asked, only `--yes` and `--split` agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_wire import Proposal, Remembered, ShelfChoice

_GIVEN_UP = "Nothing was remembered."


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            'remember "I avoid sugary food." --shelf food.diet',
            "remember --shelf food.diet < note.txt",
        )
    )(remember)


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
        str | None,
        typer.Option(
            "--shelf",
            metavar="SLOT.SHELF",
            help="Where to file it; by default shelves are proposed.",
            show_default=False,
        ),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(
            "--position",
            metavar="N",
            help="With --shelf: put it at this position; by default the first empty one.",
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
    """Remember something.

    If the text seems to imply an attribute that does not cover the shelf, you are asked first.
    """
    from tactful.cli.questions import given_text

    call = invocation(context, profile, as_json)
    if position is not None and shelf is None:
        raise UsageError("A position belongs to a shelf. Name the shelf as well: --shelf.")
    wanted = given_text(
        call.output.notes,
        " ".join(text or ()),
        question="What shall I remember? ",
        nothing="There is nothing to remember: the text is empty.",
    )
    stored = filed(call, wanted, shelf=shelf, position=position, yes=yes, split=split)
    call.output.show(stored.model_dump(mode="json"), lambda console: show_filed(console, stored))


def filed(
    call: Invocation,
    text: str,
    *,
    shelf: str | None,
    position: int | None = None,
    yes: bool,
    split: bool,
    slot: str | None = None,
) -> Remembered:
    """Files a text where the owner wants it; asks them what is not said yet.

    Args:
        shelf: where to file it; proposed and asked for if `None`.
        yes: accept what is proposed, in spite of a warning too.
        slot: whose shelves are proposed before all others.

    Raises:
        UsageError: somebody would have to be asked and cannot be, or said no.
    """
    import asyncio

    proposal = asyncio.run(_propose(call, text, shelf))
    if slot is not None:
        first = sorted(proposal.choices, key=lambda each: each.shelf.partition(".")[0] != slot)
        proposal = proposal.model_copy(update={"choices": tuple(first)})
    choice = proposal.choices[0] if shelf is not None or yes else _chosen(call, proposal)
    if not yes:
        choice = _in_spite_of_warnings(call, text, choice)
    agreed = _agreed(call, choice, split)
    return asyncio.run(_remember(call, text, choice.shelf, position, agreed))


async def _propose(call: Invocation, text: str, shelf: str | None) -> Proposal:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.memory_propose(text, shelf)


async def _remember(
    call: Invocation, text: str, shelf: str, position: int | None, split: bool
) -> Remembered:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.remember(text, shelf, position, split=split)


def _chosen(call: Invocation, proposal: Proposal) -> ShelfChoice:
    """The shelf that the owner accepts; `UsageError` where nobody can be asked."""
    from tactful.cli.questions import answer

    best = proposal.choices[0]
    if not call.can_ask:
        raise UsageError(
            f"The shelf {best.shelf} is proposed. Give --shelf {best.shelf}, or another one, or "
            f"--yes to accept what is proposed. {_GIVEN_UP}"
        )
    _show_choices(call.output.notes, proposal.choices)
    while True:
        typed = answer(call.output.notes, f"Enter for {best.shelf}, or another number: ")
        choice = _picked(typed, proposal.choices)
        if choice is None:
            call.output.notes.print("Type one of the numbers above. Ctrl-C gives up.")
        elif choice.free < len(choice.parts):
            call.output.notes.print(
                f"{choice.shelf} has too little room. Choose another one, or press Ctrl-C and make "
                "room first, with tactful memory edit or tactful memory forget."
            )
        else:
            return choice


def _in_spite_of_warnings(call: Invocation, text: str, choice: ShelfChoice) -> ShelfChoice:
    """The shelf, or another that is named once the owner has read what is to be said about it."""
    import asyncio

    from tactful.cli.coverage_warnings import agreed

    while choice.warning is not None:
        other = agreed(call, choice.warning, choice.shelf, given_up=_GIVEN_UP, elsewhere=True)
        if other is None:
            break
        choice = asyncio.run(_propose(call, text, other)).choices[0]
    return choice


def _picked(typed: str, choices: tuple[ShelfChoice, ...]) -> ShelfChoice | None:
    if not typed:
        return choices[0]
    named = {str(number): choice for number, choice in enumerate(choices, 1)}
    return named.get(typed) or next((c for c in choices if c.shelf == typed), None)


def _agreed(call: Invocation, choice: ShelfChoice, split: bool) -> bool:
    """Whether to split the text; asks where it has to be and nobody has agreed to it yet.

    A text that cannot be split is sent as if it were agreed to: the daemon says what is wrong.
    """
    from tactful.cli.questions import answer

    if len(choice.parts) == 1:
        return False
    if split or not choice.parts:
        return True
    if not call.can_ask:
        raise UsageError(
            f"The text is longer than a position of the shelf {choice.shelf}. Give --split to part "
            f"it between sentences, over {len(choice.parts)} positions. {_GIVEN_UP}"
        )
    _show_parts(call.output.notes, choice)
    if answer(call.output.notes, "Enter to split it so, or n: "):
        raise UsageError(f"You did not agree to the split. {_GIVEN_UP}")
    return True


def _show_choices(notes: Console, choices: tuple[ShelfChoice, ...]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    table = Table.grid(padding=(0, 2))
    for number, choice in enumerate(choices, 1):
        covered = visible(", ".join(choice.covered_by))
        table.add_row(
            Text(str(number), style="bold cyan"),
            Text(visible(choice.shelf)),
            Text(f"{choice.free} of {choice.positions} free", style="dim"),
            Text(f"protected: {covered}" if covered else "not protected", style="dim"),
        )
    notes.print(Padding(table, (0, 0, 0, 2), expand=False))


def _show_parts(notes: Console, choice: ShelfChoice) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    notes.print(f"It is longer than a position of {choice.shelf}. It would be split:")
    table = Table.grid(padding=(0, 2))
    for number, part in enumerate(choice.parts, 1):
        table.add_row(Text(str(number), style="bold cyan"), Text(visible(part)))
    notes.print(Padding(table, (0, 0, 0, 2), expand=False))


def show_filed(console: Console, stored: Remembered) -> None:
    from tactful.cli.coverage_warnings import told
    from tactful.cli.positions import in_short

    word = "position" if len(stored.positions) == 1 else "positions"
    console.print(f"Remembered in {stored.shelf}, {word} {in_short(sorted(stored.positions))}.")
    if stored.warning is not None:
        console.print(told(stored.warning, stored.shelf))
