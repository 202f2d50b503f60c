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


def _decimal(units: int, digits: int) -> str:
    """That many units of the last digit after the point, as a decimal."""
    whole, rest = divmod(abs(units), 10**digits)
    point = f".{rest:0{digits}d}" if digits else ""
    return f"{'-' if units < 0 else ''}{whole}{point}"
