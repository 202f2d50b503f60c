"""Vote again: the promised model, on the promised noise, in the promised batches, block by block; and rows alone."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..certification.promise import Inputs
from ..runs.tasks import Image, Outcome, Task
from ..runs.voter import Voter
from ..smoothing.blocks import Bits
from ..smoothing.classifier import Replica
from ..smoothing.job import VotingJob
from ..smoothing.voting import CopyVotes, noise_blocks


class Revoted(NamedTuple):
    """What came of it: the votes, or the error of the last attempt."""

    task: Task
    votes: CopyVotes | Bits | None
    error: str | None


#: What votes again. Tests may give something cheap.
Revote = Callable[[Iterable[Task]], Iterator[Revoted]]


class Revoter:
    """Votes with a run's own code. A block that raises an error is tried again, on the same noise.

    If rows are to be voted alone, the process for them is made now, before the first vote.
    """

    def __init__(self, job: VotingJob, replica: Replica, inputs: Inputs, block: int) -> None:
        kept = sum(1 for _ in noise_blocks(block, job.batch, inputs.levels[0].size))
        self._inputs, self._fresh = inputs, job.settings.noise == "fresh"
        self._voter = Voter(job, replica, kept)

    def __enter__(self) -> "Revoter":
        return self

    def __exit__(self, *_: object) -> None:
        self._voter.close()

    def __call__(self, tasks: Iterable[Task]) -> Iterator[Revoted]:
        """An outcome for each task, in an order in which shared noise is made only once."""
        ordered = sorted(tasks, key=lambda task: task if self._fresh else (task.block, task.place))
        for task in ordered:
            image = Image(self._inputs.indices[task.place], self._inputs.levels[task.place])
            yield from map(_revoted, self._voter.give(task, image))
        yield from map(_revoted, self._voter.rest())


def _revoted(outcome: Outcome) -> Revoted:
    return Revoted(outcome.task, outcome.votes, None if outcome.votes is not None else outcome.errors[-1])
