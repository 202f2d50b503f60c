"""Measured independence with looks, at the levels of a fixed n: the issuer stops where no row was lost.

In batches every copy is a hit; alone a copy is one with p = 0.921. At each look 100 rows, uniform among the first n_k
copies, are voted again alone, and d of them are lost. With the levels of a fixed n, α/2 for the loss and α/4 for the
hits, p_lower exceeds p at a late look exactly if d = 0. That has probability p^100 = 0.27 α or a little more. The
issuer knows the rows once the nonce is drawn, votes on them in private, and stops at a look that loses none. There are
100 looks, and some bound is false with 19 α or more. (Eleven looks at 100·2^k give 1.5 α at most.) Ours takes α_k/2 and
α_k/4.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np

from ....exact import BOUNDS, Look, Schedule
from ..certifiers import Array, Certifier, Ours
from ..false_rates import rate_trial
from ..options import Options
from ..repeated_looks import quadratic_levels, without_program
from ..trial import Trial

CLAIM = "measured rows at the levels of a fixed n: the issuer knows them, and stops at a look where none is lost"
P, ALPHA = Fraction(921, 1000), Fraction(1, 1000)
AGAIN = 100
LOOKS = tuple(range(1000, 100_001, 1000))
RUNS = 4000
FIXED_LEVELS = without_program("fixed-levels")
EXTRA: tuple[Certifier, ...] = (FIXED_LEVELS,)


#: At every look the levels of a fixed n, or the level that this look spends.
AT_FIXED = tuple(Schedule.fixed(n, ALPHA) for n in LOOKS)
AT_SPENT = tuple(Schedule(LOOKS, quadratic_levels(LOOKS, ALPHA)) for _ in LOOKS)


def p_lower(n: int, lost: int, schedule: Schedule) -> float:
    """The bound at the look of n votes, all of them hits, if so many of the rows voted again are lost: our own code."""
    looks = [Look(each, each, 0) for each in schedule.looks if each <= n]
    return BOUNDS["clopper-pearson"].prove_alone(looks, AGAIN, lost, schedule)[0]


@cache
def losses_that_err(schedules: tuple[Schedule, ...]) -> Array:
    """For each look, for how many numbers of lost rows, from 0 on, the bound exceeds p."""
    return np.array([_losses(n, schedule) for n, schedule in zip(LOOKS, schedules, strict=True)])


def _losses(n: int, schedule: Schedule) -> int:
    lost = 0
    while Fraction(p_lower(n, lost, schedule)) > P:
        lost += 1
    return lost


def false_runs(schedules: tuple[Schedule, ...], runs: int, rng: np.random.Generator) -> int:
    """In how many runs some look has p_lower > p: copies that are hits only in their batch, and the rows drawn."""
    steps = np.diff([0, *LOOKS])
    deceptive = rng.binomial(steps, 1 - float(P), (runs, len(steps))).cumsum(axis=1)
    lost = rng.binomial(AGAIN, deceptive / np.array(LOOKS))
    return int((lost < losses_that_err(schedules)).any(axis=1).sum())


def measured(name: str, schedules: tuple[Schedule, ...], rng: np.random.Generator) -> Trial:
    """Runs of an issuer who stops at the first false bound."""
    false = false_runs(schedules, RUNS, rng)
    note = f"{len(LOOKS)} looks: p_lower > p = {float(P)} at some look in {false} of {RUNS} runs, where α allows "
    note += f"{float(ALPHA * RUNS):g} (votes simulated)"
    return rate_trial("known-rows", name, false, RUNS, ALPHA, note)


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """The levels of a fixed n at every look, and ours if it is among these."""
    rng = np.random.default_rng()
    yield measured(FIXED_LEVELS.name, AT_FIXED, rng)
    for certifier in certifiers:
        if isinstance(certifier, Ours):
            yield measured(certifier.name, AT_SPENT, rng)
