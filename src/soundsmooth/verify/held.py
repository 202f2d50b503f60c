"""A run's file as an auditor opens it: as one snapshot, of which nothing is believed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..promise import Promise, Secret, is_digest
from ..runs.blocks import VoteBlock, vote_blocks
from ..runs.damage import check_kinds, check_schema
from ..runs.database import Database
from ..runs.store import SCHEMA, Terms
from .promised import check_promise, whole

NAMES = ("promise", "commitment", "seed", "nonce", "block", "votes", "begun")
#: Tables of remarks, in which no row is looked at but for its kinds of values.
REMARKS = ("environments", "findings")
#: An image with more blocks would be a run that nobody can store.
MOST_BLOCKS = 1_000_000


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """The file, sound as a database and with exactly our tables; a ValueError or StoreError in one line otherwise.

    Guarantee: everything that is read is what was there at the beginning, whatever is written to the file meanwhile;
    and neither the file nor anything beside it is written to, deleted or followed.
    """
    db = Database.snapshot(path)
    try:
        if db.blank:
            raise ValueError(f"{str(path)!r} holds no run yet")
        check_schema(db, SCHEMA)  # first: the check computes what tables of others ask for, however long
        fault = db.one("PRAGMA integrity_check(1)")
        if fault != "ok":
            raise ValueError(f"{str(path)!r} is damaged: {' '.join(str(fault).split())}")
        check_kinds(db, SCHEMA, REMARKS)
        yield db
    finally:
        db.close()


@dataclass(frozen=True)
class Head:
    """What the run says it was fixed to. Whether that is true is another matter."""

    terms: Terms
    commitment: str
    blocks: tuple[VoteBlock, ...]
    """Of every image, selection first."""


def head(db: Database) -> Head:
    """The head of the run; a ValueError if it cannot be made sense of.

    Guarantee: a block consists of whole promised batches. So which copies vote together follows from the promise, and
    the size of a block, which is not promised, changes no vote.
    """
    rows = list(db.rows("SELECT name, value FROM run"))
    held = dict(rows)
    if len(held) != len(rows):
        raise ValueError("the run says something twice")
    missing = [name for name in NAMES if not isinstance(held.get(name), str)]
    if missing:
        raise ValueError(f"the run does not say what it is: {', '.join(missing)} missing")
    unknown = sorted(str(name) for name in held.keys() - set(NAMES))
    if unknown:
        raise ValueError(f"the run says something that this version does not know: {', '.join(unknown)!r:.80}")
    promise = Promise.of_text(held["promise"])
    check_promise(promise)
    if not is_digest(held["seed"]) or not (held["nonce"] == "" or is_digest(held["nonce"])):
        raise ValueError("the run's seed or nonce is not 32 bytes in hexadecimal")
    if held["votes"] not in ("kept", "left out"):
        raise ValueError(f"the run's votes are neither kept nor left out, but {held['votes']!r:.80}")
    secret = Secret(bytes.fromhex(held["seed"]), bytes.fromhex(held["nonce"]))
    terms = Terms(promise, secret, whole(held["block"], "block"), held["votes"] == "kept")
    if terms.block % int(promise.values["batch"]):
        raise ValueError(f"blocks of {terms.block} copies are not made of the promised batches, which would be others")
    return Head(terms, held["commitment"], tuple(_blocks(terms)))


def _blocks(terms: Terms) -> list[VoteBlock]:
    chosen = terms.settings
    if (chosen.n0 + chosen.n) // terms.block > MOST_BLOCKS:
        raise ValueError(f"blocks of {terms.block} copies are too small for n = {chosen.n}")
    return vote_blocks(chosen, terms.block)
