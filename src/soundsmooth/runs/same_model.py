"""A run that is continued: does the model still vote as it did when the run began?

A graph is fixed by its digest. Python code is not: its source and the weights that we can see are hashed, but a factory
may read other weights today. Blocks of two models would add up to a certificate that is true of neither. So stored
blocks of a few images that are begun are voted again, before anything is added. This finds honest mistakes, and proves
nothing.
"""

import numpy as np

from ..certification.certify import ModelChangedError
from ..models import Votes
from ..models.protocol import vote_tolerance
from ..models.registry import digest_binds
from ..smoothing.blocks import hits_of
from ..smoothing.voting import counted
from .plan import RunPlan
from .store import Store
from .stored import StoredBlock
from .tasks import Outcome, Task

#: Of so many images a block is voted again.
IMAGES = 4


#: A block as it was voted when the run began, and the class that selection chose.
Before = tuple[StoredBlock, int]


class SameModel:
    """The blocks that are voted again, until all have come back.

    Nothing is compared where the digest binds; nor where independence is assumed or measured, since such a model may
    draw at random or remember, and votes otherwise each time.
    """

    def __init__(self, store: Store, plan: RunPlan) -> None:
        self._plan = plan
        self.tasks: dict[Task, Before] = {}
        """What is still to be voted again."""
        independence = plan.survey.identity.independence
        if not digest_binds(plan.survey.identity.kind) and (independence.proved or independence.checked):
            for place, stored in store.begun_blocks(IMAGES):
                self.tasks[Task.of(place, stored.block)] = stored, store.votes(place).selection.top

    def hear(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Those that are not ours; a ModelChangedError if one of ours has other votes than before. Rounding may move a
        few. (Whether the model fails is not for us to judge.)
        """
        others = []
        for outcome in outcomes:
            before = self.tasks.pop(outcome.task, None)
            if before is None:
                others.append(outcome)
            elif outcome.votes is not None:
                self._compare(outcome.task.only.place, *before, outcome.copy_votes)
        return others

    def _compare(self, place: int, stored: StoredBlock, label: int, now: Votes) -> None:
        count, differ = stored.block.count, _differ(stored, label, now)
        if differ > vote_tolerance(self._plan.survey.identity.precision, count):
            raise ModelChangedError(
                f"the model votes otherwise than the one that began this run: of {count} stored votes on image "
                f"{self._plan.inputs.indices[place]} at least {differ} are others now. Its promise is the same, but "
                "Python code may read other weights or options: continue with those that began the run, or begin "
                "another one"
            )


def _differ(stored: StoredBlock, label: int, now: Votes) -> int:
    """At least so many copies voted otherwise."""
    count = stored.block.count
    then, today = ((*each.classes, each.nobody) for each in (stored.counts, counted(now)))
    if len(then) != len(today):
        return count
    moved = sum(abs(a - b) for a, b in zip(then, today, strict=True)) // 2
    if stored.hits is None:
        return moved
    return max(moved, int(np.sum(hits_of(stored.hits, count) != (now.labels == label))))
