"""`tactful paths`: where a profile keeps things. Works without a daemon.

What is *not* here: which paths those are (`tactful.profile`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tactful.cli.invocation import JsonOption, ProfileOption, invocation

if TYPE_CHECKING:
    from rich.console import Console

    from tactful.profile import Profile


def register(app: typer.Typer) -> None:
    app.command()(paths)


def paths(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Show where everything is kept."""
    call = invocation(context, profile, as_json)
    found = _paths(call.profile)
    call.output.show(
        {name: str(path) for name, path in found.items()}, lambda console: _show(console, found)
    )


def _paths(profile: Profile) -> dict[str, Path]:
    return {
        "config": profile.config,
        "policy": profile.policy_file,
        "settings": profile.settings_file,
        "data": profile.data,
        "state": profile.state,
        "log": profile.log_file,
        "runtime": profile.runtime,
        "owner_socket": profile.owner_socket,
        "app_socket": profile.app_socket,
        "models": profile.models,
    }


def _show(console: Console, found: dict[str, Path]) -> None:
    for name, path in found.items():
        missing = "" if path.exists() else "  (not there)"
        console.print(f"{name:<13} {path}{missing}", soft_wrap=True)
