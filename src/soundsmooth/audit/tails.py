"""Binomial tails against a level: the one question behind every confidence bound.

X is the number of hits among n independent votes, each a hit with probability p, an exact rational. The mass
at one point comes from Stirling's formula with its proved remainder, the rest of the tail from the ratios of
neighbouring masses. Both are multiplied as logarithms.
"""

from collections.abc import Iterator
from fractions import Fraction

from .intervals import Interval, around, decide, log, log_2_pi, log_of, series, stirling

#: Beyond this many bits a tail is not written out as a fraction.
MOST_EXACT_BITS = 1 << 17


def tail_at_most(hits: int, n: int, p: Fraction, level: Fraction, share: Fraction = Fraction(1)) -> bool:
    """Whether P(X ≥ hits) ≤ level, for 1 ≤ hits ≤ n and 0 < level < 1.

    Of P(X = hits) only a share in (0, 1] is counted.

    Guarantee: True only if it is so. False only if it is not so, or if the two differ by less than a factor of
    about 1 + 2^−950 and the tail is too long to be written out: what is not proved is refused.
    """
    if p <= 0 or p >= 1:
        return p <= 0
    answer = decide(lambda bits: _attempt(hits, n, p, level, share, bits))
    if answer is None and n * p.denominator.bit_length() <= MOST_EXACT_BITS:
        return share * exact_tail(hits, n, p) + (1 - share) * exact_tail(hits + 1, n, p) <= level
    return bool(answer)


def _attempt(hits: int, n: int, p: Fraction, level: Fraction, share: Fraction, bits: int) -> bool | None:
    """Sum the side on which the terms fall: above hits, or below it and compare with 1 − level."""
    if p * (n + 1) <= hits:
        tail, goal = log_tail(hits, n, p, bits, 1 - share), log(level, bits)
        return None if tail is None else True if tail < goal else False if tail > goal else None
    first, less = (n - hits + 1, Fraction(0)) if share == 1 else (n - hits, share)
    rest, goal = log_tail(first, n, 1 - p, bits, less), log(1 - level, bits)  # P(X ≤ hits) − share · P(X = hits)
    return None if rest is None else True if rest > goal else False if rest < goal else None


def log_tail(hits: int, n: int, p: Fraction, bits: int, less: Fraction = Fraction(0)) -> Interval | None:
    """ln(P(X ≥ hits) − less · P(X = hits)) for 0 < p < 1 and 0 ≤ less < 1, on the side where p(n + 1) < hits + 1: each
    term is below the one before.

    Guarantee: holds the true value. None if so many bits cannot tell it from 0.
    """
    total = falling_sum(hits, n, p, bits) - around(less, bits)
    return log_mass(hits, n, p, bits) + log_of(total) if total.low > 0 else None


def falling_sum(hits: int, n: int, p: Fraction, bits: int) -> Interval:
    """P(X ≥ hits) / P(X = hits), for 0 < p < 1 with p(n + 1) < hits + 1.

    Guarantee: holds the true value.
    """
    return series(_ratios(hits, n, p), bits)


def _ratios(hits: int, n: int, p: Fraction) -> Iterator[tuple[int, int]]:
    """P(X = i + 1)/P(X = i) = (n − i)/(i + 1) · p/(1 − p) for i = hits, …, n − 1. It falls."""
    hit, miss = p.numerator, p.denominator - p.numerator
    top, bottom = (n - hits) * hit, (hits + 1) * miss
    while top:
        yield top, bottom
        top -= hit
        bottom += miss


def log_mass(hits: int, n: int, p: Fraction, bits: int) -> Interval:
    """ln P(X = hits) for 0 < p < 1.

    Guarantee: holds the true value. With h hits and m = n − h misses, Stirling's formula for n!, h! and m! gives
    P(X = h) = √(n/(2πhm)) · (np/h)^h · (n(1−p)/m)^m · e^(δ(n) − δ(h) − δ(m)); nothing large cancels.
    """
    misses = n - hits
    if not hits or not misses:
        return n * log(p if hits else 1 - p, bits)
    width = Fraction(1, 2) * (log(Fraction(n, hits * misses), bits) - log_2_pi(bits))
    powers = hits * log(n * p / hits, bits) + misses * log(n * (1 - p) / misses, bits)
    return width + powers + stirling(n, bits) - stirling(hits, bits) - stirling(misses, bits)


def exact_tail(hits: int, n: int, p: Fraction) -> Fraction:
    """Guarantee: P(X ≥ hits), as a fraction."""
    hit, miss = p.numerator, p.denominator - p.numerator
    term = total = hit**n  # C(n, i) · hit^i · miss^(n − i) for i = n, n − 1, …
    for i in range(n, hits, -1):
        term = term * i * miss // ((n - i + 1) * hit)
        total += term
    return Fraction(total, p.denominator**n)
