"""`tactful config list`, `get`, `set` and `unset`: the settings, with or without a daemon.

Decides how they look, and what the owner is told about when a change takes effect. What is *not*
here: what settings there are, reading and editing the file (`tactfuld one-shot config-...`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation

if TYPE_CHECKING:
    from rich.console import Console

KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="A setting, such as model.use.", show_default=False)
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="See and change settings.", rich_markup_mode=None)
    group.command("list")(list_)
    group.command("get")(get)
    group.command(
        "set", epilog=examples("config set answer.max_tokens 200", "config set sandbox off")
    )(set_)
    group.command("unset")(unset)
    app.add_typer(group, name="config")


def list_(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """List every setting: its value, origin and meaning."""
    call = invocation(context, profile, as_json)
    data = _ask_child(call, ["config-list"])
    call.output.show(data, lambda console: _show(console, data))


def get(
    context: typer.Context,
    key: KeyArgument,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the value of a setting."""
    call = invocation(context, profile, as_json)
    (row,) = _rows(_ask_child(call, ["config-list", f"--key={key}"]))
    call.output.show(row, lambda console: console.print(written(row["value"]), soft_wrap=True))


def set_(
    context: typer.Context,
    key: KeyArgument,
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE", help="As it would stand in the file: YAML.", show_default=False
        ),
    ],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set a setting in settings.yaml.

    Comments and everything else in the file stay as they are. A value that the daemon would refuse
    is not written: that is exit status 78, and 64 if there is no such setting.
    """
    _change(
        invocation(context, profile, as_json), ["config-set", f"--key={key}", f"--value={value}"]
    )


def unset(
    context: typer.Context,
    key: KeyArgument,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a setting out of settings.yaml: its default holds."""
    _change(invocation(context, profile, as_json), ["config-unset", f"--key={key}"])


def _change(call: Invocation, command: list[str]) -> None:
    import asyncio

    from rich.text import Text

    from tactful.visible_text import visible

    (row,) = _rows(_ask_child(call, command))
    effect, told = asyncio.run(_effect(call, row))
    text = Text.assemble((row["key"], "bold"), f" is {visible(written(row['value']))}. {told}")
    call.output.show({**row, "effect": effect}, lambda console: console.print(text))


async def _effect(call: Invocation, row: dict[str, Any]) -> tuple[str, str]:
    """When the change takes effect, as a word for programs and a sentence for people."""
    from tactful.errors import DaemonDown, TactfulError
    from tactful.owner_client import OwnerClient

    try:
        async with OwnerClient.connect(call.profile) as client:
            found = await client.reload()
    except DaemonDown:
        return "at_start", "No daemon runs; it holds from the next start on."
    except TactfulError as error:
        return "unknown", f"Whether the daemon took it over could not be found out: {error}"
    if found.settings_problem is not None:
        return "refused", found.settings_problem
    if row["key"] in found.waiting:
        stop, start = call.command("stop"), call.command("start")
        return "at_start", f"The daemon takes it over at its next start: {stop}; {start}"
    return "now", "It holds now."


def _ask_child(call: Invocation, command: list[str]) -> dict[str, Any]:
    from tactful.cli import process
    from tactful.cli.progress import progress_bar

    with progress_bar(call.output.notes, "settings") as report:
        return process.one_shot(process.Target(call.profile, call.folder), command, None, report)


def _rows(data: dict[str, Any]) -> list[dict[str, Any]]:
    return list(data["settings"])


def written(value: object) -> str:
    """A value as the file has it, without quotes."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def _show(console: Console, data: dict[str, Any]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from tactful.visible_text import visible

    console.print(Text(visible(data["file"]), style="dim"), soft_wrap=True)
    for row in _rows(data):
        ours = row["origin"] != "default"
        origin = row["origin"] if ours else "default"
        if ours and row["value"] != row["default"]:
            origin += f", default {written(row['default'])}"
        value = (visible(written(row["value"])), "bold" if ours else "")
        console.print(Text.assemble((row["key"], "bold"), " = ", value, (f"   {origin}", "dim")))
        when = "" if row["at_once"] else "; at the next start"
        about = f"{row['meaning']} ({row['takes']}{when})"
        console.print(Padding(Text(about, style="dim"), (0, 0, 0, 4)))
