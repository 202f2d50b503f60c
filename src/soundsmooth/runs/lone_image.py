"""A lone image: certified in the thread that asks, by one worker, with nothing to store and nobody to wait for."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing

from ..certification.certificate import Certificate
from ..certification.certify import Counts, Measurement, certify
from ..certification.votes import added
from ..independence.measure import RowsToRecheck, measurement, rows_by_block
from ..noise import Purpose
from ..smoothing.blocks import VoteBlock, packed_bits
from ..smoothing.classifier import Replica
from ..smoothing.voting import check_classes, check_labels, counted
from .image_votes import ImageVotes, image_votes
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
        votes, hits = _vote(plan, voter)
        measured = _measure(plan, voter, votes, hits)
    counts = votes.selection, votes.estimation
    found = certify(*counts, plan.survey.law, plan.settings, measured, plan.paid(0), votes.looks, plan.coin(0))
    return plan.certificate(0, found, votes, measured, plan.survey.environment, time.perf_counter() - start)


def _vote(plan: RunPlan, voter: Voter) -> tuple[ImageVotes, Hits]:
    """The votes, from look to look; if independence is measured, also which copies of estimation were hits."""
    rounds, truth, there, hits = plan.rounds(kept=False), plan.inputs.labels[0], dict[VoteBlock, Counts](), Hits()
    votes = image_votes(plan.settings, rounds, truth, there)
    while votes.missing:
        for outcome in _outcomes(plan, voter, [Task.of(0, block) for block in votes.missing]):
            block, cast = outcome.task.only.block, outcome.copy_votes
            check_labels(plan.inputs.labels, cast.classes)
            check_classes(len(next(iter(there.values())).classes) if there else cast.classes, cast.classes)
            there[block] = counted(cast)
            if block.purpose == Purpose.ESTIMATION and plan.survey.identity.independence.measured:
                hits[block] = packed_bits(cast.labels == _selected(there))
        votes = image_votes(plan.settings, rounds, truth, there)
    return votes, hits


def _selected(there: Mapping[VoteBlock, Counts]) -> int:
    """The class that selection chose; its blocks come first."""
    return added(counts for block, counts in there.items() if block.purpose == Purpose.SELECTION).top


def _measure(plan: RunPlan, voter: Voter, votes: ImageVotes, hits: Hits) -> Measurement | None:
    """Rows that were hits vote again, alone; None unless that was promised."""
    drawn = plan.sampled_rows(0, votes)
    if drawn is None:
        return None
    rows = rows_by_block(drawn, hits.items())
    again = [Task.of(0, block, RowsToRecheck(votes.selection.top, each)) for block, each in rows.items()]
    alone = {outcome.task.only.block: outcome.bits for outcome in _outcomes(plan, voter, again)}
    return measurement(drawn, rows, alone)


def _outcomes(plan: RunPlan, voter: Voter, tasks: list[Task]) -> Iterator[Outcome]:
    """The outcomes of the tasks, in their order: blocks of selection first."""
    for outcome in voter.vote(tasks, plan.image(0)):
        if outcome.votes is None:
            raise ValueError(f"the model failed: {outcome.errors[-1]}")
        outcome.check_size()
        yield outcome
