"""Vote again: the promised model, on the promised noise, in the promised batches, block by block."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..certify import ModelChangedError, blocks
from ..models.protocol import first_line
from ..noise import Purpose
from ..noise.sources import Source
from ..runs.blocks import BlockVotes, Casting, VoteBlock
from ..runs.engine import Run
from ..runs.voter import ATTEMPTS, look_ahead


class Task(NamedTuple):
    """A block to be voted again."""

    place: int
    block: VoteBlock


class Revoted(NamedTuple):
    """What came of it: the votes, or the error of the last attempt."""

    task: Task
    votes: BlockVotes | None
    error: str | None


#: Who votes again. Tests may give something cheap.
Voter = Callable[[Iterable[Task]], Iterator[Revoted]]


class Revoter:
    """Votes with a run's own code. A block that raises an error is tried again, on the same noise."""

    def __init__(self, run: Run, block: int) -> None:
        self._run, self._worker = run, run.smoothing.workers[0]
        self._voting = run.voting(self._worker)
        kept = sum(1 for _ in blocks(block, self._voting.batch, run.inputs.levels[0].size))
        self._noise: Callable[[int], Source] = run.noise(self._worker, kept)

    def __call__(self, tasks: Iterable[Task]) -> Iterator[Revoted]:
        """An outcome for each task, in an order in which shared noise is made only once."""
        fresh = self._run.settings.noise == "fresh"
        begun: deque[tuple[Task, Casting | Exception]] = deque()
        for task in sorted(tasks, key=lambda task: task if fresh else (task.block, task.place)):
            begun.append((task, self._begin(task)))
            if len(begun) > look_ahead(self._worker):
                yield self._finish(*begun.popleft())
        while begun:
            yield self._finish(*begun.popleft())

    def _begin(self, task: Task) -> Casting | Exception:
        settings, levels = self._run.settings, self._run.inputs.levels[task.place]
        batch = self._voting.batch_for(settings.n0 if task.block.purpose == Purpose.SELECTION else settings.n)
        try:
            return Casting(self._voting, self._noise(task.place), levels, task.block, batch)
        except ModelChangedError:
            raise
        except Exception as error:  # it is the issuer's model: anything can happen
            return error

    def _finish(self, task: Task, casting: Casting | Exception) -> Revoted:
        error = ""
        for attempt in range(ATTEMPTS):
            try:
                now = casting if attempt == 0 else self._begin(task)
                if isinstance(now, Exception):
                    raise now
                votes = now.votes()
            except ModelChangedError:
                raise
            except Exception as failure:
                error = f"{type(failure).__name__}: {first_line(failure)}"
                continue
            self._run.check_model(self._worker, self._worker.model.changes())
            return Revoted(task, votes, None)
        return Revoted(task, None, error)
