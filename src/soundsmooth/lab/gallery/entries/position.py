"""A base classifier that looks at the row's place in the batch, and at nothing else.

Row 0 is class B (1), every other row class A (0). No data flows between rows and nothing is remembered, so shuffling,
splitting or mixing batches with others may show nothing. In batches of 10 000 it is certified as A; served one by
one, as predictions often are, each row is row 0, and it always answers B.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..assumption_breakers import Asked, proving, try_deployment
from ..certifiers import Certifier, CertifierTask, MakeScores, Scores, one_hot
from ..options import Options
from ..trial import Trial

CLAIM = "row 0 is class 1, all other rows class 0: certified in batches, deployed one by one, at the same a"
SIGMA = Fraction(1, 2)


def first_row(dtype: np.dtype[Any]) -> Scores:
    """Class 1 for row 0, class 0 for all others."""
    return lambda batch: one_hot(np.arange(len(batch)) == 0)


def one_by_one(make: MakeScores) -> MakeScores:
    """The same classifier, run at batch size 1."""

    def alone(dtype: np.dtype[Any]) -> Scores:
        scores = make(dtype)
        return lambda batch: np.concatenate([scores(row) for row in np.split(batch, len(batch))])

    return alone


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Certify with n copies in batches; deploy with up to 1000 copies, one by one, at the very same point."""
    task, a = CertifierTask(SIGMA, options.n or 100_000), np.full(1, 210)
    certified = Asked(first_row, a, task)
    deployed = Asked(one_by_one(first_row), a, replace(task, n=min(task.n, 1000)))
    for certifier in proving(certifiers):
        yield try_deployment("position", certifier, certified, deployed, "deployed one by one")
