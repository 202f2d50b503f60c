"""Vote again: the promised model, on the promised noise, in the promised batches, block by block; and rows alone."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from ..certification.promise import Inputs
from ..models import Identity
from ..runs.packs import packs_of_round
from ..runs.reader import RunReader
from ..runs.stored import RunTerms
from ..runs.tasks import Image, Outcome, Part, Task
from ..runs.voter import Voter
from ..smoothing.blocks import VoteBlock
from ..smoothing.classifier import Smoothing
from ..smoothing.job import VotingJob
from ..smoothing.voting import noise_blocks

#: The parts that are voted together with a part, in order; it is one of them.
Packing = Callable[[Part], tuple[Part, ...]]


def alone(part: Part) -> tuple[Part, ...]:
    """Each block shares its batches with no other."""
    return (part,)


def packing_of(run: RunReader) -> Packing:
    """How the copies of a finished run shared batches, by its promise and its stored votes."""
    looks = run.stated.settings.looks
    if looks is None or looks.group is None:
        return alone
    size, most, images = looks.group.images, looks.group.copies, int(run.promise.values["input count"])

    @cache
    def packs(group: int) -> dict[Part, tuple[Part, ...]]:
        members = range(group * size, min((group + 1) * size, images))
        votes = {place: run.votes(place) for place in members}
        rounds = (packs_of_round(votes, run.rounds, number, most) for number in range(len(run.rounds)))
        return {part: pack for round in rounds for pack in round for part in pack}

    def pack(part: Part) -> tuple[Part, ...]:
        return packs(part.place // size)[part]

    return pack


def promised_voter(terms: RunTerms, smoothing: Smoothing, identity: Identity, inputs: Inputs) -> Voter:
    """A run's own code on this machine, under the key that the stored promise gives.

    If rows are to be voted alone, the process for them is made now, before the first vote.
    """
    settings, size = terms.settings, inputs.levels[0].size
    smoothing.check(inputs.shape, size, max(settings.n, settings.n0))
    batch = terms.batch
    job = VotingJob(identity, settings, inputs.shape, batch, terms.secret.key(terms.promise))
    kept = len(noise_blocks(terms.block, batch, size))
    return Voter(job, smoothing.replicas[0], kept)


def revote(voter: Voter, inputs: Inputs, tasks: Iterable[Task], packing: Packing = alone) -> Iterator[Outcome]:
    """An outcome for each task, in an order in which shared noise is made only once.

    A block is voted with the whole pack that it was in, as the `packing` says. One that raises an error is tried again,
    on the same noise.
    """
    wanted: dict[Task, list[Task]] = {}
    for task in sorted(tasks, key=_order):
        pack = task if task.again is not None else Task(packing(task.only))
        wanted.setdefault(pack, []).append(task)
    for pack in wanted:
        for outcome in voter.give(pack, [Image(inputs.indices[at], inputs.levels[at]) for at, _ in pack.parts]):
            yield from _split(outcome, wanted[outcome.task])
    for outcome in voter.rest():
        yield from _split(outcome, wanted[outcome.task])


def _order(task: Task) -> tuple[VoteBlock, int]:
    return task.only.block, task.only.place


def _split(outcome: Outcome, wanted: Sequence[Task]) -> Iterator[Outcome]:
    """What came of a pack, as what came of those of its parts that are wanted."""
    for task in wanted:
        if task.again is not None or outcome.votes is None:
            yield outcome._replace(task=task)
        else:
            yield outcome._replace(task=task, votes=(outcome.part_votes[outcome.task.parts.index(task.only)],))
