"""Exact rationals: how the user's σ, α and k become numbers without an error."""

from decimal import Decimal, InvalidOperation
from fractions import Fraction

Rational = str | int | float | Decimal | Fraction


def rational(value: Rational, name: str = "value") -> Fraction:
    """The exact rational that `value` stands for.

    Strings are decimals or quotients ("0.12", "1/3", "1e-3"). A float is read as the decimal it prints
    as, since a person who types 0.12 means 12/100 and not the double next to it.

    Guarantee: the result is equal to the decimal, quotient or integer that was written down.
    """
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a number, not {value!r}")
    if isinstance(value, Fraction | int):
        return Fraction(int(value.numerator), int(value.denominator))  # which may be NumPy's
    text = str(value).strip()
    try:
        if "/" in text:
            return Fraction(text)
        decimal = Decimal(text)
    except (InvalidOperation, ValueError, ZeroDivisionError):
        raise ValueError(f'{name} must be a number such as "0.25", "1/3" or 1e-3, not {value!r}') from None
    if not decimal.is_finite():
        raise ValueError(f"{name} must be finite, not {value!r}")
    if abs(decimal.adjusted()) > 1000:
        raise ValueError(f"{name} = {value!r} is beyond any use; keep its exponent within ±1000")
    return Fraction(decimal)


def positive(value: Rational, name: str) -> Fraction:
    """Guarantee: the exact rational, which is > 0; anything else is a ValueError."""
    exact = rational(value, name)
    if exact <= 0:
        raise ValueError(f"{name} must be greater than 0, not {value!r}")
    return exact


def probability(value: Rational, name: str) -> Fraction:
    """Guarantee: the exact rational, which lies strictly between 0 and 1; anything else is a ValueError."""
    exact = rational(value, name)
    if not 0 < exact < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, not {value!r}")
    return exact
