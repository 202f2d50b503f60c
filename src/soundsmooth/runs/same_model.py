"""A run that is continued: does the model still vote as it did when the run began?

A graph is fixed by its digest. Python code is not: its source and the weights that we can see are hashed, but a factory
may read other weights today. Blocks of two models would add up to a certificate that is true of neither. So stored
blocks of a few images that are begun are voted again, before anything is added. This finds honest mistakes, and proves
nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..certify import ModelChangedError
from ..core.independence import CHECKED, PROVED
from ..models.protocol import tolerated
from ..noise import Purpose
from .blocks import BlockVotes, hits_of
from .engine import Run
from .store import Store, StoredBlock
from .voter import Outcome, Task

#: Of so many images a block is voted again.
IMAGES = 4


class _Before(NamedTuple):
    """A block as it was voted when the run began, and the class that selection chose."""

    stored: StoredBlock
    label: int


class SameModel:
    """The blocks that are voted again, until all have come back.

    Nothing is compared where the digest binds; nor where independence is assumed or measured, since such a model may
    draw at random or remember, and votes otherwise each time.
    """

    def __init__(self, store: Store, run: Run) -> None:
        self._run, self._open = run, dict[Task, _Before]()
        if run.identity.kind != "onnx" and run.identity.independence in (PROVED, CHECKED):
            for place, stored in store.begun_blocks(IMAGES):
                label = store.counts(place, Purpose.SELECTION).top
                self._open[Task(place, stored.block)] = _Before(stored, label)

    @property
    def tasks(self) -> list[Task]:
        """What is still to be voted again."""
        return list(self._open)

    def first(self, groups: Iterator[list[Task]]) -> Iterator[list[Task]]:
        """These tasks before all others."""
        return _Chain(self.tasks, groups)

    def hear(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Those that are not ours; a ModelChangedError if one of ours has other votes than before. Rounding may move a
        few. (Whether the model fails is not for us to judge.)
        """
        others = []
        for outcome in outcomes:
            before = self._open.pop(outcome.task, None)
            if before is None:
                others.append(outcome)
            elif isinstance(outcome.votes, BlockVotes):
                self._compare(outcome.task.place, before, outcome.votes)
        return others

    def _compare(self, place: int, before: _Before, now: BlockVotes) -> None:
        count, differ = before.stored.block.count, _differ(before, now)
        if differ > tolerated(self._run.identity.precision, count):
            raise ModelChangedError(
                f"the model votes otherwise than the one that began this run: of {count} stored votes on image "
                f"{self._run.inputs.indices[place]} at least {differ} are others now. Its promise is the same, but "
                "Python code may read other weights or options: continue with those that began the run, or begin "
                "another one"
            )


def _differ(before: _Before, now: BlockVotes) -> int:
    """At least so many copies voted otherwise."""
    stored, count = before.stored, before.stored.block.count
    then, today = (*stored.counts.classes, stored.counts.nobody), (*now.counts.classes, now.counts.nobody)
    if len(then) != len(today):
        return count
    moved = sum(abs(a - b) for a, b in zip(then, today, strict=True)) // 2
    if stored.hits is None:
        return moved
    return max(moved, int(np.sum(hits_of(stored.hits, count) != (now.labels == before.label))))


class _Chain:
    """One group, then others. It may be asked again after it had nothing to give, if those may."""

    def __init__(self, first: list[Task], then: Iterator[list[Task]]) -> None:
        self._first, self._then = first, then

    def __iter__(self) -> "_Chain":
        return self

    def __next__(self) -> list[Task]:
        if self._first:
            first, self._first = self._first, []
            return first
        return next(self._then)
