"""A base classifier with a memory: it is not one function, so a certificate for it says nothing about tomorrow.

One counts its rows: class 0 for the first million, class 1 for ever after. The other answers by the mean of all
that it has ever seen: it is certified at a white pixel, then serves black ones, and from then on calls the white one
black. Both do the same at batch size 1. A certifier that wants proof of no memory refuses them.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..assumption_breakers import Asked, proving, try_deployment
from ..certifiers import Array, Certifier, CertifierTask, MakeScores, Scores, one_hot
from ..options import Options
from ..trial import Trial

CLAIM = "f counts its rows, or keeps a running mean: certified at a, deployed at the same a with another answer"
SIGMA = Fraction(1, 2)
LIMIT = 10**6


class Counter:
    """Class 0 for the first `limit` rows, then class 1."""

    def __init__(self, limit: int) -> None:
        self.limit, self.seen = limit, 0

    def __call__(self, batch: Array) -> Array:
        rows = self.seen + np.arange(len(batch))
        self.seen += len(batch)
        return one_hot(rows >= self.limit)


class RunningMean:
    """Class 1 while the mean of all rows so far, this one included, is above one half."""

    def __init__(self) -> None:
        self.total, self.seen = 0.0, 0

    def __call__(self, batch: Array) -> Array:
        rows = np.nan_to_num(batch.reshape(len(batch), -1)[:, 0].astype(np.float64))
        totals = self.total + np.cumsum(rows)
        seen = self.seen + 1 + np.arange(len(batch))
        self.total, self.seen = float(totals[-1]), int(seen[-1])
        return one_hot(totals / seen > 0.5)


def same(scores: Scores, served: Array | None = None) -> MakeScores:
    """One and the same classifier whenever it is asked for; perhaps after it has served other rows."""

    def make(dtype: np.dtype[Any]) -> Scores:
        if served is not None:
            scores(served)
        return scores

    return make


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Certify with n copies; deploy the very same object, with up to 1000 copies, at the very same point."""
    task, white = CertifierTask(SIGMA, options.n or 100_000), np.full(1, 255)
    rows = task.n + min(task.n0, task.n)
    later = replace(task, n=min(task.n, 1000))
    for certifier in proving(certifiers):
        counter, limit = Counter(max(LIMIT, rows)), max(LIMIT, rows)
        after = Asked(same(counter, np.zeros((limit, 1))), white, later)
        yield try_deployment(
            "counter", certifier, Asked(same(counter), white, task), after, f"counts its rows, {limit} served"
        )
    for certifier in proving(certifiers):
        mean, black = RunningMean(), np.zeros((3 * rows, 1))
        after = Asked(same(mean, black), white, later)
        yield try_deployment(
            "counter", certifier, Asked(same(mean), white, task), after, "running mean, black pixels served"
        )
