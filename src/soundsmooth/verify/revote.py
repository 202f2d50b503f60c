"""Vote again: the promised model, on the promised noise, in the promised batches, block by block; and rows alone."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..certify import blocks
from ..runs import voter
from ..runs.blocks import BlockVotes
from ..runs.engine import Run
from ..runs.measured import Bits
from ..runs.threads import image_at
from ..runs.voter import Task


class Revoted(NamedTuple):
    """What came of it: the votes, or the error of the last attempt."""

    task: Task
    votes: BlockVotes | Bits | None
    error: str | None


#: Who votes again. Tests may give something cheap.
Voter = Callable[[Iterable[Task]], Iterator[Revoted]]


class Revoter:
    """Votes with a run's own code. A block that raises an error is tried again, on the same noise.

    If rows are to be voted alone, the process for them is made now, before the first vote.
    """

    def __init__(self, run: Run, block: int) -> None:
        kept = sum(1 for _ in blocks(block, run.duty.batch, run.inputs.levels[0].size))
        self._run, self._voter = run, voter.Voter(run.duty, run.smoothing.workers[0], kept, persevere=True).ready()

    def __enter__(self) -> "Revoter":
        return self

    def __exit__(self, *_: object) -> None:
        self._voter.close()

    def __call__(self, tasks: Iterable[Task]) -> Iterator[Revoted]:
        """An outcome for each task, in an order in which shared noise is made only once."""
        fresh = self._run.settings.noise == "fresh"
        ordered = sorted(tasks, key=lambda task: task if fresh else (task.block, task.place))
        for task in ordered:
            yield from map(_revoted, self._voter.give(task, image_at(self._run, task.place)))
        yield from map(_revoted, self._voter.rest())


def _revoted(outcome: voter.Outcome) -> Revoted:
    return Revoted(outcome.task, outcome.votes, None if outcome.votes is not None else outcome.errors[-1])
