"""The paper's Algorithm 2: certification and prediction of F ∘ g_k, many classes.

`sample_under_noise` and `certify` are to be read beside the paper's procedures of the same names; what the
paper calls Failure does not exist here, because the noise is exact (docs/noise.md).
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import floor
from typing import Any, NamedTuple

from .arrays import Fetched, concatenate, histogram, private_copy
from .exact import (
    clopper_pearson_above,
    clopper_pearson_below,
    fair_coin_rejected,
    float_above,
    hoeffding_below,
    radius_below,
    radius_two_below,
)
from .grid import Levels
from .lanes import lanes_of
from .models import NOBODY, Model, Votes
from .noise import Noisy, Purpose
from .noise.sources import Source
from .settings import BoundName, Settings

Progress = Callable[[int], None]

#: So many elements of noise are made together, where a batch has fewer.
BLOCK_ELEMENTS = 1 << 19


class ModelChangedError(ValueError):
    """What votes is no longer what was promised: nothing that it says may be counted."""


@dataclass(frozen=True)
class Counts:
    """How many noisy copies voted for each class, and how many for nobody."""

    classes: tuple[int, ...]
    nobody: int

    @property
    def total(self) -> int:
        return sum(self.classes) + self.nobody

    @property
    def top(self) -> int:
        """The class with most votes; ties fall to the lowest."""
        return self.classes.index(max(self.classes))

    def most_among_others(self, label: int) -> int:
        """The largest count of any class but `label`, nobody included."""
        return max([*self.classes[:label], *self.classes[label + 1 :], self.nobody])


@dataclass(frozen=True)
class Verdict:
    """A label with its proved bounds, or an abstention (label None, radius 0)."""

    label: int | None
    radius: float
    p_lower: float
    p_upper: float | None
    """Above every other class's probability; only where the bound looks at it (runner-up)."""


@dataclass(frozen=True)
class Measurement:
    """Rows of the batches that were voted again, alone, and how many of them were hits only in their batch."""

    rows: int
    """m: drawn at random with repetition, all positions alike, from the n copies for estimation."""
    lost: int
    """d: how many of these voted for the label in their batch, and not alone."""


@dataclass(frozen=True)
class Voting:
    """Who votes, on how large batches, and under which kernel flags: all promised beforehand."""

    model: Model
    batch: int
    flags: Mapping[str, str]

    def batch_for(self, n: int) -> int:
        """A sample smaller than a batch is one batch of its own size, if the model can run that."""
        return self.batch if self.model.batch else min(self.batch, n)


def certify(
    voting: Voting, noise: Source, x: Levels, sigma: Fraction, settings: Settings, progress: Progress = lambda _: None
) -> tuple[Verdict, Counts, Counts]:
    """The paper's Certify: a verdict, and the two counts it rests on.

    Guarantee: with probability at least 1 − α over the bits of the noise, either this abstains or the smoothed
    classifier x ↦ argmax_c P(F(clamp(x + T)) = c) answers `label` at every x + δ with ‖δ‖₂ < radius.
    """
    counts0 = sample_under_noise(voting, noise, x, Purpose.SELECTION, settings.n0, progress)
    counts = sample_under_noise(voting, noise, x, Purpose.ESTIMATION, settings.n, progress)
    return verdict(counts0, counts, sigma, settings), counts0, counts


def sample_under_noise(
    voting: Voting, noise: Source, x: Levels, purpose: Purpose, n: int, progress: Progress = lambda _: None
) -> Counts:
    """The paper's SampleUnderNoise: the votes of n noisy copies of x."""
    return poll(voting, noise, x, purpose, n, progress).counts()


def poll(
    voting: Voting, noise: Source, x: Levels, purpose: Purpose, n: int, progress: Progress = lambda _: None
) -> "Poll":
    """Have n noisy copies of x vote. On a GPU the votes are only queued, and the counts can be asked for later."""
    cast_so_far = Poll(lambda: poll(voting, Sure(noise), x, purpose, n))
    for votes, doubt in cast(voting, noise, x, purpose, range(n), voting.batch_for(n)):
        cast_so_far.add(votes, doubt)
        progress(len(votes.labels))
    return cast_so_far.close()


def cast(
    voting: Voting, noise: Source, x: Levels, purpose: Purpose, copies: range, batch: int
) -> Iterator[tuple[Votes, Any]]:
    """The votes of consecutive noisy copies, block by block, each with the doubt that its noise leaves (or None).

    On a GPU the next block's noise is made while the model votes; nothing may read the votes before all are cast.

    Guarantee: if the copies begin and end with a batch (or end where the sample does), then each votes in the same
    row of the same batch as when all are cast together.
    """
    with lanes_of(voting.model.placement) as lanes:
        made: deque[tuple[Block, Any]] = deque()

        def vote() -> tuple[Votes, Any]:
            block, ready = made.popleft()
            votes, doubt = lanes.use(ready, lambda noisy: (votes_of(voting, noisy, batch), noisy.doubt))
            lanes.hand_out(votes.labels, doubt)
            return Votes(votes.labels[: block.keep], votes.classes), doubt  # the rest only filled the last batch

        for block in blocks(len(copies), batch, x.size):
            request = partial(noise.noisy, purpose, x, copies.start + block.first, block.copies)
            made.append((block, lanes.make(request)))
            if len(made) > 1:
                yield vote()
        yield vote()


@dataclass(frozen=True)
class Sure:
    """A source that leaves no doubt: what the GPU cannot decide is made by the CPU."""

    noise: Source

    def noisy(self, purpose: Purpose, x: Levels, first: int, copies: int, sure: bool = True) -> Noisy:
        return self.noise.noisy(purpose, x, first, copies, sure=True)


class Block(NamedTuple):
    """Noisy copies that are made together: whole batches, of which the last may be filled up with further copies."""

    first: int
    copies: int
    keep: int
    """How many of them vote; the others only fill the last batch."""


def blocks(n: int, batch: int, dimension: int) -> Iterator[Block]:
    """The copies 0, …, n − 1 in blocks: one batch, or several small ones, whose noise is cheaper made together."""
    size = batch * max(1, BLOCK_ELEMENTS // (batch * dimension))
    for first in range(0, n, size):
        keep = min(size, n - first)
        yield Block(first, -(-keep // batch) * batch, keep)


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


class Poll:
    """Gathers votes on the device where they are cast and counts them there; waits only when asked for the counts."""

    def __init__(self, again: "Callable[[], Poll]") -> None:
        self._again = again
        self._labels: list[Any] = []
        self._classes: int | None = None
        self._doubts: list[Any] = []
        self._result: tuple[Fetched, Fetched | None] | None = None
        self.repeated = False
        """Whether votes were cast once more when the counts were asked for."""

    def add(self, votes: Votes, doubt: Any = None) -> None:
        """More votes, with the doubt that their noise leaves."""
        if self._classes not in (None, votes.classes):
            raise ModelChangedError(f"the model had {self._classes} classes and now has {votes.classes}")
        self._classes = votes.classes
        self._labels.append(votes.labels)
        if doubt is not None:
            self._doubts.append(doubt.reshape(1))

    def close(self) -> "Poll":
        """All votes are cast: count them, all at once since that takes the fewest launches, and let the counts come."""
        assert self._classes is not None, "no votes were cast"
        counts = histogram(concatenate(self._labels), NOBODY, self._classes - 1)  # nobody first, then the classes
        self._result = Fetched(counts), Fetched(concatenate(self._doubts)) if self._doubts else None
        self._labels, self._doubts = [], []
        return self

    def counts(self) -> Counts:
        """The counts; if some noise was in doubt, those of the same noise made once more, without doubt."""
        assert self._result is not None, "the poll is not closed"
        counts, doubt = self._result
        if doubt is not None and any(doubt.get()):
            self.repeated = True
            return self._again().counts()
        nobody, *classes = counts.get()
        return Counts(tuple(classes), nobody)


def verdict(
    counts0: Counts, counts: Counts, sigma: Fraction, settings: Settings, measured: Measurement | None = None
) -> Verdict:
    """What the counts prove: the label that selection chose, with the radius that estimation allows.

    If independence was measured, p_lower is for the classifier that sees one row at a time (`measured_below`).

    Guarantee: p_lower and p_upper err outwards and the radius downwards (`exact`).
    """
    if len(counts0.classes) != len(counts.classes):
        raise ModelChangedError(
            f"the model has {len(counts0.classes)} classes in selection and {len(counts.classes)} in estimation"
        )
    label = counts0.top
    if measured is None:
        p_lower, p_upper = _bounds(counts, label, settings.bound, settings.alpha)
    else:
        p_lower, p_upper = measured_below(counts.classes[label], counts.total, measured, settings.alpha), None
    if p_upper is None:
        won = p_lower > 0.5
        radius = radius_below(p_lower, sigma) if won else 0.0
    else:
        won = p_lower > p_upper
        radius = radius_two_below(p_lower, p_upper, sigma) if won else 0.0
    return Verdict(label if won else None, radius, p_lower, p_upper)


def measured_below(hits: int, n: int, measured: Measurement, alpha: Fraction) -> float:
    """A lower bound for the probability that one row, alone, votes for the label.

    Of the n copies, D are hits in their batch and would not be alone; D/n ≤ u, the Clopper–Pearson upper bound from the
    rows that were voted again, except with probability α/2. So at least hits − ⌊n·u⌋ copies are hits alone, and these
    are independent whatever the batches do: the lower bound from them, at α/4, is above ½ and wrong, for any class at
    all, with probability at most α/2. Any class: a model with a memory may have selected the label with the copies for
    estimation in view (docs/audit.md, Theorem 4).
    (docs/independence.md. The difference of the two bounds would be too large where votes of a batch depend on each
    other: then the hits in batches are not binomial.)

    Guarantee: at most the true value of this bound.
    """
    lost = Fraction(clopper_pearson_above(measured.lost, measured.rows, alpha / 2))
    return clopper_pearson_below(max(0, hits - floor(n * lost)), n, alpha / 4)


def _bounds(counts: Counts, label: int, bound: BoundName, alpha: Fraction) -> tuple[float, float | None]:
    hits, n = counts.classes[label], counts.total
    if bound == "clopper-pearson":
        return clopper_pearson_below(hits, n, alpha), None
    if bound == "hoeffding":
        return hoeffding_below(hits, n, alpha), None
    # The most frequent of the others dominates the count of the true runner-up, whichever class that is, and
    # the bound rises with the count: no price for the number of classes. (Bounding the runner-up that selection
    # named would leave out all the others.)
    p_lower = clopper_pearson_below(hits, n, alpha / 2)
    others = clopper_pearson_above(counts.most_among_others(label), n, alpha / 2)
    return p_lower, min(others, float_above(1 - Fraction(p_lower)))


def predict(voting: Voting, noise: Source, x: Levels, n: int, alpha: Fraction) -> tuple[int | None, Counts]:
    """The smoothed classifier's answer at x, or None: it abstains rather than guess.

    Guarantee: a label other than the smoothed classifier's own is returned with probability at most α. (The
    two-sided exact binomial test between the two most frequent; "nobody" is ranked as a class and never wins.)
    """
    counts = sample_under_noise(voting, noise, x, Purpose.PREDICTION, n)
    label = counts.top
    hits, others = counts.classes[label], counts.most_among_others(label)
    won = hits > others and fair_coin_rejected(hits, others, alpha)
    return (label if won else None), counts
