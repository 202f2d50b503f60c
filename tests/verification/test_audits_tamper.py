"""Whoever changes anything is found out, or has changed nothing that matters.

The tests draw from the operating system: a failure is a finding, and names the seed that shows it again.
"""

import json
import math
import random
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from soundsmooth.certification.fields import checksum
from soundsmooth.runs.store import Store
from soundsmooth.verification import AuditInputs, Verification, audit_file
from soundsmooth.verification.content import TABLES
from verification.flips import flip, outcome
from verification.issuer import NONCE, issue, motley, packed, reported, small_run

MORE_FLIPS = pytest.mark.long("flips more bytes")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return motley(tmp_path_factory.mktemp("tamper") / "run.db")


@pytest.fixture(scope="module")
def record(run: Path) -> dict[str, Any]:
    with Store.read(run) as store:
        return next(c for c in store.certificates() if not c.abstained).to_dict()


@pytest.fixture(scope="module")
def before(run: Path) -> Verification:
    found = audit_file(run)
    assert not found.refuted
    return found


# --- every column of the store -------------------------------------------------------------------------------


def columns(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [(table, column[1]) for table in tables for column in db.execute(f"PRAGMA table_info({table})")]


def others(value: object) -> Iterator[object]:
    """Other values for a field, near and far, of its own kind and of others."""
    if isinstance(value, bool | None):
        yield from (0, 1, "text")
    elif isinstance(value, int):
        yield from (value + 1, value - 1, value + 1_000_000, None, "text", 0.5)
    elif isinstance(value, float):
        yield from (math.nextafter(value, 9), math.nextafter(value, -9), value + 1, math.inf, None, "text")
    elif isinstance(value, str):
        yield from (value + " ", value[:-1], value[:-1] + chr(ord(value[-1:] or " ") ^ 1), "", None, 5, "{}", "[]")
    elif isinstance(value, bytes):
        yield from (value[:-1], value + b"\0", bytes([value[0] ^ 1]) + value[1:], b"", None, 5, "text")


Change = tuple[str, str, tuple[object, ...], object, object]


def changes(path: Path) -> Iterator[Change]:
    """Table, column, key of the row, old and new value: every column, for up to three rows and several values."""
    with closing(sqlite3.connect(path)) as db:
        for table, column in columns(path):
            keys = ", ".join(name for _, name, *_, key in db.execute(f"PRAGMA table_info({table})") if key)
            rows = db.execute(f"SELECT {column}, {keys} FROM {table} ORDER BY {keys}").fetchall()
            some = rows if table == "run" else rows[:1] + rows[1:][len(rows) // 2 :][:1] + rows[1:][-1:]
            for old, *key in some:
                yield from ((table, column, (keys, *key), old, new) for new in others(old))


def change(path: Path, table: str, column: str, key: tuple[object, ...], new: object) -> bool:
    """Whether the file lets itself be changed."""
    names, *values = key
    marks = ", ".join("?" for _ in values)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        try:
            with db:
                db.execute(f"UPDATE {table} SET {column} = ? WHERE ({names}) = ({marks})", (new, *values))
        except sqlite3.IntegrityError:
            return False
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return True


@pytest.mark.slow("audits a run after each of many changes")
def test_every_column_of_every_table(run: Path, before: Verification, tmp_path: Path) -> None:
    """With the content hash noted every change is found, save for who is at work on the run at the moment.

    Without it, every change is found or leaves what is reported as it was.
    """
    victim, whole, tried = tmp_path / "run.db", run.read_bytes(), 0
    for table, column, key, old, new in changes(run):
        victim.write_bytes(whole)
        if not change(victim, table, column, key, new):
            continue
        tried, what = tried + 1, f"{table}.{column}: {old!r:.60} became {new!r:.60}"
        try:
            found = outcome(victim, before, AuditInputs())
        except AssertionError as error:
            raise AssertionError(what) from error
        assert (found == "unchanged") == (table not in TABLES), what
        if found == "immaterial":
            assert outcome(victim, before, AuditInputs(content=before.content)) == "refuted", what
    assert tried > 250


@pytest.mark.parametrize("table", ["images", "blocks", "certificates", "environments"])
def test_missing_rows(run: Path, before: Verification, table: str, tmp_path: Path) -> None:
    victim, whole = tmp_path / "run.db", run.read_bytes()
    for offset in (0, 2):
        victim.write_bytes(whole)
        with closing(sqlite3.connect(victim)) as db, db:
            gone = db.execute(
                f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET ?)",
                (offset,),
            ).rowcount
        if gone:
            assert outcome(victim, before, AuditInputs()) in ("refuted", "unreadable")


def test_tables_that_are_not_ours(run: Path, before: Verification, tmp_path: Path) -> None:
    for change in (
        "CREATE TABLE more (x)",
        "DROP INDEX open_images",
        "CREATE VIEW v AS SELECT 1",
        "PRAGMA user_version = 2",
        "PRAGMA user_version = 4",
    ):
        victim = tmp_path / "run.db"
        victim.write_bytes(run.read_bytes())
        with closing(sqlite3.connect(victim)) as db, db:
            db.execute(change)
        assert outcome(victim, before, AuditInputs()) == "unreadable"


def test_short_texts_that_name_many_classes(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of some kilobytes would fill gigabytes: a million classes in each of many blocks."""
    victim = tmp_path / "run.db"
    victim.write_bytes(run.read_bytes())
    with closing(sqlite3.connect(victim)) as db, db:
        db.execute("UPDATE blocks SET votes = replace(votes, '\"classes\":3', '\"classes\":1000') WHERE place = 0")
    monkeypatch.setattr("soundsmooth.verification.images.MOST_COUNTS", 10_000)
    assert "image 0: its 21 blocks count more classes than can be held in memory" in audit_file(victim).findings.texts


def test_nothing_that_other_tables_ask_for_is_computed(run: Path, tmp_path: Path) -> None:
    """SQLite's own check evaluates the constraints of all tables: here one that is broken, elsewhere one that lasts."""
    victim = tmp_path / "run.db"
    victim.write_bytes(run.read_bytes())
    with closing(sqlite3.connect(victim)) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute("CREATE TABLE more (x CHECK (length(hex(zeroblob(x))) = 0))")
        db.execute("INSERT INTO more VALUES (1000)")
    with pytest.raises(ValueError, match="its tables are not those of a run"):
        audit_file(victim)


# --- the content hash ----------------------------------------------------------------------------------------


def test_the_content_hash_knows_rows_and_nothing_else(run: Path, before: Verification, tmp_path: Path) -> None:
    victim = tmp_path / "run.db"
    victim.write_bytes(run.read_bytes())
    with closing(sqlite3.connect(victim)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA page_size = 1024")
        db.execute("VACUUM")  # another layout, page by page
        db.execute("DELETE FROM claims")
        db.execute("DELETE FROM owners")
        db.commit()
    assert victim.read_bytes() != run.read_bytes()
    assert audit_file(victim).content == before.content
    with closing(sqlite3.connect(victim)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("INSERT INTO owners VALUES ('you', 'there', 'boot', 1, 'now', 1.0)")
        db.commit()  # only the log knows of it so far
        assert victim.with_name("run.db-wal").stat().st_size > 0
        assert audit_file(victim).content == before.content


# --- random bytes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flips", [1000, pytest.param(2000, marks=MORE_FLIPS)])
@pytest.mark.slow("audits a run after each of many flips")
def test_random_bytes_of_the_store(flips: int, tmp_path: Path) -> None:
    """0.37 of the changes make it unreadable and 0.10 are refuted (measured). The margins are 5 deviations or more,
    which is 1e-7, and 7 for the longer form.
    """
    seed = secrets.randbits(64)
    path = packed(issue(tmp_path / "run.db", small_run([1, 3], n=100)))
    found = flip(path, flips, AuditInputs(), random.Random(seed))
    assert found.total() == flips, seed
    assert found["unreadable"] > flips / 10
    assert found["refuted"] > flips / 20


@pytest.mark.parametrize("flips", [2000, pytest.param(10_000, marks=MORE_FLIPS)])
@pytest.mark.slow("audits a certificate after each of many flips")
def test_random_bytes_of_a_certificate(flips: int, record: dict[str, Any], tmp_path: Path) -> None:
    """All but 0.001 of the changes are found (measured): 60 deviations."""
    seed = secrets.randbits(64)
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
    found = flip(path, flips, AuditInputs(), random.Random(seed))
    assert found["unreadable"] + found["refuted"] > 0.95 * flips, seed  # the rest: spaces, and é for \u00e9


# --- every field of a certificate ----------------------------------------------------------------------------

#: What no arithmetic can know, where somebody changes the checksum too. The data settles the first two, a note of the
#: nonce the third; the others claim nothing.
UNKNOWABLE = {"index", "truth", "nonce", "key", "seconds", "environment"}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def changed(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(record))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def finds(record: dict[str, Any], path: Path, noted: AuditInputs = AuditInputs()) -> bool:  # noqa: B008
    path.write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
    return audit_file(path, noted).refuted


def test_every_field_of_a_certificate(record: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "certificate.json"
    assert not finds(record, file)
    tried = 0
    for path, old in leaves(record):
        for value in others(old):
            if isinstance(value, float) and math.isinf(value):
                continue
            assert finds(changed(record, path, value), file), (path, value)
            tried += 1
    for name in record:
        assert finds({key: value for key, value in record.items() if key != name}, file), name
    assert finds({**record, "more": 1}, file)
    assert tried > 300


def test_every_field_of_a_certificate_and_its_checksum(record: dict[str, Any], tmp_path: Path) -> None:
    file, missed = tmp_path / "certificate.json", set()
    noted = AuditInputs(commitment=record["commitment"], nonce=NONCE)
    for path, old in leaves(record):
        if path == ("checksum",):
            continue
        for value in others(old):
            other = changed(record, path, value)
            other["checksum"] = checksum(other)
            if not finds(other, file):
                missed.add(path[0])
            if path[0] in ("nonce", "key", "commitment"):
                assert finds(other, file, noted), (path, value)
    assert missed <= UNKNOWABLE | {"radius", "p_lower"}  # a smaller radius is sound, and said to be unusual


def test_a_smaller_radius_is_sound_and_said_to_be_unusual(record: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "certificate.json"
    smaller = changed(record, ("radius",), {"hex": (0.125).hex(), "decimal": "0.125000000"})
    smaller["checksum"] = checksum(smaller)
    assert not finds(smaller, file)
    assert any("claim less than their counts allow" in note for note in audit_file(file).notes)


def test_reported_is_not_empty(before: Verification) -> None:
    """What is compared above holds what matters."""
    for word in ("accuracy", "refuted", "arithmetic", "commitment"):
        assert word in reported(before)
