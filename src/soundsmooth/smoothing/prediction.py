"""Predict of the paper's Algorithm 2: the smoothed classifier's own answer, or an abstention."""

import secrets
import time

from ..certification.certificate import Prediction
from ..certification.settings import copies
from ..core.grid import Levels, Rounding
from ..exact import Rational, distance_above, fair_coin_rejected, probability
from ..noise import Purpose
from ..noise.sources import FreshNoise
from .classifier import Smoothing, check_unchanged
from .voting import Voting, sample_under_noise


def predict(
    smoothing: Smoothing, index: int, x: Levels, n: int | float, alpha: Rational, rounded: Rounding | None = None
) -> Prediction:
    """One prediction under a key of its own, which the operating system draws and the answer discloses.

    Guarantee: a label other than the smoothed classifier's own is returned with probability at most α, for a model
    that is seen to be the same after it as before. (The two-sided exact binomial test between the two most frequent;
    "nobody" is ranked as a class and never wins.) It is the answer at the grid point x. Where floats were
    `rounded` to it, the prediction says how far they were.
    """
    n, level = copies(n, "n"), probability(alpha, "alpha")
    smoothing.law.grid.check_levels(x)
    smoothing.check(x.shape, x.size, n)
    start, key, replica = time.perf_counter(), secrets.token_bytes(32), smoothing.replicas[0]
    batch = smoothing.batch_for(x.shape, n)
    identity = smoothing.identity(x.shape, batch)
    voting = Voting(replica.model, batch, identity.flags)
    counts = sample_under_noise(voting, FreshNoise(replica.sampler, key, index), x, Purpose.PREDICTION, n)
    check_unchanged(replica.model, identity, replica.model.changes(), "asked")
    hits, others = counts.classes[counts.top], counts.most_among_others(counts.top)
    won = hits > others and fair_coin_rejected(hits, others, level)
    return Prediction(
        index=index,
        label=counts.top if won else None,
        counts=counts,
        n=n,
        alpha=str(level),
        sigma=smoothing.law.lines["sigma"],
        margin=smoothing.law.margin,
        model=identity.digest,
        key=key.hex(),
        seconds=time.perf_counter() - start,
        rounded=None if rounded is None else distance_above(rounded.squared),
    )
