"""From balls and rationals to doubles, in the stated direction."""

import math
from fractions import Fraction

import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.exact.balls import ball, float_above, float_below, lower_end, precision, refine, upper_end

RATIONALS = st.fractions(min_value=-2, max_value=2, max_denominator=10**40)
TINY = [Fraction(1, 1 << 1074), Fraction(1, 1 << 1075), Fraction(3, 1 << 1076), Fraction(1, 10**400)]


def check_directed(x: Fraction) -> None:
    below, above = float_below(x), float_above(x)
    assert Fraction(below) <= x <= Fraction(above)
    assert Fraction(math.nextafter(below, math.inf)) > x
    assert Fraction(math.nextafter(above, -math.inf)) < x


@given(RATIONALS)
def test_directed_rounding_of_rationals(x: Fraction) -> None:
    """float_below is the largest double ≤ x, float_above the smallest ≥ x."""
    check_directed(x)


@pytest.mark.parametrize("x", [*TINY, *(-t for t in TINY), Fraction(0), Fraction(1), Fraction(1, 3), Fraction(0.1)])
def test_directed_rounding_at_corners(x: Fraction) -> None:
    """Subnormal numbers, numbers below them, and exact doubles, which stay as they are."""
    check_directed(x)


@given(RATIONALS.filter(lambda x: x > 0))
def test_ends_enclose(x: Fraction) -> None:
    """At 24 bits the ball around a rational has a width, and its ends lie on both sides of the rational."""
    with precision(24):
        wide = ball(x)
    assert lower_end(wide) <= x <= upper_end(wide)


def test_ends_of_an_unbounded_ball_are_refused() -> None:
    with pytest.raises(ArithmeticError):
        lower_end(arb("nan"))
    with pytest.raises(ArithmeticError):
        upper_end(arb(0).log())


def test_the_callers_precision_comes_back() -> None:
    """Even after an exception: a leak would change the accuracy of everything that follows."""
    before = ctx.prec

    def fail_inside() -> None:
        with precision(77):
            assert ctx.prec == 77
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert ctx.prec == before


def test_refine_doubles_until_proved() -> None:
    seen: list[int] = []

    def attempt() -> str | None:
        seen.append(ctx.prec)
        return "proved" if ctx.prec >= 200 else None

    assert refine(attempt, 60) == "proved"
    assert seen == [60, 120, 240]


def test_refine_takes_false_for_an_answer() -> None:
    """None alone means undecided; False and 0 are answers."""
    assert refine(lambda: False, 60) is False
    assert refine(lambda: 0, 60) == 0
