"""The store: a run as one SQLite file, in which nothing that was finished is ever lost (docs/runs.md); or in memory.

Votes are written block by block and certificates image by image, each in one transaction. The first stored
block wins: whoever votes on it again may confirm it, and a different result is a finding, never a replacement.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..certification.certificate import Certificate
from ..certification.certify import Counts
from ..certification.promise import Inputs
from ..certification.votes import votes_text
from ..smoothing.blocks import VoteBlock
from .damage import check_kinds
from .database import Database
from .information import CLEAN, WRITTEN, note_of
from .other_terms import check_same_terms, votes_word
from .reader import RunReader, digest_of
from .schema import ALL, SCHEMA, VERSION, State, stored_fields
from .stored import Failure, RunTerms

LARGEST = (1 << 63) - 1
#: The first row wins.
BLOCK = "INSERT OR IGNORE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
ALONE = "INSERT OR IGNORE INTO alone VALUES (?, ?, ?, ?, ?)"


class Store(RunReader):
    """An open run that is written to.

    Guarantee: what a method has written to a file when it returns survives the end of the process, however it ends; of
    what was interrupted, all or nothing is there.
    """

    @classmethod
    def begin(
        cls, path: Path | None, terms: RunTerms, inputs: Inputs, names: Mapping[str, str] | None = None
    ) -> "Store":
        """A new run, or the one that is there already if it has the same terms; otherwise a ValueError says why.

        Without a path the run is kept in memory, for this thread, until the store is closed. A new run notes the
        `names` of model and data, for people.

        Guarantee: nothing is written to a run with a value of a kind that its column cannot hold, with another image
        than was promised, with a block that is none of the run's, or with a state that certificates contradict.
        """
        if max(inputs.indices) > LARGEST:
            raise ValueError("a store holds images with numbers below 2⁶³")
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"there is no folder {str(path.parent)!r} to write to")
        store = cls(Database.memory(SCHEMA) if path is None else Database(path, writable=True))
        try:
            with store.db.transaction():
                new = path is None or store._blank()
                if new:
                    store._create(terms, inputs, names or {})
            if new:
                store.terms = store.stated = terms  # as they have just been written, all of them or nothing
            else:
                store._check(terms, inputs)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def reopen(cls, path: Path) -> "Store":
        """The run that is there, to be written to without its images at hand; a ValueError if there is none.

        Guarantee: that of `begin`, but for the images, which nobody compares here.
        """
        if not path.exists():
            raise ValueError(f"there is no run {str(path)!r}")
        store = cls(Database(path, writable=True))
        try:
            if store.db.blank:
                raise ValueError(f"{str(path)!r} holds no run yet")
            store.terms  # noqa: B018  (damaged ones are refused here)
            check_kinds(store.db, store.schema, ALL)
            store._check_rows()
        except BaseException:
            store.close()
            raise
        return store

    def _blank(self) -> bool:
        """Asked inside the transaction: another process may have begun the run a moment ago."""
        return not self.db.one("SELECT COUNT(*) FROM sqlite_master")

    def _create(self, terms: RunTerms, inputs: Inputs, names: Mapping[str, str]) -> None:
        if self.db.blank:
            self.db.create(SCHEMA)
        values = {
            "promise": terms.promise.text,
            "commitment": terms.promise.commitment,
            "seed": terms.secret.seed.hex(),
            "nonce": terms.secret.nonce.hex(),
            "block": str(terms.block),
            "votes": votes_word(terms.votes),
            "begun": _now(),
            **names,
            **note_of(terms.noted or {}),
        }
        self.db.execute_many("INSERT INTO run VALUES (?, ?)", iter(values.items()))
        self.db.execute_many(
            "INSERT INTO images (place, number, truth) VALUES (?, ?, ?)",
            ((place, *image) for place, image in enumerate(zip(inputs.indices, inputs.labels, strict=True))),
        )

    def _check(self, asked: RunTerms, inputs: Inputs) -> None:
        check_same_terms(str(self.db.path), self.terms, asked)
        check_kinds(self.db, self.schema, ALL)
        self._check_images(inputs)
        self._check_rows()
        self.check_not_concluded()

    def check_not_concluded(self) -> None:
        """A ValueError for a run of which an image was ended from outside: what it says stays as it was handed over."""
        ended = self.progress().aborted
        if ended:
            raise ValueError(
                f"{str(self.db.path)!r} was concluded: {ended} of its images were aborted, and certified at their last "
                "full look. It is not continued; another run needs another file"
            )

    def _check_images(self, inputs: Inputs) -> None:
        """A ValueError unless the images are the promised ones."""
        stored = self.db.rows("SELECT number, truth FROM images ORDER BY place")
        for place, image in enumerate(zip(inputs.indices, inputs.labels, strict=True)):
            if next(stored, None) != image:
                raise self.damaged(f"the image at place {place} has another number or label than was promised")

    def _check_rows(self) -> None:
        """A ValueError for blocks that would be counted, and images that would be passed over, in silence."""
        ours = {(int(block.purpose), block.first, block.count) for block in self.all_blocks}
        for place, *block in self.db.rows("SELECT MIN(place), purpose, first, count FROM blocks GROUP BY 2, 3, 4"):
            if tuple(block) not in ours:
                raise self.damaged(f"at place {place} it has a block that is none of this run")
        lost = self.db.one(
            "SELECT place FROM images WHERE state NOT IN (0, 1, 2) "
            "OR (state = 1) != (place IN (SELECT place FROM certificates)) LIMIT 1"
        )
        if lost is not None:
            raise self.damaged(f"the image at place {lost} is not as finished as its state says")

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
        votes, hits = votes_text(counts), hits if self.terms.votes else None
        with self.db.transaction():
            row = (place, int(block.purpose), block.first, block.count, votes, hits)
            added = self.db.execute(BLOCK, *row, self._environment(environment), seconds).rowcount
            if not added:
                self._compare(place, block, votes, hits)
        return bool(added)

    def _compare(self, place: int, block: VoteBlock, votes: str, hits: bytes | None) -> None:
        (stored,) = self.db.rows(
            "SELECT votes, hits FROM blocks WHERE place = ? AND purpose = ? AND first = ?",
            place, int(block.purpose), block.first,
        )  # fmt: skip
        if stored != (votes, hits):
            self.add_finding(place, f"{block} was voted twice: {stored[0]}, which is kept, and {votes}")

    def add_alone(
        self, place: int, block: VoteBlock, kept: bytes, seconds: float, environment: Mapping[str, str]
    ) -> bool:
        """Store which rows of a block are hits alone too, unless that is there: the first result wins here as well."""
        with self.db.transaction():
            added = self.db.execute(ALONE, place, block.first, kept, self._environment(environment), seconds).rowcount
            if not added and self.alone(place)[block.first] != kept:
                rows = f"rows of the block of copies {block.first} to {block.first + block.count - 1}"
                self.add_finding(place, f"{rows} were voted alone twice, with different results; the first is kept")
        return bool(added)

    def add_certificate(self, place: int, certificate: Certificate) -> bool:
        """Store a certificate, unless the image has one; whether it was stored.

        A run that an older version began has no room for fields that came later: they are left out.
        """
        fields, kept = stored_fields(self.db.version), certificate
        if self.db.version != VERSION:
            later: dict[str, Any] = {field.name: None for field, _ in set(stored_fields(VERSION)) - set(fields)}
            kept = replace(certificate, **later)
        with self.db.transaction():
            cells = {column.name: column.cell(field.of(kept)) for field, column in fields}
            cells["environment"] = self._environment(kept.environment)
            row = (place, *cells.values(), digest_of(kept.to_json()))
            places = ", ".join("?" * len(row))
            added = self.db.execute(f"INSERT OR IGNORE INTO certificates VALUES ({places})", *row).rowcount
            self.db.execute("UPDATE images SET state = ? WHERE place = ?", State.FINISHED, place)
        return bool(added)

    def _environment(self, found: Mapping[str, str]) -> int:
        """The number under which software and machine are kept; each kind once."""
        text, known = json.dumps(dict(found), ensure_ascii=False), "SELECT id FROM environments WHERE text = ?"
        id: int | None = self.db.one(known, text)
        if id is None:
            self.db.execute("INSERT OR IGNORE INTO environments (text) VALUES (?)", text)
            id = self.db.one(known, text)
        assert id is not None
        return id

    def add_attempts(self, place: int, count: int, error: str) -> None:
        """Record attempts at a block of the image that ended with an error."""
        self.db.execute("UPDATE images SET attempts = attempts + ?, error = ? WHERE place = ?", count, error, place)

    def add_failure(self, place: int) -> Failure:
        """Give an image up for now. Its blocks stay; the next start tries the missing ones again, on the same noise."""
        self.db.execute("UPDATE images SET state = ? WHERE place = ? AND state = 0", State.FAILED, place)
        (row,) = self.db.rows("SELECT number, truth, attempts, error FROM images WHERE place = ?", place)
        return Failure(*row)

    def reopen_failures(self) -> None:
        self.db.execute("UPDATE images SET state = ? WHERE state = 2", State.OPEN)

    def note_time(self) -> None:
        """Something is being written: note when, for people."""
        self.db.execute("INSERT OR REPLACE INTO run VALUES (?, ?)", WRITTEN, _now())

    def add_clean(self, correct: int) -> None:
        """Note how many images the model gets right without noise, unless that is there. No claim rests on it."""
        share = f"{correct} of {self.progress().images}"
        self.db.execute("INSERT OR IGNORE INTO run VALUES (?, ?)", CLEAN, share)

    def note_mixed(self, place: int) -> None:
        """A finding for an image that was not voted on under one software, or on one machine."""
        if self.mixed(place):
            self.add_finding(place, "its blocks were voted under different versions of software or machines")

    def add_finding(self, place: int, text: str) -> None:
        self.db.execute("INSERT INTO findings (at, place, text) VALUES (?, ?, ?)", _now(), place, text)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
