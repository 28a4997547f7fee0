"""`tactful ask`: the owner's own questions, and questions asked as an app.

Decides how an answer looks while it is written. What is *not* here: what it is written from (the
daemon), how a turn of an app looks (`turns`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import UsageError

if TYPE_CHECKING:
    from tactful.owner_wire import FusedText, OwnersAnswer, Turn
    from tactful.wire import Detail


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            'ask "What should I avoid?"',
            'ask --as meals "What could I cook tonight?"',
            'ask --as meals --thread supper "And something quicker?"',
            'ask --as meals --fused "What could I cook tonight?"',
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
    fused: Annotated[
        bool,
        typer.Option(
            "--fused",
            help="With --as: let the text itself be drawn with memory, at its own price.",
        ),
    ] = False,
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
    if (slots or thread or fused) and not app:
        option = "--slot" if slots else "--thread" if thread else "--fused"
        raise UsageError(f"{option} is for questions as an app. Name the app as well: --as APP.")
    text = given_text(
        call.output.notes,
        " ".join(question or ()),
        question="What do you want to know? ",
        nothing="There is nothing to ask: the question is empty.",
    )
    asked = _AsApp(app, text, tuple(slots or ()), thread, "fused" if fused else "views")
    reply = asyncio.run(_as_app(call, asked) if app else _as_owner(call, text))
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


@dataclass(frozen=True, slots=True)
class _AsApp:
    """A question as an app; empty strings stand for what was not given."""

    app: str
    query: str
    slots: tuple[str, ...]
    thread: str
    detail: Detail


async def _as_app(call: Invocation, asked: _AsApp) -> Turn:
    from tactful.cli.turns import TurnScreen
    from tactful.cli.waiting import until_model_is_loaded
    from tactful.owner_client import OwnerClient

    screen = TurnScreen(call.output.console)
    async with OwnerClient.connect(call.profile) as client:
        await until_model_is_loaded(client, call.output.notes)
        try:
            turn = await client.ask_as(
                asked.app,
                asked.query,
                slots=asked.slots or None,
                thread=asked.thread or None,
                detail=asked.detail,
                on_turn=screen.started,
                on_text=screen.text,
            )
        finally:
            screen.finished()
    if turn.fused is not None and call.output.console.is_terminal:
        call.output.console.print(fused_cost(turn.fused), style="dim")
    return turn


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


def fused_cost(fused: FusedText) -> str:
    """What a fused text cost and how fast it came, in words."""
    if fused.reason is not None:
        return f"Nothing was fused: {fused.reason}. The text comes from the views alone."
    tokens = fused.draws + fused.free
    speed = f"{tokens / fused.seconds:.1f} tokens a second" if fused.seconds > 0 else "at once"
    if not fused.cells:
        return f"{tokens} tokens ({speed}) with what is unprotected; nothing was charged."
    free = f", {fused.free} more were free" if fused.free else ""
    return (
        f"{fused.draws} of {fused.reserved} reserved draws were charged to "
        f"{', '.join(fused.charged)}{free}; {tokens} tokens, {speed}."
    )
