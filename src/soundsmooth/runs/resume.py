"""A run against its store: what is there is not done again, and what is done is there.

One thread, the one that calls, reads and writes the store. It hands images out to the workers and writes down what
comes back: block by block, and with an image's last block its certificate.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Protocol

from ..certificate import Certificate
from ..certify import ModelChangedError, blocks, verdict
from ..certify import Progress as Advance
from ..models.protocol import rows_again
from ..noise import Purpose
from .blocks import BlockVotes, VoteBlock, block_size
from .claims import Claims, Pace
from .engine import Run
from .store import Failure, Store, Terms
from .threads import Threads
from .voter import Outcome, Task

#: When so many images have failed and no block has ever succeeded, the fault is not with the images.
ALL_FAIL = 10


def terms_of(run: Run, votes: bool = True) -> Terms:
    """What the store of a new run is fixed to."""
    if rows_again(run.identity.independence) is not None:
        raise ValueError("a run in a .db file cannot be measured yet: write the certificates to .jsonl")
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
    other noise.
    """
    with Claims(store, pace or Pace()) as claims:
        store.reopen_failures()
        yield from _Clerk(store, run, claims, advance, engine or Threads(run)).finish()


@dataclass
class _Clerk:
    """Hands out and writes down."""

    store: Store
    run: Run
    claims: Claims
    advance: Advance
    engine: Engine
    _failed: set[int] = field(default_factory=set)
    _guesses: dict[int, int] = field(default_factory=dict)
    _classes: int | None = None
    _anything: bool = False
    """Whether any block has been voted by this process."""

    def finish(self) -> Iterator[Certificate | Failure]:
        while self.store.has_open_images():
            self._failed.clear()
            batchwise = self.run.settings.noise == "batchwise"
            groups, keep = (self._batch_by_batch(), self._kept()) if batchwise else (self._images(), None)
            with closing(self.engine.outcomes(groups, keep)) as found:  # so that nobody works on when writing fails
                for outcomes in found:
                    yield from self._write_all(outcomes)
            self.claims.release_all()  # of what failed here and was opened again by another process
            if self.store.has_open_images():  # others are at work on the rest; if they die, it is ours
                self.claims.pace.sleep(self.claims.pace.look)
                self.claims.beat()

    def _images(self) -> Iterator[list[Task]]:
        """Image by image, each claimed when it is its turn."""
        while places := self.claims.take():
            yield self._tasks(places[0])

    def _batch_by_batch(self) -> Iterator[list[Task]]:
        """Every image that is free, block by block: a block's noise meets all of them before the next is made."""
        tasks = [task for place in self.claims.take(len(self.run.inputs.levels)) for task in self._tasks(place)]
        tasks.sort(key=lambda task: (task.block, task.place))
        for _, same in groupby(tasks, key=lambda task: task.block):
            yield list(same)

    def _tasks(self, place: int) -> list[Task]:
        missing = self.store.missing(place)
        if not missing:  # two processes held it, and the one that stored the last block did not live to see it
            with self.store.transaction():
                self._certify(place)
        return [Task(place, block) for block in missing]

    def _kept(self) -> int:
        """How many batches of noise one block consists of."""
        return sum(1 for _ in blocks(self.store.terms.block, self.run.duty.batch, self.run.inputs.levels[0].size))

    def _write_all(self, outcomes: list[Outcome]) -> list[Certificate | Failure]:
        """One transaction for what came at the same time: a full house pays for one flush to the disk, not for many."""
        with self.store.transaction():
            self.claims.beat()
            written = [self._write(outcome) for outcome in outcomes]
        self.advance(sum(outcome.task.block.count for outcome in outcomes))
        issued = [record for record in written if record is not None]
        failures = [record for record in issued if isinstance(record, Failure)]
        if failures and not self._anything and len(self._failed) >= ALL_FAIL:
            error = failures[-1].error
            raise ValueError(f"the model failed on the first {ALL_FAIL} images, the last time with: {error}")
        return issued

    def _write(self, outcome: Outcome) -> Certificate | Failure | None:
        """The block, and with an image's last one the certificate."""
        place, block = outcome.task
        if place in self._failed:  # begun before an earlier block of the image had failed for good
            return None
        if outcome.errors:
            self.store.add_attempts(place, len(outcome.errors), outcome.errors[-1])
        if outcome.votes is None:
            return self._fail(place)
        self._add(place, block, outcome.votes, outcome.seconds)
        return self._certify(place) if self.store.complete(place) else None

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
        found = verdict(counts0, counts, self.run.smoothing.law.sigma, self.run.settings)
        run = replace(self.run, environment=dict(self.engine.environment))
        certificate = run.record(place, found, counts0, counts, self.store.seconds(place))
        self.store.add_certificate(place, certificate)
        if self.store.mixed(place):
            self.store.add_finding(place, "its blocks were voted under different versions of software or machines")
        self._guesses.pop(place, None)
        self.claims.release(place)
        return certificate

    def _fail(self, place: int) -> Failure:
        self._failed.add(place)
        self.claims.release(place)
        return self.store.add_failure(place)
