"""One coin for all rows: processes that are forked from one share the state of its generators.

In batches the model is class 1. Alone it is class 1 with probability 0.86, by NumPy's global generator. A measurement
should lose about 14 rows of 100. In forked processes every row gets the same toss: all rows are lost or none, and if
none is, p_lower exceeds 0.86. That happens in 86 of 100 runs, where α allows one in ten thousand. Ours seeds
the generators that it finds from the row, so every row has a toss of its own.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ..certifiers import Array, Certifier, CertifierTask, Ours, Refused, one_hot
from ..false_rates import judge_rate
from ..measured import NAIVE, A, measuring
from ..options import Options
from ..trial import Finding, Trial

CLAIM = "f draws: forked processes toss one coin for all rows that are voted alone, so none of them is lost"
SIGMA, ALPHA, P = Fraction(1, 2), Fraction(1, 10_000), Fraction(86, 100)
#: Two false certificates in this many runs are too many: P < 10⁻⁶.
RUNS, RUNS_OF_OURS, TOO_MANY = 9, 2, 2
EXTRA: tuple[Certifier, ...] = (NAIVE,)


class Coin:
    """In batches class 1; alone class 1 with probability P."""

    def __call__(self, batch: Array) -> Array:
        return one_hot(np.array([len(batch) > 1 or np.random.random() < P for _ in batch]))


def bounds(certifier: Certifier, runs: int, task: CertifierTask) -> Iterator[float]:
    """p_lower of each run; every run has a fresh process."""
    for _ in range(runs):
        yield certifier.certify(lambda dtype: Coin(), 2, A, task).p_lower


def tossed(certifier: Certifier, runs: int, task: CertifierTask) -> Trial:
    """FALSE (rate) if p_lower > p in two of the runs; those that cannot change this any more are left out."""
    made = false = 0
    for bound in bounds(certifier, runs, task):
        made, false = made + 1, false + (bound > P)
        if false == TOO_MANY:
            break
    note = f"p_lower > p = {float(P)} in {false} of {made} runs (at most {runs}) at α = {float(ALPHA)}"
    return Trial(
        "common-coin", certifier.name, judge_rate(false, runs, ALPHA), counts=((false, made - false),), note=note
    )


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Nine runs of the naive measurement at most, and two of ours, which take longer."""
    task = CertifierTask(SIGMA, options.n or 2000, n0=min(options.n or 100, 100), alpha=ALPHA)
    for certifier in measuring(certifiers):
        try:
            yield tossed(certifier, RUNS_OF_OURS if isinstance(certifier, Ours) else RUNS, task)
        except Refused as refusal:
            yield Trial("common-coin", certifier.name, Finding.REFUSED, note=str(refusal))
