"""Which floats can be a noisy copy of a: the v with a ⊕ e = v for some finite float e. Decided exactly.

⊕ and ⊖ are addition and subtraction in one float format, rounded to nearest, ties to even. Rounding is monotone, so
the reals that round to v form an interval around v, and a ⊕ e = v says that e lies in that interval moved by −a. The
moved interval holds the real number v − a. If it holds a float at all it therefore holds the last float ≤ v − a or
the first float ≥ v − a: any other one has one of these two between itself and v − a. The rounded difference v ⊖ a is
one of the two, and the other one is its neighbour. So three candidates settle the question: v ⊖ a and its two
neighbours.

The paper's F_a(v) = [(v ⊖ a) ⊕ a = v] looks at the first candidate only. It never accepts a float that cannot be
reached, but it misses some that can. The first candidate is the float nearest to v − a. Where the interval is
symmetric around v it is therefore in it if any float is, and F_a is right. The interval is symmetric unless |v| is a
power of two, where it is half as long on the side of 0; so F_a errs only there, and where v ⊖ a overflows.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def reachable(a: npt.ArrayLike, v: npt.ArrayLike) -> Mask:
    """Whether a ⊕ e = v for some finite float e, for every pair of a and v (broadcast; one float format).

    Exact: True if there is such an e, False if there is none. No NaN is reachable, and ±∞ is where a ⊕ e overflows.
    """
    a, v = _same_format(a, v)
    with np.errstate(over="ignore", invalid="ignore"):
        guess = v - a
        hit = _lands(a, guess, v)
        rest = np.flatnonzero(~hit)  # few or many: only these need a second look
        if rest.size:
            flat_hit, a, guess, v = hit.reshape(-1), a.reshape(-1)[rest], guess.reshape(-1)[rest], v.reshape(-1)[rest]
            far = np.asarray(np.inf, v.dtype)
            above, below = np.nextafter(guess, far), np.nextafter(guess, -far)
            flat_hit[rest] = _lands(a, above, v) | _lands(a, below, v)
    return hit


def knuth(a: npt.ArrayLike, v: npt.ArrayLike) -> Mask:
    """The paper's F_a(v) = [(v ⊖ a) ⊕ a = v]: sufficient for v to be reachable from a, and not necessary."""
    a, v = _same_format(a, v)
    with np.errstate(over="ignore", invalid="ignore"):
        return _lands(a, v - a, v)


def all_floats(dtype: npt.DTypeLike) -> Floats:
    """Every finite float of a format of 8 or 16 bits, in increasing order, −0 left out."""
    dtype = np.dtype(dtype)
    if dtype.itemsize > 2:
        raise ValueError(f"only formats of 8 or 16 bits are listed in full, not {dtype}")
    bits = np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    floats = bits.view(dtype)
    keep = np.isfinite(floats) & ~(np.signbit(floats) & (floats == np.zeros(1, dtype)))
    return np.sort(floats[keep])


def reached(a: npt.ArrayLike, e: Floats) -> Floats:
    """The distinct finite sums a ⊕ e in increasing order: brute force, for looking at and for checking `reachable`."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums: Floats = np.asarray(a, e.dtype) + e
    return np.unique(sums[np.isfinite(sums)])


def _lands(a: Floats, e: Floats, v: Floats) -> Mask:
    return np.asarray((a + e == v) & np.isfinite(e))


def _same_format(a: npt.ArrayLike, v: npt.ArrayLike) -> tuple[Floats, Floats]:
    a, v = np.asarray(a), np.asarray(v)
    if a.dtype != v.dtype:
        raise ValueError(f"a and v must be in one float format, not {a.dtype} and {v.dtype}")
    if not np.isfinite(a).all():
        raise ValueError("a must be finite")
    first, second = np.broadcast_arrays(a, v)
    return first, second
