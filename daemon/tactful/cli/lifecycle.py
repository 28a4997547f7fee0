"""`tactful init`, `start`, `stop` and `status`: a profile comes to life and goes to rest.

Decides what the owner is asked and told on the way. What is *not* here: how a child process is run
(`process`), what a profile consists of and how it is made (`tactfuld`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tactful.cli.help_page import examples
from tactful.cli.invocation import (
    Invocation,
    JsonOption,
    PassphraseFileOption,
    ProfileOption,
    invocation,
)
from tactful.cli.keys import KeySource

if TYPE_CHECKING:
    import subprocess

    from tactful.cli.passphrase import Passphrase
    from tactful.owner_client import OwnerClient
    from tactful.owner_wire import LedgerReply, Status


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "init", "init --yes --key passphrase --passphrase-file FILE", "init --profile DIR"
        )
    )(init)
    app.command()(start)
    app.command()(stop)
    app.command(epilog=examples("status", "status --wait --json"))(status)


def init(
    context: typer.Context,
    starter: Annotated[
        str | None,
        typer.Option(
            "--starter",
            metavar="NAME",
            help="The policy to begin with: everyday (the default), strict, health-aware, demo or "
            "tutorial.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        KeySource | None,
        typer.Option(
            "--key",
            metavar="keyring|credential|passphrase",
            help="What unlocks memory; by default the keyring where there is one.",
            show_default=False,
        ),
    ] = None,
    no_model: Annotated[
        bool,
        typer.Option("--no-model", help="Fetch no language model now.", show_default=False),
    ] = False,
    passphrase_file: PassphraseFileOption = None,
    no_recovery: Annotated[
        bool,
        typer.Option(
            "--no-recovery",
            help="Make no recovery phrase, which would be shown once.",
            show_default=False,
        ),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Ask nothing but a passphrase that is needed.", show_default=False
        ),
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a profile: a policy, an empty memory, fresh ledgers.

    On a terminal it asks a few questions, each with a default that the return key takes, and says
    what it will make before it makes anything. Nothing that exists is written over.
    """
    from tactful.cli import init_wizard, profile_setup
    from tactful.cli.passphrase import can_ask

    call = invocation(context, profile, as_json)
    given = call.passphrase(passphrase_file)
    wishes = init_wizard.Wishes(
        starter, key.value if key is not None else None, False if no_model else None
    )
    if not yes and can_ask():
        wishes = init_wizard.asked(call, wishes, has_passphrase=given is not None)
    profile_setup.make(call, wishes, given, recovery=not no_recovery, asks=not yes)


def start(
    context: typer.Context,
    foreground: Annotated[
        bool,
        typer.Option(
            "--foreground", help="Stay attached until the daemon stops.", show_default=False
        ),
    ] = False,
    passphrase_file: PassphraseFileOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start the daemon and wait until it answers."""
    from tactful.cli import children, process
    from tactful.cli.passphrase import unlocked
    from tactful.cli.progress import spinner

    call = invocation(context, profile, as_json)
    target = process.Target(call.profile, call.folder)

    def attempt(passphrase: Passphrase | None) -> subprocess.Popen[bytes]:
        with spinner(call.output.notes, "starting the daemon"):
            return process.start_daemon(target, passphrase, detached=not foreground)

    child = unlocked(attempt, call.passphrase(passphrase_file))
    if not foreground:
        _say_started(call, child.pid)
        return
    with children.passing_on_signals(child):
        _say_started(call, child.pid)
        raise typer.Exit(children.exit_status(child))


def stop(
    context: typer.Context,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop the daemon and wait until it is gone."""
    import asyncio

    from tactful.cli.children import await_end
    from tactful.cli.progress import spinner

    call = invocation(context, profile, as_json)
    with spinner(call.output.notes, "stopping the daemon"):
        pid = asyncio.run(_stop(call))
        await_end(pid, call.profile)
    call.output.console.print("The daemon has stopped.")
    call.output.finish({"stopped": True, "pid": pid})


def status(
    context: typer.Context,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the model is loaded.", show_default=False)
    ] = False,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the daemon is doing, and what apps cost so far."""
    import asyncio

    from tactful.cli.status_panel import next_step, show_status
    from tactful.errors import DaemonDown, ModelFailed

    call = invocation(context, profile, as_json)
    try:
        found, ledger = asyncio.run(_status(call, wait=wait))
    except DaemonDown as error:
        if call.profile.policy_file.exists():
            raise
        raise DaemonDown(
            f"There is no profile in {call.profile.config} yet, so no daemon runs. Make one with "
            "`tactful init`, then `tactful start`."
        ) from error
    if wait and found.model.state == "failed":
        raise ModelFailed(found.model.problem or f"The model {found.model.name} did not load.")
    call.output.show(
        {
            **found.model_dump(mode="json"),
            "ledger": ledger.model_dump(mode="json") if ledger is not None else None,
        },
        lambda console: show_status(console, found, ledger, call.command(next_step(found))),
    )


async def _status(call: Invocation, *, wait: bool) -> tuple[Status, LedgerReply | None]:
    from tactful.cli.waiting import until_model_is_loaded
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        if wait:
            found = await until_model_is_loaded(client, call.output.notes)
        else:
            found = await client.status()
        return found, await _ledger(client)


async def _ledger(client: OwnerClient) -> LedgerReply | None:
    """None where the daemon does not tell it now, as while it is locked."""
    from tactful.errors import Locked

    try:
        return await client.ledger()
    except Locked:
        return None


async def _stop(call: Invocation) -> int:
    """Returns the process id of the daemon that was asked to stop."""
    from tactful.owner_client import OwnerClient

    async with OwnerClient.connect(call.profile) as client:
        pid = (await client.status()).pid
        await client.stop()
    return pid


def _say_started(call: Invocation, pid: int) -> None:
    console = call.output.console
    console.print(f"The daemon is running (process {pid}).", soft_wrap=True)
    console.print(f"  log     {call.profile.log_file}", soft_wrap=True)
    console.print(f"  look    {call.command('status')}", soft_wrap=True)
    data = {"pid": pid, "log": str(call.profile.log_file)}
    call.output.finish(data)
