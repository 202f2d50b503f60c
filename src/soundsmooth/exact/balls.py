"""Ball arithmetic at a stated precision, and the way back from balls to doubles with a stated direction.

A ball [m ± r] is a set that is proved to hold the true value. Everything here goes through python-flint
(Arb), whose functions return a ball holding f(x) for every x in the argument's ball.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from threading import RLock
from typing import TypeVar

from flint import arb, ctx, fmpq

#: Give up here: no quantity of ours has ever needed a fraction of this many bits.
MOST_BITS = 1 << 16

T = TypeVar("T")


#: flint has one precision for the whole process. Balls are valid at any, but threads should not surprise each other.
_ONE_AT_A_TIME = RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work at `bits` bits within the block; the caller's precision comes back afterwards."""
    with _ONE_AT_A_TIME:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


def ball(value: Fraction | float | int) -> arb:
    """A ball around the exact value, at the current precision. Doubles are taken exactly.

    Guarantee: the ball holds the value.
    """
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def lower_end(x: arb) -> Fraction:
    """Guarantee: a rational that is ≤ every number in the ball."""
    return _exact(x.lower())


def upper_end(x: arb) -> Fraction:
    """Guarantee: a rational that is ≥ every number in the ball."""
    return _exact(x.upper())


def _exact(point: arb) -> Fraction:
    if not point.is_finite():
        raise ArithmeticError("a ball grew without bound")
    mantissa, exponent = (int(part) for part in point.man_exp())
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)


def float_below(x: Fraction) -> float:
    """Guarantee: the largest double that does not exceed the rational x."""
    nearest = float(x)  # int/int true division is correctly rounded in CPython
    return nearest if Fraction(nearest) <= x else math.nextafter(nearest, -math.inf)


def float_above(x: Fraction) -> float:
    """Guarantee: the smallest double that is not exceeded by the rational x."""
    return -float_below(-x)


def refine(attempt: Callable[[], T | None], bits: int, most: int | None = None) -> T:
    """Call `attempt` at twice the precision again and again, until its answer is proved (not None).

    Guarantee: the answer is one that `attempt` itself declared proved.
    """
    most = most or MOST_BITS
    while bits <= most:
        with precision(bits):
            answer = attempt()
        if answer is not None:
            return answer
        bits *= 2
    raise ArithmeticError(f"not decided with balls of {most} bits; please report these parameters")
