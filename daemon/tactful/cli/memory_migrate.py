"""`tactful memory migrate`: giving memory the shelves that the policy has now. Works without a
daemon.

What is *not* here: what would change, and what may (`tactfuld one-shot memory-migrate`).
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
    from rich.console import Console

    from tactful.cli.passphrase import Passphrase


def memory_migrate(
    context: typer.Context,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation.", show_default=False)
    ] = False,
    uncover: Annotated[
        bool,
        typer.Option(
            "--uncover",
            help="Let memories lose the cover of attributes, where the new policy says so.",
            show_default=False,
        ),
    ] = False,
    passphrase_file: PassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give memory the shelves that policy.yaml has now.

    Every memory keeps its shelf and its place on it; one that would have no place is named, and
    nothing is changed. If apps were answered in this epoch, they get generic answers until you open
    a new one. The daemon must be stopped.
    """
    from tactful.cli.passphrase import unlocked

    call = invocation(context, profile, as_json)
    words = ["--uncover"] if uncover else []

    def work(given: Passphrase | None) -> dict[str, Any]:
        plan = _run(call, given, words)
        if not plan["changes"]:
            return plan
        _show_plan(call.output.notes if call.output.as_json else call.output.console, plan)
        if not yes:
            _confirm(call)
        return _run(call, given, [*words, "--commit"])

    data = unlocked(work, call.passphrase(passphrase_file))
    call.output.show(data, lambda console: _say_done(console, call, data))


def _run(call: Invocation, passphrase: Passphrase | None, words: list[str]) -> dict[str, Any]:
    from tactful.cli import process
    from tactful.cli.progress import progress_bar

    with progress_bar(call.output.notes, "opening memory") as report:
        target = process.Target(call.profile, call.folder)
        return process.one_shot(target, ["memory-migrate", *words], passphrase, report)


def _show_plan(console: Console, plan: dict[str, Any]) -> None:
    from tactful.visible_text import visible

    for change in plan["changes"]:
        before, after = _size(change, "before"), _size(change, "after")
        console.print(f"  {visible(change['shelf'])}: {before} → {after}")
        if change["uncovers"]:
            lost = ", ".join(map(visible, change["uncovers"]))
            console.print(f"    what is remembered there would lose the cover of {lost}")
    if plan["exhausts"]:
        console.print(
            "Apps were answered in this epoch. They will get generic answers until you open a new "
            "one with `tactful epoch new`."
        )


def _size(change: dict[str, Any], when: str) -> str:
    positions = change[f"positions_{when}"]
    if positions is None:
        return "none"
    return f"{positions} positions of {change[f'tokens_{when}']} tokens"


def _confirm(call: Invocation) -> None:
    """Raises `UsageError` unless the owner says yes."""
    from tactful.cli.passphrase import can_ask
    from tactful.cli.questions import answer

    if call.output.as_json or not can_ask():
        raise UsageError("Giving memory other shelves wants to be confirmed: give --yes.")
    if answer(call.output.notes, "Type yes to do it: ") != "yes":
        raise UsageError("That was not `yes`, so nothing was changed.")


def _say_done(console: Console, call: Invocation, data: dict[str, Any]) -> None:
    if not data["migrated"]:
        console.print("Memory has the policy's shelves already.")
        return
    console.print(f"Memory has the policy's shelves now, and all {data['memories']} memories.")
    if data["exhausts"]:
        console.print(f"Next: {call.command('start')}, then {call.command('epoch new')}")
