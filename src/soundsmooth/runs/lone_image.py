"""A lone image: certified in the thread that asks, by one worker, with nothing to store and nobody to wait for."""

from collections.abc import Iterator
from contextlib import closing
from itertools import chain

from ..certification.certificate import Certificate
from ..certification.certify import Measurement, certify
from ..certification.votes import added
from ..independence.measure import Again, drawn_rows, measurement, rows_by_block
from ..noise import Purpose
from ..smoothing.blocks import VoteBlock, packed_bits
from ..smoothing.classifier import Replica
from ..smoothing.voting import CopyVotes, check_classes
from .plan import RunPlan
from .tasks import Image, Outcome, Task
from .voter import Voter

Voted = dict[VoteBlock, CopyVotes]


def certify_image(plan: RunPlan, replica: Replica) -> Certificate:
    """The certificate of a plan's only image; a ValueError if the model fails on it again and again.

    Guarantee: it is the certificate that a run of this plan stores, timings aside.
    """
    image = plan.image(0)
    with closing(Voter(plan.job, replica)) as voter:
        outcomes = list(_outcomes(voter, image, [Task(0, block) for block in plan.blocks(kept=False)]))
        voted = {each.task.block: each.copy_votes for each in outcomes}
        for votes in voted.values():
            check_classes(outcomes[0].copy_votes.classes, votes.classes)
        counts = {
            purpose: added(votes.counts for block, votes in voted.items() if block.purpose == purpose)
            for purpose in (Purpose.SELECTION, Purpose.ESTIMATION)
        }
        measured, alone = _measure(plan, voter, image, voted, counts[Purpose.SELECTION].top)
    found = certify(counts.__getitem__, plan.law, plan.settings, measured)
    seconds = sum(each.seconds for each in (*outcomes, *alone))
    return plan.certificate(0, found, counts, measured, plan.environment, seconds)


def _outcomes(voter: Voter, image: Image, tasks: list[Task]) -> Iterator[Outcome]:
    """What comes of the tasks, in their order."""
    begun = chain.from_iterable(voter.give(task, image) for task in tasks)
    for outcome in chain(begun, voter.rest()):
        if outcome.votes is None:
            raise ValueError(f"the model failed: {outcome.errors[-1]}")
        outcome.check_size()
        yield outcome


def _measure(
    plan: RunPlan, voter: Voter, image: Image, voted: Voted, label: int
) -> tuple[Measurement | None, list[Outcome]]:
    """The measurement, if one was promised, and what came of the rows that voted again, alone."""
    drawn = drawn_rows(plan.secret, plan.promise, image.number)
    if drawn is None:
        return None, []
    estimation = ((block, votes) for block, votes in voted.items() if block.purpose == Purpose.ESTIMATION)
    rows = rows_by_block(drawn, ((block, packed_bits(votes.labels == label)) for block, votes in estimation))
    alone = list(_outcomes(voter, image, [Task(0, block, Again(label, each)) for block, each in rows.items()]))
    return measurement(drawn, rows, {each.task.block: each.bits for each in alone}), alone
