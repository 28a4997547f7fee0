"""What the operating system refused to write or read: a matter of permission, or of the disk.

Decides between the two, for files and for databases. What is *not* here: the sentence, which says
what was being done.
"""

from __future__ import annotations

import errno
import sqlite3

from tactful.errors import IoFailed, NoPermission

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_SQLITE_DISK = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


def refusal(problem: OSError | sqlite3.Error, sentence: str) -> NoPermission | IoFailed:
    """The error for a problem: `IoFailed` where a disk is full or damaged, else `NoPermission`."""
    if isinstance(problem, OSError):
        failed = problem.errno in _DISK
    else:
        # The low byte is the kind; SQLite's extended codes only say more about it.
        failed = getattr(problem, "sqlite_errorcode", 0) & 0xFF in _SQLITE_DISK
    return IoFailed(sentence) if failed else NoPermission(sentence)
