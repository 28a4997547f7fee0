"""Commands about backups: `backup`, `backup-verify`, `backup-inspect`.

Decides their arguments. What is *not* here: what they do (`making`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld.backup import making
from tactfuld.backup.container import read_header
from tactfuld.backup.making import Report
from tactfuld.passphrases import from_descriptor

NAMES = ("backup", "backup-verify", "backup-inspect")


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
    for parser in (make, verify, inspect):
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
        case _:
            header = read_header(arguments.file)
            return {"lock": header.lock.name.lower(), "store": header.store_id.hex()}
