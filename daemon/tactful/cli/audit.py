"""`tactful audit distance`, `odds` and `replay`: what the ledgers promise, and whether they add up.

What is *not* here: distances and replays themselves (the daemon), which words name positions
(`positions`), and what a loss means (`odds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.errors import Unusable

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.owner_wire import Distance, LedgerLine, LedgerReply, Replay, ShelfInfo

MISMATCH = 65
"""Exit status where the entries do not give the sums; sysexits calls it a data error."""


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Check what is promised.", rich_markup_mode=None)
    group.command("distance", epilog=examples("audit distance 3", "audit distance 3-5 food.diet"))(
        distance
    )
    group.command("odds")(odds)
    group.command("replay")(replay)
    app.add_typer(group, name="audit")


def distance(
    context: typer.Context,
    positions: Annotated[
        list[str],
        typer.Argument(
            metavar="POSITION...",
            help="Numbers (3), ranges (3-5) or shelves (food.diet).",
            show_default=False,
        ),
    ],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how far apps can tell two memories apart.

    The two differ at these positions, and only there.

    Beforehand: what is promised for the epoch, by the attributes that cover all of the positions
    at the least cost. Afterwards: what was really released in this epoch.
    """
    import asyncio

    call = invocation(context, profile, as_json)
    numbers, found, shelves = asyncio.run(_distance(call, positions))
    call.output.show(
        {"positions": list(numbers), **found.model_dump(mode="json")},
        lambda console: _show_distance(console, numbers, found, shelves),
    )


def odds(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Show what apps could have learnt, as odds.

    For each attribute: what they have seen, what is promised for this epoch, and what all epochs
    add up to.
    """
    import asyncio

    from tactful.odds import PRIOR_PERCENT

    call = invocation(context, profile, as_json)
    found = asyncio.run(_ledger(call))
    if not found.readable:
        raise Unusable(
            "The ledger cannot be read, so what apps have seen is not known and every attribute "
            "counts as used up. `tactful status` says more."
        )
    call.output.show(
        {
            "epoch": found.epoch,
            "prior_percent": PRIOR_PERCENT,
            "lines": [_odds_data(line) for line in found.lines],
        },
        lambda console: _show_odds(console, found),
    )


def replay(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Recompute every ledger from its entries and compare."""
    import asyncio

    call = invocation(context, profile, as_json)
    found = asyncio.run(_replay(call))
    call.output.show(found.model_dump(mode="json"), lambda console: _show_replay(console, found))
    if not found.matches:
        raise typer.Exit(MISMATCH)


async def _distance(
    call: Invocation, words: list[str]
) -> tuple[tuple[int, ...], Distance, tuple[ShelfInfo, ...]]:
    """The positions, the distance, and the shelves where they were looked at."""
    from tactful.cli.positions import names_shelf, resolved
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        size = (await client.status()).positions
        shelves: tuple[ShelfInfo, ...] = ()
        if any(names_shelf(word) for word in words):
            shelves = (await client.memory_list()).shelves
        numbers = resolved(words, size, shelves)
        found = await client.audit_distance(numbers)
        if found.beforehand is None and not shelves:
            shelves = (await client.memory_list()).shelves
    return numbers, found, shelves


async def _ledger(call: Invocation) -> LedgerReply:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.ledger()


async def _replay(call: Invocation) -> Replay:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.audit_replay()


def _show_distance(
    console: Console,
    numbers: tuple[int, ...],
    found: Distance,
    shelves: tuple[ShelfInfo, ...],
) -> None:
    from rich.table import Table
    from rich.text import Text

    from tactful.cli.positions import uncovered
    from tactful.odds import bound
    from tactful.visible_text import visible

    console.print(Text(f"Two memories that differ at {_named(numbers)}:"))
    if found.beforehand is None:
        bare = uncovered(numbers, shelves)
        before = "nothing is promised"
        before += f": no attribute covers {_named(bare)}" if bare else ""
    else:
        by = visible(" and ".join(found.cover))
        before = f"ε {found.beforehand:.3f}, {bound(found.beforehand)}; promised by {by}"
    if found.afterwards is None:
        after = "no bound: what is there was read without protection in this epoch"
    elif found.afterwards == 0:
        after = "nothing that was released in this epoch depends on what is there"
    else:
        after = f"ε {found.afterwards:.3f}, {bound(found.afterwards)}"
    table = Table.grid(padding=(0, 2))
    table.add_row("  beforehand", Text(before))
    table.add_row("  afterwards", Text(after))
    if found.fused is not None:
        far = found.fused.afterwards
        told = "no bound" if far is None else f"ε {far:.3f} at δ {found.fused.delta:g}"
        table.add_row("  fused text", Text(f"{told}, on top of it"))
    console.print(table)


def _named(numbers: tuple[int, ...]) -> str:
    from tactful.cli.positions import in_short

    return f"position{'s' if len(numbers) > 1 else ''} {in_short(numbers)}"


def _odds_data(line: LedgerLine) -> dict[str, object]:
    losses = {"seen": line.spent, "promised": line.promised, "lifetime": line.lifetime}
    return {
        "attribute": line.attribute,
        "exposed": line.exposed,
        "with_fused": None if line.exposed else _with_fused(line),
        **{name: None if line.exposed else _bounds(loss) for name, loss in losses.items()},
    }


def _with_fused(line: LedgerLine) -> dict[str, object] | None:
    """Views and fused text together, except with a probability of `delta`."""
    from tactful.odds import lifetime, promised, seen

    if line.fused is None:
        return None
    losses = {"seen": seen(line), "promised": promised(line), "lifetime": lifetime(line)}
    bounds = {name: _bounds(loss) for name, loss in losses.items()}
    return {"delta": line.fused.delta, **bounds}


def _bounds(loss: float) -> dict[str, float]:
    from tactful.odds import largest_percent, smallest_percent

    return {
        "epsilon": loss,
        "most_percent": float(largest_percent(loss)),
        "least_percent": float(smallest_percent(loss)),
    }


def _show_odds(console: Console, found: LedgerReply) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tactful.odds import either_way, lifetime, promised, seen, together
    from tactful.spending import fused_in_words
    from tactful.visible_text import visible

    if not found.lines:
        console.print("The policy protects no attribute, so nothing is promised.")
        return
    console.print(Text(_ABOUT))
    for line in found.lines:
        console.print()
        console.print(Text(visible(line.attribute), style="bold"))
        if line.exposed:
            console.print(Text("  Nothing is promised: it was read without protection."))
            continue
        table = Table.grid(padding=(0, 2))
        rows = [("seen", line.spent), ("promised", line.promised), ("lifetime", line.lifetime)]
        if line.fused is not None:
            rows += [("seen, with fused text", seen(line))]
            rows += [("promised, with it", promised(line)), ("lifetime, with it", lifetime(line))]
        for name, loss in rows:
            table.add_row(Text(name, style="dim"), f"ε {loss:.3f}", Text(either_way(loss)))
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
        if line.fused is not None:
            told = f"Views and fused text together: {together(line)}; {fused_in_words(line)}."
            console.print(Padding(Text(told, style="dim"), (0, 0, 0, 2), expand=False))
    console.print()
    console.print(Text(_LEGEND))
    delta = next((line.fused.delta for line in found.lines if line.fused is not None), None)
    if delta is not None:
        console.print(Text(_FUSED_LEGEND.format(delta=f"{delta:g}")))


_ABOUT = (
    "Between two memories that differ only in what is filed under an attribute, what all apps "
    "together see moves the odds by a bounded factor. What that makes of a belief of 10 %:"
)
_LEGEND = (
    "seen: everything that was shown in this epoch, taken together. promised: any part of it, such "
    "as what one app was shown, and everything until the epoch ends, whatever apps still ask. "
    "lifetime: everything that was shown in all epochs. Not in these numbers: what is filed "
    "elsewhere, and what correlated attributes give away."
)


_FUSED_LEGEND = (
    "With fused text, the bounds hold except with a probability of at most δ = {delta}. A bound "
    "on odds that fails so seldom is larger than the ε of the promise (ε, δ)."
)


def _show_replay(console: Console, found: Replay) -> None:
    from rich.text import Text

    entries = f"{found.entries} {'entry' if found.entries == 1 else 'entries'}"
    if found.matches:
        console.print(f"{entries}, read anew, give exactly the sums that the daemon works with.")
        return
    console.print(
        Text(
            f"{entries}, read anew, do not give the sums that the daemon works with. Restart the "
            "daemon (tactful stop, tactful start), which reads them all, and look again. If they "
            "still differ, please report it: it is a defect.",
            style="bold red",
        )
    )
