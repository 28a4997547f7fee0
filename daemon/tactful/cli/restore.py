"""`tactful restore FILE`: a profile out of a backup, or what a backup knows into a profile.

Decides what the owner is asked and told. What is *not* here: what is put where (`tactfuld one-shot
restore`), and making backups (`backup`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tactful.cli.backup import (
    BackupPassphraseFileOption,
    counted,
    made_at,
    run_child,
    secret_of_backup,
    whole_path,
)
from tactful.cli.invocation import (
    Invocation,
    JsonOption,
    PassphraseFileOption,
    ProfileOption,
    invocation,
)
from tactful.cli.keys import KeySource
from tactful.errors import PassphraseNeeded, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from tactful.cli.passphrase import Passphrase


def register(app: typer.Typer) -> None:
    app.command()(restore)


def restore(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="What `tactful backup` has written.", show_default=False
        ),
    ],
    ledger_only: Annotated[
        bool,
        typer.Option("--ledger-only", help="Leave memory as it is.", show_default=False),
    ] = False,
    with_policy: Annotated[
        bool,
        typer.Option(
            "--with-policy",
            help="Put the backup's policy and settings in the place of those here.",
            show_default=False,
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation.", show_default=False)
    ] = False,
    key: Annotated[
        KeySource | None,
        typer.Option(
            "--key",
            metavar="keyring|credential|passphrase",
            help="What opens memory where there is no profile yet.",
            show_default=False,
        ),
    ] = None,
    no_recovery: Annotated[
        bool,
        typer.Option(
            "--no-recovery", help="Make no recovery phrase for a new profile.", show_default=False
        ),
    ] = False,
    backup_passphrase_file: BackupPassphraseFileOption = None,
    passphrase_file: PassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore a backup.

    Into the profile that it was made of: the ledger gets what it lacks and never gets less, and
    memory becomes the backup's. Into an empty place: the whole profile, with a key of its own;
    such a copy counts every attribute as used up until a new epoch. The daemon must be stopped.
    """
    call = invocation(context, profile, as_json)
    found = run_child(call, ["backup-inspect", whole_path(file)])
    new = found["place"] == "empty"
    if found["place"] == "same" and not (ledger_only or yes):
        _confirm(call)
    command = [
        "restore",
        whole_path(file),
        *(["--ledger-only"] if ledger_only else []),
        *(["--with-policy"] if with_policy else []),
        *(["--no-recovery"] if no_recovery else []),
    ]
    secret = {"--secret-fd": secret_of_backup(str(found["lock"]), backup_passphrase_file)}
    given = call.passphrase(passphrase_file)
    data = (
        _into_nothing(call, command, key, given, secret)
        if new
        else _into_profile(call, command, given, secret)
    )
    _tell(call, data, asks=not yes)


def _confirm(call: Invocation) -> None:
    """Raises `UsageError` unless the owner says yes."""
    from tactful.cli.questions import answer

    if not call.can_ask:
        raise UsageError("Replacing memory wants to be confirmed: give --yes, or --ledger-only.")
    call.output.notes.print(
        "Memory here becomes the backup's: what was remembered or changed since is lost, and what "
        "was forgotten since is there again. Ledgers never get less."
    )
    if answer(call.output.notes, "Type yes to replace memory: ") != "yes":
        raise UsageError("That was not `yes`, so nothing was changed.")


def _into_profile(
    call: Invocation,
    command: list[str],
    given: Passphrase | None,
    secret: Mapping[str, Passphrase | None],
) -> dict[str, Any]:
    from tactful.cli.passphrase import unlocked

    return unlocked(lambda passphrase: run_child(call, command, passphrase, secret), given)


def _into_nothing(
    call: Invocation,
    command: list[str],
    key: KeySource | None,
    given: Passphrase | None,
    secret: Mapping[str, Passphrase | None],
) -> dict[str, Any]:
    """A new profile's key is chosen as `init` does it."""
    from tactful.cli.passphrase import ask_for_new, can_ask

    if key in {KeySource.KEYRING, KeySource.CREDENTIAL}:
        return run_child(call, [*command, "--key", str(key)], None, secret)
    if key is None and given is None:
        try:
            return run_child(call, command, None, secret)
        except PassphraseNeeded:
            if not can_ask():
                raise
            call.output.notes.print(
                "This machine has no keyring to keep the key in, so a passphrase will unlock your "
                "memory here."
            )
    new = given or ask_for_new()
    return run_child(call, [*command, "--key", KeySource.PASSPHRASE.value], new, secret)


def _tell(call: Invocation, data: dict[str, Any], *, asks: bool) -> None:
    from tactful.cli.passphrase import can_ask
    from tactful.cli.recovery_phrase import hand_over

    phrase = data["recovery_phrase"]
    if phrase is not None and not call.output.as_json:
        again = call.command("key recovery")
        hand_over(call.output.notes, str(phrase), verify=can_ask() and asks, again=again)
    call.output.show(data, lambda console: _show(console, data))


def _show(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    from tactful.visible_text import visible

    if data["memories"] is not None:
        memories = counted(data["memories"], "memory", "memories")
        console.print(f"Memory is that of {made_at(data['made'])}: {memories}.", soft_wrap=True)
    match data["place"], data["appended"]:
        case "empty", _:
            told = f"The ledger has {counted(data['entries'], 'entry', 'entries')}."
        case _, 0:
            told = "The ledger lacked nothing."
        case _, missing:
            told = f"The ledger lacked {counted(missing, 'entry', 'entries')}, and has them now."
    console.print(told, soft_wrap=True)
    for notice in data["notices"]:
        console.print(Text(f"! {visible(notice)}", style="yellow"), soft_wrap=True)
