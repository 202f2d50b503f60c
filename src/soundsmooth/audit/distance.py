"""What a radius pays where floats were rounded to the grid: is it enough, and what is left of a radius?

Everything is decided by squares, so that no root is ever taken (docs/audit.md, "Rounding").
"""

import math
from fractions import Fraction

from .doubles import float_above, float_below

#: Floats stand for the grid point that is so near, in units of the grid's width.
TOLERANCE = Fraction(1, 1 << 22)
#: An issuer may round up what is paid, by such a part of it.
SLACK = 1 + Fraction(1, 1 << 40)


def pays(paid: float, squared: Fraction, rounding: Fraction) -> bool:
    """Whether paid ≥ √squared + √rounding: the distance of an image's floats from its grid point, and the most that
    the floats of a prediction have.

    Guarantee: exact. For paid ≥ 0 it is so if rest = paid² − squared − rounding is not below 2·√(squared·rounding).
    """
    if not math.isfinite(paid) or paid < 0:
        return False
    rest = Fraction(paid) ** 2 - squared - rounding
    return rest >= 0 and rest**2 >= 4 * squared * rounding


def possible(paid: float, rounding: Fraction) -> bool:
    """Whether so much may be paid for some image: √rounding at least, and at most twice that, but for rounding up.

    Guarantee: True for whatever is due, since no float is farther from its grid point than those of a prediction.
    """
    return pays(paid, Fraction(0), rounding) and Fraction(paid) ** 2 <= 4 * rounding * SLACK**2


def before_paying(radius: float, paid: float | None) -> float:
    """The radius around the grid point that a claim needs.

    Guarantee: at least radius + paid.
    """
    return radius if paid is None else float_above(Fraction(radius) + Fraction(paid))


def after_paying(radius: float, paid: float | None) -> float:
    """What is left of a radius around the grid point, 0 if nothing is.

    Guarantee: 0, or at most radius − paid.
    """
    return radius if paid is None else max(0.0, float_below(Fraction(radius) - Fraction(paid)))
