"""The auditor's squares against the issuer's roots."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soundsmooth.audit.distance import SLACK, TOLERANCE, after_paying, before_paying, pays, possible
from soundsmooth.core import grid
from soundsmooth.exact import price_above

TENTH = Fraction(1, 10)
IMPOSSIBLE = [0.0, -0.0, -1.0, 5e-324, 2.0**-1022, math.inf, -math.inf, math.nan, 1e300, 1.7e308]


def test_the_tolerance_is_the_grids() -> None:
    assert TOLERANCE == grid.TOLERANCE


@settings(max_examples=40)
@given(st.fractions(0, 1), st.fractions(Fraction(1, 10**9), 1), st.integers(1, 10**6))
def test_what_the_issuer_pays_is_enough_and_no_less_is(squared: Fraction, tolerance: Fraction, size: int) -> None:
    rounding = tolerance**2 * size
    price = price_above(squared, tolerance, size)
    assert pays(price, squared, rounding)
    assert not pays(price * (1 - 2.0**-51), squared, rounding)


@settings(max_examples=40)
@given(st.fractions(0, 1), st.fractions(Fraction(1, 10**9), 1), st.integers(1, 10**6))
def test_whatever_is_due_is_possible(share: Fraction, tolerance: Fraction, size: int) -> None:
    """Each float is within the tolerance: so the squared distance is at most tolerance²·size."""
    rounding = tolerance**2 * size
    assert possible(price_above(share * rounding, tolerance, size), rounding)


@pytest.mark.parametrize("paid", IMPOSSIBLE)
def test_impossible_prices(paid: float) -> None:
    assert not possible(paid, TENTH**2)
    if not paid > 1:
        assert not pays(paid, Fraction(0), TENTH**2)


def test_the_ends_of_the_possible() -> None:
    """Of 1/8 to 1/4."""
    square = Fraction(1, 64)
    assert possible(0.125, square)
    assert not possible(math.nextafter(0.125, 0), square)
    assert possible(0.25 * (1 + 2.0**-41), square)
    assert not possible(0.25 * (1 + 2.0**-39), square)
    assert SLACK > 1


@settings(max_examples=40)
@given(st.floats(0, 1e300), st.floats(0, 1e300))
def test_rounded_the_safe_way(radius: float, paid: float) -> None:
    assert Fraction(before_paying(radius, paid)) >= Fraction(radius) + Fraction(paid)
    left = after_paying(radius, paid)
    assert left == 0 or Fraction(left) <= Fraction(radius) - Fraction(paid)
    assert left >= 0
    assert before_paying(radius, None) == after_paying(radius, None) == radius


def test_a_sum_beyond_all_doubles_is_infinite() -> None:
    assert before_paying(1.7976931348623157e308, 1.0) == math.inf
