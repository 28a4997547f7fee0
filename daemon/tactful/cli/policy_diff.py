"""`tactful policy diff`: which promises another policy tightens or loosens, and when.

Decides how the lines look. What is *not* here: what a difference means
(`tactfuld.policy.comparison`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.invocation import JsonOption, ProfileOption, invocation
from tactful.cli.policy_child import ask_child

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"tighter": "green", "looser": "bold yellow", "other": "dim"}
_MOMENTS = {
    "at_once": "at once",
    "tick": "from the next daily tick on",
    "epoch": "from the next epoch on",
    "other_shelves": "not while memory lies on other shelves",
}


def diff(
    context: typer.Context,
    old: Annotated[
        Path | None,
        typer.Argument(
            metavar="OLD",
            help="The policy before; by default the one that was last in force.",
            show_default=False,
        ),
    ] = None,
    new: Annotated[
        Path | None,
        typer.Argument(
            metavar="NEW",
            help="The policy after; by default the profile's own.",
            show_default=False,
        ),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which promises get tighter or looser.

    A running daemon takes over what is tighter at its next daily tick (what apps lose, at once),
    and what is looser in its next epoch.
    """
    call = invocation(context, profile, as_json)
    files = [str(file.expanduser().absolute()) for file in (old, new) if file is not None]
    data = ask_child(call, ["policy-diff", *files], "reading the policies")
    call.output.show(data, lambda console: show_changes(console, data["changes"]))


def show_changes(console: Console, changes: Any) -> None:
    """Each change on a line, the loosening ones first."""
    from rich.text import Text

    from tactful.visible_text import visible

    if not changes:
        console.print("Both promise and grant the same.")
        return
    order = ("looser", "tighter", "other")
    for change in sorted(changes, key=lambda change: order.index(change["direction"])):
        direction, moment = change["direction"], _MOMENTS[change["when"]]
        console.print(
            Text.assemble(
                (f"{direction:8}", _STYLES[direction]),
                visible(change["sentence"]),
                (f" ({moment})", "dim"),
            )
        )
