"""`tactful ask`: the owner's own questions, and questions asked as an app.

Decides how an answer looks while it is written. What is *not* here: what it is written from (the
daemon), how a turn of an app looks (`turns`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import UsageError

if TYPE_CHECKING:
    from tactful.owner_wire import OwnersAnswer, Turn


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            'ask "What should I avoid?"',
            'ask --as meals "What could I cook tonight?"',
            'ask --as meals --thread supper "And something quicker?"',
        )
    )(ask)


def ask(
    context: typer.Context,
    question: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION...",
            help="What to ask; without it, or with -, it is read from standard input.",
            show_default=False,
        ),
    ] = None,
    app: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="APP",
            help="Ask as this app would: through the gate, at its cost, as one of its turns.",
            show_default=False,
        ),
    ] = "",
    slots: Annotated[
        list[str] | None,
        typer.Option(
            "--slot",
            metavar="SLOT",
            help="With --as: a topic that the answer may draw on; may be given several times.",
            show_default=False,
        ),
    ] = None,
    thread: Annotated[
        str,
        typer.Option(
            "--thread",
            metavar="THREAD",
            help="With --as: one of the app's conversations, to go on with.",
            show_default=False,
        ),
    ] = "",
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask your own memory, or see what an app would be told.

    For yourself, everything that is remembered may be used; the answer is written on this machine,
    costs nothing and is kept nowhere. As an app, what it costs is shown.
    """
    import asyncio

    from tactful.cli.questions import given_text

    call = invocation(context, profile, as_json)
    if (slots or thread) and not app:
        option = "--slot" if slots else "--thread"
        raise UsageError(f"{option} is for questions as an app. Name the app as well: --as APP.")
    text = given_text(
        call.output.notes,
        " ".join(question or ()),
        question="What do you want to know? ",
        nothing="There is nothing to ask: the question is empty.",
    )
    asking = _as_app(call, app, text, slots, thread) if app else _as_owner(call, text)
    reply = asyncio.run(asking)
    call.output.finish(reply.model_dump(mode="json"))


async def _as_owner(call: Invocation, question: str) -> OwnersAnswer:
    from tactful.cli.turns import Paragraph
    from tactful.cli.waiting import until_model_is_loaded
    from tactful.owner_client import OwnerClient

    console = call.output.console
    answer = Paragraph(console, 0)
    async with OwnerClient.connect(call.profile) as client:
        await until_model_is_loaded(client, call.output.notes)
        try:
            reply = await client.ask(question, on_text=answer.add)
        finally:
            answer.end()
    if console.is_terminal:
        console.print(sources(reply), style="dim")
    return reply


async def _as_app(
    call: Invocation, app: str, query: str, slots: list[str] | None, thread: str
) -> Turn:
    from tactful.cli.turns import TurnScreen
    from tactful.cli.waiting import until_model_is_loaded
    from tactful.owner_client import OwnerClient

    screen = TurnScreen(call.output.console)
    async with OwnerClient.connect(call.profile) as client:
        await until_model_is_loaded(client, call.output.notes)
        try:
            return await client.ask_as(
                app,
                query,
                slots=slots or None,
                thread=thread or None,
                on_turn=screen.started,
                on_text=screen.text,
            )
        finally:
            screen.finished()


def sources(answer: OwnersAnswer) -> str:
    """What an answer was written from, in words."""
    if not answer.remembered:
        return "Nothing is remembered yet, so this is from the model alone."
    if answer.remembered == answer.read == 1:
        return "From the one memory that there is."
    if answer.remembered == answer.read:
        return f"From all {answer.read} memories."
    return (
        f"From {answer.read} of {answer.remembered} memories, those closest to the question: "
        "more do not fit the model's context."
    )
