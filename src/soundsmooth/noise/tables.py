"""Tables that turn the first 32 bits of U into the noise, and say where 32 bits do not decide.

With b_j = ⌊2³² B_j⌋ and w the first word of U: w < b_j proves U < B_j, w > b_j proves U > B_j, and w = b_j
leaves it to the later words. So the noise is decided by counting the b_j below w, unless w is one of them.

A cell is the set of words with the same upper 16 bits. Nearly all cells hold no b_j: their noise is known
from the cell (`guide`). Most others hold one value b_j, once: there one comparison is left (`threshold`).
The few cells of the tails, where many breakpoints crowd, are searched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .law import Law

CELL_BITS = 16
CELLS = 1 << CELL_BITS
#: No noise has this value: the cell (or the element) is open.
OPEN = np.int16(-32768)


@dataclass(frozen=True, eq=False)
class Tables:
    """What the samplers look up; proved by counting in the tests.

    Guarantee: for a word w in a cell c, the noise of every U that begins with w is guide[c] if that is not
    OPEN; otherwise below[c] + (w > threshold[c]) if below[c] is not OPEN and w ≠ threshold[c]; otherwise
    the number of words less than w (side "right", no equality) minus reach.
    """

    law: Law
    guide: npt.NDArray[np.int16]
    below: npt.NDArray[np.int16]
    threshold: npt.NDArray[np.uint32]
    words: npt.NDArray[np.uint32]
    """b_j for j = −reach … reach − 1, rising, with repetitions in the tails."""


@lru_cache(maxsize=16)
def tables(law: Law) -> Tables:
    """The tables of a law, made once.

    Guarantee: the one of `Tables`; the floors are proved.
    """
    return build_tables(law, law.breakpoints(32))


def build_tables(law: Law, floors: Sequence[int]) -> Tables:
    """The tables that follow from ⌊2³² B_j⌋, j = −reach … reach − 1, by counting.

    Guarantee: the one of `Tables`, if the floors are right.
    """
    words = np.array(floors, dtype=np.uint32)
    cell_of_word = words >> CELL_BITS
    starts = np.arange(CELLS, dtype=np.uint64) << CELL_BITS
    passed = np.searchsorted(words, starts, side="left").astype(np.int64)  # b_j before the cell
    inside = np.bincount(cell_of_word, minlength=CELLS)
    level = (passed - law.reach).astype(np.int16)
    guide = np.where(inside == 0, level, OPEN)
    below = np.where(inside == 1, level, OPEN)
    threshold = np.zeros(CELLS, np.uint32)
    threshold[cell_of_word] = words
    for table in (guide, below, threshold, words):
        table.setflags(write=False)
    return Tables(law, guide, below, threshold, words)
