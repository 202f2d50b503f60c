"""One SQLite file, opened so that what was committed survives, and so that its errors are one clear line."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..certification.fields import FIRST_FORMAT
from ..core.errors import first_line
from .private_copy import begin_use, beside_sqlite, copied, end_use, journal_of, log_of
from .schema import VERSION

#: "SSmo": with it `file` and SQLite's own tools can tell a run from other databases.
APPLICATION = int.from_bytes(b"SSmo")
SUFFIXES = (".db", ".sqlite")
#: The path of a database that is in no file.
MEMORY = Path(":memory:")
MAGIC = b"SQLite format 3\0"
HEADER = 100
#: So long a process waits for another one's transaction. Transactions are short.
BUSY_SECONDS = 60
RETRY_SECONDS = 0.01
WRITABLE = "rwc"
#: The last bytes of a journal that ends with the name of another one.
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
#: What our own tables and statements stay below by far. Files of others may ask for more.
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 28,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 16,
    sqlite3.SQLITE_LIMIT_COLUMN: 64,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 8,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 16,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
#: What a statement may do that only reads.
READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_PRAGMA,
    sqlite3.SQLITE_TRANSACTION,
}


def is_run(path: Path | None) -> bool:
    """Whether the name is that of a run: .db or .sqlite."""
    return path is not None and path.suffix in SUFFIXES


class StoreError(OSError):
    """The file could not be read or written. What was committed before is still in it."""


class Database:
    """A connection. Every statement that fails raises a StoreError; a transaction is kept whole or not at all."""

    _folder: TemporaryDirectory[str] | None = None
    _in_use: tuple[int, int] | None = None
    version = VERSION
    """The format of the run in it."""

    def __init__(self, path: Path, writable: bool) -> None:
        """The file where it lies: for who writes to it, or is about to."""
        check_file(path, path)
        _refuse_super_journal(path)
        self._open(path, lambda: _connect(path, _mode(path, writable)))
        self._in_use = begin_use(path)
        if writable:
            self._prepare(self._make_durable)

    @classmethod
    def snapshot(cls, path: Path) -> "Database":
        """A private copy of the file as it is now, to be read and not written.

        Guarantee: nothing but the copy is touched. Nothing that is written to the file afterwards, through SQLite or
        past it, reaches who reads the copy. (Its pages are read again and again: the cache does not hold a large run.)
        On POSIX the copy has no name on the disk any more when this returns.
        """
        found = cls.__new__(cls)
        found._folder = TemporaryDirectory(prefix="soundsmooth-", ignore_cleanup_errors=True)
        try:
            copy = copied(path, Path(found._folder.name))
            check_file(copy, path)
            found._open(path, lambda: _connect(copy, "ro" if log_of(copy).exists() else "ro&immutable=1"))
        except BaseException:
            found._folder.cleanup()
            raise
        if os.name == "posix":  # SQLite has opened what it needs, the log too
            found._folder.cleanup()
        return found

    @classmethod
    def memory(cls, schema: str) -> "Database":
        """One that is never on a disk, with these tables. It ends with this process; it is for the thread that makes
        it.
        """
        found = cls.__new__(cls)
        found.path, found.blank = MEMORY, False
        found._connection = sqlite3.connect(":memory:", isolation_level=None)
        _empty_tables(schema).backup(found._connection)  # 30 times as fast as to make them again
        return found

    def _open(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self.path = path
        with self._plainly():
            self._connection = connect()
        self._prepare(self._check_format)

    def _prepare(self, step: Callable[[], None]) -> None:
        try:
            with self._plainly():
                step()
        except BaseException:
            self.close()
            raise

    def _make_durable(self) -> None:
        """Write-ahead log, and an fsync of it in every transaction before it counts as committed."""
        if self._log_ahead() != "wal":
            raise StoreError(f"{str(self.path)!r} must lie on a disk of this machine, not in a network folder")
        for setting in ("synchronous = FULL", "fullfsync = 1", "checkpoint_fullfsync = 1"):
            self._connection.execute(f"PRAGMA {setting}")

    def _log_ahead(self) -> str:
        """The journal mode, after the attempt to change it. SQLite does not wait for a lock here, so we do: several
        processes may begin one run at the same moment.
        """
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return str(self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_SECONDS)

    def _check_format(self) -> None:
        """Note whether the file is empty, and else its format; a ValueError if what is there is no run."""
        queries = ("PRAGMA application_id", "PRAGMA user_version", "SELECT COUNT(*) FROM sqlite_master")
        self._connection.execute("BEGIN")  # one moment for all three: another process may be making the tables
        application, version, tables = (self._connection.execute(query).fetchone()[0] for query in queries)
        self._connection.execute("COMMIT")
        self.blank = not (application or version or tables)
        if self.blank:
            return
        if application != APPLICATION:
            raise ValueError(f"{str(self.path)!r} is an SQLite database, but not a run of soundsmooth")
        if not FIRST_FORMAT <= version <= VERSION:
            raise ValueError(
                f"{str(self.path)!r} is a run of format {version}; this version of soundsmooth reads formats "
                f"{FIRST_FORMAT} to {VERSION}"
            )
        self.version = version

    def create(self, schema: str) -> None:
        """Make the tables. Inside a transaction."""
        for statement in schema.split(";"):
            self.execute(statement)
        self.execute(f"PRAGMA application_id = {APPLICATION}")
        self.execute(f"PRAGMA user_version = {VERSION}")
        self.blank = False

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        with self._plainly():
            return self._connection.execute(statement, values)

    def execute_many(self, statement: str, rows: Iterator[tuple[object, ...]]) -> None:
        with self._plainly():
            self._connection.executemany(statement, rows)

    def one(self, statement: str, *values: object) -> Any:
        """The first column of the first row, or None."""
        with self._plainly():
            row = self._connection.execute(statement, values).fetchone()
        return row[0] if row else None

    def rows(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Row by row: what is not asked for is not read."""
        with self._plainly():
            for row in self._connection.execute(statement, values):  # noqa: UP028  (not closed with the generator)
                yield row

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing. Within another transaction it is a part of that one."""
        if self._connection.in_transaction:
            yield
            return
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk may have rolled it back already
                self.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._connection.close()
        if self._in_use is not None:
            end_use(self._in_use)
            self._in_use = None
        if self._folder is not None:
            self._folder.cleanup()

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(_line(self.path, error)) from error


@cache
def _empty_tables(schema: str) -> sqlite3.Connection:
    made = sqlite3.connect(":memory:", check_same_thread=False)
    made.executescript(schema)
    return made


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection with SQLite's own defences. Who only reads can do nothing else with it."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", timeout=BUSY_SECONDS, isolation_level=None, uri=True
    )
    try:
        for category, most in LIMITS.items():
            connection.setlimit(category, most)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {setting}")
        configure = getattr(connection, "setconfig", None)  # from Python 3.12 on
        if configure is not None:
            configure(getattr(sqlite3, "SQLITE_DBCONFIG_DEFENSIVE"), True)  # noqa: B009  (3.11 has no such name)
        if mode != WRITABLE:
            connection.execute("PRAGMA query_only = 1")
            connection.set_authorizer(_reads)
    except BaseException:
        connection.close()
        raise
    return connection


def _reads(action: int, *_: object) -> int:
    """SQLite asks this before each statement: what does anything but read is not prepared."""
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY


def _mode(path: Path, writable: bool) -> str:
    """Who only reads takes part in the locking too, where that is possible: somebody may be writing."""
    if writable:
        return WRITABLE
    if os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK):
        return "rw"
    return "ro" if log_of(path).exists() else "ro&immutable=1"


def check_file(path: Path, named: Path) -> None:
    """A ValueError for a file that is no SQLite database, or that was cut short. An empty or missing one is fine."""
    if not path.exists():
        return
    if not path.is_file():
        raise ValueError(f"{str(named)!r} is no plain file")
    logged = log_of(path).exists()
    with beside_sqlite(path.resolve()) as file:
        head = file.read(HEADER)
    if head and head[: len(MAGIC)] != MAGIC[: len(head)]:
        raise ValueError(f"{str(named)!r} is not a run of soundsmooth")
    if 0 < len(head) < HEADER:
        raise ValueError(f"{str(named)!r} was cut short: it has only {len(head)} bytes")
    page = int.from_bytes(head[16:18]) if head[16:18] != b"\0\1" else 1 << 16
    needed, there = page * int.from_bytes(head[28:32]), path.stat().st_size
    # With a log beside it, the rest may still be there.
    if there < needed and not logged and not log_of(path).exists():
        raise ValueError(f"{str(named)!r} was cut short: it has {there} of {needed} bytes")


def _refuse_super_journal(path: Path) -> None:
    """A journal of ours names no other file. SQLite would delete the one that it names."""
    journal = journal_of(path)
    if journal.is_file():
        with journal.open("rb") as file:
            file.seek(max(0, journal.stat().st_size - len(JOURNAL_MAGIC)))
            if file.read() == JOURNAL_MAGIC:
                raise ValueError(f"{str(path)!r} is not opened: {journal.name!r}, beside it, names another file")


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _line(path: Path, error: sqlite3.Error) -> str:
    """What went wrong, and what it means for the run."""
    reason = first_line(error)
    name, kept = getattr(error, "sqlite_errorname", ""), "what was finished is kept, and the same command continues"
    if name.startswith("SQLITE_FULL"):
        return f"the disk is full: {str(path)!r} could not be written; {kept} once there is room"
    if name.startswith("SQLITE_IOERR"):
        return f"{str(path)!r} could not be read or written ({reason}); {kept} once the disk works"
    if _is_busy(error):
        return f"another program has locked {str(path)!r} for more than {BUSY_SECONDS} seconds; {kept}"
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return f"{str(path)!r} is damaged: {reason}"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return f"{str(path)!r} cannot be opened or written to: {reason}"
    return f"{str(path)!r} is damaged, or not a run of this version: {reason}"
