"""`tactful epoch show`, `new` and `history`: the spans for which caps are promised.

Decides what the owner reads before an epoch is opened, and that it is opened on purpose. What is
*not* here: what an epoch is and when one opens by itself (the daemon), and odds (`odds`).

Invariant: an epoch is opened after the one that was shown, so one wish opens one (`EpochNew`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tactful.owner_wire import EpochHistory, EpochReply, LedgerLine, LedgerReply

WORDS = "new epoch"
_RENEWAL = {
    "manual": "It stays open until you open another one: tactful epoch new",
    "weekly": "The next one opens by itself in a later week, once this one has lasted 7 days.",
    "monthly": "The next one opens by itself in a later month, once this one has lasted 28 days.",
}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="See epochs, and open one.", rich_markup_mode=None)
    group.command("show")(show)
    group.command("new")(new)
    group.command("history")(history)
    app.add_typer(group, name="epoch")


def show(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Show the open epoch: spent, promised, and the lifetime bound."""
    import asyncio

    call = invocation(context, profile, as_json)
    epoch, ledger = asyncio.run(_open_epoch(call))
    call.output.show(_data(epoch, ledger), lambda console: _show(console, epoch, ledger))


def new(
    context: typer.Context,
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
    """Open a new epoch: caps begin anew, lifetime bounds grow.

    First shows each attribute's lifetime bound before and after, and wants it typed.
    """
    import asyncio

    from tactful.cli.questions import answer

    call = invocation(context, profile, as_json)
    asks = confirm is None and call.can_ask
    if not asks:
        _require_words(confirm)
    before, ledger = asyncio.run(_open_epoch(call))
    _show_consequences(call.output.notes if asks else call.output.console, before, ledger)
    if asks:
        _require_words(answer(call.output.notes, f"Type {WORDS} to open it: "))
    opened = asyncio.run(_open_next(call, before.epoch))
    call.output.show(
        {**opened.model_dump(mode="json"), "before": before.model_dump(mode="json")},
        lambda console: console.print(f"Epoch {opened.epoch} is open."),
    )


def history(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Show what every epoch came to, attribute by attribute."""
    import asyncio

    call = invocation(context, profile, as_json)
    past, ledger = asyncio.run(_history(call))
    lifetime = {line.attribute: line.lifetime for line in ledger.lines}
    call.output.show(
        {**past.model_dump(mode="json"), "lifetime": lifetime},
        lambda console: _show_history(console, past, ledger.lines),
    )


async def _open_epoch(call: Invocation) -> tuple[EpochReply, LedgerReply]:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.epoch_show(), await client.ledger()


async def _open_next(call: Invocation, after: int) -> EpochReply:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.epoch_new(after)


async def _history(call: Invocation) -> tuple[EpochHistory, LedgerReply]:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.epoch_history(), await client.ledger()


def _require_words(given: str | None) -> None:
    """Raises `UsageError` unless the owner said the words."""
    if given is None:
        raise UsageError(
            f'Opening an epoch wants to be typed; without a terminal, give --confirm "{WORDS}". '
            "Nothing was changed."
        )
    if given != WORDS:
        raise UsageError(f"That was not `{WORDS}`, so no epoch was opened.")


def _data(epoch: EpochReply, ledger: LedgerReply) -> dict[str, object]:
    accounts = {line.attribute: line for line in ledger.lines}
    fields = {"spent", "cap", "promised", "closed", "exposed"}
    lines = [
        {**line.model_dump(), **accounts[line.attribute].model_dump(include=fields)}
        for line in epoch.lines
    ]
    return {**epoch.model_dump(mode="json"), "lines": lines}


def _show(console: Console, epoch: EpochReply, ledger: LedgerReply) -> None:
    from rich.text import Text

    from tactful.cli.policy_apply import is_all_in_force, show_staged
    from tactful.odds import bound
    from tactful.visible_text import visible

    told = _RENEWAL.get(epoch.renewal, f"Renewal: {visible(epoch.renewal)}.")
    console.print(Text.assemble((f"Epoch {epoch.epoch} is open. ", "bold"), told))
    if epoch.staged.at_once or not is_all_in_force(epoch.staged):
        show_staged(console, epoch.staged)
    if not epoch.lines:
        console.print("The policy protects no attribute, so there is nothing to renew.")
        return
    accounts = {line.attribute: line for line in ledger.lines}
    table = _table("attribute", "spent", "cap", "promised", "lifetime bound, this epoch included")
    for line in epoch.lines:
        account = accounts[line.attribute]
        numbers = (account.spent, account.cap, account.promised)
        table.add_row(
            Text(visible(line.attribute), style="bold"),
            *(Text(f"{number:.3f}") for number in numbers),
            Text(_NONE if account.exposed else bound(line.lifetime_now)),
        )
        if line.fused_now and not account.exposed:
            told = f"with fused text {bound(line.lifetime_now + line.fused_now)}"
            table.add_row("", "", "", "", Text(told))
    console.print()
    console.print(table)
    _show_exception(console, epoch)


_NONE = "none: it was read without protection"


def _show_consequences(console: Console, epoch: EpochReply, ledger: LedgerReply) -> None:
    """What opening another epoch means (GUARANTEE §3)."""
    from rich.text import Text

    from tactful.visible_text import visible

    console.print(
        Text(
            f"This closes epoch {epoch.epoch} and opens epoch {epoch.epoch + 1}: each attribute "
            "may then cost its whole cap once more. What all apps together may ever have seen "
            "then moves the odds by at most:"
        )
    )
    exposed = {line.attribute for line in ledger.lines if line.exposed}
    table = _table("attribute", "", "lifetime bound")
    for line in epoch.lines:
        none = line.attribute in exposed
        for when, loss in (("now", line.lifetime_now), ("after", line.lifetime_after)):
            name = visible(line.attribute) if when == "now" else ""
            table.add_row(
                Text(name, style="bold"),
                when,
                Text(_NONE if none else _UNPROTECTED if loss is None else _odds(loss)),
            )
        if line.fused_after and line.lifetime_after is not None and not none:
            together = line.lifetime_after + line.fused_after
            table.add_row("", "with fused text", Text(_odds(together)))
    console.print()
    console.print(table)
    _show_exception(console, epoch)
    if waiting := (*epoch.staged.at_tick, *epoch.staged.at_epoch):
        console.print()
        console.print(Text(f"The policy file then holds as it is written: {_listed(waiting)}."))
    console.print()
    for sentence in (_STAYS_SEEN, _OUTSIDE):
        console.print(Text(sentence))
        console.print()


def _show_exception(console: Console, epoch: EpochReply) -> None:
    """Bounds that fused text is in hold but for a probability."""
    from rich.text import Text

    fused = [line for line in epoch.lines if line.fused_now or line.fused_after]
    if fused:
        told = f"With fused text, except with a probability of at most {fused[0].delta:g}."
        console.print(Text(told, style="dim"))


_UNPROTECTED = "not protected any more"


def _odds(loss: float) -> str:
    from tactful.odds import bound

    return f"ε {loss:.3f}, {bound(loss)}"


def _listed(keys: Sequence[str]) -> str:
    from tactful.visible_text import visible

    return ", ".join(visible(key) for key in keys)


_STAYS_SEEN = (
    "What apps have seen stays seen. A new epoch takes nothing back; it only lets them see more."
)
_OUTSIDE = (
    "Apps can tell that an epoch was opened. Opening one because an answer or a view was wrong, or "
    "because of anything else in your memory, says something about your memory that no number "
    "here counts: it is outside the promise. Open it because of the calendar, or do not."
)


def _show_history(console: Console, past: EpochHistory, accounts: Sequence[LedgerLine]) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    if not accounts:
        console.print("The policy protects no attribute, so there is no history.")
        return
    table = _table("epoch", *(visible(line.attribute) for line in accounts))
    for sums in past.epochs:
        spent = (sums.spent.get(line.attribute, 0.0) for line in accounts)
        table.add_row(f"{sums.epoch}", *(f"{number:.3f}" for number in spent))
        if any(sums.fused.values()):
            fused = (sums.fused.get(line.attribute, 0.0) for line in accounts)
            table.add_row(Text("fused", style="dim"), *(f"{number:.3f}" for number in fused))
    table.add_section()
    table.add_row(Text("lifetime", style="bold"), *(f"{line.lifetime:.3f}" for line in accounts))
    console.print(table)


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in (first, *others):
        table.add_column(name, overflow="fold")
    return table
