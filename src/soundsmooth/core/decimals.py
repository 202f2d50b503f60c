"""Numbers as decimals that err on the safe side."""

import math
from fractions import Fraction


def truncated(value: float | Fraction, digits: int = 6) -> str:
    """A decimal that is at most the value: what is printed never claims more than what was proved.

    Guarantee: in integers, whatever precision and rounding Python's decimals are set to.
    """
    return _decimal(math.floor(Fraction(value) * 10**digits), digits)


def raised(value: float | Fraction, digits: int = 6) -> str:
    """A decimal that is at least the value, for upper bounds.

    Guarantee: as for `truncated`.
    """
    return _decimal(math.ceil(Fraction(value) * 10**digits), digits)


def exact_text(value: Fraction) -> str:
    """The rational as a decimal if it has a short one, else as a quotient.

    Guarantee: it is written exactly.
    """
    decimal = truncated(value, 6).rstrip("0").rstrip(".")
    return decimal if Fraction(decimal) == value else str(value)


def grouped(count: int) -> str:
    """A count with a space between thousands: 100 000."""
    return f"{count:,}".replace(",", " ")


def _decimal(units: int, digits: int) -> str:
    """That many units of the last digit after the point, as a decimal."""
    whole, rest = divmod(abs(units), 10**digits)
    point = f".{rest:0{digits}d}" if digits else ""
    return f"{'-' if units < 0 else ''}{whole}{point}"
