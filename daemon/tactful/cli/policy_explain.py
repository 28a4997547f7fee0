"""`tactful policy explain`: what a question of an app would read and cost, and what could answer.

Decides how it is told. What is *not* here: the facts (`tactfuld.policy.explanation`), which are the
policy's alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.invocation import JsonOption, ProfileOption, invocation
from tactful.cli.policy_child import ask_child

if TYPE_CHECKING:
    from rich.console import Console


def explain(
    context: typer.Context,
    question: Annotated[
        list[str],
        typer.Argument(metavar="QUESTION...", help="What the app would ask.", show_default=False),
    ],
    app: Annotated[
        str, typer.Option("--app", metavar="APP", help="The app that asks.", show_default=False)
    ],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain what a question of an app would read and cost.

    From the policy and the question alone: no memory is read and nothing is charged.
    """
    call = invocation(context, profile, as_json)
    query = " ".join(question)
    data = ask_child(call, ["policy-explain", f"--app={app}", f"--query={query}"])
    call.output.show(data, lambda console: _show(console, data))


def _show(console: Console, data: dict[str, Any]) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    slots = data["slots"]
    if not slots:
        console.print(
            f"This is about no topic that {data['app']} may ask about. No memory is read, and "
            "nothing is charged."
        )
        return
    names = ", ".join(each["slot"] for each in slots)
    console.print(Text(f"{visible(data['app'])} asks about: {names}", style="bold"))
    for each in slots:
        _show_slot(console, each)
    _show_fused(console, data["fused"])
    _show_caps(console, slots)


def _show_fused(console: Console, fused: dict[str, Any] | None) -> None:
    """A fused answer about all of these slots; nothing where there can be none."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    if fused is None:
        return
    table = Table.grid(padding=(0, 2))
    console.print(Text("fused text, if the app asks for it", style="bold"))
    for about, told in _fused_rows(fused):
        table.add_row(Text(about, style="dim"), visible(told))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _fused_rows(fused: dict[str, Any]) -> list[tuple[str, str]]:
    contexts, tokens = fused["contexts"], fused["tokens"]
    payers = ", ".join(
        f"{payer['attribute']} (ε {payer['answer']:.3f} of {payer['epsilon']:.3f})"
        for payer in fused["payers"]
    )
    answers = fused["epoch_tokens"] / tokens
    takes = (
        f"about {fused['seconds']:.0f} s an answer at {fused['tokens_per_second']:.0f} tokens a "
        "second: stated for the built-in model on two cores, not measured here"
    )
    rows = [
        ("writes", f"from {contexts} private context{'s' if contexts > 1 else ''}"),
        ("charges", f"{payers} for a first answer of {tokens} tokens, at δ {fused['delta']:g}"),
        ("an epoch", f"buys {fused['epoch_tokens']:,} tokens, {answers:.1f} such answers"),
        ("takes", takes),
    ]
    if fused["left_out"]:
        names = ", ".join(fused["left_out"])
        rows.append(("leaves out", f"{names}: something they may imply has no fusion"))
    return rows


def _show_slot(console: Console, slot: dict[str, Any]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    table = Table.grid(padding=(0, 2))
    console.print(Text(slot["slot"], style="bold"))
    for about, told in _rows(slot):
        table.add_row(Text(about, style="dim"), visible(told))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _rows(slot: dict[str, Any]) -> list[tuple[str, str]]:
    release = slot["release"]
    shelves = f"{', '.join(slot['shelves'])} ({slot['positions']} positions)"
    if release is None:
        free = slot["unprotected"] and slot["views"] > 1
        costs = "nothing: unprotected" if free else "nothing"
        reads = shelves if free else "nothing: only the generic view answers"
        return [("reads", reads), ("costs", costs), ("else", slot["generic"])]
    payers = ", ".join(payer["attribute"] for payer in release["payers"])
    return [
        ("reads", shelves),
        ("charges", payers),
        ("costs", f"ε {release['epsilon']:.3f} for each of them, {_how_often(release)}"),
        ("draws", _draw(release)),
        ("at the cap", f"the generic view answers: {slot['generic']}"),
    ]


def _how_often(release: dict[str, Any]) -> str:
    most = release["most"]
    times = "once" if most == 1 else f"up to {most} times"
    if release["lasting"]:
        return f"{times} an epoch; what was drawn stands, and answers from it are free"
    return f"{times} an epoch if nothing else is asked"


def _draw(release: dict[str, Any]) -> str:
    kind = "groups of views" if release["lasting"] else "views"
    blind = 1 / release["candidates"]
    return (
        f"the right one of {release['candidates']} {kind} with probability {release['right']:.2f} "
        f"where memory is clear ({blind:.2f} would be blind)"
    )


def _show_caps(console: Console, slots: list[dict[str, Any]]) -> None:
    from tactful.odds import bound

    caps = {
        payer["attribute"]: payer["cap"]
        for slot in slots
        if slot["release"] is not None
        for payer in slot["release"]["payers"]
    }
    for cap in sorted(set(caps.values())):
        names = ", ".join(name for name in caps if caps[name] == cap)
        console.print(
            f"With a cap of {cap:.3f} ({names}), all that all apps see in an epoch moves the odds "
            f"of a guess by {bound(cap)}."
        )
