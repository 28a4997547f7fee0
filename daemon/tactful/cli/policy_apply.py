"""`tactful policy apply`: what of the policy file holds when, or all of it at once.

Decides what the owner reads before a policy is put in force at once, and that it is done on
purpose. What is *not* here: what may hold when (the daemon).

Invariant: the policy that is put in force is the one that was shown (`PolicyApply`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import Locked, PolicyRefused, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_wire import StagedPolicy

WORDS = "at once"

_AT_ONCE = "A policy was put in force at once in this epoch, which is outside of the promise."
_OUTSIDE = (
    "A change at once is outside of the promise. You chose its moment, so that can tell what made "
    "you choose it; the moments of ticks tell nothing. And where it loosens something, what apps "
    "see in this epoch is bounded by the looser policy only."
)


def apply(
    context: typer.Context,
    at_once: Annotated[
        bool,
        typer.Option(
            "--at-once",
            help="Put all of it in force now, in the open epoch. Outside of the promise.",
            show_default=False,
        ),
    ] = False,
    confirm: Annotated[
        str | None,
        typer.Option(
            "--confirm",
            metavar="WORDS",
            help=f'Say "{WORDS}" here instead of typing it; needed without a terminal and with '
            "--json.",
            show_default=False,
        ),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say when a changed policy holds, or make it hold now.

    The daemon takes changes over by itself. Apps lose at once what they lose; what tightens waits
    for the daily tick, what loosens for a new epoch. With --at-once nothing waits: the guarantee
    does not cover that, and it wants to be typed.
    """
    import asyncio

    from tactful.cli.passphrase import can_ask
    from tactful.cli.questions import answer

    call = invocation(context, profile, as_json)
    asks = at_once and confirm is None and can_ask() and not call.output.as_json
    if at_once and not asks:
        _require_words(confirm)
    staged = asyncio.run(_staged(call))
    if at_once and not is_all_in_force(staged):
        _show_consequences(call.output.notes if asks else call.output.console, staged)
        if asks:
            _require_words(answer(call.output.notes, f"Type {WORDS} to put it in force: "))
        staged = asyncio.run(_apply(call, staged.written))
    call.output.show(staged.model_dump(mode="json"), lambda console: show_staged(console, staged))


async def _staged(call: Invocation) -> StagedPolicy:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        found = await client.reload()
        staged = (await client.status()).staged
    if found.policy_problem is not None:
        raise PolicyRefused(found.policy_problem)
    if staged is None:
        raise Locked("The profile is locked; unlock it first with `tactful unlock`.")
    return staged


async def _apply(call: Invocation, written: str) -> StagedPolicy:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.policy_apply(written)


def _require_words(given: str | None) -> None:
    """Raises `UsageError` unless the owner said the words."""
    if given is None:
        raise UsageError(
            "Putting a policy in force at once wants to be typed; without a terminal, give "
            f'--confirm "{WORDS}". Nothing was changed.'
        )
    if given != WORDS:
        raise UsageError(f"That was not `{WORDS}`, so nothing was put in force.")


def is_all_in_force(staged: StagedPolicy) -> bool:
    """Whether nothing that was written waits."""
    return not (staged.at_tick or staged.at_epoch or staged.other_shelves)


def _show_consequences(console: Console, staged: StagedPolicy) -> None:
    from rich.text import Text

    show_staged(console, staged)
    console.print()
    console.print(Text(_OUTSIDE))
    console.print()


def show_staged(console: Console, staged: StagedPolicy) -> None:
    """What waits, key by key; that nothing does, where nothing does."""
    from datetime import datetime

    from rich.padding import Padding
    from rich.text import Text

    from tactful.visible_text import visible

    if staged.at_once:
        console.print(Text(_AT_ONCE, style="yellow"))
    if staged.other_shelves:
        console.print("The policy file has other shelves than memory, so it is not in force.")
    elif is_all_in_force(staged):
        console.print("All that the policy file says is in force.")
    tick = datetime.fromtimestamp(staged.tick_at).astimezone()
    for when, keys in (
        (f"From the next tick on, {tick:%Y-%m-%d %H:%M}:", staged.at_tick),
        ("In a new epoch only (tactful epoch new):", staged.at_epoch),
    ):
        if keys and not staged.other_shelves:
            console.print(when)
            for key in keys:
                console.print(Padding(Text(visible(key), style="bold"), (0, 0, 0, 2)))
