"""A process that restores a backup until it is killed, and starts again at once.

`python -m tests.fakes.restoring FOLDER BACKUP SECRET` forks a child for each line on its standard
input, which restores BACKUP into the profile in FOLDER, without end where there is one. The child
writes its process id and a line feed when it begins; whoever reads that may kill it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.fakes.daemon_process import PASSPHRASE

from tactful.profile import Profile
from tactful_core.values import Secret
from tactfuld.backup.restoring import Wishes, restore_backup


def restore(folder: Path, backup: Path, secret: str) -> None:
    """Restores, again and again where the profile stays."""
    wishes = Wishes(backup, ledger_only=False, with_policy=False, key=None, recovery=False)
    given = Secret(PASSPHRASE)
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    while True:
        restore_backup(Profile.at(folder), given, Secret(secret), wishes, _unheard)


def _unheard(_what: str, _done: int, _total: int) -> None:
    """Nobody watches."""


def main() -> None:
    folder, backup, secret = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    for _line in sys.stdin:
        child = os.fork()
        if child == 0:
            restore(folder, backup, secret)
        os.waitpid(child, 0)
        sys.stdout.write("dead\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
