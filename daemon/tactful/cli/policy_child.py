"""Asking a `tactfuld one-shot` about the policy, with a bar meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tactful.cli.invocation import Invocation


def ask_child(
    call: Invocation, command: list[str], doing: str = "reading the policy"
) -> dict[str, Any]:
    """The data of a command that needs no daemon; raises its error."""
    from tactful.cli import process
    from tactful.cli.progress import progress_bar

    with progress_bar(call.output.notes, doing) as report:
        return process.one_shot(process.Target(call.profile, call.folder), command, None, report)
