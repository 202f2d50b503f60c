"""The tables of a run's file (docs/runs.md), and what their columns may hold.

A certificate's columns follow from the table of its fields, `certificate.FIELDS`.
"""

from enum import IntEnum
from functools import cache

from ..certification.certificate import FIELDS
from ..certification.fields import Column, Field

#: The format of new runs. Older ones differ in nothing but a certificate's optional columns.
VERSION = max(field.column.since for field in FIELDS if field.column is not None)
BEFORE = """
CREATE TABLE run (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE images (
    place    INTEGER PRIMARY KEY,        -- in the promised order
    number   INTEGER NOT NULL,           -- in the data set: it names the noise
    truth    INTEGER,                    -- the promised label, if there is one
    state    INTEGER NOT NULL DEFAULT 0, -- 0 open, 1 finished, 2 failed
    attempts INTEGER NOT NULL DEFAULT 0, -- at blocks that raised an error
    error    TEXT                        -- the last one, in one line
);
CREATE INDEX open_images ON images (attempts, place) WHERE state = 0;
CREATE INDEX failed_images ON images (place) WHERE state = 2;
CREATE TABLE blocks (
    place       INTEGER NOT NULL REFERENCES images,
    purpose     INTEGER NOT NULL,        -- 0 selection, 1 estimation
    first       INTEGER NOT NULL,        -- the number of its first noisy copy
    count       INTEGER NOT NULL,        -- of copies
    votes       TEXT NOT NULL,           -- how many for whom
    hits        BLOB,                    -- a bit for each copy, compressed, or NULL: selection, or left out
    environment INTEGER NOT NULL REFERENCES environments,
    seconds     REAL NOT NULL,
    PRIMARY KEY (place, purpose, first)
);
CREATE TABLE alone (
    place       INTEGER NOT NULL REFERENCES images,
    first       INTEGER NOT NULL,        -- the number of the first copy of its block of estimation
    kept        BLOB NOT NULL,           -- a bit for each row that was a hit and was voted again, compressed
    environment INTEGER NOT NULL REFERENCES environments,
    seconds     REAL NOT NULL,
    PRIMARY KEY (place, first)
);
"""
AFTER = """;
CREATE TABLE environments (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);
CREATE TABLE owners (
    id      TEXT PRIMARY KEY,
    machine TEXT NOT NULL,
    boot    TEXT NOT NULL,
    pid     INTEGER NOT NULL,
    started TEXT NOT NULL,
    beat    REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE claims (
    place INTEGER PRIMARY KEY REFERENCES images,
    owner TEXT NOT NULL REFERENCES owners
);
CREATE TABLE findings (
    id    INTEGER PRIMARY KEY,
    at    TEXT NOT NULL,
    place INTEGER NOT NULL REFERENCES images,
    text  TEXT NOT NULL
)"""
#: What a run says; whoever continues it reads its votes as well, and who works on it.
SAID = ("run", "images", "certificates", "environments", "findings")
ALL = (*SAID, "blocks", "alone", "owners", "claims")
PLACE = Column("place", "INTEGER PRIMARY KEY REFERENCES images")
DIGEST = Column("digest", "BLOB NOT NULL", "SHA-256 of the certificate's JSON")


class State(IntEnum):
    """Of an image."""

    OPEN = 0
    FINISHED = 1
    FAILED = 2


@cache
def stored_fields(version: int) -> tuple[tuple[Field, Column], ...]:
    """The fields of a certificate that a file of this format has columns for, in the columns' order."""
    return tuple((each, each.column) for each in FIELDS if each.column is not None and each.column.since <= version)


@cache
def schema(version: int) -> str:
    """The tables and indexes of a file of this format, as SQL."""
    columns = [PLACE, *(column for _, column in stored_fields(version)), DIGEST]
    ends = [","] * (len(columns) - 1) + [""]
    lines = "\n".join(_declaration(column, end) for column, end in zip(columns, ends, strict=True))
    return f"{BEFORE}CREATE TABLE certificates (\n{lines}\n){AFTER}"


def _declaration(column: Column, end: str) -> str:
    declared = f"    {column.name:<11} {column.declared}{end}"
    return f"{declared:<40} -- {column.note}" if column.note else declared


SCHEMA = schema(VERSION)
