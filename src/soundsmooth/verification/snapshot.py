"""A run's file as an auditor opens it: as one snapshot, of which nothing is believed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..runs.damage import check_kinds, check_schema
from ..runs.database import Database
from ..runs.reader import RunReader
from ..runs.schema import schema
from .promised import check_promise

#: Tables of remarks, in which no row is looked at but for its kinds of values.
REMARKS = ("environments", "findings")


@contextmanager
def open_snapshot(path: Path) -> Iterator[Database]:
    """The file, sound as a database and with exactly our tables; a ValueError or StoreError in one line otherwise.

    Guarantee: everything that is read is what was there at the beginning, whatever is written to the file meanwhile;
    and neither the file nor anything beside it is written to, deleted or followed.
    """
    db = Database.snapshot(path)
    try:
        if db.blank:
            raise ValueError(f"{str(path)!r} holds no run yet")
        tables = schema(db.version)
        check_schema(db, tables)  # first: the check computes what tables of others ask for, however long
        fault = db.one("PRAGMA integrity_check(1)")
        if fault != "ok":
            raise ValueError(f"{str(path)!r} is damaged: {' '.join(str(fault).split())}")
        check_kinds(db, tables, REMARKS)
        yield db
    finally:
        db.close()


def stated_run(db: Database) -> RunReader:
    """The run with what it says it was fixed to (`stated`); a ValueError if that cannot be made sense of.

    Guarantee: the promise has numbers, digests and names that can be read in one way only. A block consists of whole
    promised batches. So which copies vote together follows from the promise, and the size of a block, which is not
    promised, changes no vote. Whether what is stated is true is another matter.
    """
    run = RunReader(db)
    check_promise(run.promise)  # before anything else reads it
    if run.stated.block % int(run.promise.values["batch"]):
        raise ValueError(
            f"blocks of {run.stated.block} copies are not made of the promised batches, which would be others"
        )
    run.all_blocks  # noqa: B018  (too many are an error)
    return run
