"""The content hash of a run: what an issuer hands over before blocks are drawn (docs/audit.md, "The content hash")."""

import hashlib
import struct

from ..runs.database import Database

TITLE = b"soundsmooth run content v1\n"
#: Every table that says something about the result, and the order of its rows. Who works on the run at the moment
#: (owners, claims) is left out, and so is everything that SQLite keeps for itself.
TABLES = {
    "run": "name",
    "images": "place",
    "blocks": "place, purpose, first",
    "alone": "place, first",
    "certificates": "place",
    "environments": "id",
    "findings": "id",
}


def content_hash(db: Database) -> str:
    """SHA-256 of all rows of `TABLES`, in hexadecimal.

    Guarantee: a function of the rows alone. It does not depend on the layout of the file, on its log, or on who works
    on the run; two runs whose rows differ have different encodings.
    """
    digest = hashlib.sha256(TITLE)
    for table, order in TABLES.items():
        digest.update(b"T" + _with_length(table.encode()))
        for row in db.rows(f"SELECT * FROM {table} ORDER BY {order}"):
            digest.update(b"R" + struct.pack("<Q", len(row)) + b"".join(map(_encode, row)))
    return digest.hexdigest()


def _encode(value: object) -> bytes:
    """A letter for the kind, then the value; what has no fixed length comes with its length."""
    if value is None:
        return b"N"
    if isinstance(value, int):
        return b"I" + struct.pack("<q", value)
    if isinstance(value, float):
        return b"F" + struct.pack("<d", value)
    if isinstance(value, str):
        return b"S" + _with_length(value.encode())
    assert isinstance(value, bytes), "SQLite has no other kinds"
    return b"B" + _with_length(value)


def _with_length(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value
