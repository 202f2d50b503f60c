"""The one way to certify: what a run's store holds is not done again, and what is done is in the store.

One thread, the one that calls, reads and writes the store. It pushes the blocks of images to the scheduler and writes
down what comes back: block by block, and with an image's last block its certificate.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from ..certification.certificate import Certificate
from ..certification.certify import Counts, Measurement, certify
from ..independence.measure import RowsToRecheck, measurement, rows_by_block
from ..models import Votes
from ..noise import Purpose
from ..smoothing.blocks import VoteBlock, hits_of, packed_bits
from ..smoothing.voting import check_classes, check_labels, counted, noise_blocks
from .clean_pass import note_clean_accuracy
from .image_votes import ImageVotes, image_votes
from .leases import LeaseClock, Leases
from .packs import packs_of_round, rounds_passed
from .plan import RunPlan
from .same_model import SameModel
from .scheduler import Scheduler
from .store import Store
from .stored import Failure, RunTerms
from .tasks import Outcome, Part, Task

Advance = Callable[[int], None]
#: When this many images have failed and no block has ever succeeded, the fault is not with the images.
ALL_FAIL = 10


def terms_of(plan: RunPlan, votes: bool = True, kept: bool = True) -> RunTerms:
    """What the store of a new run is fixed to, which is `kept` in a file or in memory."""
    if plan.survey.identity.independence.measured and not votes:
        raise ValueError(
            "measured independence needs the bitmaps, which say which rows were hits: leave out --no-votes, or choose "
            "--independence checked"
        )
    asked = plan.settings.goal
    noted = None if asked is None else asked.options
    return RunTerms(plan.promise, plan.secret, plan.block_size(kept), votes, noted)


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
        store.check_not_concluded()
        store.reopen_failures()
        if not store.has_open_images():
            return
        keep = _batches_in_a_block(store, plan) if plan.settings.noise == "batchwise" else None
        with closing(Scheduler(plan, keep)) as scheduler:
            yield from _RunWriter(store, plan, leases, advance, scheduler, SameModel(store, plan)).finish()
            note_clean_accuracy(store, plan, scheduler)


def _batches_in_a_block(store: Store, plan: RunPlan) -> int:
    return len(noise_blocks(store.terms.block, plan.survey.batch, plan.inputs.levels[0].size))


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
    _ready: deque[list[Task]] = field(default_factory=deque)
    """Tasks of claimed images that wait to be pushed; those in a list are best voted on by one worker."""
    _claimed: dict[int, list[int]] = field(default_factory=dict)
    """The places of claimed images that are neither finished nor given up, by group."""
    _open: dict[int, set[Task]] = field(default_factory=dict)
    """The tasks of each group that have not come back."""
    _known: dict[int, ImageVotes] = field(default_factory=dict)
    """What is stored of images, where only this process can add to it."""
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
            self._ready.append(list(self.same.tasks))
        while self.store.has_open_images():
            self._nothing_free = False
            while self._push_tasks() or self.scheduler.busy:
                came = self.scheduler.step()
                self._held += self.same.hear(came) if self.same.tasks else came
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
            self.scheduler.add(self._ready.popleft())
            pushed = True
        return pushed

    def _claim(self) -> bool:
        """Whether there are tasks to push, after claiming a group of images if there were none.

        Nothing is claimed before it is known that the model is the same: until then no failure could be written.
        """
        if not self._ready and self.same.tasks:
            return False
        while not self._ready and not self._nothing_free:
            places = self.leases.take(self.plan.group)
            self._nothing_free = not places
            if places:
                group = places[0] // self.plan.group
                self._claimed[group] = places
                self._begin_round(group)
        return bool(self._ready)

    def _begin_round(self, group: int) -> None:
        """Get ready what the images of a group vote before the next decision. Those that are decided are certified."""
        votes = {place: self._votes(place) for place in self._claimed[group]}
        for place, each in votes.items():
            if not each.missing:
                self._end_voting(place)
        votes = {place: each for place, each in votes.items() if each.missing}
        for tasks in self._round_tasks(group, votes) if votes else ():
            self._push(group, tasks)
        if group not in self._open:  # nothing more is to be done
            for place in self._members(group):
                self._known.pop(place, None)

    def _members(self, group: int) -> range:
        size = self.plan.group
        return range(group * size, min((group + 1) * size, len(self.plan.inputs)))

    def _votes(self, place: int) -> ImageVotes:
        """What is stored of an image's votes: read again only where others may add some."""
        if place not in self._known:
            found = self.store.votes(place)
            if found.missing and place not in self._claimed[place // self.plan.group]:
                return found
            self._known[place] = found
        return self._known[place]

    def _push(self, group: int, tasks: list[Task]) -> None:
        self._open.setdefault(group, set()).update(tasks)
        self._ready.append(tasks)

    def _round_tasks(self, group: int, votes: Mapping[int, ImageVotes]) -> list[list[Task]]:
        """The tasks of each image; or packs of copies of all images; or one block of all, whose noise is made once."""
        sharing = self.plan.settings.looks and self.plan.settings.looks.group
        if sharing:
            return [[Task(pack)] for pack in self._packs(group, votes, sharing.copies)]
        images = [[Task.of(place, block) for block in each.missing] for place, each in votes.items()]
        if len(images) < 2:
            return images
        tasks = sorted((task for each in images for task in each), key=lambda task: (task.only.block, task.only.place))
        return [list(same) for _, same in groupby(tasks, key=lambda task: task.only.block)]

    def _packs(self, group: int, votes: Mapping[int, ImageVotes], most: int) -> Iterator[tuple[Part, ...]]:
        """The packs of the group's round of which something is missing. All images of the group have their places in
        them, also those that are finished.
        """
        rounds = self.store.rounds
        number = min(rounds_passed(each, rounds) for each in votes.values())
        every = {place: self._votes(place) for place in self._members(group)}
        for pack in packs_of_round(every, rounds, number, most):
            if any(place in votes and block in votes[place].missing for place, block in pack):
                yield pack

    def _end_voting(self, place: int) -> Certificate | None:
        """An image that votes no more: some of its rows vote alone, or it is certified."""
        group, left = place // self.plan.group, self._recheck_tasks(place)
        if not left:
            with self.store.db.transaction():
                return self._certify(place)
        if not self._open.get(group, set()) & set(left):
            self._push(group, left)
        return None

    def _recheck_tasks(self, place: int) -> list[Task]:
        """Of an image whose blocks are all stored, the rows that have still to be voted alone."""
        rows = self._rows_to_recheck(place)
        there = self.store.alone(place) if rows else {}
        return [Task.of(place, block, again) for block, again in rows.items() if block.first not in there]

    def _rows_to_recheck(self, place: int) -> dict[VoteBlock, RowsToRecheck]:
        """The rows of each block that were drawn and were hits."""
        if place not in self._rows:
            drawn = self.plan.sampled_rows(place, self._votes(place))
            stored = ((each.block, each.hits) for each in self.store.blocks(place))
            found = {} if drawn is None else rows_by_block(drawn, stored)
            self._rows[place] = {block: RowsToRecheck(self._guess(place), rows) for block, rows in found.items()}
        return self._rows[place]

    # What came of it

    def _write_held(self) -> list[Certificate | Failure]:
        """One transaction for what came at the same time: many workers pay for one flush to the disk, not for many."""
        outcomes, self._held = self._held, []
        if not outcomes:
            return []
        with self.store.db.transaction():
            self.leases.beat()
            self.store.note_time()
            issued = [record for outcome in outcomes for record in self._write(outcome)]
        self.advance(sum(outcome.task.copies for outcome in outcomes))
        self._check_failures([record for record in issued if isinstance(record, Failure)])
        return issued

    def _check_failures(self, failures: list[Failure]) -> None:
        """A ValueError for a model that always fails. In memory, that may be on fewer images than the usual number."""
        self._failed += len(failures)
        if self._anything or not failures:
            return
        most = ALL_FAIL if self.store.path is not None else min(ALL_FAIL, len(self.plan.inputs.levels))
        if self._failed >= most:
            where = "" if most == 1 else f" on the first {most} images, the last time with"
            raise ValueError(f"the model failed{where}: {failures[-1].error}")

    def _write(self, outcome: Outcome) -> list[Certificate | Failure]:
        """The blocks, or rows alone; and with an image's last ones the certificate. After a group's last, its next
        round begins.
        """
        for place in sorted(outcome.task.places) if outcome.errors else ():
            self.store.add_attempts(place, len(outcome.errors), outcome.errors[-1])
        written = self._fail(outcome.task) if outcome.votes is None else self._write_votes(outcome)
        group = outcome.task.parts[0].place // self.plan.group
        self._open[group].discard(outcome.task)
        if not self._open[group]:
            del self._open[group]
            self._begin_round(group)
        return written

    def _write_votes(self, outcome: Outcome) -> list[Certificate | Failure]:
        outcome.check_size()
        if outcome.task.again is not None:
            place, block = outcome.task.only
            self.store.add_alone(place, block, packed_bits(outcome.bits), outcome.seconds, self.plan.survey.environment)
        else:
            self._add_all(outcome)
        mine = self._claimed[outcome.task.parts[0].place // self.plan.group]
        ended = [place for place in sorted(outcome.task.places) if place in mine and not self._votes(place).missing]
        return [record for place in ended if (record := self._end_voting(place)) is not None]

    def _add_all(self, outcome: Outcome) -> None:
        """Store the blocks of a task, and count on."""
        new: dict[int, dict[VoteBlock, Counts]] = {}
        copies = outcome.task.copies
        for (place, block), votes in zip(outcome.task.parts, outcome.part_votes, strict=True):
            counts = counted(votes)
            if self._add(place, block, votes, counts, outcome.seconds * block.count / copies):
                new.setdefault(place, {})[block] = counts
            else:  # another process has stored it, and perhaps other votes: those in the file count
                self._known.pop(place, None)
        for place in self._known.keys() & new.keys():
            known, truth = self._known[place], self.plan.inputs.labels[place]
            there = {**known.there, **new[place]}
            self._known[place] = image_votes(self.plan.settings, self.store.rounds, truth, there, known)

    def _add(self, place: int, block: VoteBlock, votes: Votes, counts: Counts, seconds: float) -> bool:
        """Store a block; whether it was not there."""
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
        return self.store.add_block(place, block, counts, hits, seconds, self.plan.survey.environment)

    def _guess(self, place: int) -> int:
        """The class that selection chose; its blocks are stored before the first one of estimation."""
        if place not in self._guesses:
            self._guesses[place] = self._votes(place).selection.top
        return self._guesses[place]

    def _certify(self, place: int) -> Certificate | None:
        """Algorithm 2 on what is stored, whichever process voted on it; None if the image has its certificate."""
        votes = self._votes(place)
        measured = self._measurement(place, votes)
        counts, paid, coin = (votes.selection, votes.estimation), self.plan.paid(place), self.plan.coin(place)
        found = certify(*counts, self.plan.survey.law, self.plan.settings, measured, paid, votes.looks, coin)
        seconds, environment = self.store.seconds(place), dict(self.scheduler.environment)
        certificate = self.plan.certificate(place, found, votes, measured, environment, seconds)
        issued = self.store.add_certificate(place, certificate)
        if issued:
            self.store.note_mixed(place)
        self._release(place)
        return certificate if issued else None

    def _release(self, place: int) -> None:
        """Nothing more is to be done for the image here."""
        self._guesses.pop(place, None)
        self._rows.pop(place, None)
        mine = self._claimed[place // self.plan.group]
        if place in mine:
            mine.remove(place)
        self.leases.release(place)

    def _measurement(self, place: int, votes: ImageVotes) -> Measurement | None:
        drawn = self.plan.sampled_rows(place, votes)
        if drawn is None:
            return None
        stored = self.store.alone(place)
        rows = {block: each.rows for block, each in self._rows_to_recheck(place).items()}
        return measurement(drawn, rows, {block: hits_of(stored[block.first], len(rows[block])) for block in rows})

    def _fail(self, task: Task) -> list[Certificate | Failure]:
        """Give the images up for now, with what was still to be done for them alone."""
        places = task.places & set(self._claimed[task.parts[0].place // self.plan.group])
        for group, tasks in self._open.items():
            self._open[group] = {each for each in tasks if not each.places <= places}
        left = ([each for each in tasks if not each.places <= places] for tasks in self._ready)
        self._ready = deque(tasks for tasks in left if tasks)
        for place in places:
            self._release(place)
            self._known.pop(place, None)
        return [self.store.add_failure(place) for place in sorted(places)]
