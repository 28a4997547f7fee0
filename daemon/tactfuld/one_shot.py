"""Commands that work without a daemon, under the same lock.

Decides what `tactfuld one-shot` can do and the JSON lines it writes: any number of
`{"progress": ...}`, then one `{"data": ...}` or `{"error": ...}`. What is *not* here: talking to
people (`tactful.cli`).

Invariants:

- a command that needs the data folder holds it; one that could not be done leaves nothing behind;
- a secret arrives by a descriptor; only `init` and `key-recovery` tell one, the recovery phrase;
- what reads or edits the owner's files takes no lock, so it works while a daemon holds the profile.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld import apps_commands, key_commands, policy_commands
from tactfuld.backup import commands as backup_commands
from tactfuld.doctor.examination import report
from tactfuld.initialising import Wishes, choices, initialise
from tactfuld.ledger_restore import restore_ledger
from tactfuld.memory_commands import accept_memory
from tactfuld.memory_migration import migrate_memory
from tactfuld.models.commands import add_model_commands, run_model_command
from tactfuld.passphrases import from_descriptor
from tactfuld.purging import purge
from tactfuld.settings_commands import add_config_commands, run_config_command

_GROUPS = frozenset(backup_commands.NAMES) | policy_commands.NAMES | apps_commands.NAMES
_KEYS = ("keyring", "credential", "passphrase")


def add_commands(parser: argparse.ArgumentParser, shared: argparse.ArgumentParser) -> None:
    """The commands' arguments."""
    commands = parser.add_subparsers(dest="one_shot", required=True)
    init = commands.add_parser("init", parents=[shared], help="make a profile")
    init.add_argument("--starter", default="everyday", metavar="NAME")
    init.add_argument("--sandbox", choices=("required", "off"), default="required")
    init.add_argument("--key", choices=_KEYS, default=None)
    init.add_argument("--no-recovery", action="store_true")
    commands.add_parser("init-choices", parents=[shared], help="what a new profile can be like")
    add_model_commands(commands, shared)
    restore = commands.add_parser(
        "ledger-restore", parents=[shared], help="add the entries of another copy of the ledger"
    )
    restore.add_argument("file", type=Path, metavar="FILE")
    commands.add_parser("doctor", parents=[shared], help="look the profile over")
    commands.add_parser("memory-accept", parents=[shared], help="take memory as the newest")
    migrate = commands.add_parser("memory-migrate", parents=[shared], help="take other shelves")
    migrate.add_argument("--commit", action="store_true")
    migrate.add_argument("--uncover", action="store_true")
    add_config_commands(lambda name, text: commands.add_parser(name, parents=[shared], help=text))
    _add_key_commands(commands, shared)
    backup_commands.add_backup_commands(commands, shared)
    purging = commands.add_parser("purge", parents=[shared], help="destroy the profile")
    purging.add_argument("--with-config", action="store_true")
    policy_commands.add_policy_commands(
        lambda name, text: commands.add_parser(name, parents=[shared], help=text)
    )
    apps_commands.add_apps_commands(
        lambda name, text: commands.add_parser(name, parents=[shared], help=text)
    )


def _add_key_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    shared: argparse.ArgumentParser,
) -> None:
    commands.add_parser("key-show", parents=[shared], help="where the keys are")
    commands.add_parser("key-rotate", parents=[shared], help="new data keys for all stores")
    commands.add_parser("key-recovery", parents=[shared], help="make a new recovery phrase")
    change = commands.add_parser("key-change", parents=[shared], help="keep the key elsewhere")
    recover = commands.add_parser("recover", parents=[shared], help="open by the recovery phrase")
    recover.add_argument("--phrase-fd", type=int, required=True, metavar="N")
    for parser in (change, recover):
        parser.add_argument("--key", choices=_KEYS, required=True)
        parser.add_argument("--new-passphrase-fd", type=int, metavar="N")


def run(profile: Profile, passphrase: Secret[str] | None, arguments: argparse.Namespace) -> None:
    """Runs the command and writes its data.

    Raises:
        TactfulError: it could not be done; nothing of it is left behind.
    """
    match arguments.one_shot:
        case "init":
            wishes = Wishes(
                arguments.starter, arguments.sandbox, arguments.key, not arguments.no_recovery
            )
            data = initialise(profile, passphrase, wishes)
        case "key-show" | "key-rotate" | "key-recovery" | "key-change" | "recover":
            data = _run_key_command(profile, passphrase, arguments)
        case "init-choices":
            data = choices(profile).model_dump(mode="json")
        case "ledger-restore":
            data = restore_ledger(profile, passphrase, arguments.file)
        case "doctor":
            data = report(profile, passphrase)
        case "memory-accept":
            data = accept_memory(profile, passphrase)
        case "memory-migrate":
            data = migrate_memory(
                profile, passphrase, commit=arguments.commit, uncover=arguments.uncover
            )
        case "config-list" | "config-set" | "config-unset":
            data = run_config_command(profile, arguments)
        case "purge":
            data = purge(profile, with_config=arguments.with_config)
        case name if name in _GROUPS:
            data = _run_of_group(profile, passphrase, arguments)
        case _:
            data = run_model_command(profile, arguments, _tell_progress).model_dump(mode="json")
    write_line({"data": data})


def _run_of_group(
    profile: Profile, passphrase: Secret[str] | None, arguments: argparse.Namespace
) -> dict[str, object]:
    """One of the commands that a module of their own adds and runs."""
    if arguments.one_shot in backup_commands.NAMES:
        return backup_commands.run_backup_command(profile, passphrase, arguments, _tell_progress)
    if arguments.one_shot in apps_commands.NAMES:
        return apps_commands.run_apps_command(profile, arguments, _tell_progress)
    return policy_commands.run_policy_command(profile, arguments)


def _run_key_command(
    profile: Profile, passphrase: Secret[str] | None, arguments: argparse.Namespace
) -> dict[str, object]:
    match arguments.one_shot:
        case "key-show":
            return key_commands.show_keys(profile)
        case "key-rotate":
            return key_commands.rotate_keys(profile, passphrase)
        case "key-recovery":
            return key_commands.renew_recovery(profile, passphrase)
        case "key-change":
            new = _secret_from(arguments.new_passphrase_fd)
            return key_commands.change_key(profile, passphrase, arguments.key, new)
        case _:
            phrase = from_descriptor(arguments.phrase_fd)
            new = _secret_from(arguments.new_passphrase_fd)
            return key_commands.recover(profile, phrase, arguments.key, new)


def _secret_from(descriptor: int | None) -> Secret[str] | None:
    return None if descriptor is None else from_descriptor(descriptor)


def _tell_progress(what: str, done: int, total: int) -> None:
    write_line({"progress": {"what": what, "done": done, "total": total}})


def write_line(message: dict[str, object]) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
