"""Predict of the paper's Algorithm 2: the smoothed classifier's own answer, or an abstention."""

import secrets
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from ..certification.certify import Counts
from ..certification.goal import LooksAsked, default_counts, default_levels, named_looks
from ..certification.looks import Looks
from ..certification.prediction import Prediction
from ..certification.settings import copies
from ..certification.votes import added
from ..core.grid import Levels, Rounding
from ..core.independence import Independence
from ..exact import Rational, distance_above, fair_coin_rejected, probability
from ..models.compiled import TUNED
from ..noise import Purpose
from ..noise.sources import FreshNoise
from .classifier import Smoothing, check_unchanged
from .voting import Voting, check_classes, sample_batch, sample_under_noise


def predict(
    smoothing: Smoothing,
    index: int,
    x: Levels,
    n: int | float,
    alpha: Rational,
    rounded: Rounding | None = None,
    looks: LooksAsked | str | None = None,
) -> Prediction:
    """One prediction under a key of its own, which the operating system draws and the answer discloses.

    With `looks` it answers at the first look that decides, and n is the most that may vote. The default looks are those
    of certify, at whole batches. They need rows that are proved to be independent.

    Guarantee: a label other than the smoothed classifier's own is returned with probability at most α, for a model
    that is seen to be the same after it as before. (The two-sided exact binomial test between the two most frequent;
    "nobody" is ranked as a class and never wins. With looks, docs/looks.md.) It is the answer at the grid point x.
    Where floats were `rounded` to it, the prediction says how far they were.
    """
    n, level = copies(n, "n"), probability(alpha, "alpha")
    named = named_looks(looks, n, level)
    smoothing.law.grid.check_levels(x)
    smoothing.check(x.shape, x.size, n)
    start, key, replica = time.perf_counter(), secrets.token_bytes(32), smoothing.replicas[0]
    batch = smoothing.batch_for(x.shape, n, looks is not None)
    batch = sample_batch(replica.model, batch, n)
    identity = smoothing.prepared(x.shape, batch)
    if identity.flags.get("compile") == TUNED and "artifact" not in identity.flags:
        raise ValueError("a prediction tunes no kernels: choose compile none or torch-compile, or certify first")
    schedule = Looks((n,), (level,))
    if looks is not None:
        _check_proved(identity.independence)
        counts = named.counts or default_counts(n, batch)
        schedule = Looks(counts, named.levels or default_levels(counts, level))
    voting, noise = Voting(replica.model, batch, identity.flags), FreshNoise(replica.sampler, key, index)

    label, found = first_answer(partial(sample_under_noise, voting, noise, x, Purpose.PREDICTION), schedule)
    check_unchanged(replica.model, identity, replica.model.changes(), "asked")
    return Prediction(
        index=index,
        label=label,
        counts=found,
        n=n,
        alpha=str(level),
        sigma=smoothing.law.lines["sigma"],
        margin=smoothing.law.margin,
        model=identity.digest,
        key=key.hex(),
        seconds=time.perf_counter() - start,
        rounded=None if rounded is None else distance_above(rounded.squared),
        looks=None if looks is None else dict(zip(schedule.counts, map(str, schedule.levels), strict=True)),
    )


def first_answer(sample: Callable[[range], Counts], looks: Looks) -> tuple[int | None, Counts]:
    """The answer at the first look at which there is one, None if there is none; and the votes up to there.

    Guarantee: if the copies vote independently and alike, a class that is not the most probable is returned with
    probability at most α₁ + … + α_K; also if another rule chose among the looks at which there is an answer.
    """
    total: Counts | None = None
    for segment, level in zip(looks.segments, looks.levels, strict=True):
        votes = sample(segment)
        check_classes(len((total or votes).classes), len(votes.classes))
        total = votes if total is None else added([total, votes])
        label = answer(total, level)
        if label is not None:
            return label, total
    assert total is not None
    return None, total


def answer(counts: Counts, level: Fraction) -> int | None:
    """The class with most votes if the exact test tells it from the next, nobody included; else None.

    Guarantee: that of docs/noise.md, 3.13, at this level.
    """
    hits, others = counts.classes[counts.top], counts.most_among_others(counts.top)
    return counts.top if hits > others and fair_coin_rejected(hits, others, level) else None


def _check_proved(independence: Independence) -> None:
    """A ValueError unless each vote has one law at every position of a batch: the test supposes it."""
    if not independence.proved:
        raise ValueError(
            f"a prediction with looks needs rows that are proved to be independent, and these are {independence}: "
            "leave out looks"
        )
