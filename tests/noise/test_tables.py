"""The tables are exact by counting, not by sampling: for every level, with all 2³² first words accounted for."""

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from _pytest.mark import ParameterSet

from soundsmooth.core.grid import Grid
from soundsmooth.noise import Gaussian, Law, Sampler
from soundsmooth.noise.tables import CELL_BITS, CELLS, OPEN, Tables, tables

Floor = Callable[[Fraction, int, int, int], int]

WORDS = 1 << 32
CELL = 1 << CELL_BITS
ONES = (1 << 64) - 1
SIGMAS = ["0.12", "0.25", "0.5", "1", "1/3", "7/100"]
IMAGE_LAWS = [Gaussian(sigma) for sigma in SIGMAS]
OTHER_LAWS = [
    Gaussian("1", 1),
    Gaussian("0.12", 3),
    Gaussian("4", "1/5"),
    Gaussian("1/2", 1, Grid(levels=2, q=1)),
    Gaussian("1/3", 2, Grid(levels=16, q=15, offset=Fraction(-1, 2))),
    Gaussian("1/5", 4, Grid(levels=1024, q=1023)),
]
MORE_LAWS = [
    Gaussian("4"),
    Gaussian("1", 12),
    Gaussian("0.12", 12),
    Gaussian("1/1000"),
    Gaussian("0.25", 3),
    Gaussian("0.25", "1/255"),
]


def name(a_law: Law) -> str:
    return f"sigma={a_law.sigma},reach={a_law.reach},q={a_law.grid.q}"


def masses_by_breakpoints(a_law: Law) -> tuple[list[int], set[int]]:
    """How many words decide each level −reach … reach, and which words decide nothing.

    A word w decides level j when b_{j−1} < w < b_j; the words that are some b_j are open.
    """
    edges = [-1, *a_law.breakpoints(32), WORDS]
    decided = [max(0, high - low - 1) for low, high in itertools.pairwise(edges)]
    return decided, set(edges[1:-1])


def masses_by_tables(table: Tables) -> tuple[list[int], set[int]]:
    """The same from the tables as their docstring reads them, cell by cell; crowded cells word by word."""
    reach = table.law.reach
    mass = np.zeros(2 * reach + 1, np.int64)
    closed = table.guide != OPEN
    np.add.at(mass, table.guide[closed].astype(np.int64) + reach, CELL)
    single = np.flatnonzero(~closed & (table.below != OPEN))
    below = table.below[single].astype(np.int64) + reach
    cut = table.threshold[single].astype(np.int64) - (single << CELL_BITS)  # the threshold's place in its cell
    assert ((cut >= 0) & (cut < CELL)).all(), "a threshold outside its cell"
    np.add.at(mass, below, cut)
    np.add.at(mass, below + 1, CELL - 1 - cut)
    undecided = {int(word) for word in table.threshold[single]}
    for cell in np.flatnonzero(~closed & (table.below == OPEN)):
        words = (int(cell) << CELL_BITS) + np.arange(CELL)
        before, upto = np.searchsorted(table.words, words, "left"), np.searchsorted(table.words, words, "right")
        mass += np.bincount(before[before == upto], minlength=mass.size)
        undecided |= {int(word) for word in words[before != upto]}
    return [int(count) for count in mass], undecided


@pytest.mark.parametrize("a_law", [*IMAGE_LAWS, *OTHER_LAWS, *MORE_LAWS], ids=name)
def test_the_tables_give_each_level_its_mass(a_law: Law) -> None:
    """For every level the number of words; the open words are the distinct b_j; together all 2³² words."""
    decided, undecided = masses_by_tables(tables(a_law))
    assert (decided, undecided) == masses_by_breakpoints(a_law)
    assert sum(decided) + len(undecided) == WORDS


def test_counting_notices_a_wrong_entry() -> None:
    """The test above can fail: one guide entry or one threshold that is off by one is seen."""
    good = tables(Gaussian("0.25"))
    cell = int(np.flatnonzero(good.guide == OPEN)[100])
    guide, threshold = good.guide.copy(), good.threshold.copy()
    guide[CELLS // 2 + 1] += 1
    threshold[cell] += 1
    for wrong in (
        Tables(good.law, guide, good.below, good.threshold, good.words),
        Tables(good.law, good.guide, good.below, threshold, good.words),
    ):
        assert masses_by_tables(wrong) != masses_by_breakpoints(good.law)


def few_at_first(laws: list[Law], few: tuple[str, ...]) -> list[ParameterSet]:
    """All the laws; those whose σ is not among the few are in the long form."""
    long = pytest.mark.long("the tables of every law are counted above, and the sampler reads them all alike")
    return [pytest.param(each, marks=[] if str(each.sigma) in few else [long], id=name(each)) for each in laws]


@pytest.mark.parametrize("a_law", few_at_first([*IMAGE_LAWS, *OTHER_LAWS], ("1/4", "1/3", "4")))
@pytest.mark.slow("samples every word of every open cell")
def test_the_sampler_gives_each_level_its_mass(replay: type, a_law: Law) -> None:
    """The sampler itself, on every word of every open cell: nothing is decided by a table in the test.

    With zeros for later bits an open word w is U = w/2³² < B_j and counts for the lowest j with b_j = w, so level j
    gets b_j − b_{j−1} words; with ones it counts for the level after the highest such j. Later bits are read for open
    words only, so with ones no other word can count for another level. In cells without breakpoints the word below the
    cell's bits cannot matter; the next test reads three words of each.
    """
    sampler, reach = Sampler(a_law, threads=2), a_law.reach
    open_words = np.unique(np.array(a_law.breakpoints(32), np.int64))
    cells = np.unique(open_words >> CELL_BITS)
    total = np.zeros(2 * reach + 1, np.int64)
    for part in np.array_split(cells, -(-cells.size // 128)):
        words = ((part[:, None] << CELL_BITS) + np.arange(CELL)).astype(np.uint32)
        bits = replay(words.reshape(-1))
        found = sampler.noise(bits, 0, *words.shape)
        assert found.lost == ()
        assert (np.diff(found.levels, axis=1) >= 0).all(), "the noise must rise with the word"
        total += np.bincount(found.levels.reshape(-1).astype(np.intp) + reach, minlength=total.size)
        read = bits.words[sorted({element for _, element in bits.read})]
        assert np.isin(open_words[np.isin(open_words >> CELL_BITS, part)], read).all()
        assert np.isin(read, open_words).all(), "the others are decided by 32 bits"
    assert np.array_equal(total, expected_in_cells(a_law, cells, "left"))
    down, up = (levels_of(sampler, replay(open_words.astype(np.uint32), fill)) for fill in (all_zeros, all_ones))
    for found, sign in ((down, -1), (up, 1)):
        np.add.at(total, found + reach, sign)
    assert np.array_equal(total, expected_in_cells(a_law, cells, "right"))


def all_zeros(level: int, element: int) -> int:
    return 0


def all_ones(level: int, element: int) -> int:
    return ONES


def levels_of(sampler: Sampler, bits: Any) -> npt.NDArray[np.intp]:
    """The noise of all elements that the bits have."""
    found = sampler.noise(bits, 0, 1, bits.words.size)
    assert found.lost == ()
    return found.levels[0].astype(np.intp)


def expected_in_cells(a_law: Law, cells: npt.NDArray[np.int64], side: str) -> npt.NDArray[np.int64]:
    """How many words of the cells each level gets when a word counts the breakpoints before it (left) or upto it.

    The breakpoints cut the line of words into runs, one per level; each run is cut by the cells.
    """
    edge = np.array(a_law.breakpoints(32), np.int64) + (1 if side == "left" else 0)  # first word of the next run
    starts, ends = np.concatenate([[0], edge]), np.concatenate([edge, [WORDS]])
    total = np.zeros(starts.size, np.int64)
    for cell in cells:
        first, last = int(cell) << CELL_BITS, (int(cell) + 1) << CELL_BITS
        total += np.maximum(0, np.minimum(ends, last) - np.maximum(starts, first))
    return total


@pytest.mark.parametrize("a_law", [*IMAGE_LAWS, *OTHER_LAWS], ids=name)
def test_every_cell_is_forced(replay: type, a_law: Law) -> None:
    """The first, a middle and the last word of each of the 65 536 cells, in a shuffled order, against a plain count."""
    order = np.random.default_rng(1).permutation(3 * CELLS)
    cell_starts = np.arange(CELLS, dtype=np.int64)[:, None] << CELL_BITS
    words = (cell_starts + np.array([0, 0x7FFF, 0xFFFF])).reshape(-1)[order]
    found = Sampler(a_law, threads=1).noise(replay(words.astype(np.uint32)), 0, 3, CELLS)
    below = np.searchsorted(np.array(a_law.breakpoints(32), np.int64), words, side="left")
    assert np.array_equal(found.levels.reshape(-1), below - a_law.reach)
    assert found.lost == ()


# --- Proposition 5.1 -----------------------------------------------------------------------------------------


def masses_of_noise(a_law: Law, bits: int) -> list[int]:
    """2^bits · P(T = j) for j = −reach … reach, with each breakpoint cut to `bits` bits."""
    edges = [0, *a_law.breakpoints(bits), 1 << bits]
    return [high - low for low, high in itertools.pairwise(edges)]


def masses_of_clamped(a_law: Law, noise: list[int], x: int) -> list[int]:
    """The mass of clamp(x + T) = a for a = lowest … highest: that of T = a − x, and at the ends of all T beyond."""
    low, high = (a_law.reach + end - x for end in (a_law.lowest, a_law.highest))
    assert 0 <= low < high < len(noise)
    return [sum(noise[: low + 1]), *noise[low + 1 : high], sum(noise[high:])]


def masses_of_the_paper(a_law: Law, floor: dict[int, int], x: int, bits: int) -> list[int]:
    """N_D^k(x): level a takes all ε with x + ε in [a − ½, a + ½), the two ends take what lies beyond them."""
    upto = [floor[a - x] for a in range(a_law.lowest, a_law.highest)]
    return [high - low for low, high in zip([0, *upto], [*upto, 1 << bits], strict=True)]


@pytest.mark.parametrize(
    "a_law",
    [*IMAGE_LAWS, Gaussian("0.25", 1), Gaussian("1", 12), Gaussian("2", "1/255"), Gaussian("1/3", 2, Grid(16, 15))],
    ids=name,
)
def test_proposition_5_1(a_law: Law, mpfr_floor: Floor) -> None:
    """clamp(x + T) has the law N_D^k(x), as exact integers of 128 bits, for every level and every x.

    The right side is made of MPFR's values of Φ((a − x + ½)/(σq)) and knows nothing of T, the left side only of T.
    """
    q, top = a_law.grid.q, a_law.grid.levels - 1
    floor = {j: mpfr_floor(a_law.sigma, q, j, 128) for j in range(a_law.lowest - top, a_law.highest)}
    noise = masses_of_noise(a_law, 128)
    for x in range(a_law.grid.levels):
        assert masses_of_clamped(a_law, noise, x) == masses_of_the_paper(a_law, floor, x, 128)


def test_a_smaller_reach_breaks_proposition_5_1(mpfr_floor: Floor) -> None:
    """The test above can fail: with noise cut at K instead of K + L − 1 (the paper's printed index) it does."""
    a_law, cut = Gaussian("1", 1), 255
    noise = masses_of_noise(a_law, 128)
    middle = range(a_law.reach - cut, a_law.reach + cut + 1)
    short = [0] * len(noise)
    for i, weight in enumerate(noise):
        short[min(max(i, middle[0]), middle[-1])] += weight
    floor = {j: mpfr_floor(a_law.sigma, 255, j, 128) for j in range(a_law.lowest - 255, a_law.highest)}
    assert masses_of_clamped(a_law, short, 255) != masses_of_the_paper(a_law, floor, 255, 128)
