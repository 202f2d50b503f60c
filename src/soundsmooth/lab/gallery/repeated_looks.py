"""Bounds that are computed at several looks: how often one of them is false, by recursion and by simulation."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from ...certification.stop_rule import binomial
from .certifiers import Array, Procedure, refuse
from .false_rates import least_hits

#: Probabilities below this one are dropped at the ends of a law: far below the 15 digits of a double.
TINY = 1e-30


def without_program(name: str) -> Procedure:
    """A procedure whose votes are drawn from the binomial law; it certifies nothing by itself."""
    return Procedure(name, partial(refuse, "its votes are simulated; there is no program to run"))


def doubling_looks(n: int, first: int = 100) -> tuple[int, ...]:
    """The looks 100·2^k below n, then n."""
    looks = [first]
    while 2 * looks[-1] < n:
        looks.append(2 * looks[-1])
    return (*looks, n)


def quadratic_levels(looks: Sequence[int], alpha: Fraction) -> tuple[Fraction, ...]:
    """The levels α((n_k/n)² − (n_{k−1}/n)²), which sum to α."""
    before = (0, *looks[:-1])
    return tuple(alpha * Fraction(now**2 - last**2, looks[-1] ** 2) for last, now in zip(before, looks, strict=True))


def needed_hits(looks: Sequence[int], p: Fraction, levels: Sequence[Fraction]) -> Array:
    """For each look the least number of hits whose Clopper–Pearson bound, at that look's level, exceeds p."""
    return np.array([least_hits(n, p, level) for n, level in zip(looks, levels, strict=True)])


def needed_at_full_level(looks: Sequence[int], p: Fraction, alpha: Fraction) -> Array:
    """The same with one level for all looks. A further vote raises the number by 0 or 1, which shortens the search."""
    hits, last = [0], 0
    for n in looks:
        hits.append(least_hits(n, p, alpha, hits[-1], min(hits[-1] + n - last, n)))
        last = n
    return np.array(hits[1:])


def chance(p: float, looks: Sequence[int], needed: Sequence[int] | Array) -> float:
    """P(at least `needed` hits at some look): the law of the hits goes from look to look, less what has crossed.

    Floats: all terms are positive, so the relative error is about 10⁻¹⁰, that of the logarithms of factorials.
    """
    laws = {step: binomial(step, p) for step in set(np.diff([0, *looks]).tolist())}
    law, first, last, crossed = np.ones(1), 0, 0, 0.0
    for n, least in zip(looks, needed, strict=True):
        start, increment = laws[n - last]
        law, first, last = np.convolve(law, increment), first + start, n
        cut = max(0, int(least) - first)
        crossed += float(law[cut:].sum())
        law = law[:cut]
        kept = np.flatnonzero(law > TINY)
        if not len(kept):
            break
        law, first = law[kept[0] : kept[-1] + 1], first + int(kept[0])
    return crossed


def simulated(p: float, looks: Sequence[int], needed: Array, runs: int, rng: np.random.Generator) -> int:
    """In how many runs some look has that many hits."""
    steps, found = np.diff([0, *looks]), 0
    for first in range(0, runs, 500):
        votes = rng.binomial(steps, p, (min(500, runs - first), len(steps))).cumsum(axis=1)
        found += int((votes >= needed).any(axis=1).sum())
    return found
