"""How many radii exceed a bound, and their sum: exact, for whatever rationals."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from soundsmooth.certification.report import RADII, count_above, sum_of_radii

RADIUS = st.floats(0, 5) | st.sampled_from([float(r) for r in RADII] + [math.nextafter(0.1, 1), 5e-324])
BOUND = st.fractions(-1, 6) | st.sampled_from(RADII) | RADIUS.map(Fraction)


@given(st.lists(RADIUS), st.lists(BOUND))
def test_radii_are_compared_with_bounds_exactly(radii: list[float], bounds: list[Fraction]) -> None:
    assert count_above(iter(radii), bounds) == [sum(Fraction(r) > bound for r in radii) for bound in bounds]


@given(st.lists(RADIUS | st.floats(0, allow_infinity=False)))
def test_the_sum_of_radii_is_exact(radii: list[float]) -> None:
    assert sum_of_radii(iter(radii)) == sum(map(Fraction, radii))
