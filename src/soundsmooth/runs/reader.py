"""A run's file, read strictly: for those who show, export, continue or audit it.

Nothing that is read is believed before its form was checked. Whether it is true is the auditor's business (`verify`).
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from ..certification.certificate import Certificate
from ..certification.certify import Measurement
from ..certification.fields import is_environment, is_time, read_json
from ..certification.votes import counts_of
from ..noise import Purpose
from ..smoothing.blocks import VoteBlock
from .damage import check_kinds
from .database import Database
from .header import Row, RunHeader
from .image_votes import ImageVotes, image_votes
from .schema import SAID, stored_fields
from .stored import Failure, Progress, RunTerms, StoredBlock, StoredCertificate

Software = dict[str, str]
PURPOSES = (Purpose.SELECTION, Purpose.ESTIMATION)


def digest_of(line: str) -> bytes:
    """The digest that is stored beside a certificate: SHA-256 of its JSON."""
    return hashlib.sha256(line.encode()).digest()


class RunReader(RunHeader):
    """A run that is read, finished or not: its terms, its votes, its certificates and failures."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """A run to look at as it is now. The file may be anybody's, and is not touched."""
        found = cls(Database.snapshot(path))
        try:
            if found.db.blank:
                raise ValueError(f"{str(path)!r} holds no run yet")
            found.terms  # noqa: B018  (damaged ones are refused here)
            check_kinds(found.db, found.schema, SAID)
        except BaseException:
            found.close()
            raise
        return found

    def block_of(self, row: Row) -> StoredBlock:
        """A block from its row, its place left out; a ValueError if it is none.

        Guarantee: it has a vote for each of its copies.
        """
        if not self.fits("blocks", row) or row[0] not in PURPOSES or not is_time(row[-1]):
            raise ValueError("one of its blocks is malformed")
        purpose, first, count, votes, hits, environment, seconds = row
        block, counts = VoteBlock(Purpose(purpose), first, count), counts_of(votes)
        if counts.total != count:
            raise ValueError(
                f"the votes of a block are not as many as its copies: {block} has {counts.total} votes, not {count}"
            )
        return StoredBlock(block, counts, hits, environment, seconds)

    def blocks(self, place: int, purpose: Purpose | None = None, first: int | None = None) -> Iterator[StoredBlock]:
        """The stored blocks of an image in order, all or some; a ValueError for what is none."""
        wanted = {"place": place, "purpose": purpose, "first": first}
        given = {name: int(value) for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given)
        for _, *row in self.db.rows(f"SELECT * FROM blocks WHERE {where} ORDER BY purpose, first", *given.values()):
            try:
                yield self.block_of(tuple(row))
            except ValueError as error:
                raise self.damaged(error) from None

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
        return [(place, max(self.blocks(place), key=_size)) for place in places]

    def votes(self, place: int) -> ImageVotes:
        """What is stored of an image's votes, and what is still to be voted."""
        there = {stored.block: stored.counts for stored in self.blocks(place)}
        if len({len(counts.classes) for counts in there.values()}) > 1:
            raise self.damaged(f"the blocks at place {place} have different numbers of classes")
        _, truth = self.image(place)
        return image_votes(self.stated.settings, self.rounds, truth, there)

    def image(self, place: int) -> tuple[int, int | None]:
        """The number of an image, and its promised label."""
        (found,) = self.db.rows("SELECT number, truth FROM images WHERE place = ?", place)
        return found

    def classes(self) -> int | None:
        """How many classes the model has, once a block is stored."""
        place = self.db.one("SELECT place FROM blocks LIMIT 1")
        return None if place is None else len(next(self.blocks(place)).counts.classes)

    def alone(self, place: int) -> dict[int, bytes]:
        """What is stored of an image's rows alone, by the first copy of their block; `blocks.hits_of` unpacks it."""
        return dict(self.db.rows("SELECT first, kept FROM alone WHERE place = ? ORDER BY first", place))

    def seconds(self, place: int) -> float:
        """How long the stored blocks of an image took together, and its rows that were voted alone."""
        sums = (f"SELECT COALESCE(SUM(seconds), 0.0) FROM {table} WHERE place = ?" for table in ("blocks", "alone"))
        return float(sum(self.db.one(each, place) for each in sums))

    def mixed(self, place: int) -> bool:
        """Whether blocks or rows of an image were voted under different versions of software, or on different machines.

        (A package that only one of the processes had loaded is no difference.)
        """
        query = (
            "SELECT text FROM environments WHERE id IN (SELECT blocks.environment FROM blocks WHERE place = ? "
            "UNION SELECT alone.environment FROM alone WHERE place = ?)"
        )
        seen: Software = {}
        texts = [text for (text,) in self.db.rows(query, place, place)]
        for text in texts if len(texts) > 1 else ():
            if any(seen.setdefault(name, value) != value for name, value in self._software(text).items()):
                return True
        return False

    def recorded_environment(self, place: int) -> Software:
        """Software, machine and data as the run's certificates have them; without any, as the image's votes do."""
        last = "SELECT environment FROM certificates ORDER BY place DESC LIMIT 1"
        id = self.db.one(last) or self.db.one("SELECT environment FROM blocks WHERE place = ? LIMIT 1", place)
        return self._software(self.db.one("SELECT text FROM environments WHERE id = ?", id) or "")

    def _software(self, text: str) -> Software:
        try:
            return software_of(text)
        except ValueError:
            raise self.damaged(f"this says nothing of software and machine: {text[:80]!r}") from None

    def certificate_of(
        self, number: int, truth: int | None, row: Row, environments: Mapping[int, Software]
    ) -> StoredCertificate:
        """The certificate of an image from its row, its place left out; a ValueError or OverflowError if it is none."""
        if not self.fits("certificates", row):
            raise ValueError("its certificate is malformed")
        *cells, digest = row
        fields = zip(stored_fields(self.db.version), cells, strict=True)
        values = {field.name: column.value(cell) for (field, column), cell in fields}
        if values["environment"] not in environments:
            raise ValueError("its certificate names an environment that is not there")
        if not is_time(values["seconds"]):
            raise ValueError(f"the time of image {number} is no number of seconds")
        promise, secret = self.stated.promise, self.stated.secret
        values["environment"] = environments[values["environment"]]
        if values["measured"] is not None:
            values["measured"] = Measurement(promise.independence.rows or 0, values["measured"])
        seed, nonce = secret.seed.hex(), secret.nonce.hex()
        certificate = Certificate(index=number, truth=truth, promise=promise, seed=seed, nonce=nonce, **values)
        record = certificate.to_dict()
        line = json.dumps(record, ensure_ascii=False)
        return StoredCertificate(certificate, record, line, digest_of(line) == digest)

    def environments(self) -> dict[int, Software]:
        """Software and machines, by their numbers."""
        return {id: self._software(text) for id, text in self.environment_texts()}

    def environment_texts(self) -> Iterator[tuple[int, str]]:
        """The same as it is written; `software_of` reads it."""
        return ((id, text) for id, text in self.db.rows("SELECT id, text FROM environments"))

    def _records(self) -> Iterator[tuple[int, StoredCertificate]]:
        """The certificates in the order of the images, one at a time; a ValueError for one that was changed."""
        environments = self.environments()
        query = "SELECT number, truth, certificates.* FROM certificates JOIN images USING (place) ORDER BY place"
        for number, truth, place, *row in self.db.rows(query):
            try:
                found = self.certificate_of(number, truth, tuple(row), environments)
            except (ValueError, OverflowError, TypeError) as error:
                raise self.damaged(f"image {number}: {error}") from None
            if not found.fits:
                raise self.damaged(f"image {number} does not fit its digest")
            yield place, found

    def certificates(self) -> Iterator[Certificate]:
        """The certificates in the order of the images, one at a time; a ValueError for one that was changed."""
        return (found.certificate for _, found in self._records())

    def placed_certificates(self) -> Iterator[tuple[int, Certificate]]:
        """The same, with the places of their images."""
        return ((place, found.certificate) for place, found in self._records())

    def lines(self) -> Iterator[str]:
        """The same, each as one line of JSON."""
        return (found.line for _, found in self._records())

    def failures(self) -> Iterator[Failure]:
        return (failure for _, failure in self.placed_failures())

    def placed_failures(self) -> Iterator[tuple[int, Failure]]:
        query = "SELECT place, number, truth, attempts, error FROM images WHERE state = 2 ORDER BY place"
        return ((place, Failure(*row)) for place, *row in self.db.rows(query))

    def findings(self) -> Iterator[tuple[int, str]]:
        """The numbers of images and what was found about them; a ValueError if one is about no image of the run."""
        query = "SELECT place, number, text FROM findings LEFT JOIN images USING (place) ORDER BY id"
        for place, number, text in self.db.rows(query):
            if number is None:
                raise self.damaged(f"it has a finding for place {place}, where there is no image")
            yield number, text

    def unfinished(self) -> list[int]:
        """The places of the images without a certificate, those that failed included."""
        return [place for (place,) in self.db.rows("SELECT place FROM images WHERE state != 1 ORDER BY place")]

    def has_open_images(self) -> bool:
        return bool(self.db.one("SELECT EXISTS (SELECT 1 FROM images WHERE state = 0)"))

    def progress(self) -> Progress:
        (row,) = self.db.rows(
            "SELECT (SELECT COUNT(*) FROM images), (SELECT COUNT(label) FROM certificates), "
            "(SELECT COUNT(*) - COUNT(label) FROM certificates), (SELECT COUNT(*) FROM images WHERE state = 2), "
            "(SELECT COUNT(*) FROM findings)"
        )
        images, certified, unlabelled, failed, findings = row
        skipped, aborted = (0, 0) if self.stated.settings.looks is None else self._ended_otherwise()
        return Progress(images, certified, unlabelled - skipped, failed, findings, skipped, aborted)

    def _ended_otherwise(self) -> tuple[int, int]:
        """How many images were skipped, and how many aborted."""
        (row,) = self.db.rows(
            "SELECT COUNT(*) FILTER (WHERE label IS NULL AND looks = '[]' AND aborted IS NULL), COUNT(aborted) "
            "FROM certificates"
        )
        skipped, aborted = row
        return skipped, aborted

    def copies_voted(self) -> int:
        """How many noisy copies have voted so far."""
        begun: int = self.db.one(
            "SELECT COALESCE(SUM(count), 0) FROM blocks WHERE place IN "
            "(SELECT place FROM images WHERE state = 0 UNION ALL SELECT place FROM images WHERE state = 2)"
        )
        return begun + self.copies_spent()

    def copies_spent(self) -> int:
        """How many noisy copies of finished images have voted. (Without looks, all: no need to read them.)"""
        if self.stated.settings.looks is None:
            return self.progress().finished * sum(block.count for block in self.all_blocks)
        query = "SELECT COALESCE(SUM(count), 0) FROM blocks WHERE place IN (SELECT place FROM images WHERE state = 1)"
        return int(self.db.one(query))

    def labelled(self) -> bool:
        """Whether every image has a promised label."""
        return not self.db.one("SELECT EXISTS (SELECT 1 FROM images WHERE truth IS NULL)")

    def correct(self) -> int:
        """How many certificates have the promised label, as the file states them."""
        found: int = self.db.one("SELECT COUNT(*) FROM certificates JOIN images USING (place) WHERE label = truth")
        return found

    def correct_radii(self) -> Iterator[float]:
        """The radii of the certificates whose label is the promised one, as the file states them."""
        for (radius,) in self.db.rows("SELECT radius FROM certificates JOIN images USING (place) WHERE label = truth"):
            if not 0 <= radius < math.inf:
                raise self.damaged(f"{radius} is no radius")
            yield radius


def software_of(text: str) -> Software:
    """Software and machine, as they are written beside votes and certificates; a ValueError for anything else."""
    try:
        found = read_json(text)
    except (ValueError, TypeError, RecursionError):
        raise ValueError("is not JSON") from None
    if not is_environment(found):
        raise ValueError("is not made of names and texts")
    return dict(found)


def _size(stored: StoredBlock) -> int:
    return stored.block.count


def terms_at(path: Path | None) -> RunTerms | None:
    """The terms of the run in a file; None if there is no run in it yet, and for a run in memory."""
    if path is None or not path.exists():
        return None
    with RunReader(Database(path, writable=False)) as run:
        return None if run.db.blank else run.terms
