"""The failure probabilities of the paper's Algorithm 2, exactly, beside the paper's."""

from fractions import Fraction

import mpmath
import pytest

from soundsmooth.lab.unsound import (
    breaking_points,
    discretized_normal_literally,
    failure_anywhere,
    failure_odds,
    failure_table,
)
from soundsmooth.noise.law import Gaussian

DRAWS = 100_000 * 3 * 224 * 224
#: Distinct ambiguous draws at 64 bits for K = 6·255, 7·255, 1912.
DISTINCT = {"0.12": (554, 554, 554), "0.25": (1144,) * 3, "0.5": (2270,) * 3, "1": (3570, 4080, 4334)}

cases = pytest.mark.parametrize(
    ("sigma", "margin", "distinct"),
    [(s, m, d) for s, counts in DISTINCT.items() for m, d in zip((1530, 1785, 1912), counts, strict=True)],
)


@cases
def test_at_one_position(sigma: str, margin: int, distinct: int) -> None:
    odds = failure_odds(sigma, margin)
    assert odds.breaking_points == 2 * (margin + 255)
    assert odds.ambiguous == distinct
    assert odds.per_position == Fraction(distinct, 2**64)
    assert odds.paper_per_position == Fraction(1, 2**52)


@cases
def test_the_papers_bound_at_one_position_fails_only_for_sigma_1_at_its_own_k(
    sigma: str, margin: int, distinct: int
) -> None:
    """2k + 255 is the count for N_D^k, but N_D^{k+255}(0) is sampled, with 2k + 510 breaking points: 4334 > 2¹²."""
    odds = failure_odds(sigma, margin)
    assert (odds.per_position <= odds.paper_per_position) == ((sigma, margin) != ("1", 1912))


@cases
def test_anywhere_in_a_whole_run(sigma: str, margin: int, distinct: int) -> None:
    """The paper's 1 − 2^(46−64) > 0.999996 holds in each case, and an independent computation lies in the bounds."""
    odds = failure_odds(sigma, margin)
    low, high = odds.anywhere
    assert odds.paper_anywhere == Fraction(1, 2**18)
    assert Fraction("0.999996") < 1 - odds.paper_anywhere < 1 - high
    assert 0 < low < high < low * (1 + Fraction(1, 10**11))
    with mpmath.workdps(80):
        truth = 1 - (1 - mpmath.mpf(distinct) / 2**64) ** DRAWS
        assert mpmath.mpf(low.numerator) / low.denominator < truth < mpmath.mpf(high.numerator) / high.denominator


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 7), Fraction(1, 1000), Fraction(1), Fraction(0)])
@pytest.mark.parametrize("draws", [1, 2, 3, 4, 50])
def test_the_bounds_hold_for_any_numbers(p: Fraction, draws: int) -> None:
    low, high = failure_anywhere(p, draws)
    assert 0 <= low <= 1 - (1 - p) ** draws <= high <= 1


@pytest.mark.parametrize("bits", [6, 10, 13])
def test_the_odds_are_those_of_the_literal_algorithm(bits: int) -> None:
    """All draws of few bits are tried."""
    arr = breaking_points(Gaussian("0.25", 1), bits)
    failures = sum(discretized_normal_literally(arr, t) is None for t in range(1 << bits))
    assert failure_odds("0.25", 255, bits).per_position == Fraction(failures, 1 << bits)


def test_the_table_shows_them_rounded_down() -> None:
    lines = failure_table().splitlines()
    assert len(lines) == 1 + 12 + 1
    assert lines[1].split() == ["1530", "0.12", "3570", "554", "/", "2^64", "≥", "0.999999547928"]
    assert lines[-2].split() == ["1912", "1", "4334", "4334", "/", "2^64", "≥", "0.999996463401"]
    assert lines[-1].split()[-1] == "0.999996185302"
