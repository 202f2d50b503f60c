"""What a radius pays where floats were rounded to the grid (docs/soundness.md, row 12)."""

from fractions import Fraction
from math import isqrt

from .balls import float_above, float_below

#: The bits of a root after its first one.
BITS = 128


def root_above(square: Fraction) -> Fraction:
    """A rational that is not below the root of `square`.

    Guarantee: at least √square, above it by less than a part in 2¹²⁶, and exact for 0. It rises with `square`.
    """
    if square == 0:
        return Fraction(0)
    size = square.numerator.bit_length() - square.denominator.bit_length()
    shift = 2 * BITS - size + size % 2  # even: its half is a shift of the root
    scaled = -(-(square.numerator << max(shift, 0)) // (square.denominator << max(-shift, 0)))
    root = isqrt(scaled - 1) + 1
    return root * Fraction(2) ** (-shift // 2)


def distance_above(squared: Fraction) -> float:
    """The root of a squared distance.

    Guarantee: at least the true value, and within 1 ulp of the smallest double that is.
    """
    return float_above(root_above(squared))


def price_above(squared: Fraction, tolerance: Fraction, size: int) -> float:
    """What the radius of an image pays: √squared + tolerance·√size, the distance of its floats from their grid point
    and the most that the floats of a prediction have.

    Guarantee: at least the true value. It rises with `squared`.
    """
    return float_above(root_above(squared) + root_above(tolerance**2 * size))


def radius_after(radius: float, price: float) -> float:
    """What is left of a radius.

    Guarantee: at most radius − price, and the largest double that is. It may be negative.
    """
    return float_below(Fraction(radius) - Fraction(price))
