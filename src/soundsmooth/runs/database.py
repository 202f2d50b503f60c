"""One SQLite file, opened so that what was committed survives, and so that its errors are one clear line."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ..models.protocol import first_line

#: "SSmo": with it `file` and SQLite's own tools can tell a run from other databases.
APPLICATION = int.from_bytes(b"SSmo")
VERSION = 2
SUFFIXES = (".db", ".sqlite")
MAGIC = b"SQLite format 3\0"
HEADER = 100
#: So long a process waits for another one's transaction. Transactions are short.
BUSY_SECONDS = 60
#: Copied in one step.
PAGES = 1000
RETRY_SECONDS = 0.01


def is_run(path: Path | None) -> bool:
    """Whether the name is that of a run: .db or .sqlite."""
    return path is not None and path.suffix in SUFFIXES


class StoreError(OSError):
    """The file could not be read or written. What was committed before is still in it."""


class Database:
    """A connection. Every statement that fails raises a StoreError; a transaction is kept whole or not at all."""

    def __init__(self, path: Path, writable: bool) -> None:
        self.path = path
        check_file(path)
        with self._plainly():
            self._connection = _connect(path, writable)
            try:
                self.blank = self._check_format()
                if writable:
                    self._make_durable()
            except BaseException:
                self._connection.close()
                raise

    @classmethod
    def snapshot(cls, path: Path) -> "Database":
        """A private copy of the file as it is now, with no name on the disk.

        Guarantee: nothing that is written to the file afterwards, through SQLite or past it, reaches who reads the
        copy. (Its pages are read again and again: the cache does not hold a large run.)
        """
        found = cls(path, writable=False)
        source, found._connection = found._connection, sqlite3.connect("", isolation_level=None)  # deleted when closed
        try:
            with closing(source):
                found._copy(source)
            found.execute("PRAGMA query_only = 1")
            with found._plainly():
                found.blank = found._check_format()
        except BaseException:
            found.close()
            raise
        return found

    def _copy(self, source: sqlite3.Connection) -> None:
        try:
            source.execute("BEGIN")  # so that no writer makes it begin again
            source.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            source.backup(self._connection, pages=PAGES, progress=lambda *_: None)  # in steps, to be interrupted
        except sqlite3.Error as error:
            text = f"{str(self.path)!r} could not be copied to a temporary file, which needs as much room"
            raise StoreError(f"{text}: {first_line(error)}") from error

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

    def _check_format(self) -> bool:
        """Whether there is nothing in the file yet; a ValueError if there is something that is no run."""
        queries = ("PRAGMA application_id", "PRAGMA user_version", "SELECT COUNT(*) FROM sqlite_master")
        self._connection.execute("BEGIN")  # one moment for all three: another process may be making the tables
        application, version, tables = (self._connection.execute(query).fetchone()[0] for query in queries)
        self._connection.execute("COMMIT")
        if not (application or version or tables):
            return True
        if application != APPLICATION:
            raise ValueError(f"{str(self.path)!r} is an SQLite database, but not a run of soundsmooth")
        if version != VERSION:
            raise ValueError(
                f"{str(self.path)!r} is a run of format {version}; this version of soundsmooth reads format {VERSION}"
            )
        return False

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

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(_line(self.path, error)) from error


def _connect(path: Path, writable: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={_mode(path, writable)}",
        timeout=BUSY_SECONDS,
        isolation_level=None,
        uri=True,
    )
    connection.execute(f"PRAGMA query_only = {int(not writable)}")
    return connection


def _mode(path: Path, writable: bool) -> str:
    """Who only reads takes part in the locking too, where that is possible: somebody may be writing."""
    if writable:
        return "rwc"
    if os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK):
        return "rw"
    return "ro" if _log(path).exists() else "ro&immutable=1"


def check_file(path: Path) -> None:
    """A ValueError for a file that is no SQLite database, or that was cut short. An empty or missing one is fine."""
    if not path.exists():
        return
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is not a file")
    logged = _log(path).exists()
    with path.open("rb") as file:
        head = file.read(HEADER)
    if head and head[: len(MAGIC)] != MAGIC[: len(head)]:
        raise ValueError(f"{str(path)!r} is not a run of soundsmooth")
    if 0 < len(head) < HEADER:
        raise ValueError(f"{str(path)!r} was cut short: it has only {len(head)} bytes")
    page = int.from_bytes(head[16:18]) if head[16:18] != b"\0\1" else 1 << 16
    needed, there = page * int.from_bytes(head[28:32]), path.stat().st_size
    # With a log beside it, the rest may still be there.
    if there < needed and not logged and not _log(path).exists():
        raise ValueError(f"{str(path)!r} was cut short: it has {there} of {needed} bytes")


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


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
