"""Exact reachability against brute force: all of 8 bits, a part of 16 bits, built cases in 32 and 64 bits."""

import ml_dtypes
import numpy as np
import pytest

from soundsmooth.lab.gallery.certifiers import values
from soundsmooth.lab.gallery.reachable import all_floats, knuth, reachable, reached

TOY = np.dtype(ml_dtypes.float8_e3m4)
WIDE = [np.dtype("float32"), np.dtype("float64")]


def brute(a, floats):
    """One truth value for each float: is it a ⊕ e for some e among the floats?"""
    return np.isin(floats.astype(np.float64), reached(a, floats).astype(np.float64))


def test_eight_bits_exhaustively():
    """All a, all v, all e: 223³ sums."""
    floats = all_floats(TOY)
    assert len(floats) == 223
    expected = np.stack([brute(a, floats) for a in floats])
    assert np.array_equal(reachable(floats[:, None], floats[None, :]), expected)


def test_sixteen_bits():
    """All v and e for every fifth level of an image and for 60 other a, the edges of the format among them."""
    floats = all_floats("float16")
    edges = np.array([65504, -65504, 2.0**-24, 2.0**-14, 1, 2, 1023.5, 32768], np.float16)
    some = np.random.default_rng(0).choice(floats, 52)
    for a in np.concatenate([edges, some, values(np.arange(0, 256, 5), np.dtype("float16"))]):
        assert np.array_equal(reachable(a, floats), brute(a, floats)), a


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_every_sum_is_reachable(dtype):
    """A theorem, so no chance: whatever a and e are, a ⊕ e is reachable from a, powers of two included."""
    rng = np.random.default_rng()
    a, e = (rng.standard_normal((2, 200_000)) * np.exp2(rng.integers(-30, 31, (2, 200_000)))).astype(dtype)
    assert reachable(a, a + e).all()
    a = a[: len(a) // 2]
    goal = np.exp2(rng.integers(-8, 9, len(a))).astype(dtype)
    for e in (goal - a, np.nextafter(goal - a, dtype.type(0)), np.nextafter(goal - a, dtype.type(99))):
        assert reachable(a, a + e).all()


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_floats_between_two_sums_are_not_reachable(dtype):
    """⊕ is monotone in e: what lies strictly between a ⊕ e and a ⊕ (the float after e) is not reachable."""
    a = values(np.array(210), dtype)
    e = -a + dtype.type(0.11) + np.arange(1000) * np.spacing(a)
    low, high = a + e.astype(dtype), a + np.nextafter(e.astype(dtype), dtype.type(1))
    between = np.nextafter(low, dtype.type(1))
    assert (between < high).all()  # eight floats of v to one of e
    assert reachable(a, low).all()
    assert reachable(a, high).all()
    assert not reachable(a, between).any()


def test_the_approximation_errs_only_at_powers_of_two_and_overflow():
    """F_a implies reachability; the reverse fails for 94 of 29 791 pairs in 8 bits, 14 of them by overflow."""
    floats = all_floats(TOY)
    exact, approximate = (test(floats[:, None], floats[None, :]) for test in (reachable, knuth))
    assert exact.sum() == 29_791
    assert not (approximate & ~exact).any()
    row, column = np.nonzero(exact & ~approximate)
    with np.errstate(over="ignore"):
        overflows = np.isinf(floats[column] - floats[row])
    power = np.frexp(np.abs(floats[column].astype(np.float64)))[0] == 0.5
    assert len(row) == 94
    assert overflows[~power].all()
    assert (~power).sum() == 14


def test_infinities_and_nan():
    a = np.float16(1000)
    v = np.array([np.inf, -np.inf, np.nan], np.float16)
    assert reachable(a, v).tolist() == [True, False, False]  # 1000 ⊕ 65504 overflows, 1000 ⊖ 65504 does not
    assert reachable(np.float16(0), v).tolist() == [False, False, False]


def test_shapes_and_formats():
    assert reachable(np.float32(1), np.float32(2)).shape == ()
    assert reachable(np.zeros((3, 1), np.float32), np.zeros(4, np.float32)).shape == (3, 4)
    with pytest.raises(ValueError, match="one float format"):
        reachable(np.float32(1), np.float64(1))
    with pytest.raises(ValueError, match="finite"):
        reachable(np.float32(np.inf), np.float32(1))
    with pytest.raises(ValueError, match="8 or 16 bits"):
        all_floats("float32")
