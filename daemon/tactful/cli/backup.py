"""`tactful backup FILE` and `tactful backup verify FILE`: one sealed file of a whole profile.

Decides what the owner is asked and told. What is *not* here: what a backup holds, and its form
(`tactfuld one-shot backup`), and putting one back (`restore`).
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.invocation import (
    Invocation,
    JsonOption,
    PassphraseFileOption,
    ProfileOption,
    invocation,
)
from tactful.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from tactful.cli.passphrase import Passphrase

VERIFY = "verify"

BackupPassphraseFileOption = Annotated[
    Path | None,
    typer.Option(
        "--backup-passphrase-file",
        metavar="FILE",
        help="Read the backup's own passphrase, or its recovery phrase, from a file's first line.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(backup)


def backup(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE | verify FILE", help="Where to, or what to read.", show_default=False
        ),
    ],
    own_passphrase: Annotated[
        bool,
        typer.Option(
            "--own-passphrase",
            help="Lock it by a passphrase of its own instead of the recovery phrase.",
            show_default=False,
        ),
    ] = False,
    without_history: Annotated[
        bool,
        typer.Option(
            "--without-history", help="Leave out what apps asked and got.", show_default=False
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a file that is there.", show_default=False),
    ] = False,
    backup_passphrase_file: BackupPassphraseFileOption = None,
    passphrase_file: PassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a backup of everything, or verify one.

    One sealed file with memory, ledger, history, policy and settings. Works while the daemon runs,
    and without it. The recovery phrase opens it, on any machine; a profile without one, or
    --own-passphrase, gives it a passphrase of its own. `tactful backup verify FILE` reads one to
    its end. A backup still holds what you forget later.
    """
    call = invocation(context, profile, as_json)
    if words[0] == VERIFY and len(words) == 2:
        _verify(call, Path(words[1]), backup_passphrase_file)
        return
    if len(words) != 1 or words[0] == VERIFY:
        raise UsageError("Name one file: `tactful backup FILE`, or `tactful backup verify FILE`.")
    own = own_passphrase or backup_passphrase_file is not None
    options = [
        *(["--without-history"] if without_history else []),
        *(["--force"] if force else []),
    ]
    _make(call, Path(words[0]), options, _own(call, backup_passphrase_file, own), passphrase_file)


def _own(call: Invocation, file: Path | None, wanted: bool) -> Passphrase | None:
    """The backup's own passphrase; None where the recovery phrase opens it."""
    from tactful.cli.passphrase import ask_for_new, can_ask, from_file

    if file is not None:
        return from_file(file)
    if not wanted and (not can_ask() or run_child(call, ["key-show"])["recovery_since"]):
        return None
    if not wanted:
        call.output.notes.print(
            "This profile has no recovery phrase, so the backup gets a passphrase of its own."
        )
    return ask_for_new()


def _make(
    call: Invocation,
    file: Path,
    options: list[str],
    own: Passphrase | None,
    passphrase_file: Path | None,
) -> None:
    from tactful.cli.passphrase import unlocked

    command = ["backup", *options, whole_path(file)]

    def attempt(passphrase: Passphrase | None) -> dict[str, Any]:
        return run_child(call, command, passphrase, {"--own-passphrase-fd": own})

    data = unlocked(attempt, call.passphrase(passphrase_file))
    call.output.show(data, lambda console: _show_made(console, data))


def _verify(call: Invocation, file: Path, secret_file: Path | None) -> None:
    lock = run_child(call, ["backup-inspect", whole_path(file)])["lock"]
    secret = secret_of_backup(str(lock), secret_file)
    data = run_child(call, ["backup-verify", whole_path(file)], None, {"--secret-fd": secret})
    call.output.show(data, lambda console: _show_verified(console, data))


def secret_of_backup(lock: str, file: Path | None) -> Passphrase:
    """What opens a backup: from a file, typed at a terminal, or a line of standard input."""
    from tactful.cli.passphrase import from_file, given_passphrase, given_phrase

    if file is not None:
        return from_file(file)
    return given_phrase() if lock == "recovery" else given_passphrase("The backup's passphrase: ")


def whole_path(file: Path) -> str:
    """What a child that may have another folder is told."""
    return str(file.expanduser().absolute())


def run_child(
    call: Invocation,
    command: list[str],
    passphrase: Passphrase | None = None,
    secrets: Mapping[str, Passphrase | None] | None = None,
) -> dict[str, Any]:
    """Runs a command about backups that needs no daemon."""
    from tactful.cli import process
    from tactful.cli.progress import progress_bar

    target = process.Target(call.profile, call.folder)
    with progress_bar(call.output.notes, "reading the profile") as report:
        return process.one_shot(target, command, passphrase, report, secrets or {})


# --- what is shown --------------------------------------------------------------------------------


def held(data: Mapping[str, Any]) -> str:
    """What a backup holds, in words."""
    turns = "no history" if data["turns"] is None else counted(data["turns"], "turn")
    memories = counted(data["memories"], "memory", "memories")
    return f"{memories}, {counted(data['entries'], 'ledger entry', 'ledger entries')}, {turns}"


def made_at(seconds: int) -> str:
    """When a backup was made, in the owner's time."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of something, in words."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _show_made(console: Console, data: Mapping[str, Any]) -> None:
    from tactful.visible_text import visible

    opens = "your recovery phrase" if data["lock"] == "recovery" else "its own passphrase"
    console.print(
        f"{visible(data['file'])} is written: {held(data)}; {data['size']:,} bytes.\n"
        f"It opens with {opens}, on any machine. Without that, nobody can read it.",
        soft_wrap=True,
        markup=False,
    )


def _show_verified(console: Console, data: Mapping[str, Any]) -> None:
    from tactful.visible_text import visible

    console.print(
        f"{visible(data['file'])} is whole: made {made_at(data['made'])}, {held(data)}.",
        soft_wrap=True,
        markup=False,
    )
