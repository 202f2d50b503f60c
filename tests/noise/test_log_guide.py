"""The GPU's guide is exact by counting: every bucket, every breakpoint and its neighbours, for laws of every kind.

What the guide says of u changes only at an entry's word and where the bucket does, and what is true of u only at the
breakpoints. So the ends of all buckets, the words of all entries, the breakpoints and the neighbours of these
settle all 2³² words.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soundsmooth.core.grid import Grid
from soundsmooth.noise import Gaussian, Law
from soundsmooth.noise.log_guide import (
    FEWEST_BITS,
    HALF,
    MOST_BITS,
    CrowdedError,
    LogGuide,
    bucket,
    build_log_guide,
    log_guide,
)

Whole = npt.NDArray[np.int64]

WORDS = 1 << 32
CORNERS = np.array([0, 1, HALF - 1, HALF, WORDS - 2, WORDS - 1])
#: Laws and the bits of mantissa that they need.
LAWS = [
    *((Gaussian(sigma), 8) for sigma in ("0.12", "0.25", "0.5", "1", "1/3", "1/1000", "1/100000")),
    *((Gaussian(sigma), bits) for sigma, bits in (("2", 9), ("4", 10), ("8", 11), ("16", 12), ("32", 13))),
    (Gaussian("1", "1/255"), 8),
    (Gaussian("1", 12), 8),
    (Gaussian("0.25", 120), 8),
    (Gaussian("8", 100), 11),
    (Gaussian("1/2", 1, Grid(levels=2, q=1)), 8),
    (Gaussian("1/3", 2, Grid(levels=16, q=15)), 8),
    (Gaussian("1/5", 4, Grid(levels=1024, q=1023)), 8),
    (Gaussian("2", 2, Grid(levels=4096, q=4095)), 13),
]
COIN = Gaussian("1/2", 1, Grid(levels=2, q=1))  # noise in −2 … 2: four breakpoints
COINS = Gaussian("1/2", 3, Grid(levels=2, q=1))  # noise in −4 … 4: eight breakpoints
ALL_BITS = range(FEWEST_BITS, MOST_BITS + 1)


def name(value: object) -> str:
    return f"sigma={value.sigma},reach={value.reach},q={value.grid.q}" if isinstance(value, Law) else str(value)


def starts(rising: Whole, upper: bool, bits: int) -> Whole:
    """The smallest v of one half whose bucket is at least each of `rising`, all by one binary search.

    In the lower half v = u. In the upper half the bucket falls as u rises, so that v = 2³² − 1 − u is searched.
    """
    low, high = np.zeros_like(rising), np.full_like(rising, HALF - 1)
    while (low < high).any():
        middle = (low + high) >> 1
        far = bucket(WORDS - 1 - middle if upper else middle, bits) >= rising
        low, high = np.where(far, low, middle + 1), np.where(far, middle, high)
    return np.unique(low)


@cache
def ends_of_buckets(bits: int) -> Whole:
    """The first and the last word of every bucket that holds one, rising."""
    ends = []
    for upper in (False, True):
        first, last = bucket(np.array([WORDS - 1, HALF] if upper else [0, HALF - 1]), bits)
        begin = starts(np.arange(first, last + 1), upper, bits)
        v = np.concatenate([begin, begin[1:] - 1, [HALF - 1]])
        ends.append(WORDS - 1 - v if upper else v)
    return np.unique(np.concatenate(ends))


def decisive(guide: LogGuide, floors: Sequence[int]) -> Whole:
    """Words that settle all 2³² (see the top of this file), and some random ones."""
    near = np.unique(np.concatenate([np.array(floors, np.int64), guide.entries & 0xFFFFFFFF]))
    random = np.random.default_rng(1).integers(0, WORDS, 10_000)
    words = np.unique(np.concatenate([near - 1, near, near + 1, ends_of_buckets(guide.bits), CORNERS, random]))
    return words[(words >= 0) & (words < WORDS)]


def mistakes(guide: LogGuide, a_law: Law, floors: Sequence[int]) -> Whole:
    """The words of which the guide says something else than a plain count of the breakpoints."""
    u, sorted_floors = decisive(guide, floors), np.array(floors, np.int64)
    entry = guide.entries[bucket(u, guide.bits)]
    above = (u - (entry & 0xFFFFFFFF)).astype(np.uint32).view(np.int32)
    tied = np.isin(u, sorted_floors)
    count = np.searchsorted(sorted_floors, u) - a_law.reach
    wrong = np.where(tied, above != 0, (above == 0) | ((entry >> 32) + (above > 0) != count))
    # A tie is counted on from the entry: below is the number of smaller breakpoints.
    return u[wrong | (tied & (entry >> 32 != count))]


@pytest.mark.parametrize(("a_law", "bits"), LAWS, ids=name)
def test_the_guide_counts_right(a_law: Law, bits: int) -> None:
    """All 2³² words, with no more bits than it takes."""
    guide = log_guide(a_law)
    assert guide.bits == bits
    assert mistakes(guide, a_law, a_law.breakpoints(32)).size == 0


@pytest.mark.parametrize("bits", ALL_BITS)
def test_a_finer_guide_counts_right_too(bits: int) -> None:
    for a_law in (Gaussian("0.12"), Gaussian("1")):
        floors = a_law.breakpoints(32)
        assert mistakes(build_log_guide(a_law, floors, bits), a_law, floors).size == 0


@pytest.mark.parametrize("sigma", ["0.12", "1", "4"])
def test_counting_notices_a_wrong_entry(sigma: str) -> None:
    """The tests above can fail: a word or a level that is off by one, in any kind of bucket, is seen."""
    a_law = Gaussian(sigma)
    good, floors = log_guide(a_law), a_law.breakpoints(32)
    held = np.unique(bucket(np.array(floors, np.int64), good.bits))
    reached = np.unique(bucket(ends_of_buckets(good.bits), good.bits))
    empty = np.setdiff1d(reached, held)
    spoiled = [(at, change) for at in held[:: held.size // 5] for change in (1, -1, 1 << 32, -(1 << 32))]
    spoiled += [(at, change) for at in empty[:: empty.size // 5] for change in (1 << 32, -(1 << 32))]
    for at, change in spoiled:
        entries = good.entries.copy()
        entries[at] += change
        assert mistakes(replace(good, entries=entries), a_law, floors).size, f"entry {at} changed by {change}"


@pytest.mark.parametrize("bits", ALL_BITS)
def test_buckets_are_monotone_and_the_halves_are_apart(bits: int) -> None:
    """From end to end of all buckets, and on random words: rising below 2³¹, falling from there on."""
    words = np.union1d(ends_of_buckets(bits), np.random.default_rng(2).integers(0, WORDS, 100_000))
    lower, upper = bucket(words[words < HALF], bits), bucket(words[words >= HALF], bits)
    assert lower[0] == 0
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    assert lower.max() < upper.min()


@pytest.mark.parametrize("bits", ALL_BITS)
def test_the_ends_of_the_buckets_are_their_ends(bits: int) -> None:
    """One end after the other is the other end of its bucket, or the next word and in another bucket."""
    ends = ends_of_buckets(bits)
    at = bucket(ends, bits)
    assert (ends[0], ends[-1]) == (0, WORDS - 1)
    assert ((at[1:] == at[:-1]) | (np.diff(ends) == 1)).all()
    assert np.unique(at, return_counts=True)[1].max() == 2
    for word in (1, 2, HALF - 1, HALF, WORDS - 2):
        assert word in ends


def test_entries_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        log_guide(Gaussian("0.25")).entries[0] = 1


# --- crowds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", ["64", "100", "1000000"])
def test_a_law_that_cannot_be_separated_is_refused(sigma: str) -> None:
    with pytest.raises(CrowdedError, match=f"sigma = {sigma} on a grid with q = 255"):
        log_guide(Gaussian(sigma))


@pytest.mark.parametrize(("sigma", "bits"), [("2", 8), ("4", 9), ("32", 12)])
def test_one_bit_less_is_refused(sigma: str, bits: int) -> None:
    with pytest.raises(CrowdedError):
        build_log_guide(Gaussian(sigma), Gaussian(sigma).breakpoints(32), bits)


def mirrored(lower: Sequence[int]) -> list[int]:
    """Breakpoints of a symmetric law, ⌊2³² B⌋ and ⌊2³² (1 − B)⌋, from those below one half."""
    return [*sorted(lower), *(WORDS - 1 - word for word in sorted(lower, reverse=True))]


def test_equal_breakpoints_need_a_bucket_that_ends_with_them() -> None:
    """Two breakpoints with the same word: the words after it in its bucket have passed two, which one entry cannot say.

    The upper half is the mirror image, where the bucket must hold nothing above the word.
    """
    alone = [0, 1, 200]  # small words have buckets of their own
    for word in alone:
        floors = mirrored([word, word])
        assert mistakes(build_log_guide(COIN, floors, FEWEST_BITS), COIN, floors).size == 0
    ends = ends_of_buckets(FEWEST_BITS)
    end = int(ends[np.searchsorted(ends, 10_000_000, "right")])  # the last word of this one's bucket
    for word in (end, end - 1, 10_000_000):
        with pytest.raises(CrowdedError):
            build_log_guide(COIN, mirrored([word, word]), FEWEST_BITS)
    floors = [end, end, WORDS - 9, WORDS - 8]
    assert mistakes(build_log_guide(COIN, floors, FEWEST_BITS), COIN, floors).size == 0


LOWER_WORDS = st.one_of(
    st.integers(0, HALF - 1),
    st.integers(0, 40),
    st.integers(HALF - 300, HALF - 1),
    st.builds(lambda octave, step: min(max((1 << octave) + step, 0), HALF - 1), st.integers(0, 31), st.integers(-2, 2)),
)


@settings(max_examples=100)
@given(st.lists(LOWER_WORDS, min_size=4, max_size=4), st.sampled_from([8, 9, 10]))
def test_any_breakpoints_are_counted_right_or_refused(lower: list[int], bits: int) -> None:
    """Symmetric breakpoints anywhere, at the ends of octaves and of halves too."""
    floors = mirrored(lower)
    try:
        guide = build_log_guide(COINS, floors, bits)
    except CrowdedError:
        words = np.array(floors, np.int64)
        at = bucket(words, bits)
        shared = at[1:][at[1:] == at[:-1]]
        assert shared.size, "refused, though no two breakpoints share a bucket"
        return
    assert mistakes(guide, COINS, floors).size == 0
