"""What finished certificates say together: certified accuracy and the average certified radius."""

from collections.abc import Sequence
from fractions import Fraction

from .certificate import Certificate
from .certify import Counts, Measurement, verdict
from .core.decimals import raised, truncated
from .settings import Settings

RADII = tuple(Fraction(r) for r in ("0", "0.1", "0.25", "0.5", "0.75", "1", "1.25", "1.5", "2", "2.5", "3", "4", "5"))


def certified_accuracy(certificates: Sequence[Certificate], radius: Fraction) -> Fraction:
    """The share of all inputs that are correct with a radius above `radius`, compared exactly.

    Abstentions are wrong answers, and so are promised inputs that have no certificate.
    """
    hits = sum(certificate.correct and Fraction(certificate.radius) > radius for certificate in certificates)
    return Fraction(hits, promised_count(certificates))


def average_certified_radius(certificates: Sequence[Certificate]) -> Fraction:
    """The mean radius, where a wrong answer or an abstention counts as 0."""
    total = sum((Fraction(c.radius) for c in certificates if c.correct), Fraction(0))
    return total / promised_count(certificates)


def promised_count(certificates: Sequence[Certificate]) -> int:
    """How many inputs the run promised: those that never got a certificate are wrong answers too."""
    if len({certificate.commitment for certificate in certificates}) != 1:
        raise ValueError("these certificates are not from one run: their commitments differ")
    if len({certificate.index for certificate in certificates}) != len(certificates):
        raise ValueError("an input occurs twice among these certificates")
    return int(certificates[0].promise.values["input count"])


def largest_radius(sigma: Fraction, settings: Settings, rows: int | None = None) -> float:
    """What a certificate says when every copy votes for the same class: no radius can exceed it.

    `rows` are those that are voted again alone, if independence is measured.
    """
    measured = None if rows is None else Measurement(rows, 0)
    return verdict(Counts((1, 0), 0), Counts((settings.n, 0), 0), sigma, settings, measured).radius


def radii_that_occur(sigma: Fraction, settings: Settings) -> list[Fraction]:
    """The usual radii below the largest one."""
    most = Fraction(largest_radius(sigma, settings))
    return [radius for radius in RADII if radius < most] or [Fraction(0)]


def decimal_below(value: Fraction, digits: int = 3) -> str:
    """The rational as a decimal that does not exceed it."""
    return truncated(value, digits)


def decimal_above(value: Fraction, digits: int = 6) -> str:
    """The rational as a decimal that is not below it, without closing zeros."""
    decimal = raised(value, digits)
    return decimal.rstrip("0").rstrip(".") if digits else decimal
