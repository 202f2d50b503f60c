"""A lone image: certified in the thread that asks, by one worker, with nothing to store and nobody to wait for."""

import time
from collections.abc import Iterator
from contextlib import closing

from ..certification.certificate import Certificate
from ..certification.certify import Counts, Measurement, certify
from ..certification.votes import added
from ..independence.measure import RowsToRecheck, measurement, rows_by_block, sample_rows
from ..noise import Purpose
from ..smoothing.blocks import VoteBlock, packed_bits
from ..smoothing.classifier import Replica
from ..smoothing.voting import check_classes
from .plan import RunPlan
from .tasks import Outcome, Task
from .voter import Voter

Hits = dict[VoteBlock, bytes]


def certify_image(plan: RunPlan, replica: Replica) -> Certificate:
    """The certificate of a plan's only image; a ValueError if the model fails on it again and again.

    Guarantee: it is the certificate that a run of this plan stores, timings aside.
    """
    with closing(Voter(plan.job, replica)) as voter:
        start = time.perf_counter()
        counts, hits = _vote(plan, voter)
        measured = _measure(plan, voter, counts[Purpose.SELECTION].top, hits)
    found = certify(counts.__getitem__, plan.law, plan.settings, measured, plan.paid(0))
    return plan.certificate(0, found, counts, measured, plan.environment, time.perf_counter() - start)


def _vote(plan: RunPlan, voter: Voter) -> tuple[dict[Purpose, Counts], Hits]:
    """The counts of both samples; if independence is measured, also which copies of estimation were hits."""
    counts, hits = {purpose: Counts((), 0) for purpose in (Purpose.SELECTION, Purpose.ESTIMATION)}, Hits()
    for outcome in _outcomes(plan, voter, [Task(0, block) for block in plan.blocks(kept=False)]):
        block, votes = outcome.task.block, outcome.copy_votes
        check_classes(len(counts[Purpose.SELECTION].classes) or votes.classes, votes.classes)
        counts[block.purpose] = added([counts[block.purpose], votes.counts])
        if block.purpose == Purpose.ESTIMATION and plan.identity.independence.measured:
            hits[block] = packed_bits(votes.labels == counts[Purpose.SELECTION].top)
    return counts, hits


def _measure(plan: RunPlan, voter: Voter, label: int, hits: Hits) -> Measurement | None:
    """Rows that were hits vote again, alone; None unless that was promised."""
    drawn = sample_rows(plan.secret, plan.promise, plan.inputs.indices[0])
    if drawn is None:
        return None
    rows = rows_by_block(drawn, hits.items())
    again = [Task(0, block, RowsToRecheck(label, each)) for block, each in rows.items()]
    return measurement(drawn, rows, {outcome.task.block: outcome.bits for outcome in _outcomes(plan, voter, again)})


def _outcomes(plan: RunPlan, voter: Voter, tasks: list[Task]) -> Iterator[Outcome]:
    """The outcomes of the tasks, in their order: blocks of selection first."""
    for outcome in voter.vote(tasks, plan.image(0)):
        if outcome.votes is None:
            raise ValueError(f"the model failed: {outcome.errors[-1]}")
        outcome.check_size()
        yield outcome
