"""SampleUnderNoise of the paper's Algorithm 2: the votes of noisy copies.

The paper's Failure does not exist here, because the noise is exact (docs/noise.md).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from ..certification.certify import Counts, ModelChangedError
from ..core.arrays import Fetched, concatenate, private_copy
from ..core.cuda_streams import overlap
from ..core.grid import Levels
from ..core.machine import cores
from ..models import NOBODY, Model, Votes
from ..noise import Noisy, Purpose
from ..noise.sources import CopyRange, Source, noisy_copies

#: The noise of small batches is made together, up to this many elements.
BLOCK_ELEMENTS = 1 << 19
#: A block is made ahead of the model's work if it has no more elements: 64 MB.
MOST_AHEAD = 1 << 24


@dataclass(frozen=True)
class Voting:
    """The model that votes, the rows of its batches and its kernel flags: all promised beforehand."""

    model: Model
    batch: int
    flags: Mapping[str, str]

    @property
    def leaves_a_core(self) -> bool:
        """Whether the model has fewer threads than there are cores. One that does not say has one."""
        return int(self.flags.get("threads", 1)) < cores()


def sample_batch(model: Model, batch: int, n: int) -> int:
    """The rows of the batches in which n copies vote that share them with no others (docs/noise.md, `batch`).

    A sample smaller than a batch is one batch of its own size, if the model can run that.
    """
    return batch if model.batch else min(batch, n)


def counted(votes: Votes) -> Counts:
    """How many of the votes, in NumPy, each class has."""
    nobody, *classes = np.bincount(votes.labels - NOBODY, minlength=votes.classes + 1).tolist()
    return Counts(tuple(classes), nobody)


def sample_under_noise(voting: Voting, noise: Source, x: Levels, purpose: Purpose, copies: range) -> Counts:
    """The paper's SampleUnderNoise: the votes of noisy copies of x."""
    (votes,) = PendingVotes(voting, [CopyRange(noise, x, purpose, copies)]).votes()
    return counted(votes)


class PendingVotes:
    """The votes of some copies, which a GPU may still be computing: only asking for them waits."""

    def __init__(self, voting: Voting, ranges: Sequence[CopyRange], sure: bool = False) -> None:
        self._request = (voting, ranges)
        parts = list(vote_on_copies(*self._request, sure=sure))
        doubts = [doubt.reshape(1) for _, doubt in parts if doubt is not None]
        self._doubt = Fetched(concatenate(doubts)) if doubts else None
        self._labels = Fetched(concatenate([part.labels for part, _ in parts]))
        self._classes = {part.classes for part, _ in parts}
        self.repeated = False
        """Whether the copies voted once more when the votes were asked for."""

    def votes(self) -> tuple[Votes, ...]:
        """The votes of each range, in NumPy. Where noise was in doubt, the same noise is made again without doubt."""
        if self._doubt is not None and any(self._doubt.get()):
            self.repeated = True
            return PendingVotes(*self._request, sure=True).votes()
        labels, classes = self._labels.array(), only_number(self._classes)
        ends = list(accumulate(len(each.copies) for each in self._request[1]))
        return tuple(Votes(part, classes) for part in np.split(labels, ends[:-1]))


def vote_on_copies(voting: Voting, ranges: Sequence[CopyRange], sure: bool = False) -> Iterator[tuple[Votes, Any]]:
    """The votes of noisy copies, range by range, block by block, each with the doubt that its noise leaves (or None).

    Ranges share batches: where one ends within a batch, the next begins. On a GPU the next block's noise is made while
    the model votes; nothing may read the votes before all have voted. If it has to be `sure`, the CPU makes the noise
    that the GPU cannot decide.

    Guarantee: if the copies of a single range begin and end with a batch (or end where the sample does), then each
    votes in the same row of the same batch as when all vote together.
    """
    total, dimension = sum(len(each.copies) for each in ranges), ranges[0].x.size
    blocks = noise_blocks(total, voting.batch, dimension)
    requests = (partial(_noisy_rows, ranges, block, sure) for block in blocks)

    def vote(noisy: Noisy) -> tuple[Any, int, Any]:
        return *votes_of(voting, noisy), noisy.doubt

    ahead = len(blocks) > 1 and len(blocks[0]) * dimension <= MOST_AHEAD and voting.leaves_a_core
    voted = overlap(voting.model.placement, requests, vote, ahead)
    for block, (labels, classes, doubt) in zip(blocks, voted, strict=True):
        yield Votes(labels[: total - block.start], classes), doubt  # the rest only filled the last batch


def _noisy_rows(ranges: Sequence[CopyRange], block: range, sure: bool) -> Noisy:
    """The rows of a block of all copies, range after range; the last range goes on beyond its end."""
    wanted, start = [], 0
    for each in ranges:
        stop = block.stop if each is ranges[-1] else start + len(each.copies)
        first, last = max(start, block.start), min(stop, block.stop)
        if first < last:
            at = each.copies.start - start
            wanted.append(each._replace(copies=range(at + first, at + last)))
        start = stop
    return noisy_copies(wanted, sure)


def noise_blocks(n: int, batch: int, dimension: int) -> list[range]:
    """The copies 0, …, n − 1 in blocks: one batch, or several small ones, whose noise is cheaper made together.

    Blocks are whole batches: the copies from n on only fill the last one.
    """
    size, end = batch * max(1, BLOCK_ELEMENTS // (batch * dimension)), -(-n // batch) * batch
    return [range(first, min(first + size, end)) for first in range(0, n, size)]


def votes_of(voting: Voting, noisy: Noisy) -> Votes:
    """The votes of noisy copies, batch by batch, each batch of the same shape. A lost copy votes for nobody."""
    parts = [_vote(voting, rows) for rows in _batches(noisy.values, voting.batch)]
    classes = only_number({part.classes for part in parts})
    labels = parts[0].labels if len(parts) == 1 else concatenate([part.labels for part in parts])
    if noisy.lost:
        labels = private_copy(labels)  # torch's inference mode leaves labels that cannot be written to
        labels[list(noisy.lost)] = NOBODY
    return Votes(labels, classes)


def only_number(classes: set[int]) -> int:
    """The number of classes in all batches; a ModelChangedError if there are several."""
    if len(classes) > 1:
        raise ModelChangedError(f"the model's number of classes changes between batches: {sorted(classes)}")
    (found,) = classes
    return found


def check_labels(labels: Iterable[int | None], classes: int | None, cure: str = "") -> None:
    """A ValueError for a label that is none of the model's classes: it would count as a wrong answer in silence.

    While the number of classes is not known (None), nothing is rejected.
    """
    outside = [label for label in labels if label is not None and classes is not None and label >= classes]
    if classes is not None and outside:
        raise ValueError(
            f"label {max(outside)} is no class of the model: its classes are 0 to {classes - 1}, and labels must be "
            f"numbered like them{cure}"
        )


def check_classes(before: int, now: int) -> None:
    """A ModelChangedError unless the number of classes is what it was."""
    if now != before:
        raise ModelChangedError(f"the model had {before} classes and now has {now}")


def _batches(values: Any, batch: int) -> Iterator[Any]:
    """Each batch in memory of its own, so that the model has no way to rows that have not voted yet."""
    if len(values) == batch:
        yield values
    else:
        for i in range(0, len(values), batch):
            yield private_copy(values[i : i + batch])


def _vote(voting: Voting, values: Any) -> Votes:
    if voting.model.flags() != voting.flags:
        raise ModelChangedError(
            f"the kernel flags changed during the run: {voting.flags} became {voting.model.flags()}"
        )
    return voting.model.vote(values)
