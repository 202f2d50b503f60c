"""The auditor decides claims of a radius as mpmath does, accepts what the issuer gives, and nothing beyond it."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from soundsmooth import exact
from soundsmooth.audit import normal
from soundsmooth.audit.radius import radius_below, radius_holds

LARGEST = math.nextafter(1, 0)
SIGMAS = st.fractions(Fraction(1, 1000), 4, max_denominator=1000)
PROBABILITIES = [math.nextafter(0.5, 1), 0.5000001, 0.6, 0.75, 0.99, 0.99993, 1 - 2.0**-40, LARGEST]
PAIRS = [(0.5, 5e-324), (0.7, 0.2), (0.3, 0.1), (0.9999, 7.6e-5), (LARGEST, 1e-300), (0.499, 0.4989), (1e-9, 1e-10)]


def up(x: float, ulps: int) -> float:
    for _ in range(ulps):
        x = math.nextafter(x, math.inf)
    return x


def test_phi_against_a_level_as_mpmath_has_it() -> None:
    """Points up to 38 standard deviations on both sides, levels a relative 10⁻²⁵ to either side of Φ."""
    with mpmath.workprec(3000):
        for x in ("1e-200", "0.001", "0.5", "1", "2.5", "6", "8.2", "20", "38"):
            point = Fraction(x)
            tail = mpmath.erfc(mpmath.mpf(point.numerator) / point.denominator / mpmath.sqrt(2)) / 2
            scaled = Fraction(int(tail * (1 << 2500)), 1 << 2500)
            lower, higher = scaled * (1 - Fraction(1, 10**25)), scaled * (1 + Fraction(1, 10**25))
            assert normal.cdf_below(-point, higher) is True
            assert normal.cdf_below(-point, lower) is False
            assert normal.cdf_below(point, 1 - lower) is True
            assert normal.cdf_below(point, 1 - higher) is False


def test_phi_at_zero_and_out_of_range() -> None:
    half = Fraction(1, 2)
    assert normal.cdf_below(Fraction(0), half) is None
    assert normal.cdf_below(Fraction(0), half + Fraction(1, 10**9)) is True
    assert normal.cdf_below(Fraction(0), half - Fraction(1, 10**9)) is False
    assert normal.cdf_below(Fraction(10**9), Fraction(LARGEST)) is False
    assert normal.cdf_below(Fraction(-(10**9)), Fraction(5e-324)) is True
    assert normal.cdf_below(Fraction(1), Fraction(1)) is True
    assert normal.cdf_below(Fraction(-1), Fraction(0)) is False


@pytest.mark.parametrize("p", [5e-324, 1e-200, 1e-9, 0.3, 0.4999999, 0.5, 0.75, LARGEST])
@pytest.mark.parametrize("bits", [100, 200])
def test_quantiles_are_enclosed(p: float, bits: int) -> None:
    """Φ⁻¹ lies between the two ends by mpmath's erfc, and the ends are close."""
    low, high = normal.quantile(Fraction(p), bits)
    assert 0 <= high - low < Fraction(1, 1 << (bits - 12))
    with mpmath.workprec(2500):
        at = [mpmath.erfc(-mpmath.mpf(x.numerator) / x.denominator / mpmath.sqrt(2)) / 2 for x in (low, high)]
        assert at[0] <= mpmath.mpf(p) <= at[1]


@pytest.mark.parametrize("off", [Fraction(-1, 100), Fraction(1, 100)])
def test_a_bad_guess_makes_a_quantile_wide_and_never_wrong(off: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = [normal.quantile(Fraction(3, 4), 100), normal.quantile(Fraction(1, 4), 100)]
    normal.quantile.cache_clear()
    monkeypatch.setattr(normal, "_newton", lambda p, bits: truth[0][0] + off)
    for p, (low, high) in zip((Fraction(3, 4), Fraction(1, 4)), truth, strict=True):
        wide = normal.quantile(p, 100)
        assert wide[0] < low < high < wide[1]
        assert wide[1] - wide[0] < 1
    normal.quantile.cache_clear()


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("sigma", [Fraction(1, 4), Fraction(1, 3), Fraction(12, 100), Fraction(10)], ids=str)
def test_issued_radii_are_accepted_and_larger_ones_refused(p: float, sigma: Fraction) -> None:
    """From the first double above ½ to the last below 1. The issuer is within 1 ulp of the best: 2 ulp are too much."""
    issued = exact.radius_below(p, sigma)
    assert radius_holds(issued, p, None, sigma)
    assert not radius_holds(up(issued, 2), p, None, sigma)
    assert not radius_holds(issued * (1 + 1e-9), p, None, sigma)
    assert 0 <= radius_below(p, None, sigma) - issued <= math.ulp(issued)


@settings(max_examples=100)
@given(st.floats(0.5, LARGEST, exclude_min=True), SIGMAS)
def test_issued_radii_anywhere(p: float, sigma: Fraction) -> None:
    """No false alarms: a failure is a false certificate, or one that is wrongly refused."""
    issued = exact.radius_below(p, sigma)
    assert radius_holds(issued, p, None, sigma)
    assert not radius_holds(up(issued, 2), p, None, sigma)


@pytest.mark.parametrize(("p_lower", "p_upper"), PAIRS)
def test_issued_radii_with_two_bounds(p_lower: float, p_upper: float) -> None:
    sigma = Fraction(1, 4)
    issued = exact.radius_two_below(p_lower, p_upper, sigma)
    assert radius_holds(issued, p_lower, p_upper, sigma)
    assert not radius_holds(up(issued, 2), p_lower, p_upper, sigma)
    assert 0 <= radius_below(p_lower, p_upper, sigma) - issued <= math.ulp(issued)


@pytest.mark.parametrize("p_lower", [0.2, 0.499, 0.51, 0.999, LARGEST])
def test_two_bounds_that_are_neighbours(p_lower: float) -> None:
    """Nearly everything cancels; the quantiles are refined until they decide."""
    p_upper = math.nextafter(p_lower, 0)
    issued = exact.radius_two_below(p_lower, p_upper, Fraction(1))
    assert radius_holds(issued, p_lower, p_upper, Fraction(1))
    assert not radius_holds(issued * (1 + 1e-12), p_lower, p_upper, Fraction(1))


@settings(max_examples=60)
@given(st.floats(1e-6, LARGEST), st.floats(1e-12, 0.99), SIGMAS)
def test_issued_radii_with_two_bounds_anywhere(one: float, two: float, sigma: Fraction) -> None:
    p_upper, p_lower = sorted((one, two))
    issued = exact.radius_two_below(p_lower, p_upper, sigma)
    assert radius_holds(issued, p_lower, p_upper, sigma)
    if p_upper < p_lower:
        assert not radius_holds(up(issued, 2), p_lower, p_upper, sigma)


def test_with_complementary_bounds_both_formulas_agree() -> None:
    for p in PROBABILITIES:
        radius = radius_below(p, None, Fraction(1, 4))
        assert radius_below(p, 1 - Fraction(p), Fraction(1, 4)) == radius
        assert not radius_holds(up(radius, 1), p, 1 - Fraction(p), Fraction(1, 4))


def test_scipy_is_near_and_too_high_for_some() -> None:
    """In practice about two thirds of scipy's quantiles are too high; 20 of 200 are asked for."""
    refused = 0
    for i in range(1, 201):
        p = 0.5 + i / 401
        theirs = float(norm.ppf(p))
        assert radius_holds(theirs * (1 - 1e-12), p, None, Fraction(1))
        assert not radius_holds(theirs * (1 + 1e-12), p, None, Fraction(1))
        refused += not radius_holds(theirs, p, None, Fraction(1))
    assert refused >= 20


@pytest.mark.parametrize("radius", [math.nan, math.inf, -math.inf, -1.0, -5e-324, 1e300])
def test_no_radius(radius: float) -> None:
    assert not radius_holds(radius, 0.9, None, Fraction(1))
    assert not radius_holds(radius, 0.9, 0.01, Fraction(1))


def test_radii_of_any_size() -> None:
    """The smallest double is below every radius; zero follows from ½; losers have no radius."""
    assert radius_holds(5e-324, math.nextafter(0.5, 1), None, Fraction(1, 10**6))
    assert radius_holds(5e-324, 0.3, 0.2, Fraction(1))
    assert radius_holds(0.0, 0.5, None, Fraction(1))
    assert not radius_holds(5e-324, 0.5, None, Fraction(1))
    assert not radius_holds(0.0, 0.49, None, Fraction(1))
    assert radius_holds(0.0, 0.3, 0.3, Fraction(1))
    assert not radius_holds(5e-324, 0.3, 0.3, Fraction(1))
    assert not radius_holds(0.0, 0.3, 0.31, Fraction(1))
    assert radius_below(0.9, None, Fraction(10**400)) == math.nextafter(math.inf, 0)
    assert radius_below(0.4, None, Fraction(1)) == 0


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_refuses_what_is_no_probability(p: float) -> None:
    for ask in (lambda: radius_holds(0.1, p, None, Fraction(1)), lambda: radius_below(0.9, p, Fraction(1))):
        with pytest.raises(ValueError, match="probability"):
            ask()
    with pytest.raises(ValueError, match="σ"):
        radius_below(0.9, None, Fraction(0))
