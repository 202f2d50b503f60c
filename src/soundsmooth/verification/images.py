"""Image by image through a run's file: does each certificate follow from its blocks, and is every block there?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter

from ..audit import check_record
from ..certification.certificate import OTHER_COIN, Certificate
from ..certification.fields import is_time
from ..certification.votes import added
from ..independence.measure import SampledRows, measurement, rows_by_block, sample_rows
from ..noise import SHARED_STREAM, Purpose
from ..runs.header import PLACED, Row
from ..runs.image_votes import ImageVotes, image_votes
from ..runs.packs import rounds_passed
from ..runs.reader import RunReader, Software, software_of
from ..runs.schema import State
from ..runs.stored import StoredBlock
from ..smoothing.blocks import VoteBlock, hits_of
from .result import Verification
from .statements import Claimed

#: Of all classes in all blocks of an image: a short text may name many, and they are held in memory together.
MOST_COUNTS = 1 << 27


def inspect_images(run: RunReader, result: Verification) -> "Inspection":
    """Every image of the run: its state, its blocks, its certificate. Findings and counts go into `result`.

    Nothing but the numbers of images is kept.

    Guarantee: without findings the images are as many as promised, each with a number of its own; each finished one
    has all its blocks and no other, which add up to the counts of its certificate and agree with their bitmaps; where
    independence was measured, exactly the rows that promise, seed and nonce name were voted alone, and those lost add
    up to the certificate's; each certificate fits its digest, and `audit.check_record` accepts it.
    """
    before = result.findings.count
    result.tally.expect(run.promise)
    found = Inspection(run, result)
    found.read_environments()
    rows = merge(*map(found.placed_rows, PLACED), key=itemgetter(0))
    for place, group in groupby(rows, key=itemgetter(0)):
        found.inspect_image(place, list(group))
    if len(found.numbers) != result.tally.promised:
        result.findings.add(f"there are {len(found.numbers)} images, but {result.tally.promised} were promised")
    if len(set(found.numbers)) != len(found.numbers):
        result.findings.add("two images have the same number")
    found.contradicted = result.findings.count > before
    return found


@dataclass
class Inspection:
    """What model, data and votes are compared with: what a run's file says of its images, as far as it was read."""

    run: RunReader
    result: Verification
    claimed: list[Claimed] = field(default_factory=list)
    paid: dict[int, float] = field(default_factory=dict)
    """What was paid for rounding to the grid, by place, if that was promised."""
    numbers: list[int] = field(default_factory=list)
    truths: list[int | None] = field(default_factory=list)
    environments: dict[int, Software] = field(default_factory=dict)
    blocks: int = 0
    without_bitmap: int = 0
    """Blocks of estimation that do not say which copies were hits."""
    contradicted: bool = False
    """Whether the file contradicts itself."""

    def read_environments(self) -> None:
        for id, text in self.run.environment_texts():
            try:
                self.environments[id] = software_of(text)
            except ValueError as error:
                self.result.findings.add(f"environment {id} {error}")

    def placed_rows(self, table: str) -> Iterator[tuple[int, str, Row]]:
        """All rows of a table about images, by place: (place, table, row)."""
        for place, *row in self.run.placed(table):
            if type(place) is int:
                yield place, table, tuple(row)
            else:
                self.result.findings.add(f"a row belongs to no image, but to {place!r:.80}")

    def inspect_image(self, place: int, rows: Sequence[tuple[int, str, Row]]) -> None:
        """All that is stored for one place."""
        images, certificates, blocks, alone, _ = ([row for _, of, row in rows if of == table] for table in PLACED)
        if len(images) != 1 or place != len(self.numbers):
            self.result.findings.add(
                f"something is stored for place {place}, where there is no image, or more than one"
            )
            return
        fits, finished = self.run.fits("images", images[0]), bool(certificates)
        number, truth, *state = images[0] if fits else (-1 - place, None)
        self.numbers.append(number)
        self.truths.append(truth)
        if not fits:
            self._say(place, "its row is malformed")
            return
        self._check_state(place, finished, *state)
        votes = lost = None
        try:
            stored, votes = self._stored_blocks(blocks, truth, finished)
            lost = self._lost(number, alone, stored, votes.estimation.total, finished)
        except (ValueError, OverflowError) as error:  # the latter for a number that no image has
            self._say(number, str(error))
        for row in certificates:
            self._inspect_certificate(place, row, votes, lost)

    def _say(self, number: int, text: str) -> None:
        self.result.findings.add(f"image {number}: {text}")

    def _check_state(self, place: int, certified: bool, state: int, attempts: int, error: str | None) -> None:
        number, truth = self.numbers[place], self.truths[place]
        if not 0 <= number < SHARED_STREAM or (truth is not None and truth < 0):
            self._say(number, "its number or its label is negative")
        if state not in list(State) or (state == State.FINISHED) != certified:
            has = "has a certificate" if certified else "has no certificate"
            self._say(number, f"its state is {state}, but it {has}")
        if attempts < 0 or (error is None) != (attempts == 0) or (state == State.FAILED and not attempts):
            self._say(number, "its state, its attempts and its error contradict each other")
        self.result.tally.failed += state == State.FAILED and not certified

    def _stored_blocks(
        self, rows: Sequence[Row], truth: int | None, finished: bool
    ) -> tuple[list[StoredBlock], ImageVotes]:
        """The blocks of an image and their votes, decided as the promise says; a ValueError if they are not what they
        should be, or more than memory holds.
        """
        stored, counts = [], 0
        for row in rows:
            stored.append(self.run.block_of(row))
            counts += len(stored[-1].counts.classes)
            if counts > MOST_COUNTS:
                raise ValueError(f"its {len(rows)} blocks count more classes than can be held in memory")
        self._check_bitmaps(stored)
        there = {each.block: each.counts for each in stored}
        votes = image_votes(self.run.stated.settings, self.run.rounds, truth, there)
        self._check_layout([each.block for each in stored], votes, finished)
        if not {each.environment for each in stored} <= self.environments.keys():
            raise ValueError("one of its blocks names an environment that is not there")
        self.blocks += len(stored)
        return stored, votes

    def _check_layout(self, there: Sequence[VoteBlock], votes: ImageVotes, finished: bool) -> None:
        """All blocks up to the look at which the image stopped, and no other. An image that was ended before it stopped
        may have some of those up to the next look.
        """
        rounds = self.run.rounds
        passed = rounds_passed(votes, rounds)
        whole = [block for round in rounds[:passed] for block in round]
        begun = rounds[passed] if votes.missing and passed < len(rounds) else []
        if finished and (not passed or list(there[: len(whole)]) != whole):
            raise ValueError(f"its {len(there)} blocks are not the {len(whole)} that cover n0 and n copies")
        if not set(there) <= {*whole, *begun}:
            raise ValueError("it has blocks that are none of this run, or come after the look at which it stopped")

    def _check_bitmaps(self, stored: Sequence[StoredBlock]) -> None:
        """A bitmap for each block of estimation, if they are kept, and for no other."""
        if len({len(each.counts.classes) for each in stored}) > 1:
            raise ValueError("its blocks have different numbers of classes")
        selection, estimation = (_blocks_for(stored, purpose) for purpose in (Purpose.SELECTION, Purpose.ESTIMATION))
        if any(each.hits is not None for each in selection):
            raise ValueError("a block of selection has a bitmap of hits")
        kept = self.run.stated.votes
        if any((each.hits is not None) != kept for each in estimation):
            raise ValueError(f"bitmaps of hits are {'kept' if kept else 'left out'} in this run, but not here")
        self.without_bitmap += 0 if kept else len(estimation)
        if estimation:
            self._check_hits(selection, estimation)

    def _check_hits(self, selection: Sequence[StoredBlock], estimation: Sequence[StoredBlock]) -> None:
        """Each bitmap has a bit for each vote for the class that all of selection chose."""
        if sum(each.block.count for each in selection) != int(self.run.stated.promise.values["n0"]):
            raise ValueError("estimation began before selection had ended")
        guess = added(each.counts for each in selection).top
        for each in estimation:
            if each.hits is not None and hits_of(each.hits, each.block.count).sum() != each.counts.classes[guess]:
                raise ValueError(f"the bitmap of {each.block} does not have as many hits as its counts")

    def _lost(
        self, number: int, rows: Sequence[Row], stored: Sequence[StoredBlock], copies: int, finished: bool
    ) -> int | None:
        """How many of the rows that were voted alone are lost, None if none were to be; a ValueError if they are not
        the promised ones among so many copies.
        """
        if not all(self.run.fits("alone", row) and row[2] in self.environments and is_time(row[3]) for row in rows):
            raise ValueError("what is stored of its rows that were voted alone is malformed")
        secret, promise = self.run.stated.secret, self.run.stated.promise
        drawn = sample_rows(secret, promise, number, copies) if rows or finished else None
        if drawn is None:
            if rows:
                raise ValueError("rows were voted alone, which was not promised")
            return None
        if not self.run.stated.votes:
            raise ValueError("rows were to be voted alone, but the bitmaps that say which were hits were left out")
        return _count_lost(drawn, stored, {first: kept for first, kept, *_ in rows}, finished)

    def _inspect_certificate(self, place: int, row: Row, votes: ImageVotes | None, lost: int | None) -> None:
        number, truth = self.numbers[place], self.truths[place]
        try:
            certificate, record, _, fits = self.run.certificate_of(number, truth, row, self.environments)
        except (ValueError, ArithmeticError, TypeError) as error:
            self._say(number, str(error))
            return
        if votes is not None:
            self._compare(certificate, votes, lost)
        if not certificate.has_due_coin:
            self._say(number, OTHER_COIN)
        report = check_record(record)
        for text in report.findings:
            self._say(number, text)
        if not fits:
            self._say(number, "its certificate does not fit its digest")
        self.result.tally.add(certificate.label, truth, certificate.radius, bool(certificate.aborted), report)
        label, paid = certificate.label, certificate.paid
        if paid is not None:
            self.paid[place] = paid
        if label is not None:
            copies = certificate.estimation.total
            claimed = Claimed(place, number, label, truth, certificate.radius, certificate.p_lower, copies, paid)
            self.claimed.append(claimed)

    def _compare(self, certificate: Certificate, votes: ImageVotes, lost: int | None) -> None:
        for name in ("selection", "estimation"):
            if getattr(votes, name) != getattr(certificate, name):
                self._say(certificate.index, f"its blocks do not add up to its certificate's counts for {name}")
        if votes.looks != certificate.looks:
            self._say(certificate.index, "its blocks do not add up to its certificate's looks")
        if votes.missing and not certificate.aborted:
            self._say(certificate.index, "it ended where the promised rule goes on, which its certificate does not say")
        if certificate.aborted and not votes.missing:
            self._say(certificate.index, "it ended where the promised rule ends it, and is said to be aborted")
        if lost is not None and (certificate.measured is None or certificate.measured.lost != lost):
            self._say(certificate.index, "its rows that were lost alone do not add up to its certificate's")


def _blocks_for(stored: Sequence[StoredBlock], purpose: Purpose) -> list[StoredBlock]:
    return [each for each in stored if each.block.purpose == purpose]


def _count_lost(drawn: SampledRows, stored: Sequence[StoredBlock], kept: Mapping[int, bytes], finished: bool) -> int:
    """How many of the drawn rows are lost, where `kept` has the rows alone by the first copy of their block."""
    hits = rows_by_block(drawn, ((each.block, each.hits) for each in stored))
    wanted = {block.first for block in hits}
    if not kept.keys() <= wanted or (finished and kept.keys() != wanted):
        raise ValueError("the rows that were voted alone are not those that promise, seed and nonce name")
    there = {block: rows for block, rows in hits.items() if block.first in kept}
    alone = {block: hits_of(kept[block.first], len(rows)) for block, rows in there.items()}
    return measurement(drawn, there, alone).lost
