"""The one way to certify: what a run's store holds is not done again, and what is done is in the store.

One thread, the one that calls, reads and writes the store. It pushes the blocks of images to the scheduler and writes
down what comes back: block by block, and with an image's last block its certificate.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from ..certification.certificate import Certificate
from ..certification.certify import Measurement, certify
from ..independence.measure import RowsToRecheck, SampledRows, measurement, rows_by_block, sample_rows
from ..noise import Purpose
from ..smoothing.blocks import VoteBlock, hits_of, packed_bits
from ..smoothing.voting import CopyVotes, check_classes, check_labels, noise_blocks
from .clean_pass import note_clean_accuracy
from .leases import LeaseClock, Leases
from .plan import RunPlan
from .same_model import SameModel
from .scheduler import Scheduler
from .store import Store
from .stored import Failure, RunTerms
from .tasks import Outcome, Task

Advance = Callable[[int], None]
#: When this many images have failed and no block has ever succeeded, the fault is not with the images.
ALL_FAIL = 10


def terms_of(plan: RunPlan, votes: bool = True, kept: bool = True) -> RunTerms:
    """What the store of a new run is fixed to, which is `kept` in a file or in memory."""
    if plan.identity.independence.measured and not votes:
        raise ValueError(
            "measured independence needs the bitmaps, which say which rows were hits: leave out --no-votes, or choose "
            "--independence checked"
        )
    return RunTerms(plan.promise, plan.secret, plan.block_size(kept), votes)


def open_store(path: Path | None, plan: RunPlan, votes: bool = True, names: Mapping[str, str] | None = None) -> Store:
    """The store of a run, made if it is not there, or in memory; a ValueError shows how another run's differs."""
    return Store.begin(path, terms_of(plan, votes, path is not None), plan.inputs, names)


def certify_into(
    store: Store, plan: RunPlan, advance: Advance = lambda _: None, clock: LeaseClock | None = None
) -> Generator[Certificate | Failure, None, None]:
    """Finish the run. What this process issues is yielded as soon as it is stored; a Failure for what it gives up.

    Guarantee: a certificate is false with probability at most α over the key. Certificates are the same, timings
    aside, however often the run was interrupted, however many processes take part and whatever pool votes on the same
    kind of device; each is issued once. A model that raises an error is asked again on the same noise, and never on
    other noise. Where a model is not fixed by its digest, one that votes otherwise than before is rejected.
    """
    with Leases(store, clock or LeaseClock()) as leases:
        store.reopen_failures()
        if not store.has_open_images():
            return
        keep = _batches_in_a_block(store, plan) if plan.settings.noise == "batchwise" else None
        with closing(Scheduler(plan, keep)) as scheduler:
            yield from _RunWriter(store, plan, leases, advance, scheduler, SameModel(store, plan)).finish()
            note_clean_accuracy(store, plan, scheduler)


def _batches_in_a_block(store: Store, plan: RunPlan) -> int:
    return sum(1 for _ in noise_blocks(store.terms.block, plan.batch, plan.inputs.levels[0].size))


@dataclass
class _RunWriter:
    """Pushes tasks and writes outcomes: of an image the blocks, then the rows that are voted alone, then the
    certificate.
    """

    store: Store
    plan: RunPlan
    leases: Leases
    advance: Advance
    scheduler: Scheduler
    same: SameModel
    _groups: deque[list[Task]] = field(default_factory=deque)
    """Tasks of claimed images that wait to be pushed."""
    _nothing_free: bool = False
    """Whether there was no image left to claim, in this round."""
    _held: list[Outcome] = field(default_factory=list)
    """What came while it was not yet known whether the model is the same."""
    _failed: int = 0
    _guesses: dict[int, int] = field(default_factory=dict)
    _rows: dict[int, dict[VoteBlock, RowsToRecheck]] = field(default_factory=dict)
    """Of images whose blocks are all stored: the rows of each block that are to be voted alone."""
    _classes: int | None = None
    _anything: bool = False
    """Whether any block has been voted by this process."""

    def finish(self) -> Iterator[Certificate | Failure]:
        if self.same.tasks:
            self._groups.append(self.same.tasks)
        while self.store.has_open_images():
            self._nothing_free = False
            while self._push_tasks() or self.scheduler.busy:
                self._held += self.same.hear(self.scheduler.step())
                if not self.same.tasks:
                    yield from self._write_held()
            self.leases.release_all()  # of what failed here and was opened again by another process
            if self.store.has_open_images():  # others are at work on it; if they die, it is ours
                self.leases.clock.sleep(self.leases.clock.look)
                self.leases.beat()

    # What is still to be done

    def _push_tasks(self) -> bool:
        """Push tasks while the scheduler wants some; whether any were pushed."""
        pushed = False
        while self.scheduler.wants_tasks() and self._claim():
            self.scheduler.add(self._groups.popleft())
            pushed = True
        return pushed

    def _claim(self) -> bool:
        """Whether there are tasks to push, after claiming an image if there were none; with batchwise noise, all.

        Nothing is claimed before it is known that the model is the same: until then no failure could be written.
        """
        if not self._groups and self.same.tasks:
            return False
        while not self._groups and not self._nothing_free:
            batchwise = self.plan.settings.noise == "batchwise"
            places = self.leases.take(len(self.plan.inputs.levels) if batchwise else 1)
            self._nothing_free = not places
            self._groups.extend(self._grouped(places))
        return bool(self._groups)

    def _grouped(self, places: list[int]) -> Iterable[list[Task]]:
        """The tasks of each image; or one block of all images, whose noise is then made once."""
        images = [tasks for place in places if (tasks := self._tasks(place))]
        if len(images) < 2:
            return images
        tasks = sorted((task for each in images for task in each), key=lambda task: (task.block, task.place))
        return (list(same) for _, same in groupby(tasks, key=lambda task: task.block))

    def _tasks(self, place: int) -> list[Task]:
        tasks = [Task(place, block) for block in self.store.missing(place)] or self._recheck_tasks(place)
        if not tasks:  # two processes held it, and the one that stored the last block did not live to see it
            with self.store.transaction():
                self._certify(place)
        return tasks

    def _recheck_tasks(self, place: int) -> list[Task]:
        """Of an image whose blocks are all stored, the rows that have still to be voted alone."""
        there = self.store.alone(place)
        return [
            Task(place, block, again)
            for block, again in self._rows_to_recheck(place).items()
            if block.first not in there
        ]

    def _rows_to_recheck(self, place: int) -> dict[VoteBlock, RowsToRecheck]:
        """The rows of each block that were drawn and were hits."""
        if place not in self._rows:
            drawn = self._sampled(place)
            stored = ((each.block, each.hits) for each in self.store.blocks(place))
            found = {} if drawn is None else rows_by_block(drawn, stored)
            self._rows[place] = {block: RowsToRecheck(self._guess(place), rows) for block, rows in found.items()}
        return self._rows[place]

    def _sampled(self, place: int) -> SampledRows | None:
        return sample_rows(self.plan.secret, self.plan.promise, self.plan.inputs.indices[place])

    # What came of it

    def _write_held(self) -> list[Certificate | Failure]:
        """One transaction for what came at the same time: many workers pay for one flush to the disk, not for many."""
        outcomes, self._held = self._held, []
        if not outcomes:
            return []
        with self.store.transaction():
            self.leases.beat()
            self.store.note_time()
            written = [self._write(outcome) for outcome in outcomes]
        self.advance(sum(outcome.task.block.count for outcome in outcomes if outcome.task.again is None))
        issued = [record for record in written if record is not None]
        self._check_failures([record for record in issued if isinstance(record, Failure)])
        return issued

    def _check_failures(self, failures: list[Failure]) -> None:
        """A ValueError for a model that always fails. In memory, that may be on fewer images than the usual number."""
        self._failed += len(failures)
        most = ALL_FAIL if self.store.path is not None else min(ALL_FAIL, len(self.plan.inputs.levels))
        if failures and not self._anything and self._failed >= most:
            where = "" if most == 1 else f" on the first {most} images, the last time with"
            raise ValueError(f"the model failed{where}: {failures[-1].error}")

    def _write(self, outcome: Outcome) -> Certificate | Failure | None:
        """The block, or its rows alone; and with an image's last ones the certificate."""
        place, block, again = outcome.task
        if outcome.errors:
            self.store.add_attempts(place, len(outcome.errors), outcome.errors[-1])
        if outcome.votes is None:
            return self._fail(place)
        outcome.check_size()
        if isinstance(outcome.votes, CopyVotes):
            self._add(place, block, outcome.votes, outcome.seconds)
        else:
            kept = packed_bits(outcome.votes)
            self.store.add_alone(place, block, kept, outcome.seconds, self.plan.environment)
        if not self.store.complete(place):
            return None
        left = self._recheck_tasks(place)
        if not left:
            return self._certify(place)
        if again is None and left not in self._groups:
            self._groups.append(left)
        return None

    def _add(self, place: int, block: VoteBlock, votes: CopyVotes, seconds: float) -> None:
        self._anything = True
        self._classes = self._classes or self.store.classes()
        if self._classes is None:
            path = self.store.path
            cure = "" if path is None else f"; delete {str(path)!r}, which holds no votes yet, and begin again"
            check_labels(self.plan.inputs.labels, votes.classes, cure)
            self._classes = votes.classes
        check_classes(self._classes, votes.classes)
        hits = None
        if block.purpose == Purpose.ESTIMATION and self.store.terms.votes:
            hits = packed_bits(votes.labels == self._guess(place))
        self.store.add_block(place, block, votes.counts, hits, seconds, self.plan.environment)

    def _guess(self, place: int) -> int:
        """The class that selection chose; its blocks are stored before the first one of estimation."""
        if place not in self._guesses:
            self._guesses[place] = self.store.counts(place, Purpose.SELECTION).top
        return self._guesses[place]

    def _certify(self, place: int) -> Certificate | None:
        """Algorithm 2 on what is stored, whichever process voted on it; None if the image has its certificate."""
        measured = self._measurement(place)
        counts = {purpose: self.store.counts(place, purpose) for purpose in (Purpose.SELECTION, Purpose.ESTIMATION)}
        found = certify(counts.__getitem__, self.plan.law, self.plan.settings, measured, self.plan.paid(place))
        seconds, environment = self.store.seconds(place), dict(self.scheduler.environment)
        certificate = self.plan.certificate(place, found, counts, measured, environment, seconds)
        issued = self.store.add_certificate(place, certificate)
        if issued and self.store.mixed(place):
            self.store.add_finding(place, "its blocks were voted under different versions of software or machines")
        self._guesses.pop(place, None)
        self._rows.pop(place, None)
        self.leases.release(place)
        return certificate if issued else None

    def _measurement(self, place: int) -> Measurement | None:
        drawn = self._sampled(place)
        if drawn is None:
            return None
        stored = self.store.alone(place)
        rows = {block: each.rows for block, each in self._rows_to_recheck(place).items()}
        return measurement(drawn, rows, {block: hits_of(stored[block.first], len(rows[block])) for block in rows})

    def _fail(self, place: int) -> Failure:
        """Give the image up for now, with what was still to be done for it."""
        left = ([task for task in group if task.place != place] for group in self._groups)
        self._groups = deque(group for group in left if group)
        self.leases.release(place)
        return self.store.add_failure(place)
