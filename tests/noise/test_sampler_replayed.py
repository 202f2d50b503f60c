"""Replayed streams force what a random test would never meet: breakpoints ±1, ties of many bits, the end of level 255.

Three parties must agree: the fast sampler, the reference (`decide`), and the definition, which is read off a whole
integer U of many bits and the proved breakpoints at that many bits, without words, levels or a search for ties.
"""

from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest

from soundsmooth.core.grid import Grid
from soundsmooth.noise import Gaussian, Law, Noise, Sampler, reference_noise
from soundsmooth.noise.decide import decide
from soundsmooth.noise.tables import OPEN

LAST_BITS = 32 + 64 * 255  # 16352
TIES = [32, 96, 160, 224]
BITS = 288
LAWS = [
    *(Gaussian(sigma) for sigma in ("0.12", "0.25", "0.5", "1", "1/3", "7/100")),
    Gaussian("1", 1),
    Gaussian("1/7", 2, Grid(16, 15)),
]
COIN = Gaussian("1/2", 1, Grid(levels=2, q=1))  # noise in −2 … 2: five levels, four breakpoints
SMALL = Gaussian("1/3", 1, Grid(levels=4, q=3))


def name(a_law: Law) -> str:
    return f"sigma={a_law.sigma},reach={a_law.reach}"


def by_definition(a_law: Law, number: int, bits: int) -> int | None:
    """T(U) for any U in [number, number + 1) / 2^bits, or None if those U do not agree.

    U lies on the far side of B_j when number > ⌊2^bits B_j⌋, on the near side when number < ⌊2^bits B_j⌋.
    """
    floors = a_law.breakpoints(bits)
    below = bisect_left(floors, number)
    if below < len(floors) and floors[below] == number:
        return None
    return below - a_law.reach


def by_reference(a_law: Law, number: int, bits: int) -> int | None:
    """`decide` on the words of the number."""

    def word(level: int) -> int:
        if level == 0:
            return number >> (bits - 32)
        shift = bits - 32 - 64 * level
        return number >> shift & (1 << 64) - 1 if shift >= 0 else 0

    return decide(a_law, word)


def around_ties(a_law: Law, tie_bits: int) -> list[int]:
    """Numbers of 288 bits whose first bits are b − 1, b or b + 1 for each breakpoint b of tie_bits bits.

    What follows is all zeros or all ones: the numbers nearest to each side of every decision.
    """
    rest = BITS - tie_bits
    ones = (1 << rest) - 1
    found = set()
    for floor in a_law.breakpoints(tie_bits):
        found |= {(floor << rest) - 1, floor << rest, floor << rest | ones, (floor + 1) << rest}
    return sorted(number for number in found if 0 <= number < 1 << BITS)


@pytest.mark.parametrize("tie_bits", TIES)
@pytest.mark.parametrize("a_law", LAWS, ids=name)
def test_every_breakpoint_and_every_tie(replay: type, a_law: Law, tie_bits: int) -> None:
    """b_j and its neighbours for every j, ties of 32, 96, 160 and 224 bits: sampler = definition = reference."""
    numbers = around_ties(a_law, tie_bits)
    expected = [by_definition(a_law, number, BITS) for number in numbers]
    known = [i for i, level in enumerate(expected) if level is not None]
    open_ends = {0, (1 << BITS) - 1}  # where the tails beyond the outermost levels are below 2^−288
    assert {number for number, level in zip(numbers, expected, strict=True) if level is None} <= open_ends
    found = Sampler(a_law, threads=1).noise(replay.of_numbers(numbers, BITS), 0, 1, len(numbers))
    assert found.lost == ()
    assert [int(found.levels[0, i]) for i in known] == [expected[i] for i in known]
    some = known[:: max(1, len(known) // 100)]  # the reference is slow
    assert [by_reference(a_law, numbers[i], BITS) for i in some] == [expected[i] for i in some]


def test_the_ties_are_real(replay: type) -> None:
    """The streams above do what they say: a tie of m bits reads every word up to m bits and at least one more."""
    a_law = Gaussian("0.25")
    for level, tie_bits in enumerate(TIES, start=1):
        rest = BITS - tie_bits
        numbers = [floor << rest | 1 << (rest - 1) for floor in a_law.breakpoints(tie_bits)]
        bits = replay.of_numbers(numbers, BITS)
        Sampler(a_law, threads=1).noise(bits, 0, 1, len(numbers))
        assert {(deep, i) for i in range(len(numbers)) for deep in range(1, level + 1)} <= set(bits.read)


def test_later_levels_are_read_only_for_open_elements(replay: type) -> None:
    """The neighbours b_j ± 1, unless they are breakpoints themselves, are decided by 32 bits alone."""
    a_law = Gaussian("1")
    floors = np.array(a_law.breakpoints(32), np.int64)
    beside = np.unique(np.concatenate([floors - 1, floors + 1]))
    clear = beside[(beside >= 0) & (beside < 1 << 32) & ~np.isin(beside, floors)]
    bits = replay(clear.astype(np.uint32))
    found = Sampler(a_law, threads=1).noise(bits, 0, 1, clear.size)
    assert bits.read == []
    assert np.array_equal(found.levels[0], np.searchsorted(floors, clear) - a_law.reach)


@pytest.mark.parametrize("a_law", [Gaussian("1"), Gaussian("0.5"), Gaussian("1", 1), COIN, SMALL], ids=name)
def test_the_smallest_and_the_largest_number(replay: type, a_law: Law) -> None:
    """U = 0 is the lowest level; U as near to 1 as the bits go is the highest."""
    numbers = [0, (1 << BITS) - 1]
    ends = [-a_law.reach, a_law.reach]
    assert [by_definition(a_law, number, BITS) for number in numbers] == ends
    assert [by_reference(a_law, number, BITS) for number in numbers] == ends
    found = Sampler(a_law, threads=1).noise(replay.of_numbers(numbers, BITS), 0, 1, 2)
    assert found.levels[0].tolist() == ends


# --- the end of level 255 -----------------------------------------------------------------------------------


def run_to_the_end(replay: type, a_law: Law, numbers: list[int], dimension: int) -> tuple[Noise, set[int]]:
    """The sampler on numbers of 16352 bits; also which levels it read."""
    bits = replay.of_numbers(numbers, LAST_BITS)
    found = Sampler(a_law, threads=1).noise(bits, 0, len(numbers) // dimension, dimension)
    return found, {level for level, _ in bits.read}


@pytest.mark.parametrize("a_law", [COIN, SMALL], ids=name)
def test_the_last_level(replay: type, a_law: Law) -> None:
    """All 16352 bits of b_j leave the element open; one less or one more in the very last bit decides it."""
    for j, floor in zip(range(-a_law.reach, a_law.reach), a_law.breakpoints(LAST_BITS), strict=True):
        numbers = [floor - 1, floor, floor + 1]
        expected = [j, None, j + 1]
        assert [by_definition(a_law, number, LAST_BITS) for number in numbers] == expected
        assert [by_reference(a_law, number, LAST_BITS) for number in numbers] == expected
        found, levels = run_to_the_end(replay, a_law, numbers, dimension=1)
        assert found.levels[:, 0].tolist() == [j, int(OPEN), j + 1]
        assert found.lost == (1,)
        assert levels == set(range(1, 256))


def test_the_last_level_of_images(replay: type) -> None:
    """The same at σ = 0.25 for the pair of breakpoints around 0."""
    a_law = Gaussian("0.25")
    for j in (-1, 0):
        floor = a_law.breakpoint(j, LAST_BITS)
        found, _ = run_to_the_end(replay, a_law, [floor - 1, floor, floor + 1], dimension=3)
        assert found.levels.tolist() == [[j, int(OPEN), j + 1]]
        assert found.lost == (0,)


def test_a_tail_that_bits_do_not_reach(replay: type) -> None:
    """With B_{−2} = Φ(−300) < 2^−16352 all-zero bits stay open for ever, while a single one decides."""
    a_law = Gaussian("1/200", 1, Grid(levels=2, q=1))
    assert a_law.breakpoints(LAST_BITS)[0] == 0
    numbers = [0, 1, 1 << 9000, 1 << 9300]
    expected = [None, -1, -1, 0]  # B_{−1} = Φ(−100) is about 2^−7221
    assert [by_definition(a_law, number, LAST_BITS) for number in numbers] == expected
    found, _ = run_to_the_end(replay, a_law, numbers, dimension=1)
    assert found.levels[:, 0].tolist() == [int(OPEN), -1, -1, 0]
    assert found.lost == (0,)


def test_the_reference_gives_up_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """`reference_noise` on a stream whose words are those of a breakpoint."""
    floor = COIN.breakpoint(0, LAST_BITS)

    def forced(key: bytes, purpose: int, stream: int, level: int, element: int) -> int:
        return (floor + element) >> (LAST_BITS - 32 - 64 * level) & (1 << (64 if level else 32)) - 1

    monkeypatch.setattr("soundsmooth.noise.reference.reference_word", forced)
    assert reference_noise(COIN, bytes(32), 0, 0, 0) is None
    assert reference_noise(COIN, bytes(32), 0, 0, 1) == 1


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block", [4, 1 << 18])
@pytest.mark.parametrize("first", [0, 1000])
def test_lost_rows_are_named(
    replay: type, monkeypatch: pytest.MonkeyPatch, threads: int, block: int, first: int
) -> None:
    """Copies 2, 5 and 6 of eight have open elements (copy 5 two of them): these rows and no others are lost."""
    monkeypatch.setattr("soundsmooth.noise.sampler.BLOCK", block)
    monkeypatch.setattr("soundsmooth.noise.sampler.FEW", 1)
    floor, dimension = COIN.breakpoint(1, LAST_BITS), 7
    open_elements = {(first + 2) * 7 + 0, (first + 5) * 7 + 6, (first + 5) * 7 + 1, (first + 6) * 7 + 3}
    words = np.full(8 * dimension, 1 << 31, np.uint32)
    words[[element - first * 7 for element in open_elements]] = floor >> (LAST_BITS - 32)

    def later(level: int, element: int) -> int:
        assert element in open_elements
        return floor >> (LAST_BITS - 32 - 64 * level) & (1 << 64) - 1

    sampler = Sampler(COIN, threads=threads)
    noise = sampler.noise(replay(words, later, first * 7), first, 8, dimension)
    assert noise.lost == (2, 5, 6)
    where = {int(element) + first * 7 for element in np.flatnonzero(noise.levels.reshape(-1) == OPEN)}
    assert where == open_elements
    noisy = sampler.noisy(replay(words, later, first * 7), np.ones(7, np.int16), first, 8)
    assert noisy.lost == (2, 5, 6)
    assert noisy.values.shape == (8, 7)
    assert np.isfinite(noisy.values).all()
    kept = [0, 1, 3, 4, 7]
    assert np.array_equal(noisy.values[kept], np.clip(noise.levels[kept] + 1, COIN.lowest, COIN.highest))


def test_words_are_read_once_and_in_order() -> None:
    """`decide` asks for word 0, 1, 2, … and stops as soon as it knows."""
    a_law, asked = Gaussian(Fraction(1, 4)), []
    floor = a_law.breakpoint(17, 160)

    def word(level: int) -> int:
        asked.append(level)
        return [floor >> 128, floor >> 64 & (1 << 64) - 1, (floor + 1) & (1 << 64) - 1][level]

    assert decide(a_law, word) == 18
    assert asked == [0, 1, 2]
