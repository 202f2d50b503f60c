"""The GPU's table: from the first 32 bits of U to the noise with one gather and one comparison.

A word u, read as a signed integer s, goes to the bucket that the sign, the exponent and the first bits of the mantissa
of the float32 s + ½ name. (For s ≥ 0 that is u + ½, for the others minus the distance to 2³², less ½: both tails get
the same buckets.) Buckets are narrow in the tails, where breakpoints crowd, and wide in the middle, where they are
sparse, so that none holds two different breakpoints, and a comparison with the one it may hold settles u.

How s + ½ is rounded does not matter, as long as all round alike (and they do: to the nearest, as IEEE 754 has it).
Within each half the bucket is some monotone function of u, and that alone makes the table right: a breakpoint's word in
another bucket lies on the same side of every u of this one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .law import Law

#: Bits of the mantissa: the fewest that keep different breakpoints apart, and the most that are tried.
FEWEST_BITS, MOST_BITS = 8, 13
HALF = 1 << 31

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LogGuide:
    """An entry per bucket, 64 bits: a word, and the noise below it.

    Guarantee: let u be the first word of U and (word, below) the entry of its bucket. If u = word, U is undecided.
    Otherwise u − word, taken modulo 2³² into [−2³¹, 2³¹), is positive or negative, and the noise of every U that
    begins with u is below + 1 or below, respectively.
    """

    bits: int
    entries: Whole
    """word + 2³²·below, indexed by `bucket` (with a gap between the halves that no word reaches)."""


class CrowdedError(ValueError):
    """Two breakpoints share a bucket even in the finest guide: this law is not for the GPU."""


def bucket(u: Whole, bits: int) -> Whole:
    """The bucket of each word.

    Guarantee: it does not fall as u rises to 2³¹ − 1, and does not rise from 2³¹ on; the halves share no bucket.
    """
    signed = u.astype(np.uint32).view(np.int32)
    pattern = (signed.astype(np.float32) + np.float32(0.5)).view(np.uint32)
    return (pattern >> np.uint32(23 - bits)).astype(np.int64) - first_bucket(bits)


def first_bucket(bits: int) -> int:
    """What the upper bits of a float are counted from: those of float32(½), which is u = 0.

    Guarantee: the bucket of u = 0 is 0.
    """
    return 126 << bits


def _in_order_of_words(bits: int) -> Whole:
    """All buckets, in the order in which a rising u meets them."""
    ends = bucket(np.array([0, HALF - 1, HALF, 2 * HALF - 1]), bits)
    return np.concatenate([np.arange(ends[0], ends[1] + 1), np.arange(ends[2], ends[3] - 1, -1)])


@lru_cache(maxsize=16)
def log_guide(law: Law) -> LogGuide:
    """The guide of a law, made once, as coarse as it can be.

    Guarantee: the one of `LogGuide`; the floors are proved.
    """
    floors = law.breakpoints(32)
    for bits in range(FEWEST_BITS, MOST_BITS + 1):
        try:
            return build_log_guide(law, floors, bits)
        except CrowdedError:
            continue
    raise CrowdedError(
        f"sigma = {law.lines['sigma']} on a grid with q = {law.grid.q} puts the breakpoints too close together"
    )


def build_log_guide(law: Law, floors: Sequence[int], bits: int) -> LogGuide:
    """The guide that follows from ⌊2³² B_j⌋, j = −reach … reach − 1, by counting.

    Guarantee: the one of `LogGuide`, if the floors are right.
    """
    words = np.array(floors, np.int64)
    at = bucket(words, bits)
    _check_alone(words, at, bits)
    order = _in_order_of_words(bits)
    inside = np.bincount(at, minlength=order.max() + 1)[order]
    passed = np.cumsum(inside) - inside  # how many words lie in the buckets before
    # An empty bucket's word is one that every u of it exceeds, by no more than 2³¹.
    before = np.maximum(np.where(passed > 0, words[passed - 1], -1), np.where(order >= _sign(bits), HALF - 1, -1))
    word = np.where(inside > 0, words[np.minimum(passed, len(words) - 1)], before)
    entries = np.zeros(order.max() + 1, np.int64)
    entries[order] = (word & 0xFFFFFFFF) | (passed - law.reach - (inside == 0)) << 32
    entries.setflags(write=False)
    return LogGuide(bits, entries)


def _sign(bits: int) -> int:
    """The first bucket of the upper half, whose words are negative as signed integers."""
    return int(bucket(np.array([2 * HALF - 1]), bits)[0])


def _check_alone(words: Whole, at: Whole, bits: int) -> None:
    """Two different words must not share a bucket. Equal ones may, if nothing there has to be told from them."""
    together = at[1:] == at[:-1]
    different = words[1:] != words[:-1]
    larger_too = (words[1:] < 2 * HALF - 1) & (bucket(words[1:] + 1, bits) == at[1:])
    if (together & (different | larger_too)).any():
        raise CrowdedError("a bucket holds two breakpoints")
