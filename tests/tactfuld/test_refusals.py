"""A full disk is told apart from a folder that may not be written."""

import errno
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tactful.errors import IoFailed, NoPermission
from tactfuld.refusals import refusal


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_a_full_or_damaged_disk_is_no_matter_of_permission(number: int) -> None:
    told = refusal(OSError(number, "x"), "It was not written.")
    assert (type(told), str(told)) == (IoFailed, "It was not written.")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP])
def test_what_the_system_forbids_is(number: int) -> None:
    assert type(refusal(OSError(number, "x"), "It was not written.")) is NoPermission


def test_a_database_that_may_not_grow_is_a_full_disk(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("PRAGMA max_page_count=2")
        with pytest.raises(sqlite3.OperationalError) as full:
            connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
        connection.execute("PRAGMA query_only=ON")
        with pytest.raises(sqlite3.OperationalError) as forbidden:
            connection.execute("INSERT INTO t VALUES (1)")
    assert type(refusal(full.value, "x")) is IoFailed
    assert type(refusal(forbidden.value, "x")) is NoPermission
