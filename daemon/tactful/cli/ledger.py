"""`tactful ledger`, `--watch` and `restore`: what apps have cost so far, attribute by attribute.

What is *not* here: the accounts themselves (the daemon), what restoring does to them (`tactfuld
one-shot ledger-restore`), watching (`ledger_watch`), how a line looks (`accounts`), and what a
number means (`tactful.odds`).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import (
    Invocation,
    JsonOption,
    PassphraseFileOption,
    ProfileOption,
    invocation,
    surroundings,
)
from tactful.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.cli.passphrase import Passphrase
    from tactful.owner_wire import LedgerReply


def register(app: typer.Typer) -> None:
    group = typer.Typer(rich_markup_mode=None)
    group.callback(
        invoke_without_command=True,
        epilog=examples("ledger", "ledger --watch", "ledger restore /backup/ledger.db"),
    )(ledger)
    group.command("restore")(restore)
    app.add_typer(group, name="ledger")


def ledger(
    context: typer.Context,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Stay, and show every change until Ctrl-C; with --json, a line for each.",
            show_default=False,
        ),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what apps cost so far, and what is left, in words.

    With --watch the daemon may stop and return; what was seen last stays on the screen. Ctrl-C is
    how it ends, so its exit status is 0.
    """
    import asyncio

    if context.invoked_subcommand is not None:
        if watch:
            raise UsageError("--watch shows the ledgers themselves; leave it out here.")
        around = surroundings(context)
        around.profile = profile or around.profile
        return
    call = invocation(context, profile, as_json)
    if watch:
        from tactful.cli.ledger_watch import watch_ledgers

        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(watch_ledgers(call))
        return
    found = asyncio.run(_ledger(call))
    call.output.show(found.model_dump(mode="json"), lambda console: _show(console, found))


def restore(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The ledger.db of another copy.", show_default=False),
    ],
    passphrase_file: PassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add what another copy of this ledger knows.

    The daemon must be stopped. Entries that are missing here are appended; nothing that is here is
    changed or lost, so no sum gets less. A file that is no copy of this ledger is refused. This is
    about the ledger alone: `tactful restore` restores a backup.
    """
    from tactful.cli import process
    from tactful.cli.passphrase import unlocked
    from tactful.cli.progress import progress_bar

    call = invocation(context, profile, as_json)
    target = process.Target(call.profile, call.folder)
    command = ["ledger-restore", str(file.expanduser().absolute())]

    def attempt(passphrase: Passphrase | None) -> dict[str, object]:
        with progress_bar(call.output.notes, "reading both ledgers") as report:
            return process.one_shot(target, command, passphrase, report)

    data = unlocked(attempt, call.passphrase(passphrase_file))
    call.output.show(data, lambda console: _show_restored(console, data))


async def _ledger(call: Invocation) -> LedgerReply:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.ledger()


def _show(console: Console, found: LedgerReply) -> None:
    from rich.text import Text

    from tactful.cli.accounts import show_accounts, show_odds

    if not found.readable:
        console.print(
            Text(
                "The ledger cannot be read, so every attribute counts as used up and apps get "
                "generic answers. `tactful status` says more.",
                style="bold red",
            )
        )
        return
    if not found.lines:
        console.print("The policy protects no attribute, so there is no ledger.")
        return
    console.print(Text(f"Epoch {found.epoch}", style="dim"))
    show_accounts(console, found.lines, lifetime=True)
    console.print()
    show_odds(console, found.lines)


def _show_restored(console: Console, data: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    match data["appended"]:
        case 0:
            told = "Nothing of it was missing here, so nothing was added."
        case 1:
            told = "1 entry of it was missing here and has been added."
        case missing:
            told = f"{missing} entries of it were missing here and have been added."
    console.print(Text(f"{visible(data['file'])} is a copy of this ledger. {told}"))
    for notice in data["notices"]:
        console.print(Text(f"! {visible(notice)}", style="yellow"))
    console.print(Text(f"\nEpoch {data['epoch']}, {data['entries']} entries", style="dim"))
    table = Table.grid(padding=(0, 2))
    for line in data["lines"]:
        table.add_row(
            Text(f"  {visible(line['attribute'])}", style="bold"),
            Text(f"{line['spent']:.3f} of {line['cap']:.3f}"),
            Text(f"lifetime {line['lifetime']:.3f}", style="dim"),
        )
    console.print(table)
