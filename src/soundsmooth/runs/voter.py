"""Who votes on blocks and on rows alone: a worker that is given one after the other, and knows nothing of the store."""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

from ..certify import ModelChangedError
from ..grid import Levels
from ..models.protocol import named
from ..noise import Purpose
from .blocks import BlockVotes, Casting, VoteBlock
from .engine import Duty, Worker
from .measured import Again, Bits, RowsAlone

#: A block that raises an error is tried so often, always on its own noise, before its image is given up for now.
ATTEMPTS = 3
#: So many blocks a GPU has been given when the first one's votes are asked for: it never waits for the disk.
AHEAD = 4


class Image(NamedTuple):
    """What a voter sees of an image: its number, which names the noise, and its levels."""

    number: int
    levels: Levels


class Task(NamedTuple):
    """A block of the image at a place; or some of its rows again, each alone."""

    place: int
    block: VoteBlock
    again: Again | None = None


class Outcome(NamedTuple):
    """What came of a block: its votes, or None if every attempt failed; and the errors on the way.

    What comes of rows alone is which of them are hits.
    """

    task: Task
    votes: BlockVotes | Bits | None
    errors: tuple[str, ...]
    seconds: float


def look_ahead(worker: Worker) -> int:
    """How many blocks are begun before the first one's votes are asked for."""
    return 0 if worker.model.place is None else AHEAD


class _Begun(NamedTuple):
    task: Task
    image: Image
    start: float
    casting: Casting | Exception | None
    """None for rows alone: they are voted when their turn comes."""
    changed: Callable[[], bool]


class Voter:
    """Votes on blocks in the order in which they are given; after a failure, on none of the rest of that image, unless
    it is to `persevere`.

    Guarantee: every attempt at a block, or at a row alone, is made on its own noise.
    """

    def __init__(self, duty: Duty, worker: Worker, keep: int | None = None, persevere: bool = False) -> None:
        self._duty, self._worker, self._persevere = duty, worker, persevere
        self._noise, self._voting = duty.noise(worker, keep), duty.voting(worker)
        self._ahead = look_ahead(worker)
        self._waiting: deque[_Begun] = deque()
        self._failed: set[int] = set()
        self._finished = time.perf_counter()
        self._alone: RowsAlone | None = None

    def ready(self) -> "Voter":
        """A ValueError now, and not after all the votes, if independence is to be measured and cannot be."""
        if self._duty.identity.independence.measured:
            self._rows_alone()
        return self

    def close(self) -> None:
        """End the process that votes on rows alone, if there is one."""
        if self._alone is not None:
            self._alone.close()
            self._alone = None

    def vote(self, tasks: Iterable[Task], image_at: Callable[[int], Image]) -> Generator[Outcome, None, None]:
        """An outcome for each task, in order."""
        try:
            for task in tasks:
                yield from self.give(task, image_at(task.place))
            yield from self.rest()
        finally:
            self.close()

    def give(self, task: Task, image: Image) -> list[Outcome]:
        """Begin a block; what comes back is the outcome of an earlier one, once enough are begun."""
        if task.place in self._failed:
            return []
        self._waiting.append(self._begin_all(task, image))
        return [self._finish(self._waiting.popleft())] if len(self._waiting) > self._ahead else []

    def rest(self) -> Iterator[Outcome]:
        """The outcomes of all that was begun."""
        while self._waiting:
            yield self._finish(self._waiting.popleft())

    def _begin_all(self, task: Task, image: Image) -> _Begun:
        start, casting = time.perf_counter(), None if task.again is not None else self._begin(task, image)
        return _Begun(task, image, start, casting, self._worker.model.changes())

    def _begin(self, task: Task, image: Image) -> Casting | Exception:
        try:
            return self._cast(task.block, image)
        except ModelChangedError:
            raise
        except Exception as error:
            return error

    def _cast(self, block: VoteBlock, image: Image) -> Casting:
        settings = self._duty.settings
        batch = self._voting.batch_for(settings.n0 if block.purpose == Purpose.SELECTION else settings.n)
        return Casting(self._voting, self._noise(image.number), image.levels, block, batch)

    def _finish(self, begun: _Begun) -> Outcome:
        """The votes, after as many attempts as it takes."""
        errors: list[str] = []
        votes = self._votes(begun, errors)
        while votes is None and len(errors) < ATTEMPTS:
            votes = self._votes(self._begin_all(begun.task, begun.image), errors)
        if votes is None and not self._persevere:
            self._failed.add(begun.task.place)
        start, self._finished = max(begun.start, self._finished), time.perf_counter()
        return Outcome(begun.task, votes, tuple(errors), self._finished - start)

    def _votes(self, begun: _Begun, errors: list[str]) -> BlockVotes | Bits | None:
        try:
            if isinstance(begun.casting, Exception):
                raise begun.casting
            votes = self._hits_alone(begun) if begun.casting is None else begun.casting.votes()
        except ModelChangedError:
            raise
        except Exception as error:
            errors.append(named(error))
            return None
        repeated = begun.casting is not None and begun.casting.repeated  # after the look
        changed = self._worker.model.changes() if repeated else begun.changed
        self._duty.check_model(self._worker, changed)  # before its votes are stored: later nobody could tell
        return votes

    def _hits_alone(self, begun: _Begun) -> Bits:
        assert begun.task.again is not None
        try:
            return self._rows_alone().hits(begun.image.number, begun.image.levels, begun.task.again)
        except Exception:
            self.close()  # whatever is wrong with that process, the next attempt gets a new one
            raise

    def _rows_alone(self) -> RowsAlone:
        if self._alone is None:
            self._alone = RowsAlone(self._duty, self._worker)
        return self._alone
