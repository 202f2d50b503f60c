"""What finished certificates say together: certified accuracy and the average certified radius."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate

from ..core.decimals import raised, truncated
from ..exact import BOUNDS, Look
from ..exact.balls import float_below
from ..noise import Law
from .certify import Counts, Measurement, certify
from .looks import Looks
from .settings import Settings

RADII = tuple(Fraction(r) for r in ("0", "0.1", "0.25", "0.5", "0.75", "1", "1.25", "1.5", "2", "2.5", "3", "4", "5"))

#: The bits with which a randomized bound is largest.
LEAST_COIN = "0" * 16
#: The exponent of the smallest double: every double is a multiple of 2^−EXPONENT.
EXPONENT = 1074


def count_above(radii: Iterable[float], bounds: Sequence[Fraction]) -> list[int]:
    """For each bound, how many of the radii exceed it.

    Guarantee: compared exactly, whatever the rationals are. (A double exceeds a rational exactly if it exceeds the
    largest double that does not.)
    """
    doubles = [float_below(bound) for bound in bounds]
    ranked = sorted(set(doubles))
    passed = [0] * (len(ranked) + 1)  # how many radii exceed the first so many bounds, and no more
    for radius in radii:
        passed[bisect_left(ranked, radius)] += 1
    above = list(accumulate(reversed(passed)))[::-1]
    return [above[ranked.index(double) + 1] for double in doubles]


def sum_of_radii(radii: Iterable[float]) -> Fraction:
    """Their sum, exactly."""
    total = 0
    for radius in radii:
        numerator, denominator = radius.as_integer_ratio()
        total += numerator << (EXPONENT + 1 - denominator.bit_length())
    return Fraction(total, 1 << EXPONENT)


def largest_radius(law: Law, settings: Settings, rows: int | None = None) -> float:
    """What a certificate says when every copy votes for the same class: no radius can exceed it.

    `rows` are those that are voted again alone, if independence is measured.
    """
    measured = None if rows is None else Measurement(rows, 0)
    looks = [Look(n, n, 0) for n in settings.schedule.looks]
    coin = LEAST_COIN if BOUNDS[settings.bound].coin else None
    return certify(Counts((1, 0), 0), Counts((settings.n, 0), 0), law, settings, measured, None, looks, coin).radius


def tabled_radii(looks: Looks | None) -> tuple[Fraction, ...]:
    """Those at which certified accuracy is said: those that are asked for, or the usual ones."""
    return tuple(radius for radius, _ in looks.radii) if looks is not None and looks.radii else RADII


def radii_that_occur(law: Law, settings: Settings) -> tuple[Fraction, ...]:
    """Those that are asked for, or the usual ones below the largest."""
    tabled = tabled_radii(settings.looks)
    if tabled is not RADII:
        return tabled
    most = Fraction(largest_radius(law, settings))
    return tuple(radius for radius in RADII if radius < most) or (Fraction(0),)


def decimal_below(value: Fraction, digits: int = 3) -> str:
    """The rational as a decimal that does not exceed it."""
    return truncated(value, digits)


def decimal_above(value: Fraction, digits: int = 6) -> str:
    """The rational as a decimal that is not below it, without closing zeros."""
    decimal = raised(value, digits)
    return decimal.rstrip("0").rstrip(".") if digits else decimal
