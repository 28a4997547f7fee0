"""Commands that work without a daemon, under the same lock.

Decides what `tactfuld one-shot` can do and the JSON lines it writes: any number of
`{"progress": ...}`, then one `{"data": ...}` or `{"error": ...}`. What is *not* here: talking to
people (`tactful.cli`).

Invariants:

- `init` never writes over anything: a folder with a store in it is refused, a policy or settings
  file that is there already is kept;
- what `init` could not finish it takes back, so that it can be run again;
- `policy-check` only reads, so it works while a daemon holds the profile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import ExitStack
from pathlib import Path

from tactful.errors import AlreadyExists, KeyUnavailable, NotFound
from tactful.init_report import InitChoices, OfferedModel, Starter
from tactful.profile import Profile
from tactful_core.promises import Promises
from tactful_core.values import Secret
from tactful_policies import SCHEMA_FILE, STARTERS, schema_text, starter_text
from tactfuld import keyrings
from tactfuld.apps.sandbox import NoSandbox, choose_confinement
from tactfuld.keys.key_file import KEY_FILE
from tactfuld.keys.ring import create_keys
from tactfuld.keys.sources import Asked, choose_source
from tactfuld.keys.values import StoreKeys
from tactfuld.ledger_restore import restore_ledger
from tactfuld.locking import hold
from tactfuld.memory_commands import accept_memory
from tactfuld.models.commands import add_model_commands, run_model_command
from tactfuld.models.embedded import EMBEDDED, embedded_model_path
from tactfuld.policy.loading import load_document, load_policy
from tactfuld.policy.summary import summary
from tactfuld.settings import load_settings
from tactfuld.settings_commands import add_config_commands, run_config_command
from tactfuld.store.history import HISTORY_FILE, HistoryStore
from tactfuld.store.ledger import LEDGER_FILE, LedgerStore, ledger_place
from tactfuld.store.memory import MEMORY_FILE, MemoryStore, memory_place

SETTINGS_TEXT = """\
# Operational switches; none of them loosens a promise. docs/policy.md lists them all.
# sandbox: required means that an app which cannot be confined does not start.
sandbox: {sandbox}
"""


def add_commands(parser: argparse.ArgumentParser, shared: argparse.ArgumentParser) -> None:
    """The commands' arguments."""
    commands = parser.add_subparsers(dest="one_shot", required=True)
    init = commands.add_parser("init", parents=[shared], help="make a profile")
    init.add_argument("--starter", default="everyday", metavar="NAME")
    init.add_argument("--sandbox", choices=("required", "off"), default="required")
    init.add_argument("--key", choices=("keyring", "credential", "passphrase"), default=None)
    commands.add_parser("init-choices", parents=[shared], help="what a new profile can be like")
    add_model_commands(commands, shared)
    restore = commands.add_parser(
        "ledger-restore", parents=[shared], help="add the entries of another copy of the ledger"
    )
    restore.add_argument("file", type=Path, metavar="FILE")
    commands.add_parser("memory-accept", parents=[shared], help="take memory as the newest")
    add_config_commands(lambda name, text: commands.add_parser(name, parents=[shared], help=text))
    check = commands.add_parser("policy-check", parents=[shared], help="read a policy")
    check.add_argument("file", type=Path, nargs="?", default=None, metavar="FILE")


def run(profile: Profile, passphrase: Secret[str] | None, arguments: argparse.Namespace) -> None:
    """Runs the command and writes its data.

    Raises:
        TactfulError: it could not be done; nothing of it is left behind.
    """
    match arguments.one_shot:
        case "init":
            data = _init(profile, passphrase, arguments)
        case "init-choices":
            data = _choices(profile).model_dump(mode="json")
        case "ledger-restore":
            data = restore_ledger(profile, passphrase, arguments.file)
        case "memory-accept":
            data = accept_memory(profile, passphrase)
        case "config-list" | "config-set" | "config-unset":
            data = run_config_command(profile, arguments)
        case "policy-check":
            data = _check_policy(arguments.file or profile.policy_file)
        case _:
            data = run_model_command(profile, arguments, _tell_progress).model_dump(mode="json")
    write_line({"data": data})


def _tell_progress(what: str, done: int, total: int) -> None:
    write_line({"progress": {"what": what, "done": done, "total": total}})


def write_line(message: dict[str, object]) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _init(
    profile: Profile, passphrase: Secret[str] | None, arguments: argparse.Namespace
) -> dict[str, object]:
    if arguments.starter not in STARTERS:
        known = ", ".join(STARTERS)
        raise NotFound(f"There is no starter policy named {arguments.starter}. There are: {known}.")
    for folder in (profile.config, profile.data, profile.state):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold(profile.data), ExitStack() as undo:
        _refuse_existing(profile.data)
        _write_new(profile.policy_file, starter_text(arguments.starter), undo)
        _write_new(profile.policy_file.with_name(SCHEMA_FILE), schema_text(), undo)
        _write_new(profile.settings_file, SETTINGS_TEXT.format(sandbox=arguments.sandbox), undo)
        promises = load_policy(profile.policy_file)
        settings = load_settings(profile.settings_file)
        for name in (KEY_FILE, MEMORY_FILE, LEDGER_FILE, HISTORY_FILE):
            undo.callback((profile.data / name).unlink, missing_ok=True)
        undo.callback(ledger_place(profile).mark.unlink, missing_ok=True)
        undo.callback(memory_place(profile).witness.unlink, missing_ok=True)
        keys = create_keys(profile.data, choose_source(arguments.key, Asked(passphrase)))
        asyncio.run(_create_stores(profile, promises, keys))
        undo.pop_all()
    confinement = choose_confinement(settings.sandbox)
    return {
        "policy": promises.digest,
        "positions": promises.layout.size,
        "key_source": keys.source_description,
        "sandbox": settings.sandbox,
        "sandbox_problem": confinement.problem if isinstance(confinement, NoSandbox) else None,
    }


def _choices(profile: Profile) -> InitChoices:
    _refuse_existing(profile.data)
    return InitChoices(
        starters=tuple(Starter(name=name, about=about) for name, about in STARTERS.items()),
        keyring=_keyring_name(),
        model=OfferedModel(
            name=EMBEDDED.name,
            size=EMBEDDED.wheel_size,
            licence=EMBEDDED.licence,
            installed=embedded_model_path(profile.models).exists(),
        ),
    )


def _keyring_name() -> str | None:
    """One that cannot be loaded is none: the owner can still choose a passphrase."""
    try:
        usable = keyrings.usable_backends(keyrings.configured_backend())
    except KeyUnavailable:
        return None
    return keyrings.backend_name(usable[0]) if usable else None


def _refuse_existing(data: Path) -> None:
    if any((data / name).exists() for name in (KEY_FILE, MEMORY_FILE, LEDGER_FILE, HISTORY_FILE)):
        raise AlreadyExists(
            f"The folder {data} holds a profile already; nothing was changed. "
            "Use it, or choose another with --profile."
        )


def _write_new(path: Path, text: str, undo: ExitStack) -> None:
    """Writes a file that is not there yet; keeps one that is."""
    try:
        with path.open("x", encoding="utf-8") as file:
            undo.callback(path.unlink, missing_ok=True)
            file.write(text)
    except FileExistsError:
        return


async def _create_stores(profile: Profile, promises: Promises, keys: StoreKeys) -> None:
    await MemoryStore.create(memory_place(profile), promises.layout, keys)
    await LedgerStore.create(ledger_place(profile), keys)
    await HistoryStore.create(profile.data / HISTORY_FILE, keys)


def _check_policy(path: Path) -> dict[str, object]:
    if not path.exists():
        raise NotFound(
            f"There is no policy {path}. Check the path, or make a profile with `tactful init`."
        )
    return {"file": str(path), **summary(load_document(path))}
