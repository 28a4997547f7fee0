"""`tactful policy lint`: memories that seem to imply an attribute which does not cover them.

Decides how findings are shown and what is advised. What is *not* here: what is found (the daemon).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_wire import LintReply


def lint(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Find memories on shelves that may not cover them.

    These are memories that seem to imply an attribute which does not list their shelf under
    implied_by; the promise for an attribute holds for the shelves that it lists. What is found is a
    guess from the words, which cannot tell whom a text is about. Nothing is changed.
    """
    import asyncio

    call = invocation(context, profile, as_json)
    found = asyncio.run(_lint(call))
    call.output.show(found.model_dump(mode="json"), lambda console: _show(console, call, found))


async def _lint(call: Invocation) -> LintReply:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.policy_lint()


def _show(console: Console, call: Invocation, found: LintReply) -> None:
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    if not found.looked_for:
        console.print("The policy has no attribute that this looks for.")
    elif not found.findings:
        names = visible(", ".join(found.looked_for))
        console.print(f"Nothing outside their shelves seems to imply {names}.")
    else:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for title in ("position", "shelf", "may imply", "better on", "memory"):
            table.add_column(title)
        for each in found.findings:
            implied = (*each.warning.likely, *(f"{name}?" for name in each.warning.possible))
            table.add_row(
                str(each.item.position),
                visible(each.item.shelf),
                Text(visible(", ".join(implied)), style="bold"),
                visible(each.warning.better or "-"),
                visible(each.item.text),
            )
        console.print(table)
        console.print(_ADVICE.format(move=call.command("memory move N SLOT.SHELF")))
    if found.unknown:
        console.print(f"It does not know {visible(', '.join(found.unknown))}.", style="dim")


_ADVICE = (
    "A question mark: less sure. If one is right, either move the memory ({move}), or add its "
    "shelf to implied_by of the attribute in the policy. That protects the shelf from then on, "
    "and every answer for which it is read is then charged to the attribute too, so its cap "
    "lasts for fewer of them. What apps were told before stays outside of either."
)
