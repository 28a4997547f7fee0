"""SQLite as the stores use it.

Decides how databases are made and opened, and in which thread statements run. What is *not* here:
what is in them (`memory`, `ledger`, `history`).

Invariants:

- a database is made whole or not at all, with mode 0600 (SQLite gives its WAL the same), and never
  over an existing file; opening never makes one;
- a committed transaction is durable: WAL, `synchronous=FULL`, and `fullfsync` where the operating
  system has it (macOS); what is deleted is overwritten;
- reading and writing use separate connections. A reading one is `aiosqlite`'s. A writing one is
  plain `sqlite3` in a thread of its own, because `aiosqlite` runs one statement at a time: a
  cancelled caller would leave a transaction half done. Here a whole transaction is one function,
  which runs to its end once it has begun, whoever still waits for it;
- a database of a newer version is refused; one of no version that we wrote is `DamagedDatabase`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import aiosqlite

from tactful.errors import AlreadyExists, Unusable
from tactfuld.refusals import refusal

T = TypeVar("T")

_BUSY_MILLISECONDS = 5000
_MOST_FOUND = 5

_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=ON",
    "PRAGMA checkpoint_fullfsync=ON",
    "PRAGMA secure_delete=ON",
    "PRAGMA foreign_keys=ON",
    "PRAGMA recursive_triggers=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA temp_store=MEMORY",
    f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}",
)


class DamagedDatabase(Exception):
    """A file that is missing, or is not a database that this program made."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one database; `version` is SQLite's `user_version`, from 1."""

    version: int
    statements: tuple[str, ...]


def create(path: Path, schema: Schema, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Makes a database and its first contents in one transaction; call it in a thread.

    Raises:
        AlreadyExists: there is such a file.
        IoFailed, NoPermission: the operating system refuses.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError as problem:
        raise AlreadyExists(
            f"{path} exists already; use it, or choose another --profile."
        ) from problem
    except OSError as problem:
        raise refusal(
            problem, f"{path} could not be made ({problem.strerror}); check the folder."
        ) from problem
    try:
        with closing(_connect(path)) as connection, transaction(connection):
            for statement in schema.statements:
                connection.execute(statement)
            fill(connection)
            connection.execute(f"PRAGMA user_version={schema.version}")
        _make_durable(path.parent)
    except BaseException as problem:
        for leftover in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            leftover.unlink(missing_ok=True)
        if isinstance(problem, sqlite3.Error | OSError):
            raise refusal(problem, f"{path} could not be written; check its disk.") from problem
        raise


def key_in_use(path: Path) -> bytes | None:
    """The id of the key that a database names in its header; `None` where it cannot be read."""
    try:
        with closing(_connect(path)) as connection:
            record = connection.execute("SELECT key FROM header").fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return None
    return record[0] if record and isinstance(record[0], bytes) else None


def quick_check(path: Path) -> tuple[str, ...]:
    """The first things that SQLite finds wrong with a database's pages and indexes; blocks."""
    try:
        with closing(_connect(path)) as connection:
            records = connection.execute(f"PRAGMA quick_check({_MOST_FOUND})").fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return (f"{path.name} is missing, or no database that can be opened",)
    found = tuple(str(record[0]) for record in records)
    return () if found == ("ok",) else found


def snapshot(path: Path) -> tuple[bytes, bytes]:
    """The id of the key that a database names in its header, and its bytes, both of one state.

    Raises:
        DamagedDatabase: it is missing or cannot be read.
    """
    try:
        with closing(_connect(path)) as connection:
            connection.execute("BEGIN")
            record = connection.execute("SELECT key FROM header").fetchone()
            data = connection.serialize()
    except (sqlite3.Error, UnicodeDecodeError) as problem:
        raise DamagedDatabase(f"{path.name} could not be read.") from problem
    if not record or not isinstance(record[0], bytes):
        raise DamagedDatabase(f"{path.name} has no header.")
    return record[0], data


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    """A connection that only reads, in `aiosqlite`'s thread.

    Every statement sees one state of the database; whoever needs several values from one state
    asks for them in one statement.
    """
    async with aiosqlite.connect(_uri(path), uri=True, isolation_level=None) as connection:
        await connection.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
        await connection.execute("PRAGMA trusted_schema=OFF")
        await connection.execute("PRAGMA query_only=ON")
        yield connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """`BEGIN IMMEDIATE`, then `COMMIT`; an exception rolls back and passes on."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def empty_log(connection: sqlite3.Connection) -> None:
    """Carries the write-ahead log over into the database and cuts it to nothing.

    Where that is not possible now, the log keeps what was committed, and whoever writes next tries
    again.
    """
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class Writer:
    """One writing connection in a thread of its own."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self._path = path
        self._schema = schema
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"tactfuld {path.name}")

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, schema: Schema) -> AsyncIterator[Writer]:
        """A connection to an existing database; it closes after what was begun has ended.

        Raises:
            Unusable: the database is of a newer version.
            DamagedDatabase: it is missing, or no database of ours.
        """
        writer = cls(path, schema)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(writer._thread, writer._connect)
            yield writer
        finally:
            try:
                await asyncio.shield(loop.run_in_executor(writer._thread, writer._disconnect))
            finally:
                writer._thread.shutdown(wait=False)

    @property
    def path(self) -> Path:
        """The database's file."""
        return self._path

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in the connection's thread, after all earlier ones.

        A caller that is cancelled before `work` begins has prevented it; afterwards `work` runs to
        its end, so it must leave everything consistent by itself.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            raise DamagedDatabase(f"{self._path.name} is not open.")
        return work(self._connection)

    def _connect(self) -> None:
        try:
            self._connection = _connect(self._path)
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        except (sqlite3.Error, UnicodeDecodeError) as problem:
            # The latter: SQLite's own message names what is wrong with a damaged schema.
            raise DamagedDatabase(f"{self._path.name} could not be opened.") from problem
        if version > self._schema.version:
            raise Unusable(
                f"{self._path} was written by a newer version of tactful; update tactful."
            )
        if version != self._schema.version:
            raise DamagedDatabase(f"{self._path.name} is not a database of this kind.")

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(_uri(path), uri=True, isolation_level=None)
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=rw"


def _make_durable(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
