"""Structured forgeries: one field, row, block, flag or table of a run or of a certificate's JSON is another one.

A naive forger leaves everything else as it was. A consistent one computes anew what follows from the forged thing:
commitment, sums, bitmaps, bounds, radii, digests and checksums.
"""

import dataclasses
import hashlib
import json
import math
import random
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from soundsmooth.certification.certificate import FIELDS as CERTIFICATE
from soundsmooth.certification.certificate import Certificate
from soundsmooth.certification.certify import Counts, Measurement, certify
from soundsmooth.certification.fields import checksum
from soundsmooth.certification.promise import FIELDS, OPTIONAL, Promise, Secret
from soundsmooth.certification.settings import promised_settings
from soundsmooth.certification.votes import counts_of, votes_text
from soundsmooth.exact import BOUNDS, price_above
from soundsmooth.independence.measure import rows_by_block, sample_rows
from soundsmooth.noise import Purpose, promised_law
from soundsmooth.runs.image_votes import ImageVotes, image_votes
from soundsmooth.runs.schema import SCHEMA, VERSION, stored_fields
from soundsmooth.smoothing.blocks import VoteBlock, hits_of, packed_bits, vote_rounds

NAIVE, CONSISTENT = "naive", "consistent"
DEEP = 5000
BLOCK = "(place, purpose, first) = (?, ?, ?)"
BROKEN = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, IndexError, RecursionError, sqlite3.Error)


#: Groups of kinds, by how these begin.
GROUPS = {
    "JSON: promise": ("record: promise",),
    "JSON: claims, votes, key": tuple(
        f"record: {name}" for name in ("index", "label", "radius", "p_", "truth", "selection", "estimation", "measured",
        "paid", "looks", "aborted", "coin", "commitment", "seed", "nonce", "key")
    ),
    "JSON: other fields": ("record: ",),
    "JSON: the file": ("lines of the file",),
    "promise: values": ("promise: ",),
    "promise: lines": ("promise's lines",),
    "run: seed, nonce, block …": ("run", "row of run"),
    "images": ("images", "row of images"),
    "blocks": ("blocks.", "row of blocks"),
    "rows alone": ("alone", "row of alone"),
    "certificates": ("certificates", "row of certificates"),
    "claims of more or less": ("certificate left out", "smaller radius", "larger radius"),
    "environments, findings": ("environments", "findings", "row of environments", "row of findings"),
    "owners, claims": ("owners", "claims", "row of owners", "row of claims"),
    "tables, indexes, views": ("tables",),
    "log (WAL)": ("log",),
    "layout, files beside it": ("layout", "files beside it"),
}  # fmt: skip


class InapplicableError(Exception):
    """This forgery cannot be made here, or would change nothing."""


@dataclass(frozen=True)
class Forgery:
    """One of them. `kind` is what is forged, by which it is counted; `make` does it to a copy of the honest file."""

    kind: str
    level: str
    detail: str
    make: Callable[[Path], None]
    places: tuple[Any, ...] = ()
    """Whose votes or certificates are forged, where it is about some images only."""

    def __str__(self) -> str:
        return f"{self.level} {self.kind}: {self.detail}"

    @property
    def group(self) -> str:
        """What it is about, for a table that fits on a page."""
        return next((group for group, begins in GROUPS.items() if self.kind.startswith(begins)), "votes")


# --- values --------------------------------------------------------------------------------------------------


def others(old: object, chance: random.Random) -> Iterator[object]:
    """Other values for a field: near and far, of its own kind and of others."""
    if isinstance(old, bool) or old is None:
        yield from (0, 1, -1, 7, 0.5, "text", "", b"\0")
    elif isinstance(old, int):
        yield from (old + 1, old - 1, -old, 0, 1, 2, -1, 1 << 31, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63))
        yield from (None, "text", "", f"{old}x", "٣", old + 0.5, 1e300, math.inf, -math.inf, b"\1", str(old).encode())
    elif isinstance(old, float):
        yield from (math.nextafter(old, 9), math.nextafter(old, -9), old * (1 + 1e-12), old * (1 - 1e-12))
        yield from (old / 2, old * 2, -old, 0.0, 0.5, 1.0, 2.0, 5e-324, 1.7e308, math.inf, -math.inf)
        yield from (None, "nan", "text", "", b"\0", f"{old} x")
    elif isinstance(old, str):
        yield from other_texts(old, chance)
    elif isinstance(old, bytes):
        yield from (old[:-1], old + b"\0", b"", old * 2, bytes(len(old)), None, 5, 0.5, "text", old.hex())
        at = chance.randrange(len(old))
        yield old[:at] + bytes([old[at] ^ 1 << chance.randrange(8)]) + old[at + 1 :]


def other_texts(old: str, chance: random.Random) -> Iterator[object]:
    yield from (old + " ", " " + old, old + "\n", old + "\0", old[:-1], old * 2, old.upper(), old.replace(" ", "  "))
    yield from ("", "text", "{}", "[]", "null", "NaN", "1e5", "0", "-1", "9" * 30, "1/2", "0" + old, "٣", "é" + old)
    yield from ("\ufeff" + old, old.replace("\n", "\r\n"), None, 5, 0.5, old.encode(), "[" * DEEP, "\u2028" + old)
    if old:
        at = chance.randrange(len(old))
        yield old[:at] + chr(ord(old[at]) ^ 1) + old[at + 1 :]


def other_votes(old: str, chance: random.Random) -> Iterator[object]:
    """Other texts where votes are kept: a vote moved, doubled or taken away, and texts that say the same otherwise."""
    held = json.loads(old)
    number, votes = held["classes"], held["votes"]
    first = next(iter(votes), "0")
    votes = votes or {first: 0}
    yield from (old.replace(":", ": "), old.replace("}", ",}"), old.replace('"votes":{', f'"votes":{{"{first}":1,'))
    for classes in (number + 1, number - 1, 1, 0, -1, 10**6, 10**9, float(number), True, str(number), None):
        yield _dumped({"classes": classes, "votes": votes})
    for count in (votes[first] + 1, votes[first] - 1, -votes[first], 0, float(votes[first]), True, "1", None, 10**30):
        yield _dumped({"classes": number, "votes": {**votes, first: count}})
    for label in ("-2", "-1", "0", "1", "2", str(number), "00", "1.0", " 1", "٣"):
        yield _dumped({"classes": number, "votes": {**votes, label: votes.get(label, 0) + 1}})
        taken = {**votes, first: votes[first] - 1, label: votes.get(label, 0) + 1}
        with suppress(ValueError):
            yield _dumped({"classes": number, "votes": {k: taken[k] for k in sorted(taken, key=int) if taken[k]}})
    yield _dumped({"classes": number, "votes": dict(reversed(votes.items()))})
    yield _dumped({"votes": votes, "classes": number})
    yield _dumped({**held, "more": 1})
    yield from other_texts(old, chance)


def other_bitmaps(old: bytes, chance: random.Random) -> Iterator[object]:
    """Other bits, and the same bits packed otherwise."""
    raw = zlib.decompress(old)
    flipped = bytearray(raw)
    at = chance.randrange(len(flipped) * 8)
    flipped[at // 8] ^= 128 >> at % 8
    bits = np.unpackbits(np.frombuffer(raw, np.uint8))
    yield from (zlib.compress(raw, level) for level in (0, 1, 9))
    yield from (zlib.compress(other) for other in (bytes(flipped), raw[::-1], raw[1:] + raw[:1], raw + b"\0", raw[:-1]))
    yield from (zlib.compress(bytes(255 - byte for byte in raw)), zlib.compress(bytes(1 << 20)), old + old)
    yield zlib.compress(np.packbits(np.roll(bits, 1)).tobytes())
    yield from others(old, chance)


def other_looks(old: str, chance: random.Random) -> Iterator[object]:
    """Other texts where looks are kept: one less, one more, another order, other numbers and kinds of numbers."""
    held = json.loads(old)
    yield from (json.dumps(new) for new in other_lists(held))
    yield from (old.replace(" ", ""), old.replace("[", "("), old.replace("[", "[1e400, ", 1), old.replace(",", ",,", 1))
    for at, look in enumerate(held):
        for part, number in enumerate(look):
            for new in (number + 1, number - 1, -number, 0, 10**30, float(number), True, str(number), None, math.nan):
                changed = [*look[:part], new, *look[part + 1 :]]
                yield json.dumps([*held[:at], changed, *held[at + 1 :]])
        yield from (json.dumps([*held[:at], new, *held[at + 1 :]]) for new in ([], look[:2], [*look, 0], None, 5))
    yield from other_texts(old, chance)


def other_lists(old: list[Any]) -> Iterator[list[Any]]:
    """One less, at either end; one twice; another order; none."""
    yield from (old[:-1], old[1:], old + old[-1:], old[:1] + old, old[::-1], [])


def _dumped(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


#: Lines of a promise: what an issuer might write there. Other texts are tried as well.
LINES: dict[str, tuple[str, ...]] = {
    "spec": ("2", "01", "1.0", "1 "),
    "model kind": ("onnx", "torch", "callable ", "python", "Callable"),
    "model": ("0" * 64, "A" * 64, "f" * 63),
    "inputs": ("0" * 64, "g" * 64),
    "input count": ("1", "2", "4", "0", "03", "3.0", "6/2", "-3", "1000000000000000000000", "9" * 5000),
    "input shape": ("4", "2 2 1", "1 2 2", "02 2", "2  2", "-2 -2", "2.0 2", "0 0", "99999999999 99999999999", "2\t2"),
    "grid": (
        "levels=256 q=1 offset=0", "levels=256 q=255 offset=1", "levels=255 q=255 offset=0", "levels=256 q=0 offset=0",
        "levels=256 q=255 offset=0.0", "levels=256 q=510 offset=0", "levels=0 q=255 offset=0", "q=1 levels=2 offset=0",
        "levels=256 q=255 offset=1e999999999", "levels=256 q=255 offset=0 more=1", "levels=0256 q=255 offset=0",
        "levels=9999999999999999999999 q=255 offset=0", "levels=256 q=255 offset=-1/2",
    ),
    "margin": ("1", "0", "-1", "100000", "511/2", "0510"),
    "sigma": ("1", "1/4", "2", "2/4", "0.5", "0", "-1/2", "1/0", "1000000", "1e5", "nan", "inf", "9" * 3000),
    "n0": ("10", "21", "1", "0", "40", "020", "20.0", "1000000000", "10000000000", "40/2"),
    "n": ("50", "201", "199", "0", "0200", "200.0", "1000000000", "-200", "400/2"),
    "alpha": ("1/100", "1/2", "999/1000", "1", "0", "-1/1000", "2/2000", "0.001", "1e-3", "3/2", "1/" + "9" * 1000),
    "bound": ("hoeffding", "runner-up", "clopper-pearson", "none", "Clopper-Pearson", ""),
    "noise": ("fresh", "shared", "batchwise", "none", "Fresh"),
    "batch": ("1", "5", "20", "200", "0", "-10", "010", "10.0", "1000000000", "9" * 40),
    "precision": ("float16", "bfloat16", "float64", "float7", ""),
    "device": ("cuda", "cuda NVIDIA H200", "CPU", "v7", "cpu cpu"),
    "flags": (
        "kernels=v7", "threads=1", "none none", "", "threads", "=", "none=none", "isolated=yes", "None", "compile=none",
        "optimization=all provider=CPUExecutionProvider threads=1", "layout=contiguous",
    ),
    "independence": (
        "proved", "checked", "assumed", "measured m=1", "measured m=60", "measured m=1000000", "measured m=060",
        "measured m=99999999", "measured", "certain", "Proved", "measured  m=60",
    ),
    "seed": ("0" * 64, "f" * 64, "A" * 64, ""),
    "given": (
        "0" * 64, f"{'0' * 64} tolerance=1/4194304", f"{'0' * 64} tolerance=1/8388608", f"{'0' * 64} tolerance=0",
        f"{'0' * 64} tolerance=1/0", f"{'0' * 64} tolerance=1/4194304 ", f"{'0' * 64} tolerance=2/8388608", "none",
        f"{'A' * 64} tolerance=1/4194304", f"{'0' * 64} tolerance=1/2", "tolerance=1/4194304",
    ),
    "looks": (
        "40=1/4000 100=1/4000 200=1/2000", "200=1/1000", "40=1/2000 200=1/2000", "40=1/2000 100=1/2000 200=1/2000",
        "40=1/2000 100=1/2000", "100=1/2000 40=1/4000 200=1/4000", "40=1/2000 40=1/4000 200=1/4000", "40 100 200",
        "40=0 200=1/1000", "40=-1/1000 200=2/1000", "40=1/2000 200=2/4000", "40=5e-4 200=1/2000", "200=1/1000 ",
        f"40=1/{10**30} 200={Fraction(1, 1000)}", f"40=1/{10**150} 200=1/2000", f"40=1/{10**3000} 200=1/2000",
        "0=1/2000 200=1/2000", "040=1/2000 200=1/2000", "20=1/4000 40=1/4000 200=1/2000", "45=1/2000 200=1/2000",
        " ".join(f"{n}=1/200000" for n in range(101, 201)), "40=1/2000 200=1/2000 400=1/2000", "200=1/1000=1/1000",
    ),
    "radii": (
        "0=0x1.0000000000001p-1", "0=0x1.0000000000000p-1", "1/4=0x1.0000000000001p-1", "1/4=0x1.f000000000000p-1",
        "0=0x1.0000000000001p-1 1/4=0x1.f000000000000p-1 1/8=0x1.8000000000000p-1", "0=0x1.0000000000000p+0",
        "0=0x1.0000000000001p-1 0=0x1.0000000000002p-1", "0=nan", "0=inf", "0=0.75", "1/4", "-1/4=0x1.8000000000000p-1",
        "2/8=0x1.f000000000000p-1", "0.25=0x1.f000000000000p-1", "0=0x1.8000000000000p-1 1/4=0x1.8000000000000p-1",
        f"{10**400}=0x1.fffffffffffffp-1", " ".join(f"{k}/10007=0x1.f{k:012x}p-1" for k in range(1, 260)),
    ),
    "go on": (
        "none none", "0-40 0-100", "0-40 none", "none", "0-40 0-100 0-200", "40-0 none", "0-41 none", "0-3,4-40 none",
        "0-40,0-40 none", "00-40 none", "0-40, none", "None none", "-1-40 none",
    ),
    "wrong labels": ("skipped", "kept", "Skipped", "skipped "),
    "group": (
        "2 images 100 copies", "1 images 1 copies", "100000 images 1000000000 copies", "0 images 100 copies",
        "2 images 0 copies", "100001 images 10 copies", "2", "02 images 100 copies", "2 images 100 copies ",
    ),
}  # fmt: skip

#: What an issuer might do to the tables themselves.
TABLES = (
    "CREATE TABLE more (x)",
    "CREATE TABLE more (x PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE strict (x INTEGER) STRICT",
    "CREATE TABLE generated (x, y GENERATED ALWAYS AS (x + 1) STORED)",
    "CREATE TABLE checked (x CHECK (length(hex(zeroblob(x))) > 0))",
    "CREATE TEMP TABLE images (place); CREATE TABLE kept AS SELECT * FROM images",
    "CREATE VIRTUAL TABLE words USING fts5(x)",
    "CREATE VIRTUAL TABLE boxes USING rtree(id, a, b)",
    "CREATE VIEW seen AS SELECT * FROM images",
    "CREATE TRIGGER told AFTER UPDATE ON images BEGIN DELETE FROM findings; END",
    "CREATE INDEX more_images ON images (number)",
    "CREATE INDEX odd_images ON images (number + 1)",
    "CREATE INDEX some_images ON images (number) WHERE truth = 1",
    "CREATE INDEX plain_images ON images (error COLLATE NOCASE)",
    "CREATE UNIQUE INDEX sole_images ON images (number)",
    "DROP INDEX open_images",
    "DROP INDEX failed_images",
    "DROP INDEX open_images; CREATE INDEX open_images ON images (place, attempts) WHERE state = 0",
    "ANALYZE",
    *(f"DROP TABLE {name}" for name in ("alone", "findings", "owners", "claims", "environments", "blocks")),
    *(f"ALTER TABLE {name} ADD COLUMN more INTEGER" for name in ("run", "images", "blocks", "certificates", "alone")),
    *(f"ALTER TABLE {name} ADD COLUMN more" for name in ("environments", "findings", "owners", "claims")),
    "ALTER TABLE images ADD COLUMN twice INTEGER GENERATED ALWAYS AS (number * 2) VIRTUAL",
    "ALTER TABLE images RENAME COLUMN error TO fault",
    "ALTER TABLE blocks DROP COLUMN seconds",
    "ALTER TABLE certificates RENAME TO papers",
    "ALTER TABLE findings RENAME TO remarks; CREATE VIEW findings AS SELECT * FROM remarks",
    "ALTER TABLE run RENAME TO ran; CREATE VIEW run AS SELECT * FROM ran",
    "CREATE TABLE copy AS SELECT * FROM images; DROP TABLE images; ALTER TABLE copy RENAME TO images",
    *(f"PRAGMA user_version = {number}" for number in (0, 1, 2, 4, -1)),
    *(f"PRAGMA application_id = {number}" for number in (0, 1, -1)),
)

#: Other texts of the same tables, written past SQLite's parser.
REWRITTEN = (
    ("sql", "NOT NULL", ""), ("sql", "INTEGER", "INT"), ("sql", "TEXT", "text"), ("sql", "REFERENCES images", ""),
    ("sql", "TEXT", "TEXT COLLATE NOCASE"), ("sql", "REAL", "REAL CHECK (1)"), ("sql", "CREATE", "create"),
    ("sql", "state = 0", "state = 1"), ("sql", "WITHOUT ROWID", "WITHOUT ROWID "), ("sql", "--", "-- "),
    ("name", "findings", "Findings"), ("tbl_name", "images", "Images"), ("type", "index", "Index"),
)  # fmt: skip

#: The same rows in another file: nothing of it is content.
LAYOUTS = (
    "PRAGMA page_size = 512; VACUUM",
    "PRAGMA page_size = 65536; VACUUM",
    "PRAGMA auto_vacuum = 1; VACUUM",
    "VACUUM",
    "PRAGMA journal_mode = WAL",
    "REINDEX",
    "CREATE TABLE gone (x); INSERT INTO gone VALUES (zeroblob(20000)); DROP TABLE gone",
)


# --- runs ----------------------------------------------------------------------------------------------------


def forged_runs(path: Path, chance: random.Random) -> Iterator[Forgery]:
    """All forgeries of a run's file, in an order that the seed chooses; rows and some values are drawn as well."""
    found = [
        *_fields(path, chance), *_rows(path, chance), *_blocks(path, chance), *_promises(path, chance),
        *_heads(path, chance), *_tables(), *_layouts(), *_environments(path),
    ]  # fmt: skip
    return mixed(found, chance)


def mixed(found: list[Forgery], chance: random.Random) -> Iterator[Forgery]:
    """In an order that the seed chooses, in which each group of kinds comes as often as the others while it lasts."""
    chance.shuffle(found)
    ranks: Counter[str] = Counter()
    ranked = []
    for each in found:
        ranks[each.group] += 1
        ranked.append((ranks[each.group], each))
    return (each for _, each in sorted(ranked, key=lambda pair: pair[0]))


def rows_of(path: Path) -> object:
    """Everything that the file holds, its tables included; None if SQLite cannot tell."""
    try:
        with closing(sqlite3.connect(path)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = {
                table: [(row, [*map(type, row)]) for row in db.execute(f"SELECT * FROM {table}")] for table in tables
            }
            return rows, db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    except sqlite3.Error:
        return None


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """For a forger: several statements, one transaction, no foreign keys; the file is whole afterwards."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA journal_mode = MEMORY")
        db.execute("BEGIN")
        try:
            yield db
        except BROKEN as error:
            raise InapplicableError(str(error)) from error
        db.execute("COMMIT")


def _columns(path: Path) -> list[tuple[str, str, str, str]]:
    """Table, its key, column and the column's declared kind, for all tables."""
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = []
        for table in tables:
            info = list(db.execute(f"PRAGMA table_info({table})"))
            key = ", ".join(name for _, name, *_, key in info if key)
            found += [(table, key, name, kind) for _, name, kind, *_ in info]
        return found


def _some_rows(path: Path, table: str, key: str, columns: str, chance: random.Random, most: int) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(f"SELECT {columns}, {key} FROM {table} ORDER BY {key}").fetchall()
    return chance.sample(rows, min(most, len(rows)))


#: What a consistent forger would compute anew, and so undo.
UNDONE = (("certificates", "digest"), ("alone", "place"), ("alone", "first"))


def _fields(path: Path, chance: random.Random) -> Iterator[Forgery]:
    """Every column of every table, in some rows, with every other value."""
    for table, key, column, kind in _columns(path):
        if table == "run" and column == "value":
            continue  # by name: `_heads` and `_promises`
        for old, *where in _some_rows(path, table, key, column, chance, 2):
            values = others(old, chance)
            if column in ("votes", "selection", "estimation"):
                values = other_votes(old, chance)
            elif column == "looks" and old is not None:
                values = other_looks(old, chance)
            elif kind == "BLOB" and column != "digest" and old is not None:
                values = other_bitmaps(old, chance)
            undone = (table, column) in UNDONE
            for new in values:
                for level in (NAIVE,) if undone else (NAIVE, CONSISTENT):
                    make = _field(table, key, tuple(where), column, new, level == CONSISTENT)
                    detail = f"{where}: {old!r:.40} -> {new!r:.40}"
                    yield Forgery(f"{table}.{column}", level, detail, make, _places(table, where))


def _field(
    table: str, key: str, where: tuple[object, ...], column: str, new: object, repair: bool
) -> Callable[[Path], None]:
    same = f"({key}) = ({', '.join('?' * len(where))})"

    def make(path: Path) -> None:
        if new is None:
            _without_constraints(path, table, f"UPDATE {table} SET {column} = NULL WHERE {same}", where)
        with opened(path) as db:
            before = db.execute(f"SELECT {column} FROM {table} WHERE {same}", where).fetchone()
            if new is not None:
                db.execute(f"UPDATE {table} SET {column} = ? WHERE {same}", (new, *where))
                after = db.execute(f"SELECT {column} FROM {table} WHERE {same}", where).fetchone()
                if after is not None and (type(after[0]), after) == (type(before[0]), before):
                    raise InapplicableError("the same value")
            if repair:
                if (table, column) in (("blocks", "votes"), ("blocks", "hits")):
                    _fit_bitmap(db, where, column)
                reissue(db, fixed=table == "certificates")

    return make


def _without_constraints(path: Path, table: str, statement: str, values: tuple[object, ...]) -> None:
    """Past SQLite's NOT NULL: the table's text is changed, the statement made, the text put back."""
    with closing(sqlite3.connect(path)) as db:
        (text,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    change = "UPDATE sqlite_master SET sql = ? WHERE name = ?"
    for sql, step, given in ((text.replace("NOT NULL", ""), None, ()), (None, statement, values), (text, None, ())):
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = MEMORY")
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA writable_schema = ON")
            try:
                if sql is not None:
                    db.execute(change, (sql, table))
                if step is not None and not db.execute(step, given).rowcount:
                    raise InapplicableError("no such row")
            except sqlite3.Error as error:
                raise InapplicableError(str(error)) from error


def _fit_bitmap(db: sqlite3.Connection, where: tuple[object, ...], column: str) -> None:
    """A block's bitmap with as many hits as its votes say, or its votes with as many as its bitmap."""
    place, purpose, first = where
    if purpose != Purpose.ESTIMATION:
        return
    same = "place = ? AND purpose = 1 AND first = ?"
    votes, packed, count = db.execute(f"SELECT votes, hits, count FROM blocks WHERE {same}", (place, first)).fetchone()
    counts, guess = counts_of(votes), _summed(db, place, Purpose.SELECTION).top
    if packed is None:
        return
    if column == "votes":
        wanted, bits = counts.classes[guess], hits_of(packed, count)
        for at in range(count):
            if bits.sum() != wanted:
                bits[at] = bits.sum() < wanted
        db.execute(f"UPDATE blocks SET hits = ? WHERE {same}", (packed_bits(bits), place, first))
        return
    hits, classes = int(hits_of(packed, count).sum()), list(counts.classes)
    other = max((c for c in range(len(classes)) if c != guess), key=lambda c: classes[c])
    classes[other] += classes[guess] - hits
    classes[guess] = hits
    if min(classes) < 0:
        raise InapplicableError("no votes to take away")
    new = votes_text(Counts(tuple(classes), counts.nobody))
    db.execute(f"UPDATE blocks SET votes = ? WHERE {same}", (new, place, first))


def _summed(db: sqlite3.Connection, place: object, purpose: Purpose) -> Counts:
    rows = db.execute("SELECT votes FROM blocks WHERE place = ? AND purpose = ?", (place, int(purpose)))
    found = [counts_of(votes) for (votes,) in rows]
    columns = zip(*(counts.classes for counts in found), strict=True)
    return Counts(tuple(map(sum, columns)), sum(counts.nobody for counts in found))


def rows_again(promise: Promise) -> int | None:
    """The promised number of rows to vote again, also of a promise that no program makes."""
    with suppress(ValueError):
        return promise.independence.rows
    return None


def reissue(db: sqlite3.Connection, fixed: bool = False) -> None:
    """Compute anew what follows from promise, blocks and rows alone; with `fixed`, only the digests of certificates."""
    held = dict(db.execute("SELECT name, value FROM run"))
    promise = Promise.of_text(held["promise"])
    db.execute("UPDATE run SET value = ? WHERE name = 'commitment'", (promise.commitment,))
    environments = {id: json.loads(text) for id, text in db.execute("SELECT id, text FROM environments")}
    fields = stored_fields(VERSION)
    names = [column.name for _, column in fields]
    query = f"SELECT place, number, truth, {', '.join(names)} FROM certificates JOIN images USING (place)"
    for place, number, truth, *cells in db.execute(query).fetchall():
        values = {field.name: column.value(cell) for (field, column), cell in zip(fields, cells, strict=True)}
        environment, lost, again = values["environment"], values["measured"], rows_again(promise)
        values["environment"] = environments.get(environment, {})
        values["measured"] = None if lost is None or again is None else Measurement(again, lost)
        new = Certificate(
            index=number, truth=truth, promise=promise, seed=held["seed"], nonce=held["nonce"], **values
        )  # fmt: skip
        if not fixed:
            new = _recounted(db, place, new, environment)
            cells = [column.cell(field.of(new)) for field, column in fields]
            cells[names.index("environment")] = environment
        digest = hashlib.sha256(new.to_json().encode()).digest()
        setting = ", ".join(f"{name} = ?" for name in (*names, "digest"))
        db.execute(f"UPDATE certificates SET {setting} WHERE place = ?", (*cells, digest, place))


def _recounted(db: sqlite3.Connection, place: int, old: Certificate, environment: int) -> Certificate:
    """The certificate that follows from the blocks and from the rows that were voted alone."""
    looked = _looked(db, place, old)
    counts = [_summed(db, place, purpose) for purpose in (Purpose.SELECTION, Purpose.ESTIMATION)]
    if looked is not None:
        counts = [looked.selection, looked.estimation]
        aborted = True if looked.missing else None
        old = dataclasses.replace(old, looks=looked.looks, aborted=aborted)
    secret = Secret(bytes.fromhex(old.seed), bytes.fromhex(old.nonce))
    lost = _realone(db, old.promise, secret, place, old.index, environment, counts[1].total)
    again = rows_again(old.promise)
    measured = None if lost is None or again is None else Measurement(again, lost)
    return recertified(dataclasses.replace(old, selection=counts[0], estimation=counts[1], measured=measured))


def _looked(db: sqlite3.Connection, place: int, old: Certificate) -> ImageVotes | None:
    """What the blocks say of the looks that were taken, where looks are promised. An image whose blocks end before the
    promised rule ends it was ended from outside, and the forger says so.
    """
    settings = promised_settings(old.promise.values)
    if settings.looks is None:
        return None
    (size,) = db.execute("SELECT value FROM run WHERE name = 'block'").fetchone()
    rows = db.execute("SELECT purpose, first, count, votes FROM blocks WHERE place = ?", (place,))
    there = {VoteBlock(Purpose(purpose), first, count): counts_of(votes) for purpose, first, count, votes in rows}
    return image_votes(settings, vote_rounds(settings, int(size)), old.truth, there)


def recertified(old: Certificate) -> Certificate:
    """The certificate that follows from its own counts, looks and rows, under its own promise and key."""
    settings, law = promised_settings(old.promise.values), promised_law(old.promise.values)
    secret, paid = Secret(bytes.fromhex(old.seed), bytes.fromhex(old.nonce)), due(old.promise, old.paid)
    looks = None if settings.looks is None else old.looks
    coin = secret.coin(old.promise, old.index) if BOUNDS[settings.bound].coin else None
    found = certify(old.selection, old.estimation, law, settings, old.measured, paid, looks, coin)
    return dataclasses.replace(old, **dataclasses.asdict(found), paid=paid, looks=looks, coin=coin)


def due(promise: Promise, paid: float | None) -> float | None:
    """What a forger pays under this promise: what was paid, or something that is always possible."""
    if "given" not in promise.values:
        return None
    law = promised_law(promise.values)
    size = math.prod(map(int, promise.values["input shape"].split()))
    return price_above(Fraction(0), law.grid.tolerance, size) if paid is None else paid


def _realone(
    db: sqlite3.Connection, promise: Promise, secret: Secret, place: int, number: int, environment: int, copies: int
) -> int | None:
    """Rows alone as promise, key and bitmaps name them: what is stored is kept where it fits, the others are kept."""
    blocks = [
        (VoteBlock(Purpose(purpose), first, count), hits)
        for purpose, first, count, hits in db.execute(
            "SELECT purpose, first, count, hits FROM blocks WHERE place = ? ORDER BY purpose, first", (place,)
        )
    ]
    drawn = sample_rows(secret, promise, number, copies)
    if drawn is None:
        return None
    wanted, lost = rows_by_block(drawn, blocks), 0
    stored = dict(db.execute("SELECT first, kept FROM alone WHERE place = ?", (place,)))
    for first in stored.keys() - {block.first for block in wanted}:
        db.execute("DELETE FROM alone WHERE place = ? AND first = ?", (place, first))
    for block, hits in wanted.items():
        try:
            bits = hits_of(stored[block.first], len(hits))
        except (KeyError, ValueError):
            bits = np.ones(len(hits), bool)
            row = (place, block.first, packed_bits(bits), environment, 0.5)
            db.execute("INSERT OR REPLACE INTO alone VALUES (?, ?, ?, ?, ?)", row)
        lost += drawn.inside(block).lost(hits, bits)
    return lost


def _rows(path: Path, chance: random.Random) -> Iterator[Forgery]:
    """Rows that are gone, doubled under another key, or have changed places."""
    for table, key in dict.fromkeys((table, key) for table, key, *_ in _columns(path)):
        names = [column for name, _, column, _ in _columns(path) if name == table]
        keys = key.split(", ")
        same = f"({key}) = ({', '.join('?' * len(keys))})"
        for _, *where in _some_rows(path, table, key, "1", chance, 4):
            for level in (NAIVE, CONSISTENT):
                gone = _statements(level == CONSISTENT, (f"DELETE FROM {table} WHERE {same}", where))
                yield Forgery(f"row of {table} gone", level, str(where), gone, _places(table, where))
                for added in ("1000", "1", "-1", "0.5", "-1000", "1e18"):
                    other = f"{keys[-1]} || '{added}'" if table in ("run", "owners") else f"{keys[-1]} + {added}"
                    copied = ", ".join(other if name == keys[-1] else name for name in names)
                    twice = f"INSERT INTO {table} SELECT {copied} FROM {table} WHERE {same}"
                    make = _statements(level == CONSISTENT, (twice, where))
                    yield Forgery(f"row of {table} added", level, f"{where} + {added}", make, _places(table, where))
        for column in names:
            rows = _some_rows(path, table, key, column, chance, 2)
            if column in keys or len(rows) < 2 or rows[0][0] == rows[1][0]:
                continue
            (one, *where), (two, *where2) = rows
            update = f"UPDATE {table} SET {column} = ? WHERE {same}"
            for level in (NAIVE, CONSISTENT):
                make = _statements(level == CONSISTENT, (update, (two, *where)), (update, (one, *where2)))
                both = _places(table, where) + _places(table, where2)
                yield Forgery(f"{table}.{column} exchanged", level, f"{where} with {where2}", make, both)


def _places(table: str, where: Sequence[object]) -> tuple[object, ...]:
    return (where[0],) if table in ("images", "blocks", "alone", "certificates") else ()


def _statements(repair: bool, *statements: tuple[str, Sequence[object]], fixed: bool = False) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with opened(path) as db:
            if not sum(db.execute(statement, tuple(values)).rowcount for statement, values in statements):
                raise InapplicableError("no such row")
            if repair or fixed:
                reissue(db, fixed)

    return make


def _blocks(path: Path, chance: random.Random) -> Iterator[Forgery]:
    """Whole blocks and images: all votes for one class, votes exchanged, a certificate that claims less."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT place, purpose, first, votes FROM blocks ORDER BY place, purpose, first").fetchall()
        places = [place for (place,) in db.execute("SELECT place FROM images ORDER BY place")]
    classes = range(len(counts_of(rows[0][3]).classes))
    some = chance.sample([(row[:3], row[3]) for row in rows], 8)
    for where, votes in some:
        for label in classes:
            make = _all_for(label, where)
            yield Forgery("block's votes", CONSISTENT, f"{where}: all for {label}", make, where[:1])
        for where2, votes2 in some:
            if votes2 != votes and where[1] == where2[1]:
                exchanged = _exchanged(where, where2)
                both = (where[0], where2[0])
                yield Forgery("blocks exchanged", CONSISTENT, f"{where} and {where2}", exchanged, both)
    for one in places:
        blocks = [row[:3] for row in rows if row[0] == one]
        for label in classes:
            yield Forgery("image's votes", CONSISTENT, f"{one}: all for {label}", _all_for(label, *blocks), (one,))
        gone = ("DELETE FROM certificates WHERE place = ?", (one,))
        for state, error in ((0, None), (2, "no")):
            update = "UPDATE images SET state = ?, attempts = ?, error = ? WHERE place = ?"
            make = _statements(True, gone, (update, (state, state, error, one)))
            yield Forgery("certificate left out", CONSISTENT, f"{one}: state {state}", make, (one,))
        for factor in (0.5, 0.999999, 0.0, 1.000001, 2.0):
            update = "UPDATE certificates SET radius = radius * ? WHERE place = ? AND radius > 0"
            make = _statements(False, (update, (factor, one)), fixed=True)
            kind = "smaller radius" if factor < 1 else "larger radius"
            yield Forgery(kind, CONSISTENT, f"{one}: times {factor}", make, (one,))
        for other in places[one + 1 :]:
            steps = [
                ("UPDATE blocks SET place = ? WHERE place = ?", pair) for pair in ((-1, one), (one, other), (other, -1))
            ]
            make = _statements(True, *steps)
            yield Forgery("image's blocks exchanged", CONSISTENT, f"{one} and {other}", make, (one, other))


def _all_for(label: int, *blocks: tuple[int, int, int]) -> Callable[[Path], None]:
    """All copies of these blocks of one image vote for the label, and everything fits."""

    def make(path: Path) -> None:
        with opened(path) as db:
            changed = 0
            for where in blocks:
                (votes, count) = db.execute(f"SELECT votes, count FROM blocks WHERE {BLOCK}", where).fetchone()
                classes = len(counts_of(votes).classes)
                new = votes_text(Counts(tuple(count if c == label else 0 for c in range(classes)), 0))
                changed += new != votes
                db.execute(f"UPDATE blocks SET votes = ? WHERE {BLOCK}", (new, *where))
            if not changed:
                raise InapplicableError("the same votes")
            _fit_bitmaps(db, blocks[0][0])
            reissue(db)

    return make


def _exchanged(one: tuple[int, int, int], two: tuple[int, int, int]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with opened(path) as db:
            query = f"SELECT votes, hits FROM blocks WHERE {BLOCK}"
            first, second = (db.execute(query, where).fetchone() for where in (one, two))
            for where, held in ((one, second), (two, first)):
                db.execute(f"UPDATE blocks SET votes = ?, hits = ? WHERE {BLOCK}", (*held, *where))
            for place in {one[0], two[0]}:
                _fit_bitmaps(db, place)
            reissue(db)

    return make


def _fit_bitmaps(db: sqlite3.Connection, place: int) -> None:
    for where in db.execute("SELECT place, purpose, first FROM blocks WHERE place = ?", (place,)).fetchall():
        _fit_bitmap(db, where, "votes")


def _promises(path: Path, chance: random.Random) -> Iterator[Forgery]:
    """Every line of the promise with other values; lines that are gone, doubled, added, exchanged; other line ends."""
    with closing(sqlite3.connect(path)) as db:
        (text,) = db.execute("SELECT value FROM run WHERE name = 'promise'").fetchone()
    title, *lines = text.splitlines()
    for at, line in enumerate(lines):
        name, _, old = line.partition(": ")
        values = [v for v in (*LINES[name], *other_texts(old, chance)) if isinstance(v, str) and v != old]
        for new in values:
            changed = "\n".join([title, *lines[:at], f"{name}: {new}", *lines[at + 1 :], ""])
            yield from _promised(f"promise: {name}", f"{old:.40} -> {new:.40}", changed)
        for what, some in (
            ("gone", lines[:at] + lines[at + 1 :]),
            ("twice", [*lines[: at + 1], line, *lines[at + 1 :]]),
            ("last", [*lines[:at], *lines[at + 1 :], line]),
            ("renamed", [*lines[:at], f"{name}s: {old}", *lines[at + 1 :]]),
            ("unknown line", [*lines[:at], f"kernels {at}: v7", *lines[at:]]),
        ):
            if some != lines:
                yield from _promised("promise's lines", f"{name}: {what}", "\n".join([title, *some, ""]))
    yield from _added_lines(title, dict(line.split(": ", 1) for line in lines))
    for what, changed in (
        ("CRLF", text.replace("\n", "\r\n")), ("no last line end", text[:-1]), ("one more", text + "\n"),
        ("other title", text.replace("v1", "v2", 1)), ("no title", text.partition("\n")[2]), ("title", title + "\n"),
        ("separator", text.replace("\n", "\u2028")), ("tab", text.replace(": ", ":\t")), ("mark", "\ufeff" + text),
        ("vertical tab", text.replace("\n", "\v")), ("null", text + "\0"),
    ):  # fmt: skip
        yield from _promised("promise's lines", what, changed)


def _added_lines(title: str, values: dict[str, str]) -> Iterator[Forgery]:
    for name, more in with_another_line(values):
        text = "\n".join([title, *(f"{each}: {line}" for each, line in more.items()), ""])
        yield from _promised("promise's lines", f"{name} added: {more[name]:.40}", text)


def with_another_line(values: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Promises with a line that this one does not have, in its place; and the name of the line."""
    for name in OPTIONAL:
        for new in () if name in values else LINES[name]:
            more = {**values, name: new}
            yield name, {each: more[each] for each in (*FIELDS, *OPTIONAL) if each in more}


def _promised(kind: str, detail: str, text: str) -> Iterator[Forgery]:
    for level in (NAIVE, CONSISTENT):

        def make(path: Path, level: str = level) -> None:
            with opened(path) as db:
                db.execute("UPDATE run SET value = ? WHERE name = 'promise'", (text,))
                if level == CONSISTENT:
                    made = hashlib.sha256(text.encode()).hexdigest()
                    db.execute("UPDATE run SET value = ? WHERE name = 'commitment'", (made,))
                    with suppress(*BROKEN):  # the arithmetic of an impossible promise
                        reissue(db)

        yield Forgery(kind, level, detail, make)


def _heads(path: Path, chance: random.Random) -> Iterator[Forgery]:
    """Every fact about the run but the promise. A consistent forger promises the digest of the seed that he names."""
    with closing(sqlite3.connect(path)) as db:
        held = dict(db.execute("SELECT name, value FROM run"))
    more = {
        "block": ("1", "2", "5", "10", "20", "40", "100", "1000000", "010", "10.0", "1e1", "-10", "0", "9" * 400),
        "votes": ("kept", "left out", "Kept", "kept "),
        "nonce": ("", "cd" * 32, "AB" * 32, "ab" * 31),
        "seed": ("00" * 32, "FF" * 32, "ff" * 32),
    }
    for name, old in held.items():
        if name == "promise":
            continue
        for new in (*more.get(name, ()), *other_texts(old, chance)):
            if new == old:
                continue
            for level in (NAIVE, CONSISTENT):
                yield Forgery(f"run: {name}", level, f"{old:.30} -> {new!r:.30}", _head(name, new, level == CONSISTENT))


def _head(name: str, new: object, repair: bool) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        if new is None:
            _without_constraints(path, "run", "UPDATE run SET value = NULL WHERE name = ?", (name,))
        with opened(path) as db:
            if new is not None:
                db.execute("UPDATE run SET value = ? WHERE name = ?", (new, name))
            if repair:
                if name == "seed":
                    (text,) = db.execute("SELECT value FROM run WHERE name = 'promise'").fetchone()
                    digest = hashlib.sha256(bytes.fromhex(str(new))).hexdigest()
                    text = text[: text.index("\nseed: ") + 7] + digest + "\n"
                    db.execute("UPDATE run SET value = ? WHERE name = 'promise'", (text,))
                if name == "votes" and new == "left out":
                    db.execute("UPDATE blocks SET hits = NULL")
                if name == "block":
                    _reblock(db, int(str(new)))
                if name != "commitment":
                    reissue(db)

    return make


def _reblock(db: sqlite3.Connection, size: int) -> None:
    """The same votes in blocks of another size, where that can be told from the bitmaps: the others are nobody's."""
    if not 1 <= size <= 1000:
        raise InapplicableError("no such blocks")
    for place, purpose in db.execute("SELECT DISTINCT place, purpose FROM blocks").fetchall():
        rows = db.execute(
            "SELECT first, count, votes, hits, environment, seconds FROM blocks WHERE place = ? AND purpose = ? "
            "ORDER BY first", (place, purpose),
        ).fetchall()  # fmt: skip
        guess, classes = _summed(db, place, Purpose.SELECTION).top, len(counts_of(rows[0][2]).classes)
        labels: list[int] = []
        for _, count, votes, hits, *_ in rows:
            counts = counts_of(votes)
            rest = [c for c in range(-1, classes) for _ in range((counts.nobody, *counts.classes)[c + 1])]
            if hits is not None:
                rest = [c for c in rest if c != guess]
                rest = [guess if hit else rest.pop() for hit in hits_of(hits, count)]
            labels += rest
        db.execute("DELETE FROM blocks WHERE place = ? AND purpose = ?", (place, purpose))
        for first in range(0, len(labels), size):
            some = labels[first : first + size]
            counts = Counts(tuple(some.count(c) for c in range(classes)), some.count(-1))
            kept = None if rows[0][3] is None else packed_bits(np.array(some) == guess)
            row = (place, purpose, first, len(some), votes_text(counts), kept, *rows[0][4:])
            db.execute("INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def _tables() -> Iterator[Forgery]:
    for statements in TABLES:
        yield Forgery("tables", NAIVE, statements, _script(statements))
    for column, old, new in REWRITTEN:
        for name in ("run", "images", "blocks", "certificates", "environments", "owners", "findings", "open_images"):
            yield Forgery("tables", NAIVE, f"{name}: {column} {old} -> {new}", _rewrite(name, column, old, new))


def _script(statements: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA journal_mode = MEMORY")
            try:
                db.executescript(statements)
            except sqlite3.Error as error:
                raise InapplicableError(str(error)) from error

    return make


def _rewrite(name: str, column: str, old: str, new: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("PRAGMA journal_mode = MEMORY")
            db.execute("PRAGMA writable_schema = ON")
            changed = db.execute(
                f"UPDATE sqlite_master SET {column} = replace({column}, ?, ?) WHERE name = ? AND instr({column}, ?)",
                (old, new, name, old),
            ).rowcount
            if not changed:
                raise InapplicableError("no such text")

    return make


def _layouts() -> Iterator[Forgery]:
    """The same rows in another file, other helper files, and a forged row that only the log has."""
    for statements in LAYOUTS:
        yield Forgery("layout", NAIVE, statements, _layout(statements))
    for encoding in ("UTF-16le", "UTF-16be"):
        yield Forgery("layout", NAIVE, encoding, _encoded(encoding))
    for added in (b"\0", b"text", bytes(4096), bytes(512)):
        yield Forgery("layout", NAIVE, f"{len(added)} bytes after the end", _appended("", added))
    for suffix in ("-wal", "-shm", "-journal"):
        for added in (b"", b"text", bytes(32), bytes(5000), b"\x37\x7f\x06\x82" + bytes(60)):
            yield Forgery("files beside it", NAIVE, f"{suffix}: {added[:8]!r}", _appended(suffix, added))
    updates = (
        "UPDATE certificates SET radius = radius + 1", "UPDATE images SET truth = 1", "DELETE FROM blocks",
        "UPDATE run SET value = 'x' WHERE name = 'nonce'", "UPDATE findings SET text = 'x'", "DELETE FROM owners",
        "UPDATE images SET attempts = 1, error = 'x'", "UPDATE certificates SET seconds = 5.0", "CREATE TABLE more (x)",
    )  # fmt: skip
    for update in updates:
        for damage in (None, 0, 24, -1):
            yield Forgery("log", NAIVE, f"{update}, byte {damage} of the log changed", _logged(update, damage))
    for at, what in (
        (18, "version"),
        (19, "version"),
        (20, "reserved"),
        (21, "payload"),
        (24, "counter"),
        (28, "size"),
    ):
        for value in (0, 1, 2, 3, 200, 255):
            yield Forgery("layout", NAIVE, f"{what}: byte {at} is {value}", _byte(at, value))


def _layout(statements: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
            db.executescript(statements)

    return make


def _encoded(encoding: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        other = path.with_name("encoded.db")
        with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(other, isolation_level=None)) as new:
            new.execute(f"PRAGMA encoding = '{encoding}'")
            new.executescript(SCHEMA)
            for (table,) in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for row in old.execute(f"SELECT * FROM {table}"):
                    new.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
            for name in ("application_id", "user_version"):
                new.execute(f"PRAGMA {name} = {old.execute(f'PRAGMA {name}').fetchone()[0]}")
        other.replace(path)

    return make


def _appended(suffix: str, added: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with path.with_name(path.name + suffix).open("ab") as file:
            file.write(added)

    return make


def _byte(at: int, value: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        held = bytearray(path.read_bytes())
        if held[at] == value:
            raise InapplicableError("the same byte")
        held[at] = value
        path.write_bytes(held)

    return make


def _logged(update: str, damage: int | None) -> Callable[[Path], None]:
    """The change is in the log alone; then one byte of that may be another one."""

    def make(path: Path) -> None:
        log = path.with_name(path.name + "-wal")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA wal_autocheckpoint = 0")
            whole = path.read_bytes()
            db.execute(update)
            kept = bytearray(log.read_bytes())
        if not kept:
            raise InapplicableError("nothing to change")
        path.write_bytes(whole)
        if damage is not None:
            kept[damage] ^= 1
        log.write_bytes(kept)

    return make


def _environments(path: Path) -> Iterator[Forgery]:
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT id, text FROM environments").fetchall()
    for id, text in rows:
        held = json.loads(text)
        name = next(iter(held))
        for new in (
            {**held, "more": "1"}, {}, {**held, name: "9"}, {**held, name: 1}, {**held, name: None}, {name: True},
            {**held, name: [1]}, {**held, name: math.nan}, [held], dict(reversed(held.items())), {**held, "é": "ü"},
        ):  # fmt: skip
            for level in (NAIVE, CONSISTENT):
                make = _field(
                    "environments", "id", (id,), "text", json.dumps(new, ensure_ascii=False), level == CONSISTENT
                )
                yield Forgery("environments.text", level, f"{new!r:.60}", make)
        for odd in (text[:-1] + f', "{name}": "9"}}', '{"a": "\\ud800"}', text + "x", " " + text, '{"a": 1e999}'):
            for level in (NAIVE, CONSISTENT):
                make = _field("environments", "id", (id,), "text", odd, level == CONSISTENT)
                yield Forgery("environments.text", level, f"{odd:.60}", make)


# --- certificates as JSON ------------------------------------------------------------------------------------


def forged_records(path: Path, chance: random.Random) -> Iterator[Forgery]:
    """All forgeries of a file of certificates, .jsonl or .json, in an order that the seed chooses."""
    return mixed([*_record_fields(path, chance), *_lines(path)], chance)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Everything in a record that holds nothing else; and what does, too."""
    yield path, value
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))


def _record_fields(path: Path, chance: random.Random) -> Iterator[Forgery]:
    lines = path.read_text(encoding="utf-8").splitlines()
    at = chance.randrange(len(lines))
    record = json.loads(lines[at])
    for name, new in ADDED:
        for level in (NAIVE, CONSISTENT) if name not in record else ():
            yield Forgery(
                f"record: {name}", level, f"{new!r:.40} added", _record(at, (name,), new, level == CONSISTENT)
            )
    for where, old in leaves(record):
        if not where:
            continue
        name = ".".join(str(step) for step in where if not isinstance(step, int))
        for new in _json_values(where, old, chance):
            if type(new) is type(old) and new == old:
                continue
            for level in (NAIVE, CONSISTENT):
                make = _record(at, where, new, level == CONSISTENT)
                yield Forgery(f"record: {name}", level, f"{old!r:.40} -> {new!r:.40}", make)
        for level in (NAIVE, CONSISTENT):
            yield Forgery(f"record: {name}", level, "gone", _record(at, where, GONE, level == CONSISTENT))
            if isinstance(old, dict):
                more = _record(at, (*where, "more"), 1, level == CONSISTENT)
                yield Forgery(f"record: {name}", level, "a field more", more)


GONE = object()
#: Fields that a record has or has not.
ADDED: tuple[tuple[str, Any], ...] = (
    *(("looks", looks) for looks in (None, [], [[200, 200, 0]], [[0, 0, 0]], [[100, 90, 10], [200, 190, 10]], "[]")),
    *(("aborted", mark) for mark in (True, False, None, 0, 1, "true")),
    *(("coin", word) for word in ("0" * 16, "f" * 16, "0", None, 0)),
    *(("measured", rows) for rows in (None, {"rows": 60, "lost": 0}, {})),
    *(("paid", price) for price in (None, {"hex": "0x0.0p+0", "decimal": "0.000000000"})),
)


def _json_values(where: tuple[Any, ...], old: Any, chance: random.Random) -> Iterator[Any]:
    yield from (None, True, False, [], {}, [old], {"hex": old}, math.nan, math.inf, -math.inf, 10**400)
    yield from other_lists(old) if isinstance(old, list) else ()
    yield from (more for _, more in with_another_line(old)) if where == ("promise",) else ()
    if isinstance(old, int):
        yield from (old + 1, old - 1, -1, float(old), old + 0.5, str(old), 1 << 64, (1 << 64) - 1, (1 << 63) - 1, 0, 1)
    elif isinstance(old, float):
        yield from (old * 2, -old, -0.0, 0, 1, 5e-324, 1.7e308, str(old))
    elif isinstance(old, str):
        yield from (text for text in other_texts(old, chance) if not isinstance(text, bytes))
        yield from ("\ud800", old + "\ud800")
        yield from LINES.get(where[-1], ()) if where[0] == "promise" else ()
        if where[-1] == "hex":
            value = float.fromhex(old)
            yield from (
                math.nextafter(value, 9).hex(),
                math.nextafter(value, -9).hex(),
                (value / 2).hex(),
                "nan",
                "inf",
            )
            yield from ("0x1p-1", "0x1.0p-1", "0x1p+9", "-0x0p+0", old.upper(), f" {old}", "0.25")
        if where[-1] == "decimal":
            yield from ("0.000000000", "9.000000000", old + "0", old[:-1], "nan", "-1", "1e-9")


def _record(at: int, where: tuple[Any, ...], new: object, repair: bool) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        record = json.loads(lines[at])
        inner = record
        for key in where[:-1]:
            inner = inner[key]
        if new is GONE:
            del inner[where[-1]]
        else:
            inner[where[-1]] = new
        if repair and where != ("checksum",):
            record = _refitted(record, where)
        if json.dumps(record) == json.dumps(json.loads(lines[at])):
            raise InapplicableError("computed anew, it is the same record")
        lines[at] = json.dumps(record, ensure_ascii=any("\\ud" in repr(part) for part in (new,)))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    return make


def _refitted(record: dict[str, Any], where: tuple[Any, ...]) -> dict[str, Any]:
    """What follows from the forged field computed anew, as far as that is possible; the checksum always."""
    with suppress(*BROKEN):
        if where[0] in ("promise", "selection", "estimation", "measured", "paid", "looks", "seed", "nonce"):
            if where[0] == "seed":
                record["promise"]["seed"] = hashlib.sha256(bytes.fromhex(record["seed"])).hexdigest()
            made = recertified(_fitted(Certificate.from_dict(record), where[0])).to_dict()
            optional = {field.name for field in CERTIFICATE if field.omitted}
            record = {**made, **{name: value for name, value in record.items() if name not in (*made, *optional)}}
    with suppress(*BROKEN):
        record["checksum"] = checksum(record)
    return record


def _fitted(read: Certificate, forged: str) -> Certificate:
    """With measurement and looks that fit the promise and the counts, as far as those are not forged themselves."""
    again = rows_again(read.promise)
    measured = None if again is None else Measurement(again, read.measured.lost if read.measured else 0)
    looks = read.looks
    if looks and forged in ("selection", "estimation"):
        looks = (*looks[:-1], read.estimation.look(read.selection.top))
    if looks is None and "looks" in read.promise.values:
        looks = (read.estimation.look(read.selection.top),)
    return dataclasses.replace(read, measured=measured, looks=looks)


def _lines(path: Path) -> Iterator[Forgery]:
    """The file as a whole: lines gone, doubled, exchanged, cut; text between and after them; other encodings."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    first = lines[0].strip()
    name, rest = first[1:].split(",", 1)
    changes: list[tuple[str, str | bytes]] = [
        ("CRLF", text.replace("\n", "\r\n")), ("CR", text.replace("\n", "\r")), ("mark", "\ufeff" + text),
        ("UTF-16", text.encode("utf-16")), ("Latin-1", text.encode() + b"\xff"), ("null", text + "\0"), ("empty", ""),
        ("spaces", "  \n\n"), ("blank lines", "\n \n" + text + "\n\n"), ("text after", text + "and more\n"),
        ("object after", text + "{}\n"), ("null after", text + "null\n"), ("two on a line", first + first + "\n"),
        ("two in a list", f"[{first}, {first}]"), ("in a list", f"[{first}]"), ("in an object", f'{{"a": {first}}}'),
        ("comma", text.replace("}", "},")), ("comment", f"// {text}"), ("half", text[: len(text) // 2]),
        ("two names", f"{{{name}, {name}, {rest}\n"), ("single quotes", text.replace('"', "'")),
        ("spaces after", text + " " * 1000), ("a record after spaces", first + " " * 1000 + first),
        ("separators", text.replace(",", "\u2028,")), ("much text after", first.ljust((1 << 24) + 1) + "{}"),
        ("deep", "[" * DEEP), ("deep and closed", "[" * DEEP + "]" * DEEP), ("long line", first.ljust(1 << 20)),
    ]  # fmt: skip
    for number, line in enumerate(lines):
        changes += [
            (f"line {number} gone", "".join(lines[:number] + lines[number + 1 :])),
            (f"line {number} twice", text + line),
            (f"line {number} cut", "".join([*lines[:number], line[: len(line) // 2], "\n", *lines[number + 1 :]])),
            (f"line {number} first", "".join([line, *lines[:number], *lines[number + 1 :]])),
        ]
    for depth in range(900, 1000, 4):
        nested = "[" * depth + "]" * depth
        for field in ("label", "index", "seconds", "environment"):
            record = {**json.loads(first), field: "HERE"}
            changes.append((f"{field} nested {depth} deep", json.dumps(record).replace('"HERE"', nested)))
    for what, changed in changes:
        if changed not in (text, text.encode()):
            yield Forgery("lines of the file", NAIVE, what, _written(changed))


def _written(content: str | bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return make
