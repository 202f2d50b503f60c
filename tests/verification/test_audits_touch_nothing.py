"""Whoever audits, shows or exports a run touches nothing but what the command writes, whatever lies beside the run.

SQLite does as a journal says: it rewrites the run, and deletes the file that the journal names as its super-journal.
"""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth import embedded
from soundsmooth.cli.options import read_config
from soundsmooth.cli.runs import export_run, show_run
from soundsmooth.cli.verify import read_promise
from soundsmooth.core.grid import Grid
from soundsmooth.data.load import load
from soundsmooth.models.onnx_file import read_model
from soundsmooth.runs import database, private_copy
from soundsmooth.runs.database import Database, StoreError
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.reader import terms_at
from soundsmooth.runs.store import Store
from soundsmooth.verification import audit_file
from verification.issuer import issue, small_run
from verification.journals import beside, hot_journal

NOBODY = 65534


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return issue(tmp_path_factory.mktemp("whole") / "run.db", small_run([0, 3, 7])).read_bytes()


@pytest.fixture
def run(whole: bytes, tmp_path: Path) -> Path:
    folder = tmp_path / "vendor"
    folder.mkdir()
    (folder / "run.db").write_bytes(whole)
    return folder / "run.db"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim.txt"
    path.write_text("the auditor's own\n")
    return path


def audit(path: Path, _: Path) -> None:
    found = audit_file(path)
    assert not found.refuted


COMMANDS: dict[str, Callable[[Path, Path], None]] = {
    "verify": audit,
    "show": lambda path, _: show_run(path),
    "export": lambda path, out: export_run(path, out / "new.tsv"),
}


def everything(folder: Path) -> dict[str, object]:
    """Names, kinds, links, times and contents of all files below a folder."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        held = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(held.st_mode) else None
        times = None if stat.S_ISDIR(held.st_mode) and path.name == "out" else held.st_mtime_ns
        found[str(path)] = (held.st_ino, held.st_mode, held.st_nlink, times, content)
    return found


def untouched(command: str, path: Path, top: Path) -> str | None:
    """What a command says, in one line, if it refuses; and that it left everything as it was."""
    out = top / "out"
    out.mkdir(exist_ok=True)
    before, said = everything(top), None
    try:
        COMMANDS[command](path, out)
    except (ValueError, OSError) as error:
        said = str(error)
        assert "\n" not in said
    after = everything(top)
    after.pop(str(out / "new.tsv"), None)
    assert after == before
    return said


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- journals ------------------------------------------------------------------------------------------------


def test_the_journals_do_what_they_are_made_for(run: Path, victim: Path) -> None:
    """Played back by SQLite itself: otherwise the tests below show nothing."""
    page = b"\xee" * 4096
    beside(run).write_bytes(hot_journal(run, {5: page}, victim))
    with closing(sqlite3.connect(run)) as db:
        db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    assert not victim.exists()
    assert run.read_bytes()[4 * 4096 : 5 * 4096] == page


def test_a_super_journal_deletes_nothing(command: str, run: Path, victim: Path) -> None:
    beside(run).write_bytes(hot_journal(run, super_journal=victim))
    said = untouched(command, run, run.parent.parent)
    assert said is not None
    assert "run.db-journal" in said


def test_a_hot_journal_rewrites_nothing(command: str, run: Path) -> None:
    beside(run).write_bytes(hot_journal(run, {5: b"\xee" * 4096}))
    assert "run.db-journal" in (untouched(command, run, run.parent.parent) or "")


@pytest.mark.parametrize("kind", ["link", "folder", "empty"])
def test_whatever_is_in_the_place_of_a_journal_is_refused(command: str, kind: str, run: Path, victim: Path) -> None:
    journal = beside(run)
    {"link": lambda: journal.symlink_to(victim), "folder": journal.mkdir, "empty": journal.touch}[kind]()
    assert "run.db-journal" in (untouched(command, run, run.parent.parent) or "")


def test_certify_follows_no_super_journal_either(run: Path, victim: Path) -> None:
    """It writes to its run, and rolls back what was interrupted; but no run of ours has a super-journal."""
    beside(run).write_bytes(hot_journal(run, super_journal=victim))
    before = everything(run.parent.parent)
    with pytest.raises(ValueError, match=r"run\.db-journal.* names another file"):
        open_store(run, small_run([0, 3, 7]))
    assert everything(run.parent.parent) == before


# --- helper files of SQLite, links, and what is no file ------------------------------------------------------


@pytest.mark.parametrize("suffix", ["-shm", "-wal"])
def test_hard_links_in_the_place_of_helper_files(command: str, suffix: str, run: Path, victim: Path) -> None:
    """SQLite would write to them, and so to the auditor's own file. To read them is harmless: it is no log."""
    os.link(victim, beside(run, suffix))
    assert untouched(command, run, run.parent.parent) is None


def test_a_hard_link_to_a_run_is_read(command: str, run: Path, tmp_path: Path) -> None:
    os.link(run, tmp_path / "other.db")
    assert untouched(command, tmp_path / "other.db", tmp_path) is None


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda path, other: path.symlink_to(other),
    "dangling link": lambda path, other: path.symlink_to(other.with_name("nowhere")),
    "FIFO": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
}


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_refused(command: str, kind: str, suffix: str, run: Path, tmp_path: Path) -> None:
    """Before it is opened: a FIFO would keep the command waiting, and a link leads anywhere."""
    other = tmp_path / "other.db"
    other.write_bytes(run.read_bytes())
    place = beside(run, suffix)
    place.unlink(missing_ok=True)
    KINDS[kind](place, other)
    said = untouched(command, run, tmp_path)
    assert said is not None
    assert "no plain file" in said


def test_devices_are_refused(command: str) -> None:
    with pytest.raises(ValueError, match="no plain file"):
        COMMANDS[command](Path("/dev/null"), Path())


# --- an ordinary user ----------------------------------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Where everybody may write: the auditor may delete the victim."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


#: The command on a run that is fine, so that everything is imported; then, as another user, on the other one.
ASK = """
import os, sys
from soundsmooth.cli.main import main

def ask(run, *line):
    sys.argv[1:] = [word.replace("RUN", run) for word in line]
    try:
        main()
    except SystemExit as end:
        return end.code

user, good, bad, *line = sys.argv[1:]
assert not ask(good, *line)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
assert os.getuid() != 0
sys.exit(ask(bad, *line))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="users are other there")
@pytest.mark.parametrize("line", ["verify RUN", "runs show RUN", "runs export RUN --to RUN.tsv"])
def test_as_an_ordinary_user(line: str, run: Path, open_folder: Path) -> None:
    theirs, victim = open_folder / "run.db", open_folder / "victim.txt"
    theirs.write_bytes(run.read_bytes())
    victim.write_text("the auditor's own\n")
    os.link(victim, open_folder / "second.txt")
    beside(theirs).write_bytes(hot_journal(theirs, super_journal=victim))
    for path in open_folder.iterdir():
        path.chmod(0o666)
    before = everything(open_folder)
    words = [sys.executable, "-c", ASK, str(NOBODY), str(run), str(theirs), *line.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert everything(open_folder) == before
    assert done.returncode == 2, done.stderr + done.stdout
    assert done.stderr.startswith("error: ")
    assert "run.db-journal" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# --- a run that others write to at the moment ----------------------------------------------------------------

WRITE = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("PRAGMA synchronous = OFF")
db.execute("PRAGMA wal_autocheckpoint = 3")
print("begun", flush=True)
number, end = 0, time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    number += 1
    db.execute("BEGIN IMMEDIATE")
    for place in range(3):
        db.execute("UPDATE images SET attempts = ?, error = ? WHERE place = ?", (number, str(number) * 500, place))
    db.execute("COMMIT")
    if number % 50 == 0:
        db.close()
        db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
        db.execute("PRAGMA wal_autocheckpoint = 3")
print(number)
"""


def test_a_copy_is_the_run_at_one_moment(run: Path) -> None:
    """Another process writes without a pause, copies its log into the file all the time, closes it and begins anew."""
    seen = []
    with subprocess.Popen([sys.executable, "-c", WRITE, str(run), "3"], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        while writer.poll() is None:
            db = Database.snapshot(run)
            with closing(db):
                assert db.one("PRAGMA integrity_check") == "ok"
                held = list(db.rows("SELECT attempts, error FROM images ORDER BY place"))
                assert len(set(held)) == 1, held  # one transaction, whole
                assert held[0] == (held[0][0], str(held[0][0]) * 500 if held[0][0] else None)
                seen.append(held[0][0])
        written = int(writer.stdout.read())
    assert seen == sorted(seen)
    assert len(set(seen)) > 5
    assert written > 100


class Disturber:
    """Another connection that writes whenever the file has been copied and the log has not, so many times.

    First an image is changed, then a finding added, which lies on another page: who has the finding has the change.
    """

    def __init__(self, run: Path, how: str, times: int) -> None:
        self.run, self.how, self.times, self.done = run, how, times, 0
        self.db = sqlite3.connect(run, isolation_level=None)
        if how == "appears":
            self.db.close()

    def disturb(self) -> None:
        self.done += 1
        if self.how == "appears":
            self.db = sqlite3.connect(self.run, isolation_level=None)
        self.db.execute("UPDATE images SET attempts = ?, error = ? WHERE place = 1", (self.done, "x" * 9000))
        if self.how == "restarts":
            self.db.execute("PRAGMA wal_checkpoint(RESTART)")
        if self.how in ("closes", "appears"):
            self.db.close()
            self.db = sqlite3.connect(self.run, isolation_level=None)
        self.db.execute("INSERT INTO findings (at, place, text) VALUES ('now', 1, 'x')")
        if self.how == "checkpoint":
            self.db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        if self.how == "appears":
            self.db.close()


@pytest.mark.parametrize("how", ["appends", "checkpoint", "restarts", "closes", "appears"])
def test_a_copy_is_of_one_moment_whatever_becomes_of_the_log(
    how: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log grows, is copied into the file, begins anew, goes and comes again, or was not there at first."""
    other, copy = Disturber(run, how, 3), private_copy._copy
    if how != "appears":
        other.db.execute("UPDATE images SET error = 'before' WHERE place = 2")

    def disturbed(source: BinaryIO, to: Path) -> None:
        copy(source, to)
        if to.name == private_copy.NAME and other.done < other.times:
            other.disturb()

    monkeypatch.setattr(private_copy, "_copy", disturbed)
    with closing(Database.snapshot(run)) as db, closing(other.db):
        assert db.one("PRAGMA integrity_check") == "ok"
        findings, attempts = (
            db.one("SELECT COUNT(*) FROM findings"),
            db.one("SELECT attempts FROM images WHERE place = 1"),
        )
        assert findings == attempts == other.done
    assert other.done == (1 if how in ("appends", "checkpoint") else 3)  # only what must be is copied again


def test_a_run_that_changes_all_the_time_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, copy = Disturber(run, "restarts", 1000), private_copy._copy

    def disturbed(source: BinaryIO, to: Path) -> None:
        copy(source, to)
        other.disturb()

    monkeypatch.setattr(private_copy, "_copy", disturbed)
    monkeypatch.setattr(private_copy, "SECONDS", 0.2)
    with closing(other.db), pytest.raises(ValueError, match="it changes all the time"):
        Database.snapshot(run)


def test_one_s_own_run_is_shown_and_exported_while_it_is_written(tmp_path: Path) -> None:
    path, made = tmp_path / "run.db", small_run([0, 3, 7])
    with open_store(path, made) as store:
        work = certify_into(store, made)
        next(work)
        helpers = {name: beside(path, name).stat().st_size for name in ("-wal", "-shm")}
        show_run(path)
        export_run(path, tmp_path / "new.tsv")
        assert not audit_file(path).refuted
        assert helpers == {name: beside(path, name).stat().st_size for name in helpers}
        assert len(list(work)) == 2
    assert len((tmp_path / "new.tsv").read_text().splitlines()) == 2


LOOK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("SELECT COUNT(*) FROM images").fetchone()
db.close()
"""


def test_who_writes_keeps_the_locks_when_the_same_process_reads(tmp_path: Path) -> None:
    """Otherwise another process takes itself for the last one, and the log away: what is committed later is lost."""
    path, made, others = tmp_path / "run.db", small_run([0, 3, 7]), dict(private_copy._IN_USE)
    with open_store(path, made) as store:
        work = certify_into(store, made)
        next(work)
        Store.read(path).close()
        assert terms_at(path) is not None
        subprocess.run([sys.executable, "-c", LOOK, str(path)], check=True)
        assert beside(path, "-wal").exists()
        assert len(list(work)) == 2
    assert others == private_copy._IN_USE  # another test may have left a run open
    with Store.read(path) as store:
        assert store.progress().finished == 3


def test_the_copy_is_private_and_leaves_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    modes = []
    real = database.copied

    def copied(path: Path, folder: Path) -> Path:
        modes.append(stat.S_IMODE(folder.stat().st_mode))
        return real(path, folder)

    monkeypatch.setattr(database, "copied", copied)
    with closing(Database.snapshot(run)) as db:
        assert db.one("SELECT COUNT(*) FROM images") == 3
        assert not list(temporary.iterdir())  # also if the process is killed now
    run.write_bytes(b"SQLite format 3\0" + b"\1" * 200)
    with pytest.raises((ValueError, OSError)):
        Database.snapshot(run)
    assert not list(temporary.iterdir())
    assert modes == [0o700, 0o700]


# --- SQLite's own defences -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM images", "ATTACH '{victim}' AS more", "CREATE TEMP TABLE more (x)", "VACUUM INTO '{victim}.db'"],
)
def test_who_reads_can_do_nothing_else(statement: str, run: Path, victim: Path) -> None:
    before = everything(victim.parent)
    with closing(Database.snapshot(run)) as db, pytest.raises(StoreError):
        db.execute(statement.format(victim=victim))
    assert everything(victim.parent) == before


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW more AS SELECT * FROM images",
        "CREATE TRIGGER more AFTER UPDATE ON images BEGIN DELETE FROM blocks; END",
        "CREATE VIRTUAL TABLE more USING fts5(x)",
        "ALTER TABLE images ADD COLUMN more AS (hex(zeroblob(1000000000)))",
        "CREATE INDEX more ON images (abs(place))",
    ],
    ids=["view", "trigger", "virtual table", "generated column", "index"],
)
def test_tables_of_others_are_not_read(command: str, statement: str, run: Path) -> None:
    with closing(sqlite3.connect(run)) as db:
        db.execute(statement)
        db.execute("PRAGMA journal_mode = DELETE")
    said = untouched(command, run, run.parent.parent)
    assert said is not None
    assert "its tables are not those of a run" in said
    with pytest.raises(ValueError, match="its tables are not those of a run"):
        open_store(run, small_run([0, 3, 7]))


def test_a_value_is_not_longer_than_any_of_ours(command: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(run)) as db:
        db.execute("UPDATE images SET error = hex(zeroblob(100000)) WHERE place = 1")
        db.commit()
        db.execute("PRAGMA journal_mode = DELETE")
    monkeypatch.setitem(database.LIMITS, sqlite3.SQLITE_LIMIT_LENGTH, 50_000)
    said = untouched(command, run, run.parent.parent)
    assert said is None or "too big" in said
    with closing(Database.snapshot(run)) as db, pytest.raises(StoreError, match="too big"):
        list(db.rows("SELECT error FROM images"))


# --- other files of others -----------------------------------------------------------------------------------


def test_an_export_removes_only_what_it_made(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that leads nowhere yet, and a file that another process made a moment ago."""
    out = tmp_path / "out"
    out.mkdir()
    for kind in ("tsv", "csv", "jsonl", "parquet"):
        link = out / f"link.{kind}"
        link.symlink_to(tmp_path / "nowhere")
        with pytest.raises((ValueError, OSError)):
            export_run(run, link)
        assert link.is_symlink()
        assert not (tmp_path / "nowhere").exists()
        late = out / f"late.{kind}"
        late.write_text("another's")
        with monkeypatch.context() as patched:
            patched.setattr("soundsmooth.runs.export.check_new_file", lambda *_: None)
            with pytest.raises((ValueError, OSError)):
                export_run(run, late)
        assert late.read_text() == "another's"


def promise_file(path: Path) -> None:
    path.write_text(small_run([0]).promise.text)


def data_file(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, x=np.zeros((1, 2, 2), np.uint8))


def record_file(path: Path) -> None:
    path.write_text(ss.Smoother(brightness_of_three, "0.5").certify(np.full((2, 2), 40, np.uint8), n=200).to_json())


def model_file(path: Path) -> None:
    path.write_bytes(embedded.MODELS[Fraction(1, 4)].read_bytes())


READERS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "promise.txt": (promise_file, read_promise),
    "data.npz": (data_file, lambda path: load(path, grid=Grid())),
    "one.json": (record_file, audit_file),
    "all.jsonl": (record_file, audit_file),
    "model.onnx": (model_file, read_model),
    "options.toml": (lambda path: path.write_text("n = 200") and None, read_config),
}


@pytest.mark.parametrize("name", READERS)
def test_other_files_of_others_are_read_as_plain_files_only(name: str, tmp_path: Path) -> None:
    make, read = READERS[name]
    good, place = tmp_path / name, tmp_path / "vendor" / name
    make(good)
    place.parent.mkdir()
    os.link(good, place)
    before = everything(tmp_path)
    read(place)
    assert everything(tmp_path) == before
    for kind in KINDS.values():
        place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()
        kind(place, good)
        before = everything(tmp_path)
        with pytest.raises(ValueError, match=r"^[^\n]*(no plain file|is a folder|holds no image)[^\n]*$"):
            read(place)
        assert everything(tmp_path) == before
