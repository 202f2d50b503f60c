"""Image by image through a run's file: does each certificate follow from its blocks, and is every block there?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from ..audit import check_record
from ..certification.certificate import Certificate
from ..certification.fields import is_time
from ..certification.votes import added
from ..independence.measure import drawn_rows, rows_by_block
from ..noise import SHARED_STREAM, Purpose
from ..runs.reader import PLACED, Row, RunReader, Software, software_of
from ..runs.schema import State
from ..runs.stored import StoredBlock
from ..smoothing.blocks import VoteBlock, hits_of
from .findings import Findings
from .tally import Tally

#: Of all classes in all blocks of an image: a short text may name many, and they are held in memory together.
MOST_COUNTS = 1 << 27
TABLES = tuple(PLACED)


class Claimed(NamedTuple):
    """A certificate with a label: something that a replay can confirm or refuse."""

    place: int
    number: int
    """Of the image, in its data set."""
    label: int
    truth: int | None
    radius: float
    p_lower: float


@dataclass
class Inspection:
    """What was found in a run's file."""

    tally: Tally
    findings: Findings = field(default_factory=Findings)
    claimed: list[Claimed] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    truths: list[int | None] = field(default_factory=list)
    blocks: int = 0
    without_bitmap: int = 0
    """Blocks of estimation that do not say which copies were hits."""


def inspect_images(run: RunReader) -> Inspection:
    """Every image of the run: its state, its blocks, its certificate. Nothing but the numbers of images is kept.

    Guarantee: without findings the images are as many as promised, each with a number of its own; each finished one
    has all its blocks and no other, which add up to the counts of its certificate and agree with their bitmaps; where
    independence was measured, exactly the rows that promise, seed and nonce name were voted alone, and those lost add
    up to the certificate's; each certificate fits its digest, and `audit.check_record` accepts it.
    """
    found = Inspection(Tally(promised=int(run.promise.values["input count"])))
    auditor = _ImageAuditor(run, found, _environments(run, found.findings))
    for place, rows in groupby(_rows(run, found.findings), key=itemgetter(0)):
        auditor.image(place, list(rows))
    if len(found.numbers) != found.tally.promised:
        found.findings.add(f"there are {len(found.numbers)} images, but {found.tally.promised} were promised")
    if len(set(found.numbers)) != len(found.numbers):
        found.findings.add("two images have the same number")
    return found


def _rows(run: RunReader, findings: Findings) -> Iterator[tuple[int, int, Row]]:
    """All rows about images, by place: (place, which table, row)."""

    def placed(table: int) -> Iterator[tuple[int, int, Row]]:
        for place, *row in run.placed(TABLES[table]):
            if type(place) is int:
                yield place, table, tuple(row)
            else:
                findings.add(f"a row belongs to no image, but to {place!r:.80}")

    return merge(*map(placed, range(len(TABLES))), key=itemgetter(0, 1))


def _environments(run: RunReader, findings: Findings) -> dict[int, Software]:
    found = {}
    for id, text in run.environment_texts():
        try:
            found[id] = software_of(text)
        except ValueError as error:
            findings.add(f"environment {id} {error}")
    return found


@dataclass
class _ImageAuditor:
    run: RunReader
    found: Inspection
    environments: dict[int, Software]

    def image(self, place: int, rows: Sequence[tuple[int, int, Row]]) -> None:
        images, certificates, blocks, alone, _ = (
            [row for _, table, row in rows if table == i] for i in range(len(TABLES))
        )
        if len(images) != 1 or place != len(self.found.numbers):
            self.found.findings.add(f"something is stored for place {place}, where there is no image, or more than one")
            return
        if not self.run.fits("images", images[0]):
            self._say(place, "its row is malformed")
            self.found.numbers.append(-1 - place)
            self.found.truths.append(None)
            return
        number, truth, state, attempts, error = images[0]
        self.found.numbers.append(number)
        self.found.truths.append(truth)
        if not 0 <= number < SHARED_STREAM or (truth is not None and truth < 0):
            self._say(number, "its number or its label is negative")
        self._state(number, state, attempts, error, bool(certificates))
        stored = self._blocks(number, blocks, finished=bool(certificates))
        lost = None if stored is None else self._alone(number, alone, stored, finished=bool(certificates))
        for row in certificates:
            self._certificate(place, number, truth, row, stored, lost)

    def _say(self, number: int, text: str) -> None:
        self.found.findings.add(f"image {number}: {text}")

    def _state(self, number: int, state: int, attempts: int, error: str | None, certified: bool) -> None:
        if state not in list(State) or (state == State.FINISHED) != certified:
            has = "has a certificate" if certified else "has no certificate"
            self._say(number, f"its state is {state}, but it {has}")
        if attempts < 0 or (error is None) != (attempts == 0) or (state == State.FAILED and not attempts):
            self._say(number, "its state, its attempts and its error contradict each other")
        self.found.tally.failed += state == State.FAILED and not certified

    def _blocks(self, number: int, rows: Sequence[Row], finished: bool) -> list[StoredBlock] | None:
        """The blocks, or None if they are not what they should be."""
        try:
            stored = self._all_stored(rows)
            self._layout([each.block for each in stored], finished)
            self._bitmaps(stored)
            if not {each.environment for each in stored} <= self.environments.keys():
                raise ValueError("one of its blocks names an environment that is not there")
        except ValueError as error:
            self._say(number, str(error))
            return None
        self.found.blocks += len(stored)
        return stored

    def _layout(self, there: Sequence[VoteBlock], finished: bool) -> None:
        wanted = self.run.all_blocks
        if finished and list(there) != wanted:
            raise ValueError(f"its {len(there)} blocks are not the {len(wanted)} that cover n0 and n copies")
        if not finished and not set(there) <= set(wanted):
            raise ValueError("it has blocks that are none of this run")

    def _bitmaps(self, stored: Sequence[StoredBlock]) -> None:
        """A bitmap for each block of estimation, if they are kept, with a bit for each vote for the selected class."""
        if len({len(each.counts.classes) for each in stored}) > 1:
            raise ValueError("its blocks have different numbers of classes")
        selection = [each for each in stored if each.block.purpose == Purpose.SELECTION]
        estimation = [each for each in stored if each.block.purpose == Purpose.ESTIMATION]
        if any(each.hits is not None for each in selection):
            raise ValueError("a block of selection has a bitmap of hits")
        if any((each.hits is not None) != self.run.stated.votes for each in estimation):
            kept = "kept" if self.run.stated.votes else "left out"
            raise ValueError(f"bitmaps of hits are {kept} in this run, but not here")
        self.found.without_bitmap += 0 if self.run.stated.votes else len(estimation)
        if not estimation:
            return
        if sum(each.block.count for each in selection) != int(self.run.stated.promise.values["n0"]):
            raise ValueError("estimation began before selection had ended")
        guess = added(each.counts for each in selection).top
        for each in estimation:
            if each.hits is not None and hits_of(each.hits, each.block.count).sum() != each.counts.classes[guess]:
                raise ValueError(f"the bitmap of {each.block} does not have as many hits as its counts")

    def _alone(self, number: int, rows: Sequence[Row], stored: Sequence[StoredBlock], finished: bool) -> int | None:
        """How many of the rows that were voted alone are lost; None if none were to be, or something is wrong."""
        try:
            return self._lost(number, rows, stored, finished)
        except (ValueError, OverflowError) as error:  # the latter for a number that no image has
            self._say(number, str(error))
            return None

    def _lost(self, number: int, rows: Sequence[Row], stored: Sequence[StoredBlock], finished: bool) -> int | None:
        if not all(self.run.fits("alone", row) and row[2] in self.environments and is_time(row[3]) for row in rows):
            raise ValueError("what is stored of its rows that were voted alone is malformed")
        drawn = drawn_rows(self.run.stated.secret, self.run.stated.promise, number) if rows or finished else None
        if drawn is None:
            if rows:
                raise ValueError("rows were voted alone, which was not promised")
            return None
        if not self.run.stated.votes:
            raise ValueError("rows were to be voted alone, but the bitmaps that say which were hits were left out")
        hits, kept = (
            rows_by_block(drawn, ((each.block, each.hits) for each in stored)),
            {row[0]: row[1] for row in rows},
        )
        wanted = {block.first for block in hits}
        if not kept.keys() <= wanted or (finished and kept.keys() != wanted):
            raise ValueError("the rows that were voted alone are not those that promise, seed and nonce name")
        there = [(block, hit, kept[block.first]) for block, hit in hits.items() if block.first in kept]
        return sum(drawn.inside(block).lost(hit, hits_of(bits, len(hit))) for block, hit, bits in there)

    def _certificate(
        self,
        place: int,
        number: int,
        truth: int | None,
        row: Row,
        stored: Sequence[StoredBlock] | None,
        lost: int | None,
    ) -> None:
        try:
            certificate, record, _, fits = self.run.certificate_of(number, truth, row, self.environments)
        except (ValueError, ArithmeticError, TypeError) as error:
            self._say(number, str(error))
            return
        if stored is not None:
            self._compare(number, certificate, stored, lost)
        report = check_record(record)
        for text in report.findings:
            self._say(number, text)
        if not fits:
            self._say(number, "its certificate does not fit its digest")
        self.found.tally.add(certificate.label, truth, certificate.radius, report.accepted, report.tight)
        if certificate.label is not None:
            claimed = Claimed(place, number, certificate.label, truth, certificate.radius, certificate.p_lower)
            self.found.claimed.append(claimed)

    def _compare(self, number: int, certificate: Certificate, stored: Sequence[StoredBlock], lost: int | None) -> None:
        for purpose, counts in ((0, certificate.selection), (1, certificate.estimation)):
            if added(each.counts for each in stored if each.block.purpose == purpose) != counts:
                name = Purpose(purpose).name.lower()
                self._say(number, f"its blocks do not add up to its certificate's counts for {name}")
        if lost is not None and (certificate.measured is None or certificate.measured.lost != lost):
            self._say(number, "its rows that were lost alone do not add up to its certificate's")

    def _all_stored(self, rows: Sequence[Row]) -> list[StoredBlock]:
        """The blocks of an image; a ValueError before they are more than memory holds."""
        stored, counts = [], 0
        for row in rows:
            stored.append(self.run.block_of(row))
            counts += len(stored[-1].counts.classes)
            if counts > MOST_COUNTS:
                raise ValueError(f"its {len(rows)} blocks count more classes than can be held in memory")
        return stored
