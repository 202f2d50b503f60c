"""Integers: how what a user gives as one becomes a number that never wraps around."""

import operator
from typing import SupportsIndex


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
