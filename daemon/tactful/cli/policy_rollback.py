"""`tactful policy rollback`: the policies that were good, and going back to one.

Decides how they are listed and what is asked. What is *not* here: which versions are kept
(`tactfuld.policy_versions`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.cli.policy_child import ask_child
from tactful.cli.policy_edit import YesOption, compared, confirmed, require_consent

if TYPE_CHECKING:
    from rich.console import Console


def rollback(
    context: typer.Context,
    version: Annotated[
        int | None,
        typer.Argument(
            metavar="VERSION",
            help="The version to go back to; without it, all are listed.",
            show_default=False,
        ),
    ] = None,
    yes: YesOption = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List good earlier policies, or go back to one.

    A version is kept each time a policy that is in order is taken over. What going back changes is
    shown, and you are asked before it is done; it takes effect like any other edit.
    """
    call = invocation(context, profile, as_json)
    if version is None:
        data = ask_child(call, ["policy-versions"])
        call.output.show(data, lambda console: _list(console, data["versions"]))
        return
    require_consent(call, yes)
    data = _restored(call, version, yes)
    told = f"Version {version} is in {data['file']}." if data["changed"] else "Nothing was changed."
    call.output.show(data, lambda console: console.print(told, soft_wrap=True))


def _restored(call: Invocation, version: int, yes: bool) -> dict[str, Any]:
    from tactful.errors import NotFound

    kept = ask_child(call, ["policy-versions"])["versions"]
    path = call.profile.policy_file
    file = next((each["file"] for each in kept if each["version"] == version), None)
    if file is None:
        numbers = ", ".join(str(each["version"]) for each in kept) or "none"
        raise NotFound(f"No version {version} of the policy is kept. Kept are: {numbers}.")
    changes = compared(call, path, Path(file))
    agreed = confirmed(call, changes, yes)
    if agreed:
        ask_child(call, ["policy-write", f"--file={file}"], "writing the policy")
    return {"file": str(path), "version": version, "changed": agreed, "changes": changes}


def _list(console: Console, kept: Any) -> None:
    from datetime import datetime

    from rich.text import Text

    if not kept:
        console.print("No earlier policy is kept yet.")
    for each in reversed(kept):
        when = datetime.fromtimestamp(each["kept_at"]).astimezone().strftime("%Y-%m-%d %H:%M")
        now = "  as policy.yaml is now" if each["is_policy"] else ""
        console.print(Text.assemble((f"{each['version']:4}", "bold"), f"  {when}", (now, "dim")))
