"""Optional stopping: votes are added until the bound is good enough, and each look has the full α.

F is a fair coin, p = ½. At each look the Clopper–Pearson bound is computed; the first one above p is written down. Each
look is wrong with probability α at most. Eleven looks, after 100·2^k votes up to 100 000, are wrong with 8.2 α
together, and 1000 looks, after every 100 votes, with 21.8 α (by recursion over the hits). Nothing fixes n in the
certifiers in use. Ours promises n, or promises looks and spends α on them: then all looks together are wrong with α.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..certifiers import Array, Certifier, Ours
from ..false_rates import exceeding, rate_trial
from ..options import Options
from ..repeated_looks import chance, doubling_looks, needed_at_full_level, needed_hits, quadratic_levels, simulated
from ..trial import Trial

CLAIM = "votes are added until the bound is good enough: 11 or 1000 looks up to n = 100 000, each at full α"
P, ALPHA = Fraction(1, 2), Fraction(1, 1000)
N, LOOKS = 100_000, 1000
#: In so many runs FALSE is all but certain; eleven looks are cheap, and need more runs.
RUNS, RUNS_OF_FEW = 4000, 20_000
#: The real runs of ours take a larger α, so that a few hundred of them can show a rate, and a small n.
REAL_RUNS, REAL_N, REAL_ALPHA = 500, 1000, Fraction(1, 10)


def frequent_looks(n: int) -> tuple[int, ...]:
    """A thousand looks, or one after each vote."""
    step = max(1, n // LOOKS)
    return tuple(range(step, n + 1, step))


@lru_cache(maxsize=4)
def boundary(looks: tuple[int, ...]) -> Array:
    """For each look the least number of hits whose bound at full α exceeds p."""
    return needed_at_full_level(looks, P, ALPHA)


@lru_cache(maxsize=4)
def times_alpha(looks: tuple[int, ...]) -> float:
    """The chance that some look at full α is false, in units of α."""
    return chance(float(P), looks, boundary(looks)) / float(ALPHA)


def repeated(name: str, looks: tuple[int, ...], runs: int, rng: np.random.Generator) -> Trial:
    """A certifier in use: each look at full α."""
    false = simulated(float(P), looks, boundary(looks), runs, rng)
    note = f"{len(looks)} looks: p_lower > p at some look in {false} of {runs} runs, where α allows "
    note += f"{float(ALPHA * runs):g}; by recursion {times_alpha(looks):.1f} α"
    note += " (votes simulated, for nothing in this certifier fixes n)"
    return rate_trial("stopping", name, false, runs, ALPHA, note)


def promised(name: str) -> Trial:
    """Ours with a promised n: real runs."""
    false = exceeding(REAL_RUNS, REAL_N, REAL_ALPHA, 1)
    note = f"n is promised: p_lower > p in {false} of {REAL_RUNS} runs at α = {float(REAL_ALPHA)}"
    return rate_trial("stopping", name, false, REAL_RUNS, REAL_ALPHA, note)


def spent(name: str, looks: tuple[int, ...], rng: np.random.Generator) -> Trial:
    """Ours with promised looks, α spent on them, and a stop at the first false bound: simulated votes."""
    needed = needed_hits(looks, P, quadratic_levels(looks, ALPHA))
    false = simulated(float(P), looks, needed, RUNS_OF_FEW, rng)
    share = chance(float(P), looks, needed) / float(ALPHA)
    note = f"{len(looks)} looks with α spent on them: p_lower > p at some look in {false} of {RUNS_OF_FEW} runs"
    note += f"; by recursion {share:.2f} α (votes simulated)"
    return rate_trial("stopping", name, false, RUNS_OF_FEW, ALPHA, note)


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """FALSE (rate) where the exact binomial P is below 10⁻⁶; a smaller n has looks at shorter intervals."""
    n, rng = min(options.n or N, N), np.random.default_rng()
    few = doubling_looks(n, max(1, n // 1000))
    for certifier in certifiers:
        if isinstance(certifier, Ours):
            yield promised(certifier.name)
            yield spent(certifier.name, few, rng)
        else:
            yield repeated(certifier.name, few, RUNS_OF_FEW, rng)
            yield repeated(certifier.name, frequent_looks(n), RUNS, rng)
