"""A run with a value of the wrong kind, in whatever column: one clear line from every command, and nothing changed."""

import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import pytest

from runs.damaged import Column, columns, damage, odd, rows, wrong
from runs.row_processes import lasting_rows_alone
from soundsmooth.cli.runs import export_run, show_run
from soundsmooth.runs.database import Database
from soundsmooth.runs.leases import LeaseClock
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import RunPlan
from soundsmooth.runs.schema import SAID
from soundsmooth.verification import audit_file
from verification.issuer import issue, measured_run

#: Commands, and whether they read the votes and who is at work, or only what the run says.
COMMANDS = {"certify": True, "show": False, "jsonl": False, "csv": False}


@cache
def small_run() -> RunPlan:
    return measured_run()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the flushes to the disk: many small runs are written, and no power fails."""
    durable = Database._make_durable

    def hasty(db: Database) -> None:
        durable(db)
        db._connection.execute("PRAGMA synchronous = OFF")

    monkeypatch.setattr(Database, "_make_durable", hasty)


@pytest.fixture(scope="module", autouse=True)
def few_processes() -> Iterator[None]:
    with lasting_rows_alone():
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Something in every table: two certificates, an image that failed at its last block, a finding."""
    path = issue(tmp_path_factory.mktemp("whole") / "run.db", small_run(), only=2)
    with open_store(path, small_run()) as store:
        for stored in list(store.blocks(1))[:-1]:
            store.add_block(2, stored.block, stored.counts, stored.hits, 1.0, {"soundsmooth": "another"})
        store.add_attempts(2, 3, "RuntimeError: no")
        store.add_failure(2)
        store.add_finding(1, "voted twice")
        store.db.execute("INSERT INTO owners VALUES ('me', 'here', 'boot', 1, 'now', 1.0)")
        store.db.execute("INSERT INTO claims VALUES (2, 'me')")
    assert all(rows(path).values())
    return path


def certify(path: Path) -> None:
    with open_store(path, small_run()) as store:
        for _ in certify_into(store, small_run(), clock=LeaseClock(look=0.01, expiry=0.05)):
            pass


def audit(path: Path) -> None:
    found = audit_file(path)
    if found.refuted:
        raise ValueError(found.findings.texts[0])


def command(name: str, path: Path) -> Callable[[], None]:
    if name in ("certify", "verify"):
        return lambda: certify(path) if name == "certify" else audit(path)
    return lambda: show_run(path) if name == "show" else export_run(path, path.with_suffix(f".{name}"))


def test_the_whole_run_is_shown_exported_verified_and_continued(whole: Path, tmp_path: Path) -> None:
    """The other tests mean something."""
    victim = tmp_path / "run.db"
    victim.write_bytes(whole.read_bytes())
    for name in ("verify", "show", "tsv", "jsonl", "csv", "certify", "verify"):
        command(name, victim)()
    assert len(rows(victim)["certificates"]) == 3


@pytest.mark.slow("every kind of value, in every column, for every reader")
def test_values_of_another_kind_in_every_column(whole: Path, tmp_path: Path) -> None:
    """Wherever it is and whatever it has become: it is said, or nobody reads it; and nothing is changed."""
    victim, content, tried = tmp_path / "run.db", whole.read_bytes(), 0
    for column in columns(whole):
        for value in wrong(column):
            victim.write_bytes(content)
            if damage(victim, column, value):
                tried += 1
                check_said(victim, column, f"{column.table}.{column.name} = {value!r}")
    assert tried > 140


def check_said(victim: Path, column: Column, what: str) -> None:
    before = rows(victim)
    for name, all_of_it in COMMANDS.items():
        said = outcome(name, victim, what)
        assert rows(victim) == before, f"{name}, {what}"
        if all_of_it or column.table in SAID:
            assert said is not None, f"{name}, {what}"
            assert said.startswith(f"'{victim}' is damaged: {column.table}.{column.name} holds "), f"{said}, {what}"
    assert outcome("verify", victim, what) is not None or column.table in ("owners", "claims", "findings"), what


@pytest.mark.slow("every odd value, in every column, for every reader")
def test_odd_values_in_every_column(whole: Path, tmp_path: Path) -> None:
    """Of the right kind, but not what was stored: one line, or no harm; never a traceback, and never for ever."""
    victim, content = tmp_path / "run.db", whole.read_bytes()
    for column in columns(whole):
        for value in odd(column):
            victim.write_bytes(content)
            damage(victim, column, value)
            name = "csv" if column.table in ("certificates", "findings") else "certify"  # the one that reads it
            outcome(name, victim, f"{column.table}.{column.name} = {value!r:.40}")


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE blocks SET purpose = 2 WHERE place = 2 AND first = 0 AND purpose = 1", "it has a block that is none"),
        ("UPDATE blocks SET first = first + 1 WHERE place = 2 AND first = 360", "it has a block that is none"),
        ("UPDATE blocks SET count = 19 WHERE place = 2 AND first = 20", "it has a block that is none"),
        ("UPDATE images SET state = 7 WHERE place = 2", "place 2 is not as finished as its state says"),
        ("UPDATE images SET state = 1 WHERE place = 2", "place 2 is not as finished as its state says"),
        ("UPDATE images SET state = 0 WHERE place = 0", "place 0 is not as finished as its state says"),
        ("UPDATE images SET number = 8 WHERE place = 2", "place 2 has another number or label than was promised"),
        ("UPDATE images SET truth = NULL WHERE place = 2", "place 2 has another number or label than was promised"),
        ("UPDATE environments SET text = '[]' WHERE id = 2", "this says nothing of software and machine: '[]'"),
    ],
)
def test_what_would_be_counted_or_passed_over_in_silence(
    whole: Path, statement: str, text: str, tmp_path: Path
) -> None:
    victim = tmp_path / "run.db"
    victim.write_bytes(whole.read_bytes())
    with closing(sqlite3.connect(victim)) as db, db:
        assert db.execute(statement).rowcount == 1
    said = outcome("certify", victim, statement)
    assert said is not None
    assert said.startswith(f"'{victim}' is damaged: ")
    assert text in said


def test_nobody_waits_for_an_owner_who_is_not_there_or_not_yet(whole: Path, tmp_path: Path) -> None:
    """A claim without its owner, or a sign of life from days to come, would be waited for without end."""
    for statement in ("DELETE FROM owners", "UPDATE owners SET beat = 1e12"):
        victim = tmp_path / "run.db"
        victim.write_bytes(whole.read_bytes())
        with closing(sqlite3.connect(victim)) as db, db:
            assert db.execute(statement).rowcount == 1
        assert outcome("certify", victim, statement) is None
        assert len(rows(victim)["certificates"]) == 3


def outcome(name: str, victim: Path, what: str) -> str | None:
    """What is said of the damage; None if nothing is. An AssertionError if it is more than a line."""
    try:
        with ends_within(20):
            command(name, victim)()
        return None
    except (ValueError, OSError) as error:
        said = str(error)
    except Exception as error:
        raise AssertionError(f"{name}, {what}") from error
    finally:
        victim.with_suffix(f".{name}").unlink(missing_ok=True)
    assert len(said.splitlines()) == 1, f"{name}, {what}"
    return said


@contextmanager
def ends_within(seconds: int) -> Iterator[None]:
    def alarm(*_: object) -> None:
        raise RuntimeError(f"not within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, alarm)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
