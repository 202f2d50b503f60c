"""A run that is continued: does the model still vote as it did when the run began?

A graph is fixed by its digest. Python code is not: its source and the weights that we can see are hashed, but a factory
may read other weights today. Blocks of two models would add up to a certificate that is true of neither. So one stored
block is voted again before others are added. This finds honest mistakes, and proves nothing.
"""

from contextlib import closing
from typing import TYPE_CHECKING

from ..certify import ModelChangedError
from ..models.protocol import tolerated
from .blocks import BlockVotes
from .engine import Run
from .store import Store, StoredBlock
from .voter import Task

if TYPE_CHECKING:
    from .resume import Engine


def check_same_model(store: Store, run: Run, engine: "Engine") -> None:
    """A ModelChangedError if a stored block gets other votes now; rounding may move a few.

    Nothing is checked where the digest binds, and where a model that draws at random is assumed to be independent.
    """
    if run.identity.kind == "onnx" or run.identity.independence == "assumed":
        return
    found = store.newest_block()
    if found is None:
        return
    place, stored = found
    now = _votes(engine, Task(place, stored.block))
    if now is not None and _differ(stored, now) > max(1, tolerated(run.identity.precision) * stored.block.count):
        raise ModelChangedError(
            f"the model votes otherwise than the one that began this run: of {stored.block.count} stored votes on "
            f"image {run.inputs.indices[place]} at least {_differ(stored, now)} are others now. Its promise is the "
            "same, but Python code may read other weights or options: continue with those that began the run, or "
            "begin another one"
        )


def _votes(engine: "Engine", task: Task) -> BlockVotes | None:
    """None if the model fails, which is not for us to judge."""
    votes: BlockVotes | None = None
    with closing(engine.outcomes(iter([[task]]), None)) as outcomes:
        for each in outcomes:
            votes = next((outcome.votes for outcome in each if isinstance(outcome.votes, BlockVotes)), votes)
    return votes


def _differ(stored: StoredBlock, now: BlockVotes) -> int:
    """At least so many copies voted otherwise."""
    before, after = (*stored.counts.classes, stored.counts.nobody), (*now.counts.classes, now.counts.nobody)
    if len(before) != len(after):
        return stored.block.count
    return sum(abs(a - b) for a, b in zip(before, after, strict=True)) // 2
