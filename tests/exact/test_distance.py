"""What is paid for rounding is never too little: decided by squares, in which no root is taken."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soundsmooth.exact import distance_above, price_above, radius_after
from soundsmooth.exact.distance import root_above

SMALL = st.builds(lambda above, below: Fraction(above, 1 << below), st.integers(0, 10**9), st.integers(0, 4000))
SQUARES = st.fractions(0, 10**6) | SMALL


@settings(max_examples=40)
@given(SQUARES)
def test_a_root_is_above_and_close(square: Fraction) -> None:
    root = root_above(square)
    assert root**2 >= square
    assert root**2 <= square * (1 + Fraction(1, 1 << 124))


@pytest.mark.parametrize("root", [Fraction(0), Fraction(1), Fraction(3, 4), Fraction(7, 1 << 600), Fraction(1 << 300)])
def test_roots_of_squares_of_doubles_are_exact(root: Fraction) -> None:
    assert root_above(root**2) == root
    assert distance_above(root**2) == float(root)


@settings(max_examples=40)
@given(SQUARES, SQUARES)
def test_a_root_rises(one: Fraction, other: Fraction) -> None:
    assert (root_above(one) <= root_above(other)) or one > other


@settings(max_examples=40)
@given(SQUARES, st.fractions(Fraction(1, 10**9), 10), st.integers(1, 10**6))
def test_the_price_is_enough_and_the_least_double(squared: Fraction, tolerance: Fraction, size: int) -> None:
    price = price_above(squared, tolerance, size)
    assert enough(price, squared, tolerance, size)
    assert not enough(price * (1 - 2.0**-51), squared, tolerance, size)
    assert distance_above(squared) <= price


def enough(price: float, squared: Fraction, tolerance: Fraction, size: int) -> bool:
    """price ≥ √squared + tolerance·√size, with roots in whole numbers of 200 further bits."""
    shift = 1 << 2200
    roots = (math.isqrt(each.numerator * shift**2 // each.denominator) for each in (squared, tolerance**2 * size))
    return Fraction(price) * shift >= sum(roots)


@settings(max_examples=40)
@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_what_is_left_is_not_more(radius: float, price: float) -> None:
    left = radius_after(radius, price)
    assert Fraction(left) <= Fraction(radius) - Fraction(price)
    assert Fraction(math.nextafter(left, math.inf)) > Fraction(radius) - Fraction(price)


def test_floats_would_leave_more() -> None:
    """The test above can fail: the difference of two doubles is rounded up in about half of all cases."""
    radius, price = 1.0, 2.0**-60
    assert radius - price == 1.0
    assert radius_after(radius, price) < 1.0
