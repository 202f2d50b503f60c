"""How often certificates are false, against how often they may be."""

import secrets
from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ...certification.certificate import Certificate
from ...exact import breakpoint_floor
from ...exact.balls import ball, precision
from ...exact.binomial import tail
from ...smoother import Smoother
from .certifiers import Array, one_hot
from .trial import Finding, Trial


def judge_rate(false: int, runs: int, alpha: Fraction) -> Finding:
    """FALSE (rate) if P(at least `false` of `runs` certificates are false) < 10⁻⁶ where each is false with α."""
    with precision(256):
        return Finding.FALSE_RATE if tail(false, runs, alpha) < ball(Fraction(1, 10**6)) else Finding.HOLDS


def rate_trial(entry: str, name: str, false: int, runs: int, alpha: Fraction, note: str) -> Trial:
    """The verdict on `false` false certificates of `runs`, with these numbers for votes."""
    return Trial(entry, name, judge_rate(false, runs, alpha), counts=((false, runs - false),), note=note)


def least_hits(n: int, p: Fraction, alpha: Fraction, low: int = 0, high: int | None = None) -> int:
    """The least h, from `low` to `high`, whose Clopper–Pearson bound exceeds p: the least with P(X ≥ h) < α.

    Guarantee: exact, unless a tail is nearer to α than balls of 128 bits can tell: then one more. It is n + 1 if no h
    is enough.
    """
    with precision(128):
        hits = range((n if high is None else high) + 1)
        return bisect_left(hits, True, low, key=lambda h: bool(tail(h, n, p) < ball(alpha)))


def certificates(runs: int, n: int, alpha: Fraction, level: int) -> Iterator[Certificate]:
    """Ours, under a nonce: each run promises a seed of its own. Class 1 is a noise of at least `level` levels."""

    def scores(batch: Array) -> Array:
        return one_hot(np.rint(batch[:, 0] * 255) >= 128 + level)

    smooth = Smoother(scores, "0.5", batch_size=n)
    for _ in range(runs):
        yield smooth.certify(
            np.array([128]),
            n0=min(100, n),
            n=n,
            alpha=alpha,
            seed=secrets.token_bytes(32),
            nonce=secrets.token_bytes(32),
        )


def exceeding(runs: int, n: int, alpha: Fraction, level: int) -> int:
    """In how many real runs of ours p_lower > p, for the class that selection chose; class 1 has 1 − B_{level − 1}."""
    scale = 1 << 128
    below = breakpoint_floor(Fraction(1, 2), 255, level - 1, 128)
    p = (Fraction(below, scale), Fraction(scale - below - 1, scale))  # both rounded down, so that no excess is missed
    found = certificates(runs, n, alpha, level)
    return sum(Fraction(certificate.p_lower) > p[certificate.selection.top] for certificate in found)
