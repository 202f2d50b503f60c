"""Values of a kind that their column cannot hold: the file is damaged, and that is said before anybody computes.

SQLite keeps a value of any kind in any column, whatever its tables declare: one flipped bit makes NULL of a text.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache

from .database import Database

TYPES = {"integer": int, "real": float, "text": str, "blob": bytes, "null": type(None)}
KINDS = {"INTEGER": "integer", "REAL": "real", "TEXT": "text", "BLOB": "blob"}
ENTRY = "type, name, tbl_name, sql"


def check_schema(db: Database, schema: str) -> None:
    """A ValueError unless the file has exactly our tables and indexes, word for word.

    Guarantee: if it returns, there is no view, trigger, virtual table, generated column or constraint but ours, so that
    reading computes nothing that somebody else has asked for.
    """
    if sorted(db.rows(f"SELECT {ENTRY} FROM sqlite_master"), key=str) != _entries(schema):
        raise ValueError(f"{str(db.path)!r} is damaged: its tables are not those of a run")


@cache
def _entries(schema: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(schema)
        return sorted(empty.execute(f"SELECT {ENTRY} FROM sqlite_master"), key=str)


def check_kinds(db: Database, schema: str, tables: Sequence[str]) -> None:
    """A ValueError names a table and a column with a value of a kind that the schema does not declare.

    Guarantee: if it returns, every value in these tables is of the kind that its column declares, or NULL where that is
    allowed. Long values are not read, and nothing is written.
    """
    for table in tables:
        kinds = _kinds(schema)[table]
        wrong = " OR ".join(f"typeof({name}) NOT IN ({', '.join(map(repr, kind))})" for name, kind in kinds.items())
        query = f"SELECT {', '.join(f'typeof({name})' for name in kinds)} FROM {table} WHERE {wrong} LIMIT 1"
        for row in db.rows(query):
            pairs = zip(kinds.items(), row, strict=True)
            name, held, there = next((name, held, there) for (name, held), there in pairs if there not in held)
            raise ValueError(
                f"{str(db.path)!r} is damaged: {table}.{name} holds {_said(there)} where {_said(held[0])} belongs; "
                "nothing was changed, restore the file from a copy"
            )


def _said(kind: str) -> str:
    return {"null": "NULL", "integer": "an integer", "real": "a real number", "text": "a text", "blob": "bytes"}[kind]


@cache
def _kinds(schema: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """For each table, the kinds of values that its columns may hold; the declared one first."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(schema)
        tables = [name for (name,) in empty.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: {
                name: (KINDS[declared],) if filled or key else (KINDS[declared], "null")
                for _, name, declared, filled, _, key in empty.execute(f"PRAGMA table_info({table})")
            }
            for table in tables
        }


@cache
def types_of(schema: str, table: str) -> tuple[tuple[type, ...], ...]:
    """The same as Python's types, column by column."""
    return tuple(tuple(TYPES[kind] for kind in kinds) for kinds in _kinds(schema)[table].values())
