"""Doubles as exact numbers, and the search for the last one that a proof accepts."""

import math
import struct
from collections.abc import Callable
from fractions import Fraction


def float_below(x: Fraction) -> float:
    """Guarantee: the largest double that is at most x, for |x| within the range of doubles."""
    nearest = x.numerator / x.denominator  # correctly rounded
    return nearest if Fraction(nearest) <= x else math.nextafter(nearest, -math.inf)


def float_above(x: Fraction) -> float:
    """Guarantee: the smallest double that is at least x, for |x| within the range of doubles."""
    return -float_below(-x)


def largest_accepted(accepts: Callable[[float], bool], guess: float) -> float:
    """The largest double ≥ 0 that is accepted, for a predicate that accepts 0 and is true up to some point.

    Guarantee: the result is 0 or was accepted. If the predicate is monotone, no larger double is. The guess is not
    trusted: the search gallops away from it, and then halves.
    """
    return _double(
        _last(lambda place: place == 0 or accepts(_double(place)), _place(max(0.0, guess)), _place(math.inf))
    )


def smallest_accepted(accepts: Callable[[float], bool], guess: float) -> float:
    """The smallest double in [0, 1] that is accepted, for a predicate that accepts 1 and is true from some point on.

    Guarantee: the result is 1 or was accepted. If the predicate is monotone, no smaller double is.
    """
    top = _place(1.0)
    start = top - _place(min(max(0.0, guess), 1.0))
    return _double(top - _last(lambda down: down == 0 or accepts(_double(top - down)), start, top + 1))


def _last(accepts: Callable[[int], bool], start: int, end: int) -> int:
    """The last of the places 0 … end − 1 that is accepted; place 0 is."""
    step = 1
    if accepts(start):
        good, bad = start, start + 1
        while bad < end and accepts(bad):
            good, bad, step = bad, bad + 2 * step, 2 * step
        bad = min(bad, end)
    else:
        good, bad = start - 1, start
        while not accepts(good):
            good, bad, step = max(0, good - 2 * step), good, 2 * step
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if accepts(middle) else (good, middle)
    return good


def _place(x: float) -> int:
    """The number of doubles in [0, x): their bits, read as an integer, are in order."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def _double(place: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", place))[0])
