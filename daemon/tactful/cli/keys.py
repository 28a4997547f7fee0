"""`tactful key ...`, `recover`, `lock` and `unlock`: what opens memory, and when.

Decides what the owner is asked and told. What is *not* here: keys (`tactfuld`), and how a secret
reaches a child (`process`: through a pipe).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from tactful.cli.passphrase import Passphrase


class KeySource(StrEnum):
    """Where the key that opens memory is kept."""

    KEYRING = "keyring"
    CREDENTIAL = "credential"
    PASSPHRASE = "passphrase"  # noqa: S105 - the word, not one


NewKeyOption = Annotated[
    KeySource,
    typer.Option(
        "--key",
        metavar="keyring|credential|passphrase",
        help="What opens memory from now on.",
    ),
]


NewPassphraseFileOption = Annotated[
    Path | None,
    typer.Option(
        "--new-passphrase-file",
        metavar="FILE",
        help="Read the new passphrase from the first line of a file.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="See and change what opens memory.", rich_markup_mode=None)
    group.command("show")(key_show)
    group.command("change")(key_change)
    group.command("rotate")(key_rotate)
    group.command("recovery")(key_recovery)
    app.add_typer(group, name="key")
    app.command()(recover)
    app.command()(lock)
    app.command()(unlock)


def key_show(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Show where the key is, and how old keys are."""
    call = invocation(context, profile, as_json)
    data = _run(call, ["key-show"])
    call.output.show(data, lambda console: _show(console, data))


def key_change(
    context: typer.Context,
    key: NewKeyOption = KeySource.PASSPHRASE,
    passphrase_file: PassphraseFileOption = None,
    new_passphrase_file: NewPassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set a new passphrase, or keep the key elsewhere.

    The daemon must be stopped. Nothing is sealed anew, so it is quick. Whoever has an old copy of
    keys.json and knows the old passphrase can still open what was copied then; after that, run
    `tactful key recovery` and `tactful key rotate` as well.
    """
    from tactful.cli.passphrase import unlocked
    from tactful.errors import PassphraseNeeded

    call = invocation(context, profile, as_json)
    needed = _run(call, ["key-show"])["source"] == KeySource.PASSPHRASE
    new = _NewPassphrase(key, new_passphrase_file)

    def change(passphrase: Passphrase | None) -> dict[str, Any]:
        if needed and passphrase is None:
            raise PassphraseNeeded("The present passphrase is needed to change it.")
        command = ["key-change", "--key", key.value]
        return _run(call, command, passphrase, {"--new-passphrase-fd": new.asked()})

    data = unlocked(change, call.passphrase(passphrase_file))
    call.output.show(data, lambda console: _say_source(console, data))


def key_rotate(
    context: typer.Context,
    passphrase_file: PassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Seal everything under new data keys.

    The old ones are destroyed. Works while the daemon runs, and without it. Copies of the ledger
    from before can no longer be restored with `ledger restore`.
    """
    import asyncio

    from tactful.cli.passphrase import unlocked
    from tactful.errors import DaemonDown

    call = invocation(context, profile, as_json)
    try:
        data: dict[str, Any] = {"rotated": list(asyncio.run(_rotate(call)))}
    except DaemonDown:
        data = unlocked(
            lambda passphrase: _run(call, ["key-rotate"], passphrase),
            call.passphrase(passphrase_file),
        )
    names = ", ".join(data["rotated"])
    call.output.show(
        data,
        lambda console: console.print(
            f"Sealed under new keys: {names}. The old keys are destroyed here; copies of the data "
            "folder still hold theirs.",
            soft_wrap=True,
        ),
    )


def key_recovery(
    context: typer.Context,
    passphrase_file: PassphraseFileOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for words of it.", show_default=False)
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new recovery phrase.

    The old one opens nothing more. The daemon must be stopped.
    """
    from tactful.cli.passphrase import can_ask, unlocked
    from tactful.cli.recovery_phrase import hand_over

    call = invocation(context, profile, as_json)
    data = unlocked(
        lambda passphrase: _run(call, ["key-recovery"], passphrase),
        call.passphrase(passphrase_file),
    )
    if not call.output.as_json:
        phrase, again = str(data["recovery_phrase"]), call.command("key recovery")
        hand_over(call.output.notes, phrase, verify=can_ask() and not yes, again=again)
    call.output.finish(data)


def recover(
    context: typer.Context,
    key: NewKeyOption = KeySource.PASSPHRASE,
    new_passphrase_file: NewPassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open memory with the recovery phrase.

    It asks for a new passphrase, unless --key says otherwise. The daemon must be stopped. The
    phrase is asked for on a terminal, or read from the first line
    of standard input.
    """
    from tactful.cli.passphrase import given_phrase

    call = invocation(context, profile, as_json)
    secrets = {
        "--phrase-fd": given_phrase(),
        "--new-passphrase-fd": _NewPassphrase(key, new_passphrase_file).asked(),
    }
    data = _run(call, ["recover", "--key", key.value], None, secrets)
    call.output.show(data, lambda console: _say_source(console, data))


def lock(
    context: typer.Context, profile: ProfileOption = None, as_json: JsonOption = False
) -> None:
    """Lock the daemon: it drops its keys and serves nothing."""
    import asyncio

    call = invocation(context, profile, as_json)
    asyncio.run(_lock(call))
    call.output.show(
        {"locked": True},
        lambda console: console.print("Locked. `tactful unlock` opens it again."),
    )


def unlock(
    context: typer.Context,
    passphrase_file: PassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Unlock the running daemon."""
    import asyncio

    from tactful.cli.passphrase import unlocked

    call = invocation(context, profile, as_json)

    def attempt(passphrase: Passphrase | None) -> None:
        asyncio.run(_unlock(call, passphrase))

    unlocked(attempt, call.passphrase(passphrase_file))
    call.output.show({"locked": False}, lambda console: console.print("Unlocked."))


# --- talking to the daemon, or to a child ---------------------------------------------------------


async def _lock(call: Invocation) -> None:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        await client.lock()


async def _unlock(call: Invocation, passphrase: Passphrase | None) -> None:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        await client.unlock(None if passphrase is None else passphrase.reveal())


async def _rotate(call: Invocation) -> tuple[str, ...]:
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        return await client.rotate_keys()


def _run(
    call: Invocation,
    command: list[str],
    passphrase: Passphrase | None = None,
    secrets: Mapping[str, Passphrase | None] | None = None,
) -> dict[str, Any]:
    from tactful.cli import process
    from tactful.cli.progress import progress_bar

    target = process.Target(call.profile, call.folder)
    with progress_bar(call.output.notes, "working on the keys") as report:
        return process.one_shot(target, command, passphrase, report, secrets or {})


class _NewPassphrase:
    """The passphrase that is set: asked for once, when it is clear that it will be used."""

    def __init__(self, key: KeySource, file: Path | None) -> None:
        self._key = key
        self._file = file
        self._known: Passphrase | None = None

    def asked(self) -> Passphrase | None:
        """None where the key is kept elsewhere."""
        from tactful.cli.passphrase import ask_for_new, from_file

        if self._key is KeySource.PASSPHRASE and self._known is None:
            self._known = ask_for_new() if self._file is None else from_file(self._file)
        return self._known


# --- what is shown --------------------------------------------------------------------------------


def _say_source(console: Console, data: Mapping[str, Any]) -> None:
    from tactful.visible_text import visible

    console.print(f"Memory is now opened by: {visible(str(data['description']))}.", soft_wrap=True)


def _show(console: Console, data: Mapping[str, Any]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from tactful.visible_text import visible

    table = Table.grid(padding=(0, 2))
    table.add_row(
        "opened by", Text(visible(data["description"])), Text(_day(data["since"]), style="dim")
    )
    recovery = data["recovery_since"]
    told = "there is one" if recovery else "there is none; `tactful key recovery` makes one"
    table.add_row("phrase", told, Text(_day(recovery), style="dim") if recovery else "")
    for purpose, found in data["keys"].items():
        state = "is being replaced; the next start finishes it" if found["changing"] else ""
        table.add_row(Text(f"{purpose} key"), state, Text(_day(found["since"]), style="dim"))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))
    if data["memory_seals"] is not None:
        console.print(
            f"  memory's key has sealed {data['memory_seals']:,} rows of "
            f"{data['most_seals']:,}; it is replaced by itself at half of that.",
            soft_wrap=True,
        )


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("since %Y-%m-%d")
