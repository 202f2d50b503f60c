"""Independence, measured: rows of the real batches are voted again, alone (docs/independence.md, "Measured")."""

import secrets
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from statistics import median
from typing import NamedTuple

import numpy as np

from ..certification.certify import Measurement
from ..certification.promise import Promise, Secret
from ..certification.settings import Settings
from ..core.grid import Floats, Levels
from ..exact import BOUNDS
from ..models.row_voter import RowVoter
from ..models.waiting_voters import give_back, take_voter
from ..noise import SHARED_STREAM, Purpose, Sampler
from ..noise.sources import FreshNoise, Source
from ..smoothing.blocks import Bits, VoteBlock, hits_of
from ..smoothing.classifier import Replica
from ..smoothing.job import VotingJob

_WAY_OUT = "independence checked measures nothing"
#: On so many rows, of no run, two fresh processes must agree.
TWICE = 16
#: More rows are voted alone until so many seconds have passed, or so many rows: they tell how long a row takes.
TRIED_SECONDS, TRIED_ROWS = 2.0, 160
#: Times are compared of so many rows in a row.
TOGETHER = 8


def check_measurable(settings: Settings) -> None:
    """Refuse, before the first draw, what a measurement does not go with."""
    if not BOUNDS[settings.bound].measurable:
        which = " or ".join(name for name, bound in BOUNDS.items() if bound.measurable)
        raise ValueError(f"measured independence goes with the bound {which}, not with {settings.bound}; {_WAY_OUT}")
    if settings.noise == "batchwise":
        raise ValueError(f"measured independence goes with fresh or shared noise, not with batchwise; {_WAY_OUT}")


class RowsToRecheck(NamedTuple):
    """Rows that were hits in their batch and are voted again, each alone."""

    label: int
    rows: tuple[int, ...]
    """Numbers of copies for estimation, in order, each once."""


@dataclass(frozen=True)
class SampledRows:
    """The rows of one input that are to be voted again: in order, and as often as they were drawn."""

    rows: tuple[int, ...]

    def inside(self, block: VoteBlock) -> "SampledRows":
        """Those of one block."""
        first, end = block.copies.start, block.copies.stop
        return SampledRows(self.rows[bisect_left(self.rows, first) : bisect_left(self.rows, end)])

    def among(self, hits: Bits, first: int = 0) -> tuple[int, ...]:
        """Those that were hits, each once; `hits` begins with the copy of number `first`.

        A row that was no hit cannot be lost.
        """
        return tuple(row for row in dict.fromkeys(self.rows) if hits[row - first])

    def lost(self, rows: Sequence[int], kept: Bits) -> int:
        """How many are lost if these rows were hits and `kept` says which are hits alone as well.

        A row that was drawn twice is voted once and counts twice.
        """
        gone = {row for row, stays in zip(rows, kept, strict=True) if not stays}
        return sum(row in gone for row in self.rows)


def sample_rows(secret: Secret, promise: Promise, index: int, copies: int) -> SampledRows | None:
    """The rows that promise, seed and nonce fix for the input of that number; None if none were promised.

    They are among the first `copies`, those up to the look at which the image stopped.

    Guarantee: a function of these alone. So they are the same in every run under the promise, however it is kept,
    and for whoever checks it.
    """
    count = promise.independence.rows
    if count is None:
        return None
    return SampledRows(tuple(sorted(secret.rows(promise, index, count, copies))))


def rows_by_block(
    drawn: SampledRows, stored: Iterable[tuple[VoteBlock, bytes | None]]
) -> dict[VoteBlock, tuple[int, ...]]:
    """The drawn rows that were hits, by their block and its bitmap of hits; blocks without any are left out."""
    found = {
        block: drawn.inside(block).among(hits_of(hits, block.count), block.first)
        for block, hits in stored
        if hits is not None
    }
    return {block: rows for block, rows in found.items() if rows}


def measurement(
    drawn: SampledRows, rows: Mapping[VoteBlock, Sequence[int]], kept: Mapping[VoteBlock, Bits]
) -> Measurement:
    """How many of the drawn rows were hits only in their batch; `kept` says which of a block's rows are hits alone."""
    lost = (drawn.inside(block).lost(each, kept[block]) for block, each in rows.items())
    return Measurement(len(drawn.rows), sum(lost))


class RowRecheck:
    """Votes on noisy copies of a run's inputs, each alone in a process of its own.

    Guarantee: that of `RowVoter`; each copy has the noise that the run's key gives it, wherever it was made before.
    """

    def __init__(self, job: VotingJob, replica: Replica) -> None:
        """A ValueError if the model cannot be made in a fresh process, cannot vote on a row alone at all, or is seen to
        vote otherwise when it is made again.
        """
        self._job, self._sampler = job, Sampler(replica.sampler.law, 1)
        self._model, self._alone = replica.model, tried_voter(replica, job.shape)

    def __enter__(self) -> "RowRecheck":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        give_back(self._alone, self._model, self._job.shape)

    def hits(self, number: int, x: Levels, again: RowsToRecheck) -> Bits:
        """Which of the rows of the input of that number vote for the label when each is alone."""
        source = self._source(number)
        copies = (source.noisy(Purpose.ESTIMATION, x, row, 1, sure=True) for row in again.rows)
        votes = self._alone.votes(values for noisy in copies for values in noisy.values)
        return np.array([vote == again.label for vote in votes], bool)

    def _source(self, number: int) -> Source:
        """The run's noise, made on the CPU row by row: it is the same wherever it is made."""
        stream = number if self._job.settings.noise == "fresh" else SHARED_STREAM
        return FreshNoise(self._sampler, self._job.key, stream)


class Rehearsal(NamedTuple):
    """What rows of no run, each voted alone, tell of those that will be."""

    seconds: float
    """About how long a row takes."""
    classes: int
    """How many classes a row could vote for."""


def rehearse(replica: Replica, shape: tuple[int, ...]) -> Rehearsal:
    """Vote on some rows alone. A ValueError if rows of the model cannot be voted alone.

    The process that was tried out waits for the measurement.
    """
    alone = tried_voter(replica, shape)
    give_back(alone, replica.model, shape)
    assert alone.seconds is not None
    return Rehearsal(alone.seconds, alone.classes)


def tried_voter(replica: Replica, shape: tuple[int, ...]) -> RowVoter:
    """A fresh process that has voted on some rows of no run; one of Python code agreed on them with another process."""
    alone = take_voter(replica.model, shape)
    if alone.seconds is None:
        try:
            _try_out(alone, replica, shape)
        except BaseException:
            alone.close()
            raise
    return alone


def _try_out(alone: RowVoter, replica: Replica, shape: tuple[int, ...]) -> None:
    """Have it vote, and see how long that takes. A graph that does not draw is one function; others are made twice."""
    sampler = Sampler(replica.sampler.law, 1)
    if not replica.model.kind.binding:
        rows = list(_some_rows(sampler, shape))
        with take_voter(replica.model, shape) as another:
            another.wait()
            alone.wait()
            _compare(list(alone.votes(iter(rows))), list(another.votes(iter(rows))))
    alone.wait()
    alone.seconds = typical_seconds(_answer_times(alone, sampler, shape))


def _answer_times(alone: RowVoter, sampler: Sampler, shape: tuple[int, ...]) -> list[float]:
    """When the votes came, of rows that are made one by one, as those of a measurement are; first, when it began."""
    start = time.perf_counter()

    def rows() -> Iterator[Floats]:
        for number, row in enumerate(chain.from_iterable(_some_rows(sampler, shape) for _ in count())):
            if number >= TOGETHER and (number >= TRIED_ROWS or time.perf_counter() - start > TRIED_SECONDS):
                return
            yield row

    return [start, *(time.perf_counter() for _ in alone.votes(rows()))]


def typical_seconds(times: Sequence[float]) -> float:
    """How long a row takes, from when each one was ready: the median over a few rows in a row, of the second half.

    The first rows are slower, or faster, than those of a long measurement: memory is not laid together yet.
    """
    latter = times[len(times) // 2 :] if len(times) > 4 * TOGETHER else times
    step = min(TOGETHER, len(latter) - 1)
    return median((after - before) / step for before, after in zip(latter, latter[step:], strict=False))


def _some_rows(sampler: Sampler, shape: tuple[int, ...]) -> Iterator[Floats]:
    """Noisy copies of greys from black to white, under a key that has nothing to do with any run."""
    source = FreshNoise(sampler, secrets.token_bytes(32), 0)
    greys = np.linspace(0, sampler.law.grid.levels - 1, TWICE).astype(np.int16)
    for number, grey in enumerate(greys):
        yield source.noisy(Purpose.PREDICTION, np.full(shape, grey), number, 1, sure=True).values[0]


def _compare(one: list[int], other: list[int]) -> None:
    """A ValueError if two processes, made apart from the same recipe, vote otherwise on one of the rows.

    Power: a model whose votes differ on a share q of such rows passes with probability (1 − q)^16.
    """
    differ = sum(a != b for a, b in zip(one, other, strict=True))
    if differ:
        raise ValueError(
            f"the model's vote on a row alone is not a function of the row: {differ} of {TWICE} rows got another vote "
            "in a second fresh process. It draws from a source that cannot be seeded, or reads a clock or a file; its "
            "independence cannot be measured"
        )
