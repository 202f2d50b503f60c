"""The other way round (the paper's Appendix F): a true certificate that is "broken" by attackers who count no errors.

F is a half-space: class 1 above a threshold of the first pixel. The certificate at a is true. Candidates lie at 9/10 of
the certified radius, where the other class has p = 0.45: nearly undecided, and yet the certified class everywhere. A
majority of 100 votes errs at about one candidate in seven, and each looks like an adversarial example. With a
Clopper–Pearson bound at α divided by the number of candidates, after a selection with votes of its own, none does.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil, isqrt
from typing import Any

import numpy as np

from ....core.grid import IMAGES
from ..certifiers import Answer, Array, Certifier, CertifierTask, Refused, Scores, one_hot
from ..contradicting_pairs import Pair, judge
from ..options import Options
from ..trial import Finding, Trial

CLAIM = "a true certificate, attacked with uncorrected majority votes over many candidates, and with the correction"
SIGMA = Fraction(1, 2)
A, THRESHOLD, DEPTH = 64, 191, Fraction(9, 10)  # p = Φ(127.5 / 127.5) = 0.841 at a, on the grid: the true radius is ½
CANDIDATES, VOTES = 200, 100


def half_space(dtype: np.dtype[Any]) -> Scores:
    """Class 1 where the first pixel is above the middle between the levels 191 and 192."""
    threshold = dtype.type((THRESHOLD + 0.5) / IMAGES.q)

    def scores(batch: Array) -> Array:
        above = batch.reshape(len(batch), -1)[:, 0] > threshold
        return one_hot(above)

    return scores


def candidates(a: Array, radius: Fraction, rng: np.random.Generator) -> Iterator[Array]:
    """Grid points within the radius, exactly: the other pixels move a little, the first as far as the ball allows."""
    room = max(0, ceil(radius**2 * IMAGES.q**2) - 1)  # the largest integer below (radius · q)²
    most = min(3, isqrt(room // a.size))
    for _ in range(CANDIDATES):
        step = rng.integers(-most, most + 1, a.shape)
        step[0] = min(isqrt(room - int((step[1:] ** 2).sum())), IMAGES.levels - 1 - A)
        yield a + step


def attack(certifier: Certifier, a: Array, first: Answer, task: CertifierTask) -> tuple[int, Finding]:
    """Count the candidates with a majority against the certificate; the finding is the one after the correction."""
    corrected = replace(task, n=VOTES, n0=VOTES, alpha=task.alpha / CANDIDATES)
    breaks, finding = 0, Finding.HOLDS
    for other in candidates(a, DEPTH * Fraction(first.radius), np.random.default_rng()):
        second = certifier.certify(half_space, 2, other, corrected)
        breaks += int(np.argmax(second.counts[:2])) != first.label
        if judge(first, second, Pair(half_space, a, other).squared).bad:
            finding = Finding.FALSE_POINT
    return breaks, finding


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """One certificate for each certifier, then the attack on it."""
    task, a = CertifierTask(SIGMA, options.n or 100_000), np.full(4, A)
    for certifier in certifiers:
        try:
            first = certifier.certify(half_space, 2, a, task)
            if first.label is None:
                yield Trial("lucky-attack", certifier.name, Finding.ABSTAINS, counts=(first.counts,))
                continue
            breaks, finding = attack(certifier, a, first, task)
        except Refused as refusal:
            yield Trial("lucky-attack", certifier.name, Finding.REFUSED, note=str(refusal))
            continue
        note = f'{breaks} of {CANDIDATES} candidates "break" it by an uncorrected majority of {VOTES} votes'
        yield Trial("lucky-attack", certifier.name, finding, first.radius, None, (first.counts,), note)
