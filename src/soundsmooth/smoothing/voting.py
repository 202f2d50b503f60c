"""SampleUnderNoise of the paper's Algorithm 2: the votes of noisy copies of one input.

The paper's Failure does not exist here, because the noise is exact (docs/noise.md).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..certification.certify import Counts, ModelChangedError
from ..core.arrays import Fetched, concatenate, private_copy
from ..core.cuda_streams import overlap
from ..core.grid import Levels
from ..models import NOBODY, Model, Votes
from ..noise import Noisy, Purpose
from ..noise.sources import Source

#: The noise of small batches is made together, up to this many elements.
BLOCK_ELEMENTS = 1 << 19


@dataclass(frozen=True)
class Voting:
    """The model that votes, the size of its batches and its kernel flags: all promised beforehand."""

    model: Model
    batch: int
    flags: Mapping[str, str]

    def batch_for(self, n: int) -> int:
        """A sample smaller than a batch is one batch of its own size, if the model can run that."""
        return self.batch if self.model.batch else min(self.batch, n)


@dataclass(frozen=True)
class CopyVotes:
    """The votes of consecutive noisy copies, one by one."""

    labels: npt.NDArray[np.signedinteger]
    classes: int

    @property
    def counts(self) -> Counts:
        nobody, *classes = np.bincount(self.labels - NOBODY, minlength=self.classes + 1).tolist()
        return Counts(tuple(classes), nobody)


def sample_under_noise(voting: Voting, noise: Source, x: Levels, purpose: Purpose, n: int) -> Counts:
    """The paper's SampleUnderNoise: the votes of n noisy copies of x."""
    return PendingVotes(voting, noise, x, purpose, range(n), voting.batch_for(n)).votes().counts


class PendingVotes:
    """The votes of some copies, which a GPU may still be computing: only asking for them waits."""

    def __init__(
        self, voting: Voting, noise: Source, x: Levels, purpose: Purpose, copies: range, batch: int, sure: bool = False
    ) -> None:
        self._request = (voting, noise, x, purpose, copies, batch)
        parts = list(vote_on_copies(*self._request, sure=sure))
        doubts = [doubt.reshape(1) for _, doubt in parts if doubt is not None]
        self._doubt = Fetched(concatenate(doubts)) if doubts else None
        self._labels = Fetched(concatenate([part.labels for part, _ in parts]))
        self._classes = {part.classes for part, _ in parts}
        self.repeated = False
        """Whether the copies voted once more when the votes were asked for."""

    def votes(self) -> CopyVotes:
        """The votes; where some noise was in doubt, those on the same noise, made once more without doubt."""
        if self._doubt is not None and any(self._doubt.get()):
            self.repeated = True
            return PendingVotes(*self._request, sure=True).votes()
        return CopyVotes(self._labels.array(), only_number(self._classes))


def vote_on_copies(
    voting: Voting, noise: Source, x: Levels, purpose: Purpose, copies: range, batch: int, sure: bool = False
) -> Iterator[tuple[Votes, Any]]:
    """The votes of consecutive noisy copies, block by block, each with the doubt that its noise leaves (or None).

    On a GPU the next block's noise is made while the model votes; nothing may read the votes before all have voted.
    If it has to be `sure`, the CPU makes the noise that the GPU cannot decide.

    Guarantee: if the copies begin and end with a batch (or end where the sample does), then each votes in the same
    row of the same batch as when all vote together.
    """
    blocks = list(noise_blocks(len(copies), batch, x.size))
    requests = (partial(noise.noisy, purpose, x, copies.start + block.first, block.copies, sure) for block in blocks)

    def vote(noisy: Noisy) -> tuple[Any, int, Any]:
        return *votes_of(voting, noisy, batch), noisy.doubt

    voted = overlap(voting.model.placement, requests, vote)
    for block, (labels, classes, doubt) in zip(blocks, voted, strict=True):
        yield Votes(labels[: block.keep], classes), doubt  # the rest only filled the last batch


class NoiseBlock(NamedTuple):
    """Noisy copies that are made together: whole batches, of which the last may be filled up with further copies."""

    first: int
    copies: int
    keep: int
    """How many of them vote; the others only fill the last batch."""


def noise_blocks(n: int, batch: int, dimension: int) -> Iterator[NoiseBlock]:
    """The copies 0, …, n − 1 in blocks: one batch, or several small ones, whose noise is cheaper made together."""
    size = batch * max(1, BLOCK_ELEMENTS // (batch * dimension))
    for first in range(0, n, size):
        keep = min(size, n - first)
        yield NoiseBlock(first, -(-keep // batch) * batch, keep)


def votes_of(voting: Voting, noisy: Noisy, batch: int) -> Votes:
    """The votes of noisy copies, batch by batch, each batch of the same shape. A lost copy votes for nobody."""
    parts = [_vote(voting, rows) for rows in _batches(noisy.values, batch)]
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
