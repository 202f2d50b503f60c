"""A run against its store: what is there is not done again, and what is done is there.

One thread, the one that calls, reads and writes the store. It hands images out to the workers and writes down what
comes back: block by block, and with an image's last block its certificate.
"""

from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Protocol

from ..certificate import Certificate
from ..certify import Measurement, ModelChangedError, blocks, verdict
from ..certify import Progress as Advance
from ..noise import Purpose
from .blocks import BlockVotes, VoteBlock, block_size, hits_of, packed_bits
from .claims import Claims, Pace
from .engine import Run
from .measured import Again, Drawn, drawn_rows, rows_by_block
from .same_model import SameModel
from .store import Failure, Store, Terms
from .threads import Threads
from .voter import Outcome, Task

#: When so many images have failed and no block has ever succeeded, the fault is not with the images.
ALL_FAIL = 10


def terms_of(run: Run, votes: bool = True) -> Terms:
    """What the store of a new run is fixed to."""
    if run.identity.independence.measured and not votes:
        raise ValueError(
            "measured independence needs the bitmaps, which say which rows were hits: leave out --no-votes, or choose "
            "--independence checked"
        )
    dimension = run.inputs.levels[0].size
    batch = run.smoothing.batch_for(run.inputs.shape, run.settings.n)
    return Terms(run.promise, run.secret, block_size(run.settings, batch, dimension), votes)


def open_store(path: Path, run: Run, votes: bool = True) -> Store:
    """The store of a run, made if it is not there; a ValueError shows the difference if it is another run's."""
    return Store.begin(path, terms_of(run, votes), run.inputs)


class Engine(Protocol):
    """Who votes: threads of this process, other processes, or a cluster."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What is recorded beside a certificate that is issued now."""

    def outcomes(self, groups: Iterator[list[Task]], keep: int | None) -> Generator[list[Outcome], None, None]:
        """What comes of the tasks, as it comes; of an image, selection before estimation, and a failure last.

        A group is best voted on by one worker: the blocks of an image, or one block of all images, whose noise (the
        last `keep` batches) is then made once.
        """


def certify_into(
    store: Store,
    run: Run,
    advance: Advance = lambda _: None,
    pace: Pace | None = None,
    engine: Engine | None = None,
) -> Generator[Certificate | Failure, None, None]:
    """Finish the run. What this process issues is yielded as soon as it is stored; a Failure for what it gives up.

    Guarantee: the certificates are those of `certify_inputs` under the same promise and secret, timings aside,
    however often the run was interrupted, however many processes take part and whatever engine votes on the same
    kind of device; each is issued once. A model that raises an error is asked again on the same noise, and never on
    other noise. Where a model is not fixed by its digest, one that votes otherwise than before is refused.
    """
    with Claims(store, pace or Pace()) as claims:
        store.reopen_failures()
        yield from _Clerk(store, run, claims, advance, engine or Threads(run), SameModel(store, run)).finish()


@dataclass
class _Clerk:
    """Hands out and writes down: of an image the blocks, then the rows that are voted alone, then the certificate."""

    store: Store
    run: Run
    claims: Claims
    advance: Advance
    engine: Engine
    same: SameModel
    _held: list[Outcome] = field(default_factory=list)
    """What came while it was not yet known whether the model is the same."""
    _failed: set[int] = field(default_factory=set)
    _guesses: dict[int, int] = field(default_factory=dict)
    _rows: dict[int, dict[VoteBlock, Again]] = field(default_factory=dict)
    """Of images whose blocks are all stored: the rows of each block that are to be voted alone."""
    _voted: deque[int] = field(default_factory=deque)
    """Images that wait for their rows to be voted alone."""
    _classes: int | None = None
    _anything: bool = False
    """Whether any block has been voted by this process."""

    def finish(self) -> Iterator[Certificate | Failure]:
        while self.store.has_open_images():
            self._failed.clear()
            self._voted.clear()
            batchwise = self.run.settings.noise == "batchwise"
            groups, keep = (self._batch_by_batch(), self._kept()) if batchwise else (_Images(self), None)
            groups = self.same.first(groups)
            with closing(self.engine.outcomes(groups, keep)) as found:  # so that nobody works on when writing fails
                for outcomes in found:
                    self._held += self.same.hear(outcomes)
                    if not self.same.tasks:
                        yield from self._write_held()
            yield from self._write_held()
            self.claims.release_all()  # of what failed here and was opened again by another process
            if self.store.has_open_images() and not self._voted:  # others are at work on it; if they die, it is ours
                self.claims.pace.sleep(self.claims.pace.look)
                self.claims.beat()

    def next_image(self) -> list[Task] | None:
        """What is left to do for an image whose votes are in, or for one that is claimed now; None if there is none."""
        places = [self._voted.popleft()] if self._voted else self.claims.take()
        return self._tasks(places[0]) if places else None

    def _batch_by_batch(self) -> Iterator[list[Task]]:
        """Every image that is free, block by block: a block's noise meets all of them before the next is made."""
        tasks = [task for place in self.claims.take(len(self.run.inputs.levels)) for task in self._tasks(place)]
        tasks.sort(key=lambda task: (task.block, task.place))
        for _, same in groupby(tasks, key=lambda task: task.block):
            yield list(same)

    def _tasks(self, place: int) -> list[Task]:
        tasks = [Task(place, block) for block in self.store.missing(place)] or self._alone(place)
        if not tasks:  # two processes held it, and the one that stored the last block did not live to see it
            with self.store.transaction():
                self._certify(place)
        return tasks

    def _alone(self, place: int) -> list[Task]:
        """Of an image whose blocks are all stored, the rows that have still to be voted alone."""
        there = self.store.alone(place)
        return [Task(place, block, again) for block, again in self._again(place).items() if block.first not in there]

    def _again(self, place: int) -> dict[VoteBlock, Again]:
        """The rows of each block that were drawn and were hits."""
        if place not in self._rows:
            drawn = self._drawn(place)
            stored = ((each.block, each.hits) for each in self.store.blocks(place))
            found = {} if drawn is None else rows_by_block(drawn, stored)
            self._rows[place] = {block: Again(self._guess(place), rows) for block, rows in found.items()}
        return self._rows[place]

    def _drawn(self, place: int) -> Drawn | None:
        return drawn_rows(self.run.secret, self.run.promise, self.run.inputs.indices[place])

    def _kept(self) -> int:
        """How many batches of noise one block consists of."""
        return sum(1 for _ in blocks(self.store.terms.block, self.run.duty.batch, self.run.inputs.levels[0].size))

    def _write_held(self) -> list[Certificate | Failure]:
        outcomes, self._held = self._held, []
        return self._write_all(outcomes) if outcomes else []

    def _write_all(self, outcomes: list[Outcome]) -> list[Certificate | Failure]:
        """One transaction for what came at the same time: a full house pays for one flush to the disk, not for many."""
        with self.store.transaction():
            self.claims.beat()
            written = [self._write(outcome) for outcome in outcomes]
        self.advance(sum(outcome.task.block.count for outcome in outcomes if outcome.task.again is None))
        issued = [record for record in written if record is not None]
        failures = [record for record in issued if isinstance(record, Failure)]
        if failures and not self._anything and len(self._failed) >= ALL_FAIL:
            error = failures[-1].error
            raise ValueError(f"the model failed on the first {ALL_FAIL} images, the last time with: {error}")
        return issued

    def _write(self, outcome: Outcome) -> Certificate | Failure | None:
        """The block, or its rows alone; and with an image's last ones the certificate."""
        place, block, again = outcome.task
        if place in self._failed:  # begun before an earlier block of the image had failed for good
            return None
        if outcome.errors:
            self.store.add_attempts(place, len(outcome.errors), outcome.errors[-1])
        if outcome.votes is None:
            return self._fail(place)
        _check_size(outcome)
        if isinstance(outcome.votes, BlockVotes):
            self._add(place, block, outcome.votes, outcome.seconds)
        else:
            kept = packed_bits(outcome.votes)
            self.store.add_alone(place, block, kept, outcome.seconds, self.run.environment)
        if not self.store.complete(place):
            return None
        if not self._alone(place):
            return self._certify(place)
        if again is None and place not in self._voted:
            self._voted.append(place)
        return None

    def _add(self, place: int, block: VoteBlock, votes: BlockVotes, seconds: float) -> None:
        self._anything = True
        self._classes = self._classes or self.store.classes() or votes.classes
        if votes.classes != self._classes:
            raise ModelChangedError(f"the model had {self._classes} classes and now has {votes.classes}")
        hits = None
        if block.purpose == Purpose.ESTIMATION and self.store.terms.votes:
            hits = votes.hits(self._guess(place))
        self.store.add_block(place, block, votes.counts, hits, seconds, self.run.environment)

    def _guess(self, place: int) -> int:
        """The class that selection chose; its blocks are stored before the first one of estimation."""
        if place not in self._guesses:
            self._guesses[place] = self.store.counts(place, Purpose.SELECTION).top
        return self._guesses[place]

    def _certify(self, place: int) -> Certificate:
        """From what is stored, whoever voted it."""
        counts0, counts = (self.store.counts(place, purpose) for purpose in (Purpose.SELECTION, Purpose.ESTIMATION))
        measured = self._measurement(place)
        found = verdict(counts0, counts, self.run.smoothing.law.sigma, self.run.settings, measured)
        run = replace(self.run, environment=dict(self.engine.environment))
        certificate = run.record(place, found, counts0, counts, self.store.seconds(place), measured)
        self.store.add_certificate(place, certificate)
        if self.store.mixed(place):
            self.store.add_finding(place, "its blocks were voted under different versions of software or machines")
        self._guesses.pop(place, None)
        self._rows.pop(place, None)
        self.claims.release(place)
        return certificate

    def _measurement(self, place: int) -> Measurement | None:
        drawn = self._drawn(place)
        if drawn is None:
            return None
        stored = self.store.alone(place)
        lost = (
            drawn.inside(block).lost(again.rows, hits_of(stored[block.first], len(again.rows)))
            for block, again in self._again(place).items()
        )
        return Measurement(len(drawn.rows), sum(lost))

    def _fail(self, place: int) -> Failure:
        self._failed.add(place)
        self.claims.release(place)
        return self.store.add_failure(place)


def _check_size(outcome: Outcome) -> None:
    """Whoever voted, on whatever machine: a vote for each copy, or an answer for each row alone, and nothing else."""
    votes, (_, block, again) = outcome.votes, outcome.task
    wanted = block.count if again is None else len(again.rows)
    given = 0 if votes is None else len(votes.labels if isinstance(votes, BlockVotes) else votes)
    if isinstance(votes, BlockVotes) != (again is None) or given != wanted:
        raise ValueError(f"a worker was asked for {wanted} votes and gave {given}")


class _Images:
    """Image by image. It may be asked again after it had nothing to give: votes that came meanwhile lead to rows."""

    def __init__(self, clerk: _Clerk) -> None:
        self._clerk = clerk

    def __iter__(self) -> "_Images":
        return self

    def __next__(self) -> list[Task]:
        tasks = self._clerk.next_image()
        if tasks is None:
            raise StopIteration
        return tasks
