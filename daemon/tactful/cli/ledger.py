"""`tactful ledger`: what apps have cost so far, attribute by attribute.

What is *not* here: the accounts themselves (the daemon), how a line looks (`accounts`), and what a
number means (`odds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.wire import LedgerReply


def register(app: typer.Typer) -> None:
    app.command()(ledger)


def ledger(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Show every ledger: spent, cap, what is left, and what it means."""
    import asyncio

    call = invocation(context, profile, as_json)
    found = asyncio.run(_ledger(call))
    call.output.show(found.model_dump(mode="json"), lambda console: _show(console, found))


async def _ledger(call: Invocation) -> LedgerReply:
    from tactful.client import OwnerClient

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
