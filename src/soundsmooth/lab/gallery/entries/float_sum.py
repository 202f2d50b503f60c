"""The hole in the paper's own published code: its noise is exactly on the grid, but it is added as a float.

What the classifier sees, fl(fl(fl(j/255) − (k + 1)) + fl(i/255)), depends on the pair (i, j), not on i + j alone. In
float32 the levels i = 210 and 209 reach 3316 floats each and share 1292 of them, all in the tails: a noisy copy of 209
is a float that 210 reaches with probability 6.3e-10 (a test adds up the exact chances). So the bare membership test
tells these neighbours apart, and each is certified far beyond the other. For ours the same test is a function of the
noisy level, for every image and noise that lead to it.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ....core.grid import IMAGES
from ..certifiers import Array, Certifier, CertifierTask, FloatSum, Scores, one_hot, values
from ..contradicting_pairs import Pair, try_pair
from ..options import Options
from ..trial import Trial

CLAIM = "exact noise on the grid, added as floats: f(x) = [x is a float that level 210 can reach], at 210 and at 209"
SIGMA = Fraction(1, 2)
LEVEL, NEIGHBOUR = 210, 209
K = FloatSum.k


def reachable(level: int, dtype: np.dtype[Any]) -> Array:
    """Every float that the sum can be at this level: one for each value T = j − 255(k + 1) of the noise, in order."""
    j = np.arange(2 * IMAGES.q * (K + 1) + 1)
    sums = (j.astype(dtype) / dtype.type(IMAGES.q) - dtype.type(K + 1)) + values(np.array(level), dtype)
    return np.asarray(np.clip(sums, dtype.type(-K), dtype.type(K + 1)))


def member(dtype: np.dtype[Any]) -> Scores:
    """f for a precision: class 1 on the floats that level 210 can reach, class 0 on all others."""
    floats = np.unique(reachable(LEVEL, dtype))

    def scores(batch: Array) -> Array:
        hit = np.isin(batch.reshape(len(batch), -1)[:, 0], floats)
        return one_hot(hit)

    return scores


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Both ways round: either point is certified with a ball that holds the other one."""
    for level, other in ((LEVEL, NEIGHBOUR), (NEIGHBOUR, LEVEL)):
        pair = Pair(member, np.full(1, level), np.full(1, other), note=f"{level}/255 against {other}/255")
        for certifier in certifiers:
            yield try_pair("float-sum", certifier, pair, CertifierTask(SIGMA, options.n or 100_000), tried=2)
