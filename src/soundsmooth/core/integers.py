"""Integers: how what a user gives as one becomes a number that never wraps around."""

import operator
import re
from decimal import Decimal
from typing import SupportsIndex

#: An integer as people write it: 100000, 100_000, 1e5, 2.5e3. The exponent is short, since its power of ten is made.
_WRITTEN = re.compile(r"[+-]?[0-9]+(_[0-9]+)*(\.[0-9]+)?([eE]\+?[0-9]{1,2})?")


def integer(value: SupportsIndex, name: str) -> int:
    """Python's and NumPy's integers as an int; anything else is a ValueError.

    Guarantee: Python's own int. (NumPy's have few bits: −np.uint8(16) is 240, and it is found in a cache under 16.)
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, not {value!r}") from None


def whole_number(value: SupportsIndex | float, name: str) -> int:
    """The same, and floats that are integers: 1e5 is 100000, and 1.5 is a ValueError."""
    if not isinstance(value, float):
        return integer(value, name)
    if not value.is_integer():
        raise ValueError(f"{name} must be an integer, not {value!r}")
    return int(value)


def written_integer(text: str | int) -> int:
    """The integer that is written as 100000, 100_000 or 1e5; a ValueError if it is none. An option's default is one.

    Guarantee: exact. No float is made on the way.
    """
    if isinstance(text, int):
        return text
    exact = Decimal(text.replace("_", "")) if _WRITTEN.fullmatch(text.strip()) else Decimal("NaN")
    if exact.is_nan() or exact != exact.to_integral_value():
        raise ValueError(f"{text!r} is not an integer")
    return int(exact)
