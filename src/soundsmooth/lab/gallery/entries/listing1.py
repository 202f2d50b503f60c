"""The paper's Listing 1: f(x) = [(x ⊖ a) ⊕ a = x] is 1 on every float that a ⊕ ε can reach, and on few others.

Standard smoothing certifies a = 210/255 with a radius that covers 0, where it sees class 0 with confidence. On the grid
f has an honest smoothed value at every level, and the certified radius stays below the distance.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ..certifiers import Certifier, CertifierTask
from ..contradicting_pairs import Pair, try_pair
from ..known_by_floats import reachable_from
from ..options import Options
from ..trial import Trial

CLAIM = "f(x) = [(x ⊖ a) ⊕ a = x] at a = 210/255 against 0, and at 200/255, where the ball covers every level"
SIGMA = Fraction(1, 2)


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Both of the paper's points, by Clopper–Pearson; Hoeffding's smaller radius is enough for a contradiction too."""
    zero = np.zeros(1, np.int64)
    for level in (210, 200):
        pair = Pair(reachable_from(level), np.full(1, level), zero, note=f"a = {level}/255 against 0")
        for certifier in certifiers:
            yield try_pair("listing1", certifier, pair, CertifierTask(SIGMA, options.n or 100_000), tried=2)
