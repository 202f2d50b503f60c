"""A run against its store: what is there is not done again, and what is done is there.

One thread, the one that calls, reads and writes the store. It hands images out to the workers and writes down what
comes back: block by block, and with an image's last block its certificate.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import NamedTuple

from ..certificate import Certificate
from ..certify import ModelChangedError, blocks, verdict
from ..certify import Progress as Advance
from ..models.protocol import first_line, rows_again
from ..noise import Purpose
from .blocks import BlockVotes, Casting, VoteBlock, block_size
from .claims import Claims, Pace
from .engine import Run, Worker
from .store import Failure, Store, Terms

#: A block that raises an error is tried so often, always on its own noise, before its image is given up for now.
ATTEMPTS = 3
#: So many blocks a GPU has been given when the first one's votes are asked for: it never waits for the disk.
AHEAD = 4
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


def certify_into(
    store: Store, run: Run, advance: Advance = lambda _: None, pace: Pace | None = None
) -> Generator[Certificate | Failure, None, None]:
    """Finish the run. What this process issues is yielded as soon as it is stored; a Failure for what it gives up.

    Guarantee: the certificates are those of `certify_inputs` under the same promise and secret, timings aside,
    however often the run was interrupted and however many processes take part; each is issued once. A model that
    raises an error is asked again on the same noise, and never on other noise.
    """
    with Claims(store, pace or Pace()) as claims:
        store.reopen_failures()
        yield from _Clerk(store, run, claims, advance).finish()


class _Task(NamedTuple):
    place: int
    block: VoteBlock


class _Outcome(NamedTuple):
    """What came of a block: its votes, or None if every attempt failed; and the errors on the way."""

    task: _Task
    votes: BlockVotes | None
    errors: tuple[str, ...]
    seconds: float


_Outcomes = Generator[_Outcome, None, None]


@dataclass
class _Clerk:
    """Hands out and writes down."""

    store: Store
    run: Run
    claims: Claims
    advance: Advance
    _failed: set[int] = field(default_factory=set)
    _guesses: dict[int, int] = field(default_factory=dict)
    _classes: int | None = None
    _anything: bool = False
    """Whether any block has been voted by this process."""

    def finish(self) -> Iterator[Certificate | Failure]:
        while self.store.has_open_images():
            self._failed.clear()
            with closing(self._outcomes()) as outcomes:  # so that no thread works on when writing fails
                for outcome in outcomes:
                    issued = self._write(outcome)
                    if issued is not None:
                        yield issued
            self.claims.release_all()  # of what failed here and was opened again by another process
            if self.store.has_open_images():  # others are at work on the rest; if they die, it is ours
                self.claims.pace.sleep(self.claims.pace.look)
                self.claims.beat()

    def _outcomes(self) -> _Outcomes:
        workers = self.run.smoothing.workers
        if self.run.settings.noise == "batchwise":
            return _Voter(self.run, workers[0], self._kept()).vote(self._batch_by_batch())
        if len(workers) == 1:
            return _Voter(self.run, workers[0]).vote(task for image in self._images() for task in image)
        return _side_by_side(self.run, self._images())

    def _images(self) -> Iterator[list[_Task]]:
        """Image by image, each claimed when it is its turn."""
        while places := self.claims.take():
            yield self._tasks(places[0])

    def _batch_by_batch(self) -> Iterator[_Task]:
        """Every image that is free, block by block: a block's noise meets all of them before the next is made."""
        tasks = [task for place in self.claims.take(len(self.run.inputs.levels)) for task in self._tasks(place)]
        yield from sorted(tasks, key=lambda task: (task.block, task.place))

    def _tasks(self, place: int) -> list[_Task]:
        missing = self.store.missing(place)
        if not missing:  # two processes held it, and the one that stored the last block did not live to see it
            with self.store.transaction():
                self._certify(place)
        return [_Task(place, block) for block in missing]

    def _kept(self) -> int:
        """How many batches of noise one block consists of."""
        batch = self.run.voting(self.run.smoothing.workers[0]).batch
        return sum(1 for _ in blocks(self.store.terms.block, batch, self.run.inputs.levels[0].size))

    def _write(self, outcome: _Outcome) -> Certificate | Failure | None:
        """One transaction: the block, and with an image's last one the certificate."""
        place, block = outcome.task
        if place in self._failed:  # begun before an earlier block of the image had failed for good
            return None
        with self.store.transaction():
            self.claims.beat()
            if outcome.errors:
                self.store.add_attempts(place, len(outcome.errors), outcome.errors[-1])
            if outcome.votes is None:
                issued: Certificate | Failure | None = self._fail(place)
            else:
                self._add(place, block, outcome.votes, outcome.seconds)
                issued = self._certify(place) if self.store.complete(place) else None
        self.advance(block.count)
        if isinstance(issued, Failure) and not self._anything and len(self._failed) >= ALL_FAIL:
            raise ValueError(f"the model failed on the first {ALL_FAIL} images, the last time with: {issued.error}")
        return issued

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
        seconds = sum(stored.seconds for stored in self.store.blocks(place))
        certificate = self.run.record(place, found, counts0, counts, seconds)
        self.store.add_certificate(place, certificate)
        if self.store.environments(place) > 1:
            self.store.add_finding(place, "its blocks were voted under different versions of software or machines")
        self._guesses.pop(place, None)
        self.claims.release(place)
        return certificate

    def _fail(self, place: int) -> Failure:
        self._failed.add(place)
        self.claims.release(place)
        return self.store.add_failure(place)


def look_ahead(worker: Worker) -> int:
    """How many blocks are begun before the first one's votes are asked for."""
    return 0 if worker.model.place is None else AHEAD


class _Begun(NamedTuple):
    task: _Task
    start: float
    casting: Casting | Exception
    changed: Callable[[], bool]


class _Voter:
    """A worker that votes on blocks, one after the other. It knows nothing of the store."""

    def __init__(self, run: Run, worker: Worker, keep: int | None = None) -> None:
        self._run, self._worker = run, worker
        self._noise, self._voting = run.noise(worker, keep), run.voting(worker)
        self._finished = time.perf_counter()

    def vote(self, tasks: Iterable[_Task]) -> _Outcomes:
        """An outcome for each task, in order; after a failure, none for the rest of that image."""
        ahead = look_ahead(self._worker)
        begun: deque[_Begun] = deque()
        failed: set[int] = set()
        for task in tasks:
            if task.place in failed:
                continue
            begun.append(self._begin_all(task))
            if len(begun) > ahead:
                yield self._finish(begun.popleft(), failed)
        while begun:
            yield self._finish(begun.popleft(), failed)

    def _begin_all(self, task: _Task) -> _Begun:
        start, casting = time.perf_counter(), self._begin(task)
        return _Begun(task, start, casting, self._worker.model.changes())

    def _begin(self, task: _Task) -> Casting | Exception:
        try:
            return self._cast(task)
        except ModelChangedError:
            raise
        except Exception as error:
            return error

    def _cast(self, task: _Task) -> Casting:
        settings, block = self._run.settings, task.block
        batch = self._voting.batch_for(settings.n0 if block.purpose == Purpose.SELECTION else settings.n)
        return Casting(self._voting, self._noise(task.place), self._run.inputs.levels[task.place], block, batch)

    def _finish(self, begun: _Begun, failed: set[int]) -> _Outcome:
        """The votes, after as many attempts as it takes; each is made on the block's own noise."""
        errors: list[str] = []
        votes = self._votes(begun.casting, begun.changed, errors)
        while votes is None and len(errors) < ATTEMPTS:
            again = self._begin_all(begun.task)
            votes = self._votes(again.casting, again.changed, errors)
        if votes is None:
            failed.add(begun.task.place)
        start, self._finished = max(begun.start, self._finished), time.perf_counter()
        return _Outcome(begun.task, votes, tuple(errors), self._finished - start)

    def _votes(self, casting: Casting | Exception, changed: Callable[[], bool], errors: list[str]) -> BlockVotes | None:
        try:
            if isinstance(casting, Exception):
                raise casting
            votes = casting.votes()
        except ModelChangedError:
            raise
        except Exception as error:
            errors.append(f"{type(error).__name__}: {first_line(error)}")
            return None
        self._run.check_model(self._worker, changed)  # before its votes are stored: later nobody could tell
        return votes


class _Hungry(NamedTuple):
    """A worker's request for an image."""

    inbox: "SimpleQueue[list[_Task] | None]"


def _side_by_side(run: Run, images: Iterator[list[_Task]]) -> _Outcomes:
    """All workers at once, each with images of its own, in threads that never touch the store."""
    results: SimpleQueue[_Outcome | _Hungry | BaseException | None] = SimpleQueue()
    stop = Event()
    inboxes = [SimpleQueue[list[_Task] | None]() for _ in run.smoothing.workers]

    def tasks(inbox: "SimpleQueue[list[_Task] | None]") -> Iterator[_Task]:
        while not stop.is_set():
            results.put(_Hungry(inbox))
            image = inbox.get()
            if image is None:
                return
            for task in image:
                if stop.is_set():
                    return
                yield task

    def work(worker: Worker, inbox: "SimpleQueue[list[_Task] | None]") -> None:
        try:
            for outcome in _Voter(run, worker).vote(tasks(inbox)):
                results.put(outcome)
        except BaseException as error:  # it is raised again where somebody listens
            stop.set()
            results.put(error)
        results.put(None)

    threads = [Thread(target=work, args=pair, daemon=True) for pair in zip(run.smoothing.workers, inboxes, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield from _collected(results, images, len(threads))
    finally:
        stop.set()
        for inbox in inboxes:
            inbox.put(None)
        for thread in threads:
            thread.join()


def _collected(
    results: "SimpleQueue[_Outcome | _Hungry | BaseException | None]", images: Iterator[list[_Task]], running: int
) -> Iterator[_Outcome]:
    """What the workers send, while they are given what they ask for; after an error, what is still on its way."""
    errors: list[BaseException] = []
    while running:
        result = results.get()
        if result is None:
            running -= 1
        elif isinstance(result, BaseException):
            errors.append(result)
        elif isinstance(result, _Hungry):
            result.inbox.put(None if errors else next(images, None))
        else:
            yield result
    if errors:
        raise errors[0]
