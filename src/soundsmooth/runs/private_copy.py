"""A private copy of a run: its file and its log, as they were at one moment.

SQLite writes where it only reads: it plays back journals, deletes what they name, makes and truncates helper files
beside the run. So a run is not read where it lies.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..core.plain_files import MissingFileError, plain_file

NAME = "run.db"
#: The header of a log. It changes whenever the log begins anew.
LOG_HEADER = 32
CHUNK = 1 << 20
#: So long a run may change under the copy again and again.
SECONDS = 60.0
RETRY_SECONDS = 0.01
Stamp = tuple[int, ...]
#: Files that this process has open through SQLite, how often, and what waits to be closed until it has them no more.
_IN_USE: dict[tuple[int, int], tuple[int, list[BinaryIO]]] = {}


def begin_use(path: Path) -> tuple[int, int]:
    """SQLite has opened the file in this process; what this returns ends it."""
    found = path.stat()
    count, waiting = _IN_USE.get((found.st_dev, found.st_ino), (0, []))
    _IN_USE[found.st_dev, found.st_ino] = count + 1, waiting
    return found.st_dev, found.st_ino


def end_use(which: tuple[int, int]) -> None:
    count, waiting = _IN_USE.pop(which)
    if count > 1:
        _IN_USE[which] = count - 1, waiting
        return
    for file in waiting:
        file.close()


@contextmanager
def beside_sqlite(path: Path) -> Iterator[BinaryIO]:
    """A run's file, open for reading past SQLite; a ValueError of one line unless it is a plain file.

    Guarantee: SQLite keeps its locks on the file. (On POSIX a process loses all its locks on a file when it closes any
    descriptor of it. Then another process might take the log away, and with it what is committed later.)
    """
    file = plain_file(path, "run")
    try:
        yield file
    finally:
        found = os.fstat(file.fileno())
        in_use = _IN_USE.get((found.st_dev, found.st_ino))
        if in_use is None:
            file.close()
        else:
            in_use[1].append(file)


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def journal_of(path: Path) -> Path:
    return path.with_name(path.name + "-journal")


def copied(path: Path, folder: Path) -> Path:
    """Copy a run and its log, if it has one, into a folder; a ValueError or OSError of one line if that cannot be done.

    Guarantee: nothing is written, deleted or followed outside the folder, and no lock is taken. The copy is the run as
    it was at one moment, though others write to it meanwhile through SQLite, in the way that `certify` does.

    Why one moment: the log is opened first, then the file is copied, then the log. What a checkpoint has written to
    the file meanwhile came from the log; and as long as the log did not begin anew, all of that is still in it, and
    counts. If it did, or if the file changed and there was no log, the copy is made again.
    """
    deadline = time.monotonic() + SECONDS
    while not _copied_once(path, folder / NAME):
        if time.monotonic() > deadline:
            raise ValueError(f"{str(path)!r} cannot be read: it changes all the time")
        time.sleep(RETRY_SECONDS)
    return folder / NAME


def _copied_once(path: Path, to: Path) -> bool:
    """Whether what was copied is the run at one moment."""
    with beside_sqlite(path) as main:
        _refuse_journal(path)
        before = _stamp(path)
        if not os.path.lexists(log_of(path)):
            log_of(to).unlink(missing_ok=True)
            _copy(main, to)
            still = not os.path.lexists(log_of(path)) and _stamp(path) == before
        else:
            still = _copied_with_log(path, main, to)
    _refuse_journal(path)
    return still


def _copied_with_log(path: Path, main: BinaryIO, to: Path) -> bool:
    try:
        with plain_file(log_of(path), "log") as log:
            begun = log.read(LOG_HEADER)
            _copy(main, to)
            _copy(log, log_of(to))
            log.seek(0)
            return log.read(LOG_HEADER) == begun and _is_at(log, log_of(path)) and _is_at(main, path)
    except (MissingFileError, FileNotFoundError):  # its last writer has closed the run
        return False


def _refuse_journal(path: Path) -> None:
    """A run of ours has none, except for a moment when it begins. What it says is done by SQLite, whatever it is."""
    journal = journal_of(path)
    if os.path.lexists(journal):
        raise ValueError(
            f"{str(path)!r} is not read: beside it lies {journal.name!r}, a journal that would rewrite it; "
            "ask for the run as one file"
        )


def _stamp(path: Path) -> Stamp:
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _is_at(file: BinaryIO, path: Path) -> bool:
    return os.path.samestat(os.fstat(file.fileno()), path.lstat())


def _copy(source: BinaryIO, to: Path) -> None:
    """The bytes that are there now: of what is added meanwhile, none or a part."""
    left = os.fstat(source.fileno()).st_size
    if shutil.disk_usage(to.parent).free < left:
        raise OSError(f"the run could not be copied to the temporary folder {str(to.parent.parent)!r}: no room")
    source.seek(0)
    with to.open("wb") as target:
        while left > 0 and (chunk := source.read(min(left, CHUNK))):
            target.write(chunk)
            left -= len(chunk)
