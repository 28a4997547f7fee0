"""Commands about backups: `backup`, `backup-verify`, `backup-inspect`, `restore`.

Decides their arguments. What is *not* here: what they do (`making`, `restoring`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld.backup import making, restoring
from tactfuld.backup.container import read_header
from tactfuld.backup.making import Report
from tactfuld.passphrases import from_descriptor

NAMES = ("backup", "backup-verify", "backup-inspect", "restore")


def add_backup_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    shared: argparse.ArgumentParser,
) -> None:
    """The commands' arguments."""
    make = commands.add_parser("backup", parents=[shared], help="write a backup")
    make.add_argument("--own-passphrase-fd", type=int, metavar="N")
    make.add_argument("--without-history", action="store_true")
    make.add_argument("--force", action="store_true")
    verify = commands.add_parser("backup-verify", parents=[shared], help="read a backup")
    verify.add_argument("--secret-fd", type=int, required=True, metavar="N")
    inspect = commands.add_parser("backup-inspect", parents=[shared], help="what opens a backup")
    restore = commands.add_parser("restore", parents=[shared], help="restore a backup")
    restore.add_argument("--secret-fd", type=int, required=True, metavar="N")
    restore.add_argument("--ledger-only", action="store_true")
    restore.add_argument("--with-policy", action="store_true")
    restore.add_argument("--key", choices=("keyring", "credential", "passphrase"), default=None)
    restore.add_argument("--no-recovery", action="store_true")
    for parser in (make, verify, inspect, restore):
        parser.add_argument("file", type=Path, metavar="FILE")


def run_backup_command(
    profile: Profile,
    passphrase: Secret[str] | None,
    arguments: argparse.Namespace,
    report: Report,
) -> dict[str, object]:
    """Runs one of `NAMES`.

    Raises:
        TactfulError: it could not be done; nothing of it is left behind.
    """
    match arguments.one_shot:
        case "backup":
            wishes = making.Wishes(
                arguments.file, history=not arguments.without_history, force=arguments.force
            )
            own = arguments.own_passphrase_fd
            given = None if own is None else from_descriptor(own)
            return making.make_backup(profile, passphrase, given, wishes, report)
        case "backup-verify":
            secret = making.typed_secret(arguments.file, from_descriptor(arguments.secret_fd))
            return making.verify_backup(arguments.file, secret, report)
        case "restore":
            secret = making.typed_secret(arguments.file, from_descriptor(arguments.secret_fd))
            wanted = restoring.Wishes(
                arguments.file,
                ledger_only=arguments.ledger_only,
                with_policy=arguments.with_policy,
                key=arguments.key,
                recovery=not arguments.no_recovery,
            )
            return restoring.restore_backup(profile, passphrase, secret, wanted, report)
        case _:
            header = read_header(arguments.file)
            place = restoring.place_of(profile, header.store_id)
            return {"lock": header.lock.name.lower(), "place": place}
