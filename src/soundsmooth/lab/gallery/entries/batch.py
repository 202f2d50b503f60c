"""A base classifier whose rows see each other: the mean of a batch of noisy copies is the image, nearly without noise.

In batches of B rows the mean over rows and the 64 pixels of an 8 × 8 image has a standard deviation of 255σ/√(64 B)
levels. Grey images that differ by 200/√B levels in every pixel (2 of 255 at B = 10 000) are told apart at 6.27 of these
on either side of the middle: a batch errs with probability 1.8e-10. Every row gets the batch's answer, and both images
are certified as if there were no noise. A mean over the batch is what batch normalisation does in training mode.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ..assumption_breakers import Asked, proving, try_deployment
from ..certifiers import Array, Certifier, CertifierTask, MakeScores, Scores, one_hot
from ..options import Options
from ..trial import Trial

CLAIM = "f averages its batch and so reads the image: two grey images a few levels apart, both certified"
SIGMA = Fraction(1, 2)
LEVEL = 210
SHAPE = (1, 8, 8)
BATCH = 10_000


def brighter_than(level: float) -> MakeScores:
    """Class 1 for every row if the mean of the whole batch lies above the level."""

    def make(dtype: np.dtype[Any]) -> Scores:
        return lambda batch: one_hot(np.full(len(batch), mean(batch) > level / 255))

    return make


def mean(batch: Array) -> float:
    """The mean of all rows and pixels; a row that was marked lost by a NaN does not spoil it."""
    return float(np.nanmean(batch, dtype=np.float64))


def step(batch: int) -> int:
    """By how many levels the two images differ in every pixel, for batches of this many rows."""
    return math.ceil(200 / math.sqrt(batch))


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """The brighter image is certified as class 1, the darker one as class 0, each far beyond the other."""
    task = CertifierTask(SIGMA, options.n or 100_000)
    darker = LEVEL - step(min(task.n, BATCH))
    make = brighter_than((LEVEL + darker) / 2)
    one, other = (Asked(make, np.full(SHAPE, level), task) for level in (LEVEL, darker))
    for certifier in proving(certifiers):
        yield try_deployment("batch", certifier, one, other, f"{LEVEL}/255 against {darker}/255 in all pixels")
