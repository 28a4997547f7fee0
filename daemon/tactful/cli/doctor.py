"""`tactful doctor`: looking the profile over, with or without a daemon.

Decides how the lines look and what the exit status says. What is *not* here: any check (`tactfuld
one-shot doctor`, docs/doctor.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tactful.cli.invocation import (
    Invocation,
    JsonOption,
    PassphraseFileOption,
    ProfileOption,
    invocation,
)

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.cli.passphrase import Passphrase

NOT_WELL = 1
"""Exit status where not all is well; no error has it, because the command itself did its work."""

_WELL = {"ok", "not_applicable"}
_SIGNS = {
    "ok": ("ok", "bold green"),
    "not_applicable": ("-", "dim"),
    "unknown": ("?", "bold yellow"),
    "problem": ("problem", "bold red"),
}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    context: typer.Context,
    passphrase_file: PassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look everything over, and say what to do.

    Permissions, keys, every row of every database, the ledger and its high-water mark, the model,
    the sandbox and more. While the daemon runs, it is asked; without it, memory is opened if the
    key is at hand: nobody is asked for a passphrase. Exit status 0 only if all is well.
    """
    call = invocation(context, profile, as_json)
    data = _examined(call, call.passphrase(passphrase_file))
    call.output.show(data, lambda console: _show(console, data["checks"]))
    if not all(check["state"] in _WELL for check in data["checks"]):
        raise typer.Exit(NOT_WELL)


def _examined(call: Invocation, passphrase: Passphrase | None) -> dict[str, Any]:
    from tactful.cli import process
    from tactful.cli.progress import progress_bar

    with progress_bar(call.output.notes, "looking everything over") as report:
        target = process.Target(call.profile, call.folder)
        return process.one_shot(target, ["doctor"], passphrase, report)


def _show(console: Console, checks: list[dict[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    table = Table.grid(padding=(0, 2))
    for check in checks:
        sign, style = _SIGNS[check["state"]]
        told = Text(visible(check["detail"]))
        if check["advice"]:
            told.append(f"\n{visible(check['advice'])}", style="dim")
        table.add_row(Text(sign, style=style), Text(check["name"], style="bold"), told)
    console.print(table)
    console.print(Text(_in_short(checks), style="bold"))


def _in_short(checks: list[dict[str, str]]) -> str:
    states = [check["state"] for check in checks]
    problems, unknown = states.count("problem"), states.count("unknown")
    if not problems and not unknown:
        return "All is well."
    told = []
    if problems:
        told.append(f"{problems} problem{'s' if problems > 1 else ''}")
    if unknown:
        told.append(f"{unknown} that could not be looked at")
    return f"Not all is well: {', '.join(told)}."
