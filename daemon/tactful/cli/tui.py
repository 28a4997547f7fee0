"""`tactful tui`: hands the terminal to the terminal interface.

Decides where it can run. What is *not* here: the interface, a program of its own (`tactful_tui`)
whose libraries no other command should have to load.
"""

from __future__ import annotations

import os
import sys

import typer

from tactful.cli.invocation import JsonOption, ProfileOption, invocation
from tactful.errors import UsageError

PROGRAM = "tactful_tui"


def register(app: typer.Typer) -> None:
    app.command()(tui)


def tui(context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False) -> None:
    """Watch ledgers, apps and turns live, on the whole terminal.

    It goes on while the daemon stops and starts; q leaves, ? lists the keys.
    """
    from tactful.cli.process import Target

    call = invocation(context, profile, as_json)
    if call.output.as_json:
        raise UsageError(
            "The terminal interface prints no JSON; leave --json out. Programs ask "
            "`tactful status --json` and `tactful ledger --json`."
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The terminal interface needs a terminal for its input and output. Elsewhere use "
            "`tactful status` and `tactful ledger`."
        )
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "The terminal interface needs a terminal that can move its cursor, and TERM says "
            "`dumb`. Use `tactful status` and `tactful ledger`."
        )
    arguments = Target(call.profile, call.folder).arguments()
    # -P: a module of that name in the current folder is not ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", PROGRAM, *arguments])  # noqa: S606
