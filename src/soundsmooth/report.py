"""What finished certificates say together: certified accuracy and the average certified radius."""

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

from .certificate import Certificate
from .certify import Counts, verdict
from .settings import Settings

RADII = tuple(Fraction(r) for r in ("0", "0.1", "0.25", "0.5", "0.75", "1", "1.25", "1.5", "2", "2.5", "3", "4", "5"))


def certified_accuracy(certificates: Sequence[Certificate], radius: Fraction) -> Fraction:
    """The share of all inputs that are correct with a radius above `radius`, compared exactly.

    Abstentions are wrong answers, and nothing is left out of the denominator.
    """
    hits = sum(certificate.correct and Fraction(certificate.radius) > radius for certificate in certificates)
    return Fraction(hits, len(certificates))


def average_certified_radius(certificates: Sequence[Certificate]) -> Fraction:
    """The mean radius, where a wrong answer or an abstention counts as 0."""
    total = sum((Fraction(c.radius) for c in certificates if c.correct), Fraction(0))
    return total / len(certificates)


def largest_radius(sigma: Fraction, settings: Settings) -> float:
    """What a certificate says when every copy votes for the same class: no radius can exceed it."""
    return verdict(Counts((1, 0), 0), Counts((settings.n, 0), 0), sigma, settings).radius


def radii_that_occur(sigma: Fraction, settings: Settings) -> list[Fraction]:
    """The usual radii below the largest one."""
    most = Fraction(largest_radius(sigma, settings))
    return [radius for radius in RADII if radius < most] or [Fraction(0)]


def decimal_below(value: Fraction, digits: int = 3) -> str:
    """The rational as a decimal, truncated."""
    scaled = value.numerator * 10**digits // value.denominator
    return str(Decimal(scaled).scaleb(-digits).quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR))
