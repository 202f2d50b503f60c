"""The store: a run as one SQLite file, in which nothing that was finished is ever lost (docs/runs.md).

Votes are written block by block and certificates image by image, each in one transaction. The first stored
block wins: whoever votes on it again may confirm it, and a different result is a finding, never a replacement.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..certificate import Certificate, is_environment, is_time
from ..certify import Counts, Measurement
from ..models import NOBODY
from ..noise import Purpose
from ..promise import Inputs, Promise, Secret
from ..settings import Settings, promised_settings
from .blocks import VoteBlock, vote_blocks
from .damage import check_kinds, check_schema
from .database import Database

SCHEMA = """
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
CREATE TABLE certificates (
    place       INTEGER PRIMARY KEY REFERENCES images,
    label       INTEGER,                 -- NULL for an abstention
    radius      REAL NOT NULL,
    p_lower     REAL NOT NULL,
    p_upper     REAL,
    selection   TEXT NOT NULL,
    estimation  TEXT NOT NULL,
    lost        INTEGER,                 -- of the rows that were voted again (NULL: none were to be)
    environment INTEGER NOT NULL REFERENCES environments,
    seconds     REAL NOT NULL,
    digest      BLOB NOT NULL            -- SHA-256 of the certificate's JSON
);
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
LARGEST = (1 << 63) - 1
#: A short text can name more classes than memory holds.
MOST_CLASSES = 1_000_000


class State(IntEnum):
    OPEN = 0
    FINISHED = 1
    FAILED = 2


class Terms(NamedTuple):
    """What a run is fixed to when it begins: the promise and the key, and what is stored of the votes."""

    promise: Promise
    secret: Secret
    block: int
    votes: bool
    """Whether the bitmaps of hits are kept."""

    @property
    def settings(self) -> Settings:
        return promised_settings(self.promise.values)


class StoredBlock(NamedTuple):
    """A block as it is in the store."""

    block: VoteBlock
    counts: Counts
    hits: bytes | None
    """`blocks.hits_of` unpacks them; None for selection, or where they were left out."""
    seconds: float


@dataclass(frozen=True)
class Failure:
    """An image on which the model failed again and again: no certificate, and a wrong answer in every count."""

    index: int
    truth: int | None
    attempts: int
    error: str


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    images: int
    certified: int
    abstained: int
    failed: int
    findings: int

    @property
    def finished(self) -> int:
        return self.certified + self.abstained

    @property
    def open(self) -> int:
        return self.images - self.finished - self.failed


class Store:
    """An open run.

    Guarantee: what a method has written when it returns survives the end of the process, however it ends; of what
    was interrupted, all or nothing is there.
    """

    def __init__(self, db: Database) -> None:
        self.db = db

    @classmethod
    def begin(cls, path: Path, terms: Terms, inputs: Inputs) -> "Store":
        """A new run, or the one that is there already if it has the same terms; otherwise a ValueError says why.

        Guarantee: nothing is written to a run with a value of a kind that its column cannot hold, with another image
        than was promised, with a block that is none of the run's, or with a state that certificates contradict.
        """
        if max(inputs.indices) > LARGEST:
            raise ValueError("a store holds images with numbers below 2⁶³")
        if not path.absolute().parent.is_dir():
            raise ValueError(f"there is no folder {str(path.parent)!r} to write to")
        store = cls(Database(path, writable=True))
        try:
            with store.transaction():
                if store._blank():
                    store._create(terms, inputs)
            store._check_terms(terms)
            check_kinds(store.db, SCHEMA, ALL)
            store._check_rows(inputs)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def read(cls, path: Path) -> "Store":
        """A run to look at as it is now, finished or not. The file may be anybody's, and is not touched."""
        db = Database.snapshot(path)
        if db.blank:
            db.close()
            raise ValueError(f"{str(path)!r} holds no run yet")
        store = cls(db)
        try:
            store.terms  # noqa: B018  (damaged ones are refused here)
            check_kinds(db, SCHEMA, SAID)
        except BaseException:
            store.close()
            raise
        return store

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.db.close()

    def transaction(self) -> AbstractContextManager[None]:
        return self.db.transaction()

    def _blank(self) -> bool:
        """Asked inside the transaction: another process may have begun the run a moment ago."""
        return not self.db.one("SELECT COUNT(*) FROM sqlite_master")

    def _create(self, terms: Terms, inputs: Inputs) -> None:
        self.db.create(SCHEMA)
        values = {
            "promise": terms.promise.text,
            "commitment": terms.promise.commitment,
            "seed": terms.secret.seed.hex(),
            "nonce": terms.secret.nonce.hex(),
            "block": str(terms.block),
            "votes": _kept(terms.votes),
            "begun": _now(),
        }
        self.db.execute_many("INSERT INTO run VALUES (?, ?)", iter(values.items()))
        self.db.execute_many(
            "INSERT INTO images (place, number, truth) VALUES (?, ?, ?)",
            ((place, *image) for place, image in enumerate(zip(inputs.indices, inputs.labels, strict=True))),
        )

    @cached_property
    def terms(self) -> Terms:
        """What the run began with; a ValueError if the file contradicts itself."""
        check_schema(self.db, SCHEMA)
        check_kinds(self.db, SCHEMA, ("run",))
        held = dict(self.db.rows("SELECT name, value FROM run"))
        try:
            promise = Promise.of_text(held["promise"])
            secret = Secret(bytes.fromhex(held["seed"]), bytes.fromhex(held["nonce"]))
            terms = Terms(promise, secret, int(held["block"]), {"kept": True, "left out": False}[held["votes"]])
            terms.settings  # noqa: B018
            images = self.db.one("SELECT COUNT(*) FROM images")
            right = (promise.commitment, promise.values["seed"], promise.values["input count"])
            if (held["commitment"], secret.digest, str(images)) != right or terms.block < 1:
                raise ValueError("commitment, seed or number of images do not fit the promise")
        except (KeyError, ValueError, TypeError, ZeroDivisionError) as error:
            raise self._damaged(str(error)) from None
        return terms

    def _check_terms(self, asked: Terms) -> None:
        found = differences(self.terms, asked)
        if found:
            raise ValueError(
                f"{str(self.db.path)!r} was begun under other terms, and a run that has begun cannot change; "
                f"begun -> asked: {'; '.join(found)}"
            )

    def _check_rows(self, inputs: Inputs) -> None:
        """A ValueError for blocks that would be counted, and images that would be passed over, in silence."""
        stored = self.db.rows("SELECT number, truth FROM images ORDER BY place")
        for place, image in enumerate(zip(inputs.indices, inputs.labels, strict=True)):
            if next(stored, None) != image:
                raise self._damaged(f"the image at place {place} has another number or label than was promised")
        chosen, block = self.terms.settings, self.terms.block
        alien = self.db.one(
            "SELECT place FROM blocks WHERE purpose NOT IN (0, 1) OR first < 0 OR first % ?1 != 0 OR count < 1 "
            "OR count != MIN(?1, CASE purpose WHEN 0 THEN ?2 ELSE ?3 END - first) LIMIT 1",
            block, chosen.n0, chosen.n,
        )  # fmt: skip
        if alien is not None:
            raise self._damaged(f"at place {alien} it has a block that is none of this run")
        lost = self.db.one(
            "SELECT place FROM images WHERE state NOT IN (0, 1, 2) "
            "OR (state = 1) != (place IN (SELECT place FROM certificates)) LIMIT 1"
        )
        if lost is not None:
            raise self._damaged(f"the image at place {lost} is not as finished as its state says")

    def _damaged(self, text: str) -> ValueError:
        return ValueError(f"{str(self.db.path)!r} is damaged: {text}")

    # Blocks

    @cached_property
    def all_blocks(self) -> list[VoteBlock]:
        """The blocks of every image, in the order in which they are voted."""
        return vote_blocks(self.terms.settings, self.terms.block)

    def missing(self, place: int) -> list[VoteBlock]:
        """The blocks of an image that still have to be voted."""
        rows = self.db.rows("SELECT purpose, first FROM blocks WHERE place = ?", place)
        there = {(purpose, first) for purpose, first in rows}
        return [block for block in self.all_blocks if (block.purpose, block.first) not in there]

    def complete(self, place: int) -> bool:
        """Whether every block of an image is stored."""
        there: int = self.db.one("SELECT COUNT(*) FROM blocks WHERE place = ?", place)
        return there == len(self.all_blocks)

    def add_block(
        self,
        place: int,
        block: VoteBlock,
        counts: Counts,
        hits: bytes | None,
        seconds: float,
        environment: Mapping[str, str],
    ) -> bool:
        """Store a block, unless it is there: the first one wins. Another result for it is recorded as a finding."""
        votes, hits = _votes(counts), hits if self.terms.votes else None
        with self.transaction():
            added = self.db.execute(
                "INSERT OR IGNORE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                place, int(block.purpose), block.first, block.count, votes, hits,
                self._environment(environment), seconds,
            ).rowcount  # fmt: skip
            if not added:
                self._compare(place, block, votes, hits)
        return bool(added)

    def _compare(self, place: int, block: VoteBlock, votes: str, hits: bytes | None) -> None:
        (stored,) = self.db.rows(
            "SELECT votes, hits FROM blocks WHERE place = ? AND purpose = ? AND first = ?",
            place, int(block.purpose), block.first,
        )  # fmt: skip
        if stored != (votes, hits):
            self.add_finding(
                place,
                f"the block of copies {block.first} to {block.first + block.count - 1} for "
                f"{block.purpose.name.lower()} was voted twice: {stored[0]}, which is kept, and {votes}",
            )

    def blocks(self, place: int) -> Iterator[StoredBlock]:
        """The stored blocks of an image, in order."""
        for purpose, first, count, votes, hits, seconds in self.db.rows(
            "SELECT purpose, first, count, votes, hits, seconds FROM blocks WHERE place = ? ORDER BY purpose, first",
            place,
        ):
            yield StoredBlock(VoteBlock(Purpose(purpose), first, count), _counts(votes), hits, seconds)

    def begun_blocks(self, most: int) -> list[tuple[int, StoredBlock]]:
        """The largest block of each of some images that are open and begun, or of the last one that has any: the places
        of the images, and the blocks.
        """
        last = self.db.one("SELECT MAX(place) FROM blocks")
        if last is None:
            return []
        begun = "state = 0 AND EXISTS (SELECT 1 FROM blocks WHERE blocks.place = images.place)"
        query = f"SELECT place FROM images WHERE {begun} ORDER BY random() LIMIT ?"
        places = [place for (place,) in self.db.rows(query, most)] or [last]
        return [(place, max(self.blocks(place), key=lambda stored: stored.block.count)) for place in places]

    def counts(self, place: int, purpose: Purpose) -> Counts:
        """The sum over the stored blocks of a purpose; a ValueError if one has not a vote for each of its copies."""
        query = "SELECT votes, count FROM blocks WHERE place = ? AND purpose = ?"
        stored = [(_counts(votes), count) for votes, count in self.db.rows(query, place, int(purpose))]
        if any(counts.total != count for counts, count in stored):
            raise self._damaged("the votes of a block are not as many as its copies")
        found = [counts for counts, _ in stored]
        columns = zip(*(counts.classes for counts in found), strict=True)
        return Counts(tuple(sum(column) for column in columns), sum(counts.nobody for counts in found))

    def classes(self) -> int | None:
        """How many classes the model has, once a block is stored."""
        votes = self.db.one("SELECT votes FROM blocks LIMIT 1")
        return None if votes is None else len(_counts(votes).classes)

    def seconds(self, place: int) -> float:
        """How long the stored blocks of an image took together, and its rows that were voted alone."""
        sums = (f"SELECT COALESCE(SUM(seconds), 0.0) FROM {table} WHERE place = ?" for table in ("blocks", "alone"))
        return float(sum(self.db.one(each, place) for each in sums))

    def copies_voted(self) -> int:
        """How many noisy copies have voted so far. (Of finished images, all: their blocks need not be read.)"""
        begun: int = self.db.one(
            "SELECT COALESCE(SUM(count), 0) FROM blocks WHERE place IN "
            "(SELECT place FROM images WHERE state = 0 UNION ALL SELECT place FROM images WHERE state = 2)"
        )
        return begun + self.progress().finished * sum(block.count for block in self.all_blocks)

    # Rows alone

    def add_alone(
        self, place: int, block: VoteBlock, kept: bytes, seconds: float, environment: Mapping[str, str]
    ) -> bool:
        """Store which rows of a block are hits alone too, unless that is there: the first result wins here as well."""
        with self.transaction():
            added = self.db.execute(
                "INSERT OR IGNORE INTO alone VALUES (?, ?, ?, ?, ?)",
                place, block.first, kept, self._environment(environment), seconds,
            ).rowcount  # fmt: skip
            if not added and self.alone(place)[block.first] != kept:
                rows = f"rows of the block of copies {block.first} to {block.first + block.count - 1}"
                self.add_finding(place, f"{rows} were voted alone twice, with different results; the first is kept")
        return bool(added)

    def alone(self, place: int) -> dict[int, bytes]:
        """What is stored of an image's rows alone, by the first copy of their block; `blocks.hits_of` unpacks it."""
        return dict(self.db.rows("SELECT first, kept FROM alone WHERE place = ? ORDER BY first", place))

    # Certificates and failures

    def add_certificate(self, place: int, certificate: Certificate) -> None:
        """Store a certificate, unless the image has one."""
        with self.transaction():
            self.db.execute(
                "INSERT OR IGNORE INTO certificates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                place, certificate.label, certificate.radius, certificate.p_lower, certificate.p_upper,
                _votes(certificate.selection), _votes(certificate.estimation),
                None if certificate.measured is None else certificate.measured.lost,
                self._environment(certificate.environment), certificate.seconds, _digest(certificate.to_json()),
            )  # fmt: skip
            self.db.execute("UPDATE images SET state = ? WHERE place = ?", State.FINISHED, place)

    def certificates(self) -> Iterator[Certificate]:
        """The certificates in the order of the images, one at a time; a ValueError for one that was changed."""
        return (certificate for _, certificate, _ in self._records())

    def placed_certificates(self) -> Iterator[tuple[int, Certificate]]:
        """The same, with the places of their images."""
        return ((place, certificate) for place, certificate, _ in self._records())

    def lines(self) -> Iterator[str]:
        """The same, each as one line of JSON."""
        return (line for _, _, line in self._records())

    def _records(self) -> Iterator[tuple[int, Certificate, str]]:
        rows = self.db.rows("SELECT id, text FROM environments")
        environments = {id: self._software(text) for id, text in rows}
        promise, secret = self.terms.promise, self.terms.secret
        again = promise.independence.rows
        common: dict[str, Any] = {"promise": promise, "seed": secret.seed.hex(), "nonce": secret.nonce.hex()}
        for place, digest, environment, votes0, votes, lost, *numbers in self.db.rows(
            "SELECT place, digest, environment, selection, estimation, lost, number, truth, label, radius, p_lower, "
            "p_upper, seconds FROM certificates JOIN images USING (place) ORDER BY place"
        ):
            names = ("index", "truth", "label", "radius", "p_lower", "p_upper", "seconds")
            certificate = Certificate(
                **common,
                **dict(zip(names, numbers, strict=True)),
                selection=_counts(votes0),
                estimation=_counts(votes),
                environment=environments.get(environment, {}),
                measured=None if lost is None or again is None else Measurement(again, lost),
            )
            if not is_time(certificate.seconds):
                raise self._damaged(f"the time of image {numbers[0]} is no number of seconds")
            line = _line(certificate)
            if _digest(line) != digest:
                raise self._damaged(f"image {numbers[0]} does not fit its digest")
            yield place, certificate, line

    def _environment(self, found: Mapping[str, str]) -> int:
        """The number under which software and machine are kept; each kind once."""
        text = json.dumps(dict(found), ensure_ascii=False)
        self.db.execute("INSERT OR IGNORE INTO environments (text) VALUES (?)", text)
        return self.db.one("SELECT id FROM environments WHERE text = ?", text)  # type: ignore[no-any-return]

    def _software(self, text: str) -> dict[str, str]:
        """What `_environment` wrote; a ValueError for anything else."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not is_environment(found):
            raise self._damaged(f"this says nothing of software and machine: {text[:80]!r}")
        return found  # type: ignore[no-any-return]

    def mixed(self, place: int) -> bool:
        """Whether blocks or rows of an image were voted under different versions of software, or on different machines.

        (A package that only one of the processes had loaded is no difference.)
        """
        query = (
            "SELECT text FROM environments WHERE id IN (SELECT blocks.environment FROM blocks WHERE place = ? "
            "UNION SELECT alone.environment FROM alone WHERE place = ?)"
        )
        seen: dict[str, str] = {}
        for (text,) in self.db.rows(query, place, place):
            if any(seen.setdefault(name, value) != value for name, value in self._software(text).items()):
                return True
        return False

    def add_attempts(self, place: int, count: int, error: str) -> None:
        """Record attempts at a block of the image that ended with an error."""
        self.db.execute("UPDATE images SET attempts = attempts + ?, error = ? WHERE place = ?", count, error, place)

    def add_failure(self, place: int) -> Failure:
        """Give an image up for now. Its blocks stay; the next start tries the missing ones again, on the same noise."""
        self.db.execute("UPDATE images SET state = ? WHERE place = ? AND state = 0", State.FAILED, place)
        (row,) = self.db.rows("SELECT number, truth, attempts, error FROM images WHERE place = ?", place)
        return Failure(*row)

    def failures(self) -> Iterator[Failure]:
        return (failure for _, failure in self.placed_failures())

    def placed_failures(self) -> Iterator[tuple[int, Failure]]:
        query = "SELECT place, number, truth, attempts, error FROM images WHERE state = 2 ORDER BY place"
        return ((place, Failure(*row)) for place, *row in self.db.rows(query))

    def reopen_failures(self) -> None:
        self.db.execute("UPDATE images SET state = ? WHERE state = 2", State.OPEN)

    def has_open_images(self) -> bool:
        return bool(self.db.one("SELECT EXISTS (SELECT 1 FROM images WHERE state = 0)"))

    def add_finding(self, place: int, text: str) -> None:
        self.db.execute("INSERT INTO findings (at, place, text) VALUES (?, ?, ?)", _now(), place, text)

    def findings(self) -> Iterator[tuple[int, str]]:
        """The numbers of images and what was found about them; a ValueError if one is about no image of the run."""
        query = "SELECT place, number, text FROM findings LEFT JOIN images USING (place) ORDER BY id"
        for place, number, text in self.db.rows(query):
            if number is None:
                raise self._damaged(f"it has a finding for place {place}, where there is no image")
            yield number, text

    def progress(self) -> Progress:
        (row,) = self.db.rows(
            "SELECT (SELECT COUNT(*) FROM images), (SELECT COUNT(label) FROM certificates), "
            "(SELECT COUNT(*) - COUNT(label) FROM certificates), (SELECT COUNT(*) FROM images WHERE state = 2), "
            "(SELECT COUNT(*) FROM findings)"
        )
        return Progress(*row)


def terms_at(path: Path) -> Terms | None:
    """The terms of the run in a file; None if there is no run in it yet."""
    if not path.exists():
        return None
    with Store(Database(path, writable=False)) as store:
        return None if store.db.blank else store.terms


def differences(begun: Terms, asked: Terms) -> list[str]:
    """Where two runs' terms differ, field by field."""
    pairs = [(name, old, asked.promise.values[name]) for name, old in begun.promise.values.items()]
    pairs += [("nonce", begun.secret.nonce.hex() or "none", asked.secret.nonce.hex() or "none")]
    if begun.promise == asked.promise:  # otherwise it follows from what differs there
        pairs += [("block", str(begun.block), str(asked.block))]
    pairs += [("votes", _kept(begun.votes), _kept(asked.votes))]
    return [f"{_MEANING.get(name, name)}: {_short(old)} -> {_short(new)}" for name, old, new in pairs if old != new]


_MEANING = {
    "model": "the model changed, its SHA-256",
    "inputs": "the data changed (images, labels or their order), their SHA-256",
    "seed": "the seed's SHA-256",
}


def _kept(votes: bool) -> str:
    return "kept" if votes else "left out"


def _short(value: str) -> str:
    """Digests by their first digits."""
    return f"{value[:12]}…" if len(value) == 64 else value


def _votes(counts: Counts) -> str:
    """The number of classes, and the votes of those that got any; nobody's under −1."""
    votes = {label: count for label, count in enumerate(counts.classes) if count}
    if counts.nobody:
        votes = {NOBODY: counts.nobody, **votes}
    return json.dumps({"classes": len(counts.classes), "votes": votes}, separators=(",", ":"))


def _counts(text: str) -> Counts:
    """What `_votes` wrote; a ValueError for anything else."""
    try:
        held: dict[str, Any] = json.loads(text)
        votes = {int(label): count for label, count in held["votes"].items()}
        nobody = votes.pop(NOBODY, 0)
        if held["classes"] > MOST_CLASSES:
            raise ValueError("so many classes no model has")
        classes = [0] * held["classes"]
        for label, count in votes.items():
            if label < 0:
                raise ValueError(f"there is no class {label}")
            classes[label] = count
        counts = Counts(tuple(classes), nobody)
        if _votes(counts) != text:
            raise ValueError("they are not written as they should be")
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, MemoryError, RecursionError) as error:
        raise ValueError(f"the run is damaged: these are no votes: {text[:80]!r} ({error})") from None
    return counts


def _line(certificate: Certificate) -> str:
    """Its JSON; nothing for a damaged one that has none, because its numbers are no numbers."""
    try:
        return certificate.to_json()
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        return ""


def _digest(line: str) -> bytes:
    return hashlib.sha256(line.encode()).digest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
