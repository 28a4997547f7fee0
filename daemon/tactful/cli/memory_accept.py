"""`tactful memory accept`: taking an older copy of memory for the newest. Works without a daemon.

What is *not* here: which copy is an older one, and what is done with it (`tactfuld one-shot
memory-accept`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.invocation import (
    Invocation,
    JsonOption,
    PassphraseFileOption,
    ProfileOption,
    invocation,
)
from tactful.errors import UsageError

if TYPE_CHECKING:
    from tactful.cli.passphrase import Passphrase


def memory_accept(
    context: typer.Context,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation.", show_default=False)
    ] = False,
    passphrase_file: PassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take memory as it is, although it is older than it was.

    For when you have put back an older copy of the data folder and there is no newer one: what was
    changed since is lost, and what was forgotten since is there again. From then on, every copy
    from before counts as older. The daemon must be stopped.
    """
    from tactful.cli.passphrase import unlocked

    call = invocation(context, profile, as_json)
    if not yes:
        _confirm(call)
    data = unlocked(lambda given: _accept(call, given), call.passphrase(passphrase_file))
    call.output.show(
        data,
        lambda console: console.print(
            f"Memory is taken as it is, with {data['memories']} memories in it."
        ),
    )


def _confirm(call: Invocation) -> None:
    """Raises `UsageError` unless the owner says yes."""
    from tactful.cli.passphrase import can_ask
    from tactful.cli.questions import answer

    if call.output.as_json or not can_ask():
        raise UsageError("Taking memory as it is wants to be confirmed: give --yes.")
    call.output.notes.print(
        "This takes memory as it is for the newest. If it is an older copy, what was changed since "
        "is lost, and what was forgotten since is there again."
    )
    if answer(call.output.notes, "Type yes to take it: ") != "yes":
        raise UsageError("That was not `yes`, so nothing was changed.")


def _accept(call: Invocation, passphrase: Passphrase | None) -> dict[str, Any]:
    from tactful.cli import process
    from tactful.cli.progress import progress_bar

    with progress_bar(call.output.notes, "opening memory") as report:
        target = process.Target(call.profile, call.folder)
        return process.one_shot(target, ["memory-accept"], passphrase, report)
