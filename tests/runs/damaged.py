"""Runs whose file is damaged: values of any kind in any column, which SQLite's own tables would not let in."""

import math
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

#: One of each kind that SQLite knows; texts and bytes that are nothing else either.
VALUES = (None, 7, -0.5, "text", b"\xff\0")


class Column(NamedTuple):
    table: str
    name: str
    declared: str
    """Its kind: INTEGER, REAL, TEXT or BLOB."""
    empty: bool
    """Whether NULL is allowed."""


def columns(path: Path) -> Iterator[Column]:
    """Every column that can hold a value of a wrong kind. (A lone INTEGER key cannot: SQLite keeps it apart.)"""
    with closing(sqlite3.connect(path)) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            found = db.execute(f"PRAGMA table_info({table})").fetchall()
            keys = sum(bool(key) for *_, key in found)
            for _, name, declared, filled, _, key in found:
                if not (key and keys == 1 and declared == "INTEGER"):
                    yield Column(table, name, declared, not (filled or key))


def wrong(column: Column) -> list[object]:
    """The values whose kind the column does not hold. (SQLite reads an integer in a column of reals as a real.)"""
    right = {"INTEGER": (int,), "REAL": (float, int), "TEXT": (str,), "BLOB": (bytes,)}[column.declared]
    return [value for value in VALUES if not isinstance(value, right) and not (value is None and column.empty)]


#: Values of the right kind that mean nothing, or something else.
ODD = {
    "INTEGER": (-1, 7, (1 << 63) - 1),
    "REAL": (-1.0, math.inf),
    "TEXT": ("", "[]", '{"a": 1}', "[" * 20_000),
    "BLOB": (b"", b"\xff" * 100),
}


def odd(column: Column) -> list[object]:
    return [*ODD[column.declared], *([None] if column.empty else [])]


def damage(path: Path, column: Column, value: object) -> bool:
    """Put the value into the table's last row (of blocks, one of an image that is begun), past the table's rules.

    The table is declared as before in the end. Returns whether SQLite lets the value in: NULL in a key it never does.
    """
    table, name = column.table, column.name
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        (declared,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        loose = re.sub(rf"(\b{name} +){column.declared}( NOT NULL)?", r"\1", declared, count=1)
        assert loose != declared
        _declare(db, table, loose)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        keys = [key for _, key, *_, part in db.execute(f"PRAGMA table_info({table})") if part]
        order = ", ".join(f"{key} DESC" for key in keys)
        named = ", ".join(keys)
        row = f"(SELECT {named} FROM {table} ORDER BY {order} LIMIT 1)"
        try:
            done = db.execute(f"UPDATE {table} SET {name} = ? WHERE ({named}) = {row}", (value,)).rowcount
        except sqlite3.IntegrityError:
            done = 0
        _declare(db, table, declared)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return bool(done)


def _declare(db: sqlite3.Connection, table: str, sql: str) -> None:
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, table))
    (version,) = db.execute("PRAGMA schema_version").fetchone()
    db.execute(f"PRAGMA schema_version = {version + 1}")
    db.execute("PRAGMA writable_schema = OFF")


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything in the file, table by table."""
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr) for table in tables}
