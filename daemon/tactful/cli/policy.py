"""`tactful policy check`, `init` and `schema`: what a policy says, may say, and can begin with.

Works without a daemon. What is *not* here: what is a problem (`tactfuld.policy`, the same code that
the daemon starts with).
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import JsonOption, ProfileOption, invocation
from tactful.cli.policy_apply import apply
from tactful.cli.policy_child import ask_child
from tactful.cli.policy_diff import diff
from tactful.cli.policy_edit import edit
from tactful.cli.policy_explain import explain
from tactful.cli.policy_lint import lint
from tactful.cli.policy_rollback import rollback

if TYPE_CHECKING:
    from rich.console import Console


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Look after the policy file.", rich_markup_mode=None)
    group.command("check", epilog=examples("policy check", "policy check draft.yaml"))(check)
    group.command(
        "apply", epilog=examples("policy apply", 'policy apply --at-once --confirm "at once"')
    )(apply)
    group.command("lint", epilog=examples("policy lint", "policy lint --json"))(lint)
    group.command("diff", epilog=examples("policy diff", "policy diff old.yaml new.yaml"))(diff)
    group.command("explain", epilog=examples('policy explain --app meals "cheap dinner"'))(explain)
    group.command("init", epilog=examples("policy init --starter strict"))(init)
    group.command("edit", epilog=examples("policy edit"))(edit)
    group.command("rollback", epilog=examples("policy rollback", "policy rollback 3 --yes"))(
        rollback
    )
    group.command("schema", epilog=examples("policy schema > policy.schema.json"))(schema)
    app.add_typer(group, name="policy")


def check(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="The policy to check; by default the profile's own.",
            show_default=False,
        ),
    ] = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a policy, and say in short what it comes to.

    Every problem is told with its file, line and key. The daemon reads a policy in the same way
    when it starts, so what passes here is accepted there.
    """
    call = invocation(context, profile, as_json)
    command = ["policy-check"]
    if file is not None:
        command.append(str(file.expanduser().absolute()))
    data = ask_child(call, command)
    call.output.show(data, lambda console: _show(console, data))


def schema(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Print the JSON Schema of the policy file."""
    import json

    call = invocation(context, profile, as_json)
    data = ask_child(call, ["policy-schema"], "making the schema")
    text = json.dumps(data, indent=1, ensure_ascii=False)
    call.output.show(data, lambda console: console.print(text, soft_wrap=True))


def init(
    context: typer.Context,
    starter: Annotated[
        str, typer.Option("--starter", metavar="NAME", help="Which starter policy to write.")
    ] = "everyday",
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a starter policy beside the present one.

    Nothing is written over: where there is a policy, the starter gets a name of its own and is not
    in use.
    """
    call = invocation(context, profile, as_json)
    data = ask_child(call, ["policy-init", f"--starter={starter}"], "writing the starter")
    told = f"The starter {data['starter']} is in {data['file']}."
    if not data["is_policy"]:
        policy, file = shlex.quote(str(call.profile.policy_file)), shlex.quote(data["file"])
        compare = call.command(f"policy diff {policy} {file}")
        told += f" It is not in use. See what it changes: {compare}"
    call.output.show(data, lambda console: console.print(told, soft_wrap=True))


def _show(console: Console, data: dict[str, Any]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    def row(about: str, name: str, told: str) -> None:
        table.add_row(Text(about, style="dim"), Text(visible(name), style="bold"), visible(told))

    console.print(
        Text.assemble(visible(data["file"]), (" is in order.", "bold green")), soft_wrap=True
    )
    table = Table.grid(padding=(0, 2))
    for first, slot in enumerate(data["slots"]):
        row("" if first else "slots", slot["slot"], _slot(slot))
    for first, attribute in enumerate(data["attributes"]):
        row("" if first else "attributes", attribute["attribute"], _attribute(attribute))
    for first, app in enumerate(data["apps"]):
        slots = ", ".join(app["slots"]) or "no slots: it may ask nothing"
        row("" if first else "apps", app["app"], f"may ask about {slots}")
    console.print(Padding(table, (0, 0, 0, 2), expand=False))
    if not data["attributes"]:
        console.print("It protects no attribute, so nothing is promised.")
    if not data["apps"]:
        console.print("It names no apps, so none may ask anything.")
    for each in data["warnings"]:
        warned = Text.assemble(("warning ", "yellow"), visible(each["sentence"]))
        console.print(warned.append(f" ({visible(each['key'])})", "dim"), soft_wrap=True)
    if data["unused"]:
        keys = ", ".join(data["unused"])
        console.print(
            Text(f"This version does not use {visible(keys)} yet; nothing is granted by it."),
            soft_wrap=True,
        )


def _slot(slot: dict[str, Any]) -> str:
    return f"{_counted(slot['positions'], 'position')}, {_counted(slot['views'], 'view')}"


def _attribute(attribute: dict[str, Any]) -> str:
    return f"cap {attribute['cap']:.3f}, covers {_counted(attribute['positions'], 'position')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
