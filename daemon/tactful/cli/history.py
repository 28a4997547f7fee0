"""`tactful history list`, `show` and `forget`: what apps asked and were shown.

Decides how turns are listed, and that forgetting is meant. What is *not* here: how long turns are
kept and what forgetting does to the file (the daemon).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tactful.owner_wire import HistoryListReply, HistoryTurn, HistoryView

SHOWN = 20

AppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="APP", help="Turns of this app only.", show_default=False),
]
ThreadOption = Annotated[
    str | None,
    typer.Option(
        "--thread",
        metavar="THREAD",
        help="With --app: turns of this thread of it only.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="See what apps asked, and forget it.", rich_markup_mode=None)
    group.command("list")(history_list)
    group.command("show")(show)
    group.command("forget")(forget)
    app.add_typer(group, name="history")


def history_list(
    context: typer.Context,
    app: AppOption = None,
    thread: ThreadOption = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=500, help="Show at most so many.")
    ] = SHOWN,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what apps asked last, with which views, newest first."""
    import asyncio

    call = invocation(context, profile, as_json)
    _require_app(app, thread)
    found = asyncio.run(_list(call, app, thread, limit))
    call.output.show(found.model_dump(mode="json"), lambda console: _show_list(console, found))


def show(
    context: typer.Context,
    number: Annotated[
        int, typer.Argument(metavar="ID", help="The turn's number in the list.", show_default=False)
    ],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one turn, whole."""
    import asyncio

    call = invocation(context, profile, as_json)
    found = asyncio.run(_show(call, number))
    call.output.show(found.model_dump(mode="json"), lambda console: _show_turn(console, found))


def forget(
    context: typer.Context,
    numbers: Annotated[
        list[int] | None,
        typer.Argument(metavar="ID...", help="Turns by their numbers.", show_default=False),
    ] = None,
    app: AppOption = None,
    thread: ThreadOption = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Every turn of every app.", show_default=False),
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
    """Forget turns: by number, by app or thread, or all.

    They are overwritten in the file, and condition no later answer. No budget comes back: what apps
    have seen they have seen.
    """
    import asyncio

    call = invocation(context, profile, as_json)
    _require_app(app, thread)
    if sum((bool(numbers), app is not None, everything)) != 1:
        raise UsageError("Say what to forget, in one way: ID..., --app APP, or --all.")
    if not yes:
        _confirm(call, _named(numbers or [], app, thread))
    forgotten = asyncio.run(_forget(call, numbers or [], app, thread, everything))
    call.output.show(
        {"forgotten": forgotten},
        lambda console: _show_forgotten(console, forgotten, len(set(numbers or []))),
    )


async def _list(
    call: Invocation, app: str | None, thread: str | None, limit: int
) -> HistoryListReply:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.history_list(app, thread, limit)


async def _show(call: Invocation, number: int) -> HistoryTurn:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.history_show(number)


async def _forget(
    call: Invocation, numbers: list[int], app: str | None, thread: str | None, everything: bool
) -> int:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.history_forget(
            tuple(numbers) or None, app=app, thread=thread, everything=everything
        )


def _require_app(app: str | None, thread: str | None) -> None:
    if thread is not None and app is None:
        raise UsageError("A thread belongs to an app. Name the app as well: --app APP.")


def _confirm(call: Invocation, what: str) -> None:
    """Raises `UsageError` unless the owner says yes."""
    from tactful.cli.questions import answer

    if not call.can_ask:
        raise UsageError("Forgetting wants to be confirmed: give --yes. Nothing was forgotten.")
    call.output.notes.print(
        f"This forgets {what} for good. It gives no budget back: what apps have seen they have "
        "seen, and the ledgers stay as they are."
    )
    if answer(call.output.notes, "Type yes to forget: ") != "yes":
        raise UsageError("That was not `yes`, so nothing was forgotten.")


def _named(numbers: list[int], app: str | None, thread: str | None) -> str:
    from tactful.visible_text import visible

    if app is not None:
        return visible(f"thread {thread} of {app}" if thread else f"every turn of {app}")
    if numbers:
        return f"turn{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    return "every turn of every app"


def _show_list(console: Console, found: HistoryListReply) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from tactful.visible_text import visible

    if not found.turns:
        console.print("No turns are kept.")
        return
    for turn in found.turns:
        console.print(_heading(turn.id, turn.app, turn.thread, turn.at))
        answer = visible(turn.beginning) or "no answer"
        body = Text.assemble((visible(turn.query), "bold"), "\n", answer, "\n", _views(turn.views))
        if not turn.complete:
            body.append("  broke off", style="yellow")
        console.print(Padding(body, (0, 0, 0, 6), expand=False))
    console.print()
    console.print("tactful history show ID shows one whole.", style="dim")


def _show_turn(console: Console, turn: HistoryTurn) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    console.print(_heading(turn.id, turn.app, turn.thread, turn.at))
    console.print(Text(visible(turn.query, keep="\n"), style="bold"))
    console.print(_views(turn.views))
    console.print()
    console.print(Text(visible(turn.answer, keep="\n") or "There was no answer."))
    if not turn.complete:
        console.print(Text("It broke off here: it was cancelled, or failed.", style="yellow"))


def _show_forgotten(console: Console, forgotten: int, named: int) -> None:
    turns = "1 turn is" if forgotten == 1 else f"{forgotten} turns are"
    missing = named - forgotten
    others = f" {missing} of those you named were not kept." if missing > 0 else ""
    console.print(f"{turns} forgotten.{others} The ledgers stay as they are.")


def _heading(number: int, app: str, thread: str | None, at: int) -> Text:
    from rich.text import Text

    from tactful.visible_text import visible

    when = datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
    where = f"{visible(app)} in {visible(thread)}" if thread else visible(app)
    return Text.assemble((f"{number:>4}  ", "bold cyan"), where, (f"  {when}", "dim"))


def _views(views: tuple[HistoryView, ...]) -> Text:
    from rich.text import Text

    from tactful.visible_text import visible

    if not views:
        return Text("about no topic", style="dim")
    told = Text()
    for each in views:
        told.append(f"{', ' if told else ''}{visible(each.slot)}: ", style="cyan")
        fallback = " (fallback)" if each.fallback else ""
        told.append(f"{visible(each.view)}{fallback}", style="yellow" if fallback else "green")
    return told
