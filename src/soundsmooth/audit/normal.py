"""The normal distribution function against a level, and its inverse between two rationals.

For x > 0 is Φ(x) = ½ + φ(x) · S(x) with S(x) = x + x³/3 + x⁵/(3·5) + … : all terms are positive, and after the first
few they fall fast. So Φ(x) < p means ln S(x) − x²/2 − ½ ln 2π < ln(p − ½).
"""

from fractions import Fraction
from functools import lru_cache
from itertools import count
from statistics import NormalDist

from .intervals import Interval, around, decide, log, log_2_pi, log_of, series

HALF = Fraction(1, 2)


def cdf_below(x: Fraction, p: Fraction) -> bool | None:
    """Whether Φ(x) < p (True) or Φ(x) > p (False).

    Guarantee: an answer is proved. None if the two are equal, as Φ(0) and ½ are, or nearer than 1024 bits can tell.
    """
    if x < 0:
        mirrored = cdf_below(-x, 1 - p)
        return None if mirrored is None else not mirrored
    if p <= HALF or x == 0:
        return None if x == 0 and p == HALF else p > HALF
    if p >= 1:
        return True
    depth = _bits_to_see(1 - p)
    if x * x > 2 * depth:  # 1 − Φ(x) < e^(−x²/2) < 2^−depth ≤ 1 − p: spares a long series
        return False

    def attempt(bits: int) -> bool | None:
        product, goal = _log_product(x, _sum_over_x(x, bits)), log(p - HALF, bits)
        return True if product < goal else False if product > goal else None

    return decide(attempt, extra=depth)


@lru_cache(maxsize=256)
def quantile(p: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Two rationals around Φ⁻¹(p), for 0 < p < 1, about 2^−bits apart.

    Guarantee: the first is at most Φ⁻¹(p) and the second at least: Φ is proved to be below p at the one and above p at
    the other. (At p = ½ both are 0.) How the guess between them was found does not matter.
    """
    if p == HALF:
        return Fraction(0), Fraction(0)
    if p < HALF:
        low, high = quantile(1 - p, bits)
        return -high, -low
    guess, width = _newton(p, bits), Fraction(1, 2 << bits)
    while not (cdf_below(guess - width, p) and cdf_below(guess + width, p) is False):
        width *= 16
    return guess - width, guess + width


def _newton(p: Fraction, bits: int) -> Fraction:
    """Near Φ⁻¹(p), p > ½: Newton's method for ln(φ(x)S(x)), whose slope is 1/S(x), from a double."""
    x, work = Fraction(quantile_guess(p)), 2 * bits + _bits_to_see(1 - p)
    goal = log(p - HALF, work)
    for _ in range(60):
        if x <= 0:
            break
        total = _sum_over_x(x, work)
        step = x * total.middle * (goal - _log_product(x, total)).middle
        x = Fraction(round((x + step) * (1 << 2 * bits)), 1 << 2 * bits)
        if abs(step) < Fraction(1, 64 << (bits // 2)):  # the next error is about the square of this one
            break
    return x


def quantile_guess(p: Fraction) -> float:
    """Φ⁻¹(p) as floats have it: a place to start from."""
    if p > HALF:
        return -quantile_guess(1 - p)
    return NormalDist().inv_cdf(max(float(p), 5e-324))


def _sum_over_x(x: Fraction, bits: int) -> Interval:
    """S(x)/x = 1 + x²/3 + x⁴/(3·5) + …"""
    square = x * x
    return series(((square.numerator, square.denominator * k) for k in count(3, 2)), bits)


def _log_product(x: Fraction, sum_over_x: Interval) -> Interval:
    """ln(φ(x) S(x)), for x > 0."""
    bits = sum_over_x.bits
    return log(x, bits) + log_of(sum_over_x) - around(x * x / 2, bits) - HALF * log_2_pi(bits)


def _bits_to_see(gap: Fraction) -> int:
    """A number of bits k with 2^−k ≤ gap."""
    return max(0, gap.denominator.bit_length() - gap.numerator.bit_length() + 1)
