"""The `tactful` command: all commands together, and what every one of them does when it fails.

Decides exit statuses. What is *not* here: any command (one module for each family), and what is
said about a command line that is not understood (`usage`).

Invariants:

- an owner's mistake, a missing daemon or Ctrl-C ends in one sentence, never in a traceback;
- `tactful --version` and `--help` load neither the client nor anything that draws.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from tactful.cli import (
    apps,
    ask,
    audit,
    backup,
    completion,
    config,
    demo,
    doctor,
    epoch,
    events,
    history,
    inbox,
    keys,
    ledger,
    lifecycle,
    memory,
    model,
    paths,
    policy,
    purge,
    remember,
    restore,
    tui,
)
from tactful.cli.help_page import SectionedGroup
from tactful.cli.invocation import JsonOption, ProfileOption, Surroundings, surroundings
from tactful.cli.passphrase import take_from_environment
from tactful.cli.usage import command_line_error, usage_error
from tactful.errors import TactfulError, UsageError, from_defect, from_system

INTERRUPTED = 130
INTERRUPTED_CODE = "interrupted"
BROKEN_PIPE = 141

app = typer.Typer(
    name="tactful",
    cls=SectionedGroup,
    help="A personal agent that knows you, and is tactful about it.",
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
lifecycle.register(app)
demo.register(app)
remember.register(app)
doctor.register(app)
memory.register(app)
ask.register(app)
ledger.register(app)
epoch.register(app)
audit.register(app)
history.register(app)
apps.register(app)
inbox.register(app)
events.register(app)
config.register(app)
policy.register(app)
model.register(app)
keys.register(app)
backup.register(app)
restore.register(app)
purge.register(app)
paths.register(app)
completion.register(app)
tui.register(app)


def main() -> None:
    """The console script `tactful`."""
    _make_streams_forgiving()
    if completion.answered(app, os.environ):
        return
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns the exit status.

    Takes `TACTFUL_PASSPHRASE` out of the environment first.
    """
    around = Surroundings(
        passphrase=take_from_environment(os.environ), as_json=_wants_json(arguments)
    )
    try:
        return _finished(_run_command(arguments, around), around)
    except BrokenPipeError:
        _let_go_of_stdout()
        return BROKEN_PIPE


def _run_command(arguments: Sequence[str], around: Surroundings) -> TactfulError | int:
    """The exit status of a command that did not fail, or its error."""
    try:
        command = typer.main.get_command(app)
        with command.make_context("tactful", list(arguments), obj=around) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as ended:
        return ended.exit_code
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except (KeyboardInterrupt, EOFError, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except TactfulError as error:
        return error
    except OSError as error:
        return from_system(error)
    except command_line_error() as error:
        return usage_error(error)
    except Exception as error:  # noqa: BLE001  the owner gets a sentence, whatever went wrong
        return from_defect(error)
    return 0


def _wants_json(arguments: Sequence[str]) -> bool:
    """Also for a command line that is not understood otherwise."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def _finished(outcome: TactfulError | int, around: Surroundings) -> int:
    if isinstance(outcome, TactfulError):
        _report(outcome.described(), around)
        return outcome.exit_status
    if outcome == INTERRUPTED:
        _report({"code": INTERRUPTED_CODE, "message": "Interrupted."}, around)
    return outcome


def _report(error: Mapping[str, object], around: Surroundings) -> None:
    from tactful.cli.output import report

    report(error, as_json=around.as_json)


def _show_version(context: typer.Context, wanted: bool) -> None:
    """Eager: it comes before any other option is even converted, which takes a while."""
    if not wanted or context.resilient_parsing:
        return
    from importlib.metadata import version

    found = version("tactful")
    if surroundings(context).as_json:
        from tactful.cli.output import envelope

        typer.echo(envelope({"version": found}))
    else:
        typer.echo(f"tactful {found}")
    raise typer.Exit(0)


@app.callback()
def options(
    context: typer.Context,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            show_default=False,
            is_eager=True,
            callback=_show_version,
        ),
    ] = False,
) -> None:
    """A personal agent that knows you, and is tactful about it."""
    surroundings(context).profile = profile
    if context.invoked_subcommand is not None:
        return
    if as_json:
        raise UsageError("Name a command. They are listed by: tactful --help")
    typer.echo(context.get_help())


def _make_streams_forgiving() -> None:
    """A character that the terminal's encoding lacks is replaced, not an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _let_go_of_stdout() -> None:
    """Whoever read our output has gone; the interpreter must not try to flush the rest to it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
