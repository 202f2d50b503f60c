"""A replica of the model votes on tasks in the order in which it is given them, and knows nothing of the store."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..certification.certify import ModelChangedError
from ..core.arrays import Fetched, concatenate
from ..core.errors import describe_error
from ..core.grid import Levels
from ..independence.measure import RowRecheck
from ..models import Votes
from ..noise.sources import CopyRange
from ..smoothing.blocks import Bits
from ..smoothing.classifier import Replica
from ..smoothing.job import VotingJob
from ..smoothing.voting import PendingVotes, sample_batch
from .tasks import CleanVotes, Image, Outcome, Task

#: A block that raises an error is tried this often, always on its own noise, before its image is given up for now.
ATTEMPTS = 3
#: A GPU has been given this many blocks when the first one's votes are asked for: it never waits for the disk.
AHEAD = 4


def look_ahead(replica: Replica) -> int:
    """How many blocks are begun before the first one's votes are asked for."""
    return 0 if replica.model.placement is None else AHEAD


def _not_looked() -> bool:
    raise AssertionError("nobody has looked at the model since this task was begun")


class _PendingTask(NamedTuple):
    task: Task
    images: Sequence[Image]
    start: float
    votes: PendingVotes | Exception | None
    """None for rows alone: they are voted when their turn comes."""
    changed: Callable[[], bool] = _not_looked
    """Whether the model has changed, by a look at it after the task was begun."""


class Voter:
    """Votes on tasks in the order in which they are given.

    Guarantee: every attempt at a block, or at a row alone, is made on its own noise.
    """

    def __init__(self, job: VotingJob, replica: Replica, keep: int | None = None) -> None:
        """A ValueError now, and not after all the votes, if independence is to be measured and cannot be."""
        self._job, self._replica = job, replica
        self._noise = job.noise(replica, keep)
        self.ahead = look_ahead(replica)
        self._waiting: deque[_PendingTask] = deque()
        self._finished = time.perf_counter()
        self._alone: RowRecheck | None = None
        if job.identity.independence.measured:
            self._rows_alone()

    def close(self) -> None:
        """End the process that votes on rows alone, if there is one."""
        if self._alone is not None:
            self._alone.close()
            self._alone = None

    def give(self, task: Task, images: Sequence[Image]) -> list[Outcome]:
        """Begin a task on the image of each part; an earlier one's outcome comes back, once enough are begun."""
        self._waiting.append(self._begin_and_look(task, images))
        return [self._finish(self._waiting.popleft())] if len(self._waiting) > self.ahead else []

    def rest(self) -> Iterator[Outcome]:
        """The outcomes of all that was begun."""
        while self._waiting:
            yield self._finish(self._waiting.popleft())

    def vote(self, tasks: Sequence[Task], image: Image) -> Iterator[Outcome]:
        """The outcomes of tasks of one image. On a GPU some are begun together, and one look at the model is for all of
        them.
        """
        together = self.ahead + 1
        for first in range(0, len(tasks), together):
            begun = [self._begin(task, [image]) for task in tasks[first : first + together]]
            changed = self._replica.model.changes()
            yield from (self._finish(each._replace(changed=changed)) for each in begun)

    def clean(self, images: Sequence[Levels]) -> CleanVotes:
        """The model's answers to the images themselves, without noise: the levels' own floats.

        The batches have the size of those of selection, which the model has run before; the last one is filled up.
        """
        size = sample_batch(self._replica.model, self._job.batch, self._job.settings.n0)
        labels: list[int] = []
        for first in range(0, len(images), size):
            some = images[first : first + size]
            rows = self._replica.sampler.values(np.stack(some))
            rows = concatenate([rows, *[rows[-1:]] * (size - len(some))])  # where they are, which may be a GPU
            labels += Fetched(self._replica.model.vote(rows).labels).array()[: len(some)].tolist()
        return tuple(labels)

    def _begin(self, task: Task, images: Sequence[Image]) -> _PendingTask:
        start, votes = time.perf_counter(), None if task.again is not None else self._begin_parts(task, images)
        return _PendingTask(task, images, start, votes)

    def _begin_and_look(self, task: Task, images: Sequence[Image]) -> _PendingTask:
        return self._begin(task, images)._replace(changed=self._replica.model.changes())

    def _begin_parts(self, task: Task, images: Sequence[Image]) -> PendingVotes | Exception:
        parts = zip(task.parts, images, strict=True)
        ranges = [
            CopyRange(self._noise(image.number), image.levels, block.purpose, block.copies)
            for (_, block), image in parts
        ]
        try:
            return PendingVotes(self._job.voting(self._replica, ranges[0].purpose), ranges)
        except ModelChangedError:
            raise
        except Exception as error:
            return error

    def _finish(self, begun: _PendingTask) -> Outcome:
        """The votes, after as many attempts as it takes."""
        errors: list[str] = []
        votes = self._votes(begun, errors)
        while votes is None and len(errors) < ATTEMPTS:
            votes = self._votes(self._begin_and_look(begun.task, begun.images), errors)
        start, self._finished = max(begun.start, self._finished), time.perf_counter()
        return Outcome(begun.task, votes, tuple(errors), self._finished - start)

    def _votes(self, begun: _PendingTask, errors: list[str]) -> tuple[Votes, ...] | Bits | None:
        try:
            if isinstance(begun.votes, Exception):
                raise begun.votes
            votes = self._hits_alone(begun) if begun.votes is None else begun.votes.votes()
        except ModelChangedError:
            raise
        except Exception as error:
            errors.append(describe_error(error))
            return None
        repeated = begun.votes is not None and begun.votes.repeated  # after the look
        changed = self._replica.model.changes() if repeated else begun.changed
        self._job.check_model(self._replica, changed)  # before its votes are stored: later nobody could tell
        return votes

    def _hits_alone(self, begun: _PendingTask) -> Bits:
        assert begun.task.again is not None
        try:
            (image,) = begun.images
            return self._rows_alone().hits(image.number, image.levels, begun.task.again)
        except Exception:
            self.close()  # whatever is wrong with that process, the next attempt gets a new one
            raise

    def _rows_alone(self) -> RowRecheck:
        if self._alone is None:
            self._alone = RowRecheck(self._job, self._replica)
        return self._alone
