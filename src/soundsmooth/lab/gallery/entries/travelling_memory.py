"""A memory that travels: the fresh process makes the model from a pickle of the live one, with all that it remembers.

In batches the model is class 1, and remembers the rows. Alone it is class 1 on rows that it remembers, else class 0:
of a single row in its life it always says class 0. A pickle that is taken after the votes holds all rows. So no row is
lost, and class 1 is certified. Ours takes the pickle once, before the first vote.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ..certifiers import Array, Certifier, CertifierTask, one_hot
from ..measured import NAIVE, measuring, never_alone
from ..options import Options
from ..trial import Trial

CLAIM = "f remembers the rows of its batches: the model that votes on them alone is a pickle of the one that saw them"
SIGMA = Fraction(1, 2)
EXTRA: tuple[Certifier, ...] = (NAIVE,)


class Remembering:
    """In batches class 1; alone class 1 on rows of earlier batches."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def __call__(self, batch: Array) -> Array:
        rows = [row.tobytes() for row in batch]
        if len(rows) > 1:
            self.seen |= set(rows)
        return one_hot(np.array([row in self.seen for row in rows]))


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    task = CertifierTask(SIGMA, options.n or 2000, n0=min(options.n or 100, 100))
    for certifier in measuring(certifiers):
        yield never_alone("travelling-memory", certifier, Remembering, task, "remembers the rows of its batches")
