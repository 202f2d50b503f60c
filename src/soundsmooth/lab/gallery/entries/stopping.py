"""Optional stopping: votes are added until the bound is good enough, and each look has the full α.

F is a fair coin, p = ½. After every 100 votes, up to 100 000, the Clopper–Pearson bound is computed; the first one
above p is written down. Each look is wrong with probability α at most, but 1000 of them together are wrong in 2.2 %
of the runs at α = 0.1 %. Nothing fixes n in the certifiers in use. Ours promises n before the first vote.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..certifiers import Certifier, Ours
from ..false_rates import exceeding, judge_rate, least_hits
from ..options import Options
from ..trial import Trial

CLAIM = "votes are added until the bound is good enough: 1000 looks up to n = 100 000, each at full α"
P, ALPHA = Fraction(1, 2), Fraction(1, 1000)
N, LOOKS = 100_000, 1000
RUNS = 4000
#: The real runs of ours take a larger α, so that a few hundred of them can show a rate, and a small n.
REAL_RUNS, REAL_N, REAL_ALPHA = 500, 1000, Fraction(1, 10)


@lru_cache(maxsize=4)
def boundary(n: int, step: int) -> npt.NDArray[Any]:
    """For the looks after step, 2·step, …, n votes: the least number of hits whose bound exceeds p.

    A further vote raises it by 0 or 1, for X_m ≤ X_{m+1} ≤ X_m + 1.
    """
    hits = [0]
    for votes in range(step, n + 1, step):
        hits.append(least_hits(votes, P, ALPHA, hits[-1], min(hits[-1] + step, votes)))
    return np.array(hits[1:])


def stopped(n: int, runs: int, rng: np.random.Generator) -> int:
    """In how many runs some look has p_lower > p."""
    step = max(1, n // LOOKS)
    needed, false = boundary(n, step), 0
    for first in range(0, runs, 500):
        votes = rng.binomial(step, float(P), (min(500, runs - first), len(needed))).cumsum(axis=1)
        false += int((votes >= needed).any(axis=1).sum())
    return false


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """FALSE (rate) where the exact binomial P is below 10⁻⁶; a smaller n has as many looks, at shorter intervals."""
    n, rng = min(options.n or N, N), np.random.default_rng()
    for certifier in certifiers:
        if isinstance(certifier, Ours):
            false, runs = exceeding(REAL_RUNS, REAL_N, REAL_ALPHA, 1), REAL_RUNS
            finding = judge_rate(false, runs, REAL_ALPHA)
            note = f"n is promised: p_lower > p in {false} of {runs} runs at α = {float(REAL_ALPHA)}"
        else:
            false, runs = stopped(n, RUNS, rng), RUNS
            finding = judge_rate(false, runs, ALPHA)
            note = f"p_lower > p at some look in {false} of {RUNS} runs, where α allows {float(ALPHA * RUNS):g}"
            note += " (votes simulated, for nothing in this certifier fixes n)"
        yield Trial("stopping", certifier.name, finding, counts=((false, runs - false),), note=note)
