"""The auditor decides claims of a confidence bound exactly: by fractions at small n, by other libraries at large n.

The truth needs no inverse: v is at most the Clopper–Pearson bound exactly when P(X ≥ hits) at v is at most α.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from math import comb

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from soundsmooth import exact
from soundsmooth.audit import bounds, tails
from soundsmooth.audit.doubles import float_above, float_below, largest_accepted, smallest_accepted
from soundsmooth.audit.intervals import PRECISIONS, bernoulli, log, log_2_pi, series, stirling

A = Fraction(1, 1000)
ALPHAS = [A, Fraction(1, 2), Fraction(9, 10), Fraction(1, 10**30), Fraction(1, 1024)]
alphas = st.sampled_from(ALPHAS) | st.fractions(Fraction(1, 10**6), Fraction(999, 1000), max_denominator=10**6)
Holds = Callable[[float, int, int, Fraction], bool]


@st.composite
def counts(draw: st.DrawFn, most: int = 10**6) -> tuple[int, int]:
    n = draw(st.integers(1, most))
    return draw(st.integers(0, n) | st.sampled_from([0, 1, n - 1, n])), n


def truth(hits: int, n: int, p: Fraction) -> Fraction:
    """P(X ≥ hits), from the definition."""
    return sum((comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(hits, n + 1)), Fraction(0))


# --- intervals -------------------------------------------------------------------------------------------


def holds_the_number(interval: object, number: mpmath.mpf, width: int) -> bool:
    one = mpmath.mpf(2) ** interval.bits
    return interval.low / one <= number <= interval.high / one and interval.high - interval.low <= width


@settings(max_examples=100)
@given(st.fractions(Fraction(1, 10**40), 10**40), st.sampled_from(PRECISIONS))
def test_logarithms_are_enclosed(x: Fraction, bits: int) -> None:
    """ln x of any rational, by mpmath at twice the precision, in an interval that is not wide."""
    with mpmath.workprec(2 * bits + 100):
        assert holds_the_number(log(x, bits), mpmath.log(mpmath.mpf(x.numerator) / x.denominator), 256 * bits)


@pytest.mark.parametrize("bits", PRECISIONS)
def test_constants_are_enclosed(bits: int) -> None:
    with mpmath.workprec(2 * bits):
        assert holds_the_number(log_2_pi(bits), mpmath.log(2 * mpmath.pi), 8 * bits)


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("m", [1, 2, 3, 100, 127, 128, 129, 255, 256, 1000, 10**5, 10**9])
def test_stirlings_remainder_is_enclosed(m: int, bits: int) -> None:
    """On both sides of the change from the factorial to the series."""
    with mpmath.workprec(3 * bits):
        log_m, log_root = mpmath.log(m), mpmath.log(2 * mpmath.pi) / 2
        delta = mpmath.loggamma(m + 1) - (m + mpmath.mpf(1) / 2) * log_m + m - log_root
        assert holds_the_number(stirling(m, bits), delta, 40 * m * bits if m < bits else 3 * bits)


def test_bernoulli_numbers() -> None:
    known = [1, Fraction(-1, 2), Fraction(1, 6), 0, Fraction(-1, 30), 0, Fraction(1, 42)]
    assert [bernoulli(k) for k in range(7)] == known
    assert bernoulli(20) == Fraction(-174611, 330)


def test_a_series_holds_its_sum_and_what_is_left_out() -> None:
    """1 + r + r² + … = 1/(1 − r), also when r is so near to 1 that the rest is all that matters."""
    for r in (Fraction(1, 3), Fraction(9, 10), Fraction(999, 1000)):
        found = series(((r.numerator, r.denominator) for _ in range(10**6)), 64)
        assert Fraction(found.low, 1 << 64) <= 1 / (1 - r) <= Fraction(found.high, 1 << 64)
    ended = series(iter([(1, 2), (1, 2)]), 64)
    assert ended.low <= Fraction(7, 4) * (1 << 64) <= ended.high <= ended.low + 4


@pytest.mark.parametrize("p", ["1/2", "0.3", "0.77", "1/1000"])
def test_tails_are_enclosed(p: str) -> None:
    """Every mass and every falling tail up to n = 40."""
    exact_p = Fraction(p)
    for n in (1, 2, 3, 10, 40):
        for hits in range(n + 1):
            mass = comb(n, hits) * exact_p**hits * (1 - exact_p) ** (n - hits)
            found = [(tails.log_mass(hits, n, exact_p, 128), mass)]
            if exact_p * (n + 1) <= hits:
                found.append((tails.log_tail(hits, n, exact_p, 128), truth(hits, n, exact_p)))
            for interval, value in found:
                with mpmath.workprec(300):
                    number = mpmath.log(mpmath.mpf(value.numerator) / value.denominator)
                    assert holds_the_number(interval, number, 1 << 24)


# --- small n: every count, against fractions -------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 7, 19])
def test_claims_around_the_bound_are_decided_exactly(n: int, alpha: Fraction) -> None:
    """The doubles around the bound, each decided by fractions: accepted exactly if the tail is at most α.

    Both answers occur for every count, and the auditor's own bound is the last double that is accepted.
    """
    for hits in range(1, n + 1):
        bound = bounds.clopper_pearson_below(hits, n, alpha)
        above = bounds.clopper_pearson_above(n - hits, n, alpha)
        for ulps in (-1e6, -1, 0, 1, 1e6):
            p = bound + ulps * math.ulp(bound)
            right = truth(hits, n, Fraction(p)) <= alpha
            assert bounds.clopper_pearson_lower_holds(p, hits, n, alpha) == right == (ulps <= 0)
            q = above - ulps * math.ulp(above)
            if 0 < q < 1:
                right = truth(hits, n, 1 - Fraction(q)) <= alpha
                assert bounds.clopper_pearson_upper_holds(q, n - hits, n, alpha) == right == (ulps <= 0)


@pytest.mark.parametrize(
    ("hits", "n", "p", "alpha"),
    [(1, 1, 0.5, "1/2"), (1, 1, 2.0**-10, "1/1024"), (2, 2, 0.25, "1/16"), (1, 2, 0.5, "3/4"), (3, 5, 0.5, "1/2")],
)
def test_a_claim_that_equals_the_bound_is_accepted(hits: int, n: int, p: float, alpha: str) -> None:
    """The tail is exactly α: no interval can tell, and fractions decide. The next double is refused."""
    assert truth(hits, n, Fraction(p)) == Fraction(alpha)
    assert bounds.clopper_pearson_lower_holds(p, hits, n, Fraction(alpha))
    assert not bounds.clopper_pearson_lower_holds(math.nextafter(p, 1), hits, n, Fraction(alpha))
    assert bounds.clopper_pearson_below(hits, n, Fraction(alpha)) == p


def test_tails_as_fractions() -> None:
    for n in range(1, 12):
        for hits in range(1, n + 1):
            assert tails.exact_tail(hits, n, Fraction(3, 7)) == truth(hits, n, Fraction(3, 7))


def fair_coin_rejected(first: int, second: int, alpha: Fraction) -> bool:
    """The two-sided exact test of a prediction, by the auditor's tails."""
    return first != second and tails.tail_at_most(max(first, second), first + second, Fraction(1, 2), alpha / 2)


def test_fair_coins_are_exact() -> None:
    """All pairs up to 40 flips and P-values that equal α."""
    for alpha in (Fraction(1, 1000), Fraction(1, 16), Fraction(1, 2)):
        for first in range(41):
            for second in range(41 - first):
                flips, top = first + second, max(first, second)
                p_value = min(Fraction(1), 2 * Fraction(sum(comb(flips, i) for i in range(top, flips + 1)), 1 << flips))
                assert fair_coin_rejected(first, second, alpha) == (p_value <= alpha)


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(-4000, 4000), alphas)
def test_fair_coins_agree_with_the_issuer(first: int, difference: int, alpha: Fraction) -> None:
    second = max(0, first + difference)
    assert fair_coin_rejected(first, second, alpha) == exact.fair_coin_rejected(first, second, alpha)


# --- large n: against the issuer, mpmath and scipy -------------------------------------------------------


ISSUED = [
    ("below", exact.clopper_pearson_below, bounds.clopper_pearson_below, bounds.clopper_pearson_lower_holds),
    ("above", exact.clopper_pearson_above, bounds.clopper_pearson_above, bounds.clopper_pearson_upper_holds),
    ("hoeffding below", exact.hoeffding_below, bounds.hoeffding_below, bounds.hoeffding_lower_holds),
]


@pytest.mark.parametrize(("name", "issue", "own", "holds"), ISSUED, ids=[row[0] for row in ISSUED])
@settings(max_examples=150)
@given(count=counts(), alpha=alphas)
def test_issued_bounds_are_accepted_and_better_ones_refused(
    name: str,
    issue: Callable[..., float],
    own: Callable[..., float],
    holds: Holds,
    count: tuple[int, int],
    alpha: Fraction,
) -> None:
    """What the issuer gives is accepted, 2 ulp or 10⁻⁹ better is refused, and the auditor's own is within 1 ulp.

    The issuer promises to be within 1 ulp of the best double, so 2 ulp more are too much. No false alarms.
    """
    hits, n = count
    issued = issue(hits, n, alpha)
    assert holds(issued, hits, n, alpha)
    towards = 1.0 if name.endswith("below") else 0.0
    next_one = math.nextafter(issued, towards)
    for p in (math.nextafter(next_one, towards), issued + (towards - 0.5) * 2e-9 * issued):
        if 0 < issued < 1 and 0 < p < 1:
            assert not holds(p, hits, n, alpha)
    if n < 10**5:
        assert own(hits, n, alpha) in (issued, next_one)


def beta_tail(hits: int, n: int, p: float) -> mpmath.mpf:
    """P(X ≥ hits) for p below the mean, by the continued fraction of the incomplete beta function (DLMF 8.17.22)."""
    a, b, x = mpmath.mpf(hits), mpmath.mpf(n - hits + 1), mpmath.mpf(p)
    value = d = 1 / (1 - (a + b) * x / (a + 1))
    c = mpmath.mpf(1)
    for m in range(1, 10**5):
        before = value
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / (1 + top * d), 1 + top / c
            value *= d * c
        if abs(value / before - 1) < mpmath.mpf(2) ** -300:
            break
    front = mpmath.loggamma(a + b) - mpmath.loggamma(a + 1) - mpmath.loggamma(b)
    return value * mpmath.exp(front + a * mpmath.log(x) + b * mpmath.log(1 - x))


@pytest.mark.parametrize(
    ("hits", "n"), [(99_500, 10**5), (75_000, 10**5), (51_000, 10**5), (3, 10**5), (999_000, 10**6)]
)
def test_the_bound_agrees_with_mpmath(hits: int, n: int) -> None:
    """Another formula at the auditor's own bound and at the next double: on either side of α."""
    p = bounds.clopper_pearson_below(hits, n, A)
    with mpmath.workprec(400):
        assert beta_tail(hits, n, p) < mpmath.mpf(1) / 1000 < beta_tail(hits, n, math.nextafter(p, 1))


def test_scipy_is_near_and_too_high_for_some() -> None:
    """scipy agrees to 10⁻¹⁰, and some of its bounds are refused: about half of them; 10 of 100 are asked for."""
    refused = 0
    for hits in range(2_000, 1_000_000, 9_999):
        theirs = float(beta.ppf(0.001, hits, 10**6 - hits + 1))
        assert bounds.clopper_pearson_lower_holds(theirs * (1 - 1e-10), hits, 10**6, A)
        assert not bounds.clopper_pearson_lower_holds(theirs * (1 + 1e-10), hits, 10**6, A)
        refused += not bounds.clopper_pearson_lower_holds(theirs, hits, 10**6, A)
    assert refused >= 10


@pytest.mark.parametrize("hits", [1, 5 * 10**8, 10**9])
def test_a_billion_votes(hits: int) -> None:
    issued = exact.clopper_pearson_below(hits, 10**9, A)
    assert bounds.clopper_pearson_lower_holds(issued, hits, 10**9, A)
    two_up = math.nextafter(math.nextafter(issued, 1), 1)
    assert not bounds.clopper_pearson_lower_holds(two_up, hits, 10**9, A)


def runner_up_holds(p_lower: float, p_upper: float, hits: int, others: int, n: int, alpha: Fraction) -> bool:
    schedule = bounds.Schedule.fixed(n, alpha)
    return bounds.BOUNDS["runner-up"].holds(p_lower, p_upper, [bounds.Look(n, hits, others)], schedule)


@settings(max_examples=40)
@given(counts(10**5), st.data(), alphas)
def test_the_runner_ups_bounds(count: tuple[int, int], data: st.DataObject, alpha: Fraction) -> None:
    """The issuer's two bounds at α/2 are accepted, or 1 − p_lower if it is smaller; each made better is refused."""
    hits, n = count
    others = data.draw(st.integers(0, n - hits))
    p_lower = exact.clopper_pearson_below(hits, n, alpha / 2)
    p_upper = min(exact.clopper_pearson_above(others, n, alpha / 2), exact.float_above(1 - Fraction(p_lower)))
    assert runner_up_holds(p_lower, p_upper, hits, others, n, alpha)
    if p_lower > 0:
        assert not runner_up_holds(p_lower * (1 + 1e-9), p_upper, hits, others, n, alpha)
    assert not runner_up_holds(p_lower, p_upper * (1 - 1e-9), hits, others, n, alpha)


# --- what is no claim ------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [math.nan, math.inf, -math.inf])
def test_no_number_is_no_bound(p: float) -> None:
    for _, _, _, holds in ISSUED:
        assert not holds(p, 5, 10, A)
    assert not runner_up_holds(p, 0.5, 5, 1, 10, A)
    assert not runner_up_holds(0.1, p, 5, 1, 10, A)


def test_certainty_is_refused_and_nothing_is_accepted() -> None:
    for holds in (bounds.clopper_pearson_lower_holds, bounds.hoeffding_lower_holds):
        assert not holds(1.0, 10, 10, A)
        assert holds(0.0, 0, 10, A)
        assert not holds(5e-324, 0, 10, A)
    assert not bounds.clopper_pearson_upper_holds(0.0, 0, 10, A)
    assert bounds.clopper_pearson_upper_holds(1.0, 10, 10, A)
    assert not bounds.clopper_pearson_upper_holds(math.nextafter(1, 0), 10, 10, A)


@pytest.mark.parametrize(
    ("hits", "n", "alpha"), [(-1, 5, A), (6, 5, A), (0, 0, A), (1, 5, Fraction(0)), (1, 5, Fraction(1))]
)
def test_refuses_impossible_counts(hits: int, n: int, alpha: Fraction) -> None:
    for _, _, own, holds in ISSUED:
        with pytest.raises(ValueError, match=r"number of|α must"):
            holds(0.1, hits, n, alpha)
        with pytest.raises((ValueError, ZeroDivisionError)):
            own(hits, n, alpha)


# --- doubles ---------------------------------------------------------------------------------------------


@given(st.fractions(-(10**9), 10**9))
def test_doubles_on_either_side(x: Fraction) -> None:
    below, above = float_below(x), float_above(x)
    assert Fraction(below) <= x <= Fraction(above)
    assert below == above or math.nextafter(below, math.inf) == above


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_search_finds_the_last_double_from_anywhere(edge: float, guess: float) -> None:
    assert largest_accepted(lambda x: x <= edge, guess) == edge
    assert smallest_accepted(lambda x: x >= edge, guess) == edge
