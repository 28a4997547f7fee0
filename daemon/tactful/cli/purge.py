"""`tactful purge`: a profile is destroyed, its keys first.

Decides what the owner has to type, and what they are told is left. What is *not* here: which files
are ours, and destroying them (`tactfuld one-shot purge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.backup import run_child
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

DEFAULT_NAME = "default"
"""What the profile in the operating system's folders is called."""


def register(app: typer.Typer) -> None:
    app.command()(purge)


def purge(
    context: typer.Context,
    with_config: Annotated[
        bool,
        typer.Option("--with-config", help="Remove policy and settings too.", show_default=False),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation.", show_default=False)
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Destroy this profile: its keys, then its files.

    Memory, ledgers and history cannot be read again afterwards, except from backups and other
    copies. Files that are not tactful's stay and are named. The daemon must be stopped.
    """
    call = invocation(context, profile, as_json)
    if not yes:
        _confirm(call)
    data = run_child(call, ["purge", *(["--with-config"] if with_config else [])])
    call.output.show(data, lambda console: _show(console, data))


def _confirm(call: Invocation) -> None:
    """Raises `UsageError` unless the owner types the profile's name."""
    from tactful.cli.questions import answer
    from tactful.visible_text import visible

    if not call.can_ask:
        raise UsageError("Destroying a profile wants to be confirmed: give --yes.")
    name = DEFAULT_NAME if call.folder is None else call.folder.name
    call.output.notes.print(
        f"This destroys the profile in {visible(str(call.profile.data))}: everything that is "
        "remembered, all ledgers and all history. Only a backup brings it back.",
        soft_wrap=True,
        markup=False,
    )
    if answer(call.output.notes, f"Type the profile's name, {visible(name)}: ") != name:
        raise UsageError("That was not the profile's name, so nothing was changed.")


def _show(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    console.print("The profile is destroyed: its keys first, then its files.")
    if data["config_kept"]:
        console.print("Policy and settings stay; --with-config removes them too.")
    for path in data["kept"]:
        console.print(Text(f"Not tactful's, so it stays: {visible(path)}"), soft_wrap=True)
    console.print("Out of reach:", style="bold")
    for sentence in data["out_of_reach"]:
        console.print(Text(f"  {visible(sentence)}"), soft_wrap=True)
