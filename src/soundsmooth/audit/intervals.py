"""Intervals with integer ends: all the arithmetic of the auditor, in Python's own integers.

An interval is a pair of integers in units of 2^−bits that is proved to hold the true value. Lower ends are
rounded down and upper ends up, always by an integer division. Nothing is a float and nothing is imported.

Only one function of analysis is needed: the logarithm. Binomial tails and Φ are products of powers, and such
a product is compared with a level by comparing logarithms.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

#: Working precisions, one after the other. The first settles all but about one claim in 2³⁰.
PRECISIONS = (128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from low/2^bits to high/2^bits.

    Guarantee: if the operands hold the true values, sum, difference and product hold those of the results; `<` and
    `>` are true only if they are true for every choice of a number from either side.
    """

    low: int
    high: int
    bits: int

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high, self.bits)

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(self.low - other.high, self.high - other.low, self.bits)

    def __neg__(self) -> "Interval":
        return Interval(-self.high, -self.low, self.bits)

    def __rmul__(self, factor: int | Fraction) -> "Interval":
        """factor · self, for a factor that is not negative."""
        top, bottom = factor.numerator, factor.denominator
        return Interval(self.low * top // bottom, ceiling(self.high * top, bottom), self.bits)

    def __lt__(self, other: "Interval") -> bool:
        return self.high < other.low

    def __gt__(self, other: "Interval") -> bool:
        return self.low > other.high

    @property
    def middle(self) -> Fraction:
        return Fraction(self.low + self.high, 2 << self.bits)


def ceiling(top: int, bottom: int) -> int:
    """Guarantee: the smallest integer ≥ top/bottom, for bottom > 0."""
    return -(-top // bottom)


def around(x: Fraction, bits: int) -> Interval:
    """Guarantee: holds the rational x, and is at most one unit wide."""
    return Interval((x.numerator << bits) // x.denominator, ceiling(x.numerator << bits, x.denominator), bits)


def log(x: Fraction, bits: int) -> Interval:
    """The natural logarithm of a rational x > 0.

    Guarantee: holds ln x. (x = 2^e · y with 1 ≤ y < 2, and ln y = 2 artanh z for z = (y − 1)/(y + 1) < 1/3.)
    """
    if x < 1:
        return -log(1 / x, bits)
    e = (x.numerator // x.denominator).bit_length() - 1
    y = x / (1 << e)
    z = (y.numerator - y.denominator, y.numerator + y.denominator)
    return e * _log_2(bits) + 2 * _artanh(*z, bits)


def log_of(x: Interval) -> Interval:
    """Guarantee: holds ln t for every t in the interval, which must lie above 0; the logarithm rises."""
    one = 1 << x.bits
    return Interval(log(Fraction(x.low, one), x.bits).low, log(Fraction(x.high, one), x.bits).high, x.bits)


@lru_cache
def _log_2(bits: int) -> Interval:
    return 2 * _artanh(1, 3, bits)


@lru_cache
def log_2_pi(bits: int) -> Interval:
    """Guarantee: holds ln 2π, by Machin's π/4 = 4 arctan 1/5 − arctan 1/239."""
    pi = 16 * _arctan_of_one_over(5, bits) - 4 * _arctan_of_one_over(239, bits)
    return _log_2(bits) + log_of(pi)


def _artanh(top: int, bottom: int, bits: int) -> Interval:
    """artanh z = z + z³/3 + z⁵/5 + … for z = top/bottom in [0, 1/3].

    The powers of z are rounded down for the lower sum and up for the upper one. From the power z^k on the rest is at
    most z^k + z^(k+2) + … = z^k/(1 − z²) < 2 z^k.
    """
    one = 1 << bits
    low, high = (top << bits) // bottom, ceiling(top << bits, bottom)
    square_low, square_high = low * low >> bits, ceiling(high * high, one)
    low_sum = high_sum = 0
    k = 1
    while high > 1:
        low_sum += low // k
        high_sum += ceiling(high, k)
        low = low * square_low >> bits
        high = ceiling(high * square_high, one)
        k += 2
    return Interval(low_sum, high_sum + 2 * high, bits)


def _arctan_of_one_over(m: int, bits: int) -> Interval:
    """arctan 1/m = 1/m − 1/(3m³) + …: the terms alternate and fall, so two partial sums in a row enclose it."""
    power, total, k, sign = (1 << bits) // m, 0, 1, 1
    while power:
        total += sign * (power // k)
        power //= m * m
        k, sign = k + 2, -sign
    return Interval(total - k, total + k, bits)  # each of the < k terms is off by less than 1; the next one is too


def series(ratios: Iterable[tuple[int, int]], bits: int) -> Interval:
    """t₀ + t₁ + t₂ + … with t₀ = 1 and t_{i+1} = t_i · top/bottom, for falling ratios top/bottom ≥ 0.

    Guarantee: holds the infinite sum, if no ratio exceeds the one before it and they fall below 1 (or the ratios
    end, and with them the sum). Terms are rounded down for the lower sum and up for the upper one. What follows the
    last term t, when the next ratio is ρ < 1, is at most t·(ρ + ρ² + …) = t·ρ/(1 − ρ).
    """
    low = high = low_sum = high_sum = 1 << bits
    enough = 1 << (bits // 4)
    for top, bottom in ratios:
        if high < enough and top < bottom:
            return Interval(low_sum, high_sum + ceiling(high * top, bottom - top), bits)
        low = low * top // bottom
        high = -(-high * top // bottom)
        low_sum += low
        high_sum += high
    return Interval(low_sum, high_sum, bits)


@lru_cache(maxsize=1 << 16)
def stirling(m: int, bits: int) -> Interval:
    """δ(m) in m! = √(2πm) · (m/e)^m · e^δ(m), for m ≥ 1.

    Guarantee: holds δ(m). For m ≥ bits by Stirling's series Σ B_2k / (2k(2k−1)m^(2k−1)), whose remainder has the sign
    of the first term left out and is smaller than it (DLMF 5.11(ii)). For smaller m from the factorial itself.
    """
    if m < bits:
        # the powers and the factorial are exact: ln m! + m − (m + ½) ln m − ½ ln 2π
        return (
            log(Fraction(math.factorial(m)), bits)
            + around(Fraction(m), bits)
            - Fraction(2 * m + 1, 2) * log(Fraction(m), bits)
            - Fraction(1, 2) * log_2_pi(bits)
        )
    total, k = around(Fraction(0), bits), 1
    while True:
        term = around(bernoulli(2 * k) / (2 * k * (2 * k - 1) * m ** (2 * k - 1)), bits)
        if term.low >= -1 and term.high <= 1:
            return Interval(total.low - 1, total.high + 1, bits)
        total, k = total + term, k + 1


@lru_cache(maxsize=1 << 10)
def bernoulli(k: int) -> Fraction:
    """Guarantee: the Bernoulli number B_k (with B_1 = −½), by Σ_{i ≤ k} C(k+1, i) B_i = 0."""
    if k == 0:
        return Fraction(1)
    if k > 1 and k % 2:
        return Fraction(0)
    return -sum((math.comb(k + 1, i) * bernoulli(i) for i in range(k)), Fraction(0)) / (k + 1)


def decide(attempt: Callable[[int], bool | None], extra: int = 0) -> bool | None:
    """Ask `attempt` at growing precision until it answers.

    Guarantee: an answer is one that `attempt` declared proved; None says that no precision of ours proves it.
    """
    for bits in PRECISIONS:
        answer = attempt(bits + extra)
        if answer is not None:
            return answer
    return None
