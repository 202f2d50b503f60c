"""Breakpoints are the exact integers ⌊2^m · Φ((j + ½)/(σq))⌋: shown against MPFR, which shares no code with Arb."""

import math
import sys
from fractions import Fraction
from functools import lru_cache

import gmpy2
import pytest
from flint import arb, ctx
from scipy.stats import norm

from soundsmooth.exact import breakpoint_floor, breakpoint_floors
from soundsmooth.exact.balls import ball

Q = 255
SIGMAS = [Fraction(s) for s in ("0.12", "0.25", "0.5", "1", "1/3", "7/100")]
KS = [1, 3, 6, 12]
BITS = [32, 64, 96, 128]
WIDEST = 12 * Q + Q  # reach at k = 12
GUARD_BITS = 200


def mpfr_floor(sigma: Fraction, q: int, j: int, bits: int) -> int:
    """⌊2^bits · Φ((j + ½)/(σq))⌋ by MPFR, without any symmetry, and with a margin.

    MPFR's operations are correctly rounded. The argument carries a relative error of a few 2^−(bits+200);
    erfc magnifies it by at most 2x² < 2²⁰, so the scaled value is wrong by less than 2^−170. It is asserted
    to be at least 2^−100 away from the nearest integer. Far out no function is needed: Φ(−z) ≤ exp(−z²/2)/2.
    """
    z = Fraction(2 * j + 1, 2 * q) / sigma
    if z * z > 2 * bits:  # exp(−z²/2) < e^−bits < 2^−bits
        return 0 if j < 0 else (1 << bits) - 1
    with gmpy2.context(precision=bits + GUARD_BITS):
        at = gmpy2.mpfr(gmpy2.mpq(z))
        scaled = gmpy2.mul_2exp(gmpy2.erfc(-at / gmpy2.sqrt(gmpy2.mpfr(2))), bits - 1)
        floor = int(gmpy2.floor(scaled))
        inside = scaled - floor
        margin = gmpy2.mul_2exp(gmpy2.mpfr(1), -100)
        decided = margin < inside < 1 - margin or scaled < margin or scaled > (1 << bits) - margin
        assert decided, f"MPFR cannot tell the floor for sigma={sigma}, j={j}"
        return min(floor, (1 << bits) - 1)  # B_j < 1, though it may round to 1


@lru_cache
def mpfr_table(sigma: Fraction) -> list[int]:
    """The independent table at 128 bits for j = −WIDEST … WIDEST − 1, made once per σ."""
    return [mpfr_floor(sigma, Q, j, 128) for j in range(-WIDEST, WIDEST)]


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@pytest.mark.parametrize("k", KS)
def test_equal_to_mpfr_for_every_level(sigma: Fraction, k: int) -> None:
    """Every entry at 32, 64, 96 and 128 bits; floors nest, so ⌊2^m B⌋ is the upper m bits of ⌊2^128 B⌋."""
    reach = k * Q + Q
    truth = mpfr_table(sigma)[WIDEST - reach : WIDEST + reach]
    for bits in BITS:
        assert breakpoint_floors(sigma, Q, reach, bits) == [entry >> (128 - bits) for entry in truth]


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_one_at_a_time_is_the_same_as_the_table(sigma: Fraction) -> None:
    """The reference sampler asks for single breakpoints, the tables for all: they must be one function."""
    reach = 6 * Q + Q
    table = breakpoint_floors(sigma, Q, reach, 64)
    assert [breakpoint_floor(sigma, Q, j, 64) for j in range(-reach, reach)] == table


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
@pytest.mark.parametrize("bits", BITS)
def test_mirror_symmetry(sigma: Fraction, bits: int) -> None:
    """B_{−j−1} = 1 − B_j, and no B_j is a multiple of 2^−bits, so mirrored floors add up to 2^bits − 1."""
    table = breakpoint_floors(sigma, Q, 6 * Q + Q, bits)
    assert all(low + high == (1 << bits) - 1 for low, high in zip(table, reversed(table), strict=True))
    assert table == sorted(table)


@pytest.mark.parametrize("bits", [1024, 4096, 16352])
@pytest.mark.parametrize(("sigma", "j"), [("0.25", 0), ("0.12", -700), ("1/3", 299), ("1", -1785), ("7/100", -1)])
def test_many_bits(sigma: str, j: int, bits: int) -> None:
    """16352 = 32 + 255·64 bits is what the last level of a stream can ask for."""
    assert breakpoint_floor(Fraction(sigma), Q, j, bits) == mpfr_floor(Fraction(sigma), Q, j, bits)


@pytest.mark.parametrize(("levels", "q"), [(2, 1), (16, 15), (1024, 1023), (256, 100)])
def test_other_grids(levels: int, q: int) -> None:
    """Nothing is tied to 255."""
    reach = 2 * q + levels - 1
    truth = [mpfr_floor(Fraction(2, 7), q, j, 64) for j in range(-reach, reach)]
    assert breakpoint_floors(Fraction(2, 7), q, reach, 64) == truth


@pytest.mark.parametrize("bits", [1, 32, 128])
@pytest.mark.parametrize("j", [5_000, 10**6, 10**12])
def test_beyond_the_tails(j: int, bits: int) -> None:
    """Far out 0 < B_j < 2^−bits, whose floor is 0, and above it 2^bits − 1: never 2^bits, since B_j < 1."""
    sigma = Fraction("0.12")
    assert breakpoint_floor(sigma, Q, -j - 1, bits) == 0
    assert breakpoint_floor(sigma, Q, j, bits) == (1 << bits) - 1


def test_a_table_that_reaches_beyond_the_tails() -> None:
    """The early exit fills up with zeros and with 2^bits − 1, at full length."""
    table = breakpoint_floors(Fraction("7/100"), Q, 20_000, 32)
    near = breakpoint_floors(Fraction("7/100"), Q, 1_000, 32)
    assert len(table) == 40_000
    assert table[19_000:21_000] == near
    assert set(table[:19_000]) == {0}
    assert set(table[21_000:]) == {(1 << 32) - 1}


@pytest.mark.parametrize("lost_bits", [33, 60, 300])
def test_undecided_balls_are_refined_not_guessed(monkeypatch: pytest.MonkeyPatch, lost_bits: int) -> None:
    """With arguments known to too few bits the table is still the same: a ball that holds an integer is refined."""
    module = sys.modules["soundsmooth.exact.breakpoints"]
    expected = breakpoint_floors(Fraction(1, 3), Q, 510, 96)
    tries: list[int] = []

    def poor_ball(value: Fraction) -> arb:
        tries.append(ctx.prec)
        blur = Fraction(1, 1 << max(0, ctx.prec - lost_bits))
        return ball(value * (1 - blur)).union(ball(value * (1 + blur)))

    monkeypatch.setattr(module, "ball", poor_ball)
    assert breakpoint_floors(Fraction(1, 3), Q, 510, 96) == expected
    assert len(tries) > 510 + 100, "many entries were meant to be undecided at first"


@pytest.mark.parametrize("start", [2, 8, 40, 70])
def test_a_low_starting_precision_is_refined(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    """The starting precision is a matter of speed alone, below the number of bits asked for as well."""
    module = sys.modules["soundsmooth.exact.breakpoints"]
    expected = breakpoint_floors(Fraction(1, 3), Q, 510, 96)
    refine = module.refine
    monkeypatch.setattr(module, "refine", lambda attempt, bits: refine(attempt, start))
    assert breakpoint_floors(Fraction(1, 3), Q, 510, 96) == expected


def test_giving_up_is_an_error_not_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too small a limit on the precision the answer is an ArithmeticError."""
    monkeypatch.setattr(sys.modules["soundsmooth.exact.balls"], "MOST_BITS", 64)
    with pytest.raises(ArithmeticError, match="not decided"):
        breakpoint_floor(Fraction(1, 4), Q, 3, 128)


def test_double_precision_is_not_enough() -> None:
    """The comparison above can fail: floors taken from a double-precision Φ are wrong in most places at 64 bits."""
    table = mpfr_table(Fraction(1, 4))
    around = range(-100, 100)
    wrong = sum(math.floor(norm.cdf((j + 0.5) / 63.75) * 2**64) != table[j + WIDEST] >> 64 for j in around)
    assert wrong > 150
