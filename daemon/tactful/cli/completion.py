"""`tactful completion`: commands and options at a press of the tab key.

Decides which shells are helped, and that a shell which asks is answered before anything else
happens. What is *not* here: what is suggested and the scripts themselves (typer).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer

from tactful.cli.invocation import JsonOption, ProfileOption, invocation

ENVIRONMENT = "_TACTFUL_COMPLETE"
"""Set by the scripts when a shell asks for suggestions."""

PROGRAM = "tactful"


class Shell(StrEnum):
    """Shells that a script can be printed for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    app.command()(completion)


def completion(
    context: typer.Context,
    shell: Annotated[
        Shell,
        typer.Argument(metavar="SHELL", help="bash, zsh or fish."),
    ],
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a script that completes commands and options in a shell.

    Nothing is installed. Put the script where your shell looks for it, and open a new terminal:

    \b
      bash  tactful completion bash > ~/.local/share/bash-completion/completions/tactful
      zsh   tactful completion zsh > ~/.zfunc/_tactful
            with "fpath+=~/.zfunc; autoload -Uz compinit; compinit" in ~/.zshrc
      fish  tactful completion fish > ~/.config/fish/completions/tactful.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    from tactful.cli.output import write_line

    call = invocation(context, profile, as_json)
    script = get_completion_script(prog_name=PROGRAM, complete_var=ENVIRONMENT, shell=shell.value)
    if not call.output.as_json:
        write_line(script)
    call.output.finish({"shell": shell.value, "script": script})


def answered(app: typer.Typer, environ: Mapping[str, str]) -> bool:
    """Whether a shell asked for suggestions, which were then printed."""
    if not (instruction := environ.get(ENVIRONMENT)):
        return False
    from typer.completion import completion_init, shell_complete  # type: ignore[attr-defined]

    completion_init()
    shell_complete(typer.main.get_command(app), {}, PROGRAM, ENVIRONMENT, instruction)
    return True
