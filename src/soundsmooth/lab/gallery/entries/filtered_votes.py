"""Votes are filtered before they are counted, and the share among those that are kept is certified.

Published methods drop copies that a detector finds too noisy, or on which the model is unsure. The theorem is about
P(F = c), not about P(F = c | kept): the copies that are kept depend on the noise. Here the first pixel alone decides.
A copy is kept if it lies at least 2 σ from the middle, 128; then it is class 1 above and class 0 below. At 26/255 above
the middle 3.7 of 100 copies are class 1 and 1.4 are class 0: the share among the kept is 0.72, and the radius 0.29. At
26/255 below it the shares are exchanged: only 0.21 away, the other class has 0.72. Ours counts a dropped copy in n, as
a vote for nobody, and abstains.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ....certification.certify import Counts
from ....noise import Purpose
from ..certifiers import (
    Answer,
    Array,
    Certifier,
    CertifierTask,
    MakeScores,
    Ours,
    Procedure,
    Scores,
    answer_from,
    exact_noise,
    values,
)
from ..contradicting_pairs import Pair, try_pair
from ..options import Options
from ..trial import Trial

CLAIM = "copies that a filter drops are not counted: the share among the kept is certified, 154/255 against 102/255"
SIGMA = Fraction(1, 2)
MIDDLE, AWAY = 128, 26
#: From the middle, in levels: 2 σ.
KEPT = 255


def kept_votes(dtype: np.dtype[Any]) -> Scores:
    """Class 1 far above the middle, class 0 far below; NaN, which is a vote for nobody, where the filter drops it."""

    def scores(batch: Array) -> Array:
        offset = np.rint(batch.reshape(len(batch), -1)[:, 0].astype(np.float64) * 255) - MIDDLE
        answers = np.stack([offset < 0, offset > 0], axis=1).astype(np.float32)
        answers[np.abs(offset) < KEPT] = np.nan
        return answers

    return scores


def certify_kept(make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
    """Exact noise and our own bound; only the votes are filtered before they are counted."""
    scores, draw = make(np.dtype("float64")), exact_noise(task.sigma, 6)

    def counts(purpose: Purpose, n: int) -> Counts:
        found = scores(values(x + draw(x, purpose, 0, n), np.dtype("float64")))
        kept = found[~np.isnan(found).any(axis=1)].argmax(axis=1)
        return Counts(tuple(np.bincount(kept, minlength=classes).tolist()), 0)

    return answer_from(counts(Purpose.SELECTION, min(task.n0, task.n)), counts(Purpose.ESTIMATION, task.n), task)


FILTERED = Procedure("filtered", certify_kept)
EXTRA: tuple[Certifier, ...] = (FILTERED,)


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """Both ways round: either point is certified with a ball that holds the other one."""
    chosen: list[Certifier] = [FILTERED, *(one for one in certifiers if isinstance(one, Ours))]
    for here, there in ((MIDDLE + AWAY, MIDDLE - AWAY), (MIDDLE - AWAY, MIDDLE + AWAY)):
        pair = Pair(kept_votes, np.full(1, here), np.full(1, there), note=f"{here}/255 against {there}/255")
        for certifier in chosen:
            yield try_pair("filtered-votes", certifier, pair, CertifierTask(SIGMA, options.n or 100_000), tried=2)
