"""`tactful policy edit`: the policy in the owner's editor, checked before it is taken over.

Decides what is asked when. What is *not* here: what a problem or a difference is (`tactfuld`), and
how an editor is run (`editing`).

Invariants:

- the editor works on a copy, which lies beside the policy so that editors find the schema, and is
  gone when the command ends; `policy.yaml` is replaced whole or not at all;
- only a policy that the daemon would start with is written, and not over what somebody else wrote
  meanwhile.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from tactful.cli.invocation import Invocation, JsonOption, ProfileOption, invocation
from tactful.cli.policy_child import ask_child

YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask, take it over.", show_default=False)
]


def edit(
    context: typer.Context,
    yes: YesOption = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Edit the policy in your editor (VISUAL or EDITOR).

    When you save and leave, the file is checked as at a start. Problems are shown, and you can go
    on or give up. What it changes is shown, and you are asked before it is taken over.
    """
    from tactful.cli.editing import editor_of
    from tactful.errors import NotFound, UsageError

    call = invocation(context, profile, as_json)
    path = call.profile.policy_file
    if not path.exists():
        raise NotFound(f"There is no policy {path}. Make a profile with `tactful init`.")
    editor = editor_of(os.environ)
    if editor is None:
        raise UsageError(f"Neither VISUAL nor EDITOR names an editor. Set one, or edit {path}.")
    require_consent(call, yes)
    with tempfile.TemporaryDirectory(prefix=".edit-", dir=path.parent) as folder:
        data = _edited(call, editor, Path(folder), yes)
    call.output.show(data, lambda console: console.print(_told(data), soft_wrap=True))


def require_consent(call: Invocation, yes: bool) -> None:
    """Raises `UsageError` where nobody can be asked and nothing was said beforehand."""
    from tactful.errors import UsageError

    if not yes and not call.can_ask:
        raise UsageError("Nobody can be asked here whether to take it over; say --yes.")


def confirmed(call: Invocation, changes: Any, yes: bool) -> bool:
    """Shows what is changed; whether the owner wants it."""
    from tactful.cli.policy_diff import show_changes
    from tactful.cli.questions import yes as agrees

    if not call.output.as_json:
        show_changes(call.output.notes, changes)
    return yes or agrees(call.output.notes, "Take it over?")


def compared(call: Invocation, old: Path, new: Path) -> list[dict[str, Any]]:
    """What `new` changes of `old`; nothing where one of them is not in order."""
    from tactful.errors import NotFound, PolicyRefused

    try:
        return list(ask_child(call, ["policy-diff", str(old), str(new)])["changes"])
    except (NotFound, PolicyRefused):
        call.output.notes.print(
            "One of the two is missing or not in order, so they are not compared."
        )
        return []


def _edited(call: Invocation, editor: list[str], folder: Path, yes: bool) -> dict[str, Any]:
    from tactful.cli.editing import dying_orderly, run_editor
    from tactful.cli.questions import yes as agrees

    path = call.profile.policy_file
    before, copy = folder / "before.yaml", folder / path.name
    shutil.copyfile(path, before)
    shutil.copyfile(path, copy)
    unchanged = {"file": str(path), "changed": False, "changes": []}
    while True:
        with dying_orderly():
            run_editor(editor, copy)
        if copy.read_bytes() == before.read_bytes():
            return unchanged
        if _in_order(call, copy, yes):
            break
        if not agrees(call.output.notes, "Edit it again?"):
            return unchanged
    changes = compared(call, before, copy)
    agreed = confirmed(call, changes, yes)
    if agreed:
        ask_child(
            call,
            ["policy-write", f"--file={copy}", f"--instead-of={before}"],
            "writing the policy",
        )
    return {"file": str(path), "changed": agreed, "changes": changes}


def _in_order(call: Invocation, copy: Path, yes: bool) -> bool:
    """Whether the copy has no problems; else they are shown.

    Raises:
        PolicyRefused: it has problems, and the owner cannot be asked.
    """
    from tactful.cli.output import report
    from tactful.errors import PolicyRefused

    try:
        ask_child(call, ["policy-check", str(copy)])
    except PolicyRefused as refused:
        if yes or not call.can_ask:
            raise
        report(refused.described(), as_json=False)
        return False
    return True


def _told(data: dict[str, Any]) -> str:
    if not data["changed"]:
        return "Nothing was changed."
    return f"{data['file']} was replaced. A running daemon takes it over by itself."
