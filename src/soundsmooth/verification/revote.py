"""Vote again: the promised model, on the promised noise, in the promised batches, block by block; and rows alone."""

from collections.abc import Iterable, Iterator
from operator import attrgetter

from ..certification.promise import Inputs
from ..models import Identity
from ..runs.stored import RunTerms
from ..runs.tasks import Image, Outcome, Task
from ..runs.voter import Voter
from ..smoothing.classifier import Smoothing
from ..smoothing.job import VotingJob
from ..smoothing.voting import noise_blocks


def promised_voter(terms: RunTerms, smoothing: Smoothing, identity: Identity, inputs: Inputs) -> Voter:
    """A run's own code on this machine, under the key that the stored promise gives.

    If rows are to be voted alone, the process for them is made now, before the first vote.
    """
    settings, size = terms.settings, inputs.levels[0].size
    smoothing.check(inputs.shape, size, max(settings.n, settings.n0))
    batch = smoothing.batch_for(inputs.shape, settings.n)
    job = VotingJob(identity, settings, inputs.shape, batch, terms.secret.key(terms.promise))
    kept = sum(1 for _ in noise_blocks(terms.block, batch, size))
    return Voter(job, smoothing.replicas[0], kept)


def revote(voter: Voter, inputs: Inputs, tasks: Iterable[Task]) -> Iterator[Outcome]:
    """An outcome for each task, in an order in which shared noise is made only once.

    A block that raises an error is tried again, on the same noise.
    """
    for task in sorted(tasks, key=attrgetter("block", "place")):
        yield from voter.give(task, Image(inputs.indices[task.place], inputs.levels[task.place]))
    yield from voter.rest()
