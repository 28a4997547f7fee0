"""Every command of the command line, found by asking the program itself."""

from collections.abc import Iterator
from typing import Any

import typer

from tactful.cli.main import app


def leaves() -> dict[str, Any]:
    """Every command that does something, by the words that call it; new ones are in it at once."""
    return dict(_below(typer.main.get_command(app), ""))


def _below(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    children = dict(getattr(command, "commands", {}))
    if words and getattr(command, "invoke_without_command", not children):
        yield words, command
    for name, child in children.items():
        yield from _below(child, f"{words} {name}".strip())


def groups() -> dict[str, Any]:
    """Every command that has commands below it, the outermost as the empty word."""
    root = typer.main.get_command(app)
    children = getattr(root, "commands", {})
    below = {name: each for name, each in children.items() if getattr(each, "commands", None)}
    return {"": root, **below}


def arguments_of(command: Any) -> list[str]:
    """A word for each argument that a command cannot do without."""
    return [
        FITTING.get(each.metavar, "1")
        for each in command.params
        if each.param_type_name == "argument" and each.required
    ]


FITTING = {"SHELL": "bash"}
"""A word for each argument that does not take any word, by what the help calls it."""
