"""From bits to noise: exact inversion with as many bits as it takes."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from .keystream import LAST_LEVEL
from .law import Law


def decide(law: Law, word: Callable[[int], int]) -> int | None:
    """T(U) for the U whose bits are word(0) (32 of them), word(1), word(2), … (64 each).

    Words are asked for only while they are needed. None means that U is still undecided after level 255,
    which has a probability below 2⁻¹⁶⁰⁰⁰ and makes the noisy copy a vote for nobody.

    Guarantee: the first m bits u place U in [u, u + 1) / 2^m. If u < b = ⌊2^m B_j⌋ then U < b/2^m ≤ B_j;
    if u > b then U ≥ (b + 1)/2^m > B_j. The noise is returned only when every B_j lies on a known side.
    """
    low, high = -law.reach, law.reach  # low ≤ T ≤ high
    bits, u = 32, word(0)
    for level in range(1, LAST_LEVEL + 2):
        open_levels, floor = range(low, high), lambda j, m=bits: law.breakpoint(j, m)
        low, high = (
            low + bisect_left(open_levels, u, key=floor),  # U > B_j for all j before
            low + bisect_right(open_levels, u, key=floor),  # U < B_j from here on
        )
        if low == high:
            return low
        if level <= LAST_LEVEL:
            bits, u = bits + 64, u << 64 | word(level)
    return None
