"""Noise drawn in float32, image and sum in float64, as happens when the images are doubles and the noise is not.

Then v − a, rounded to float32, is the very noise that was drawn, and adding it to a gives v again: always at a, and
hardly ever at another level, whose sums have bits where float32 noise added to a has none (at 209 one copy in ten
million: noise within 2⁻²⁴ of 1/255, where float32 is fine enough). Mixing precisions hides the effect of Listing 1 and
opens a wider door.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ....noise import Purpose
from ..certifiers import (
    Answer,
    Array,
    Certifier,
    CertifierTask,
    MakeScores,
    Procedure,
    Scores,
    one_hot,
    values,
    vote_and_certify,
)
from ..contradicting_pairs import Pair, try_pair
from ..options import Options
from ..trial import Trial

CLAIM = "noise drawn in float32, added in float64: f(v) = [a ⊕ fl32(v ⊖ a) = v], 210/255 against 209/255"
SIGMA = Fraction(1, 2)
LEVEL, NEIGHBOUR = 210, 209


def certify_mixed(make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
    """Algorithm 1 with the noise in float32, the image and the sum in float64."""
    rng, double = np.random.default_rng(), np.dtype("float64")

    def noisy(x: Array, purpose: Purpose, first: int, copies: int) -> Array:
        noise = rng.standard_normal((copies, *x.shape), dtype=np.float32) * np.float32(task.sigma)
        summed: Array = values(x, double) + noise.astype(double)
        return summed

    return vote_and_certify(noisy, make(double), classes, x, task)


EXTRA: tuple[Certifier, ...] = (Procedure("standard-mixed", certify_mixed),)


def float32_away(dtype: np.dtype[Any]) -> Scores:
    """Class 1 where v is a plus a float32; all other arithmetic in the given precision."""
    a = values(np.array(LEVEL), dtype)

    def scores(batch: Array) -> Array:
        v = batch.reshape(len(batch), -1)[:, 0]
        return one_hot(a + (v - a).astype(np.float32).astype(dtype) == v)

    return scores


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Both ways round: either level is certified with a ball that holds the other one."""
    for level, other in ((LEVEL, NEIGHBOUR), (NEIGHBOUR, LEVEL)):
        pair = Pair(float32_away, np.full(1, level), np.full(1, other), note=f"{level}/255 against {other}/255")
        for certifier in [*EXTRA, *certifiers]:
            yield try_pair("sampler", certifier, pair, CertifierTask(SIGMA, options.n or 100_000), tried=2)
