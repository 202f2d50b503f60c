"""The fast sampler is the specification, bit for bit, whatever the split, the threads, the block and the address."""

import itertools
import multiprocessing
import os
from collections.abc import Callable
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given, settings
from hypothesis import strategies as st

from soundsmooth.core.grid import Grid
from soundsmooth.noise import Gaussian, Keystream, Law, Purpose, Sampler, reference_noise
from soundsmooth.noise.decide import decide
from soundsmooth.noise.reference import reference_word

Floor = Callable[[Fraction, int, int, int], int]

KEY = bytes.fromhex("00112233445566778899aabbccddeeff" * 2)
QUARTER = Gaussian("0.25")
MOST = 1 << 51
FROZEN = [[43, -35, 141, 150, -13, 71, -78, 92], [63, -8, 32, 76, 16, -19, -17, -58]]
"""Key 00 01 … 1f, σ = 1/4, k = 6, estimation, stream 7, two copies of eight coordinates: by OpenSSL and MPFR."""
SHIFTED = Grid(levels=16, q=15, offset=Fraction(-1, 3))
BITS = Keystream(KEY, Purpose.ESTIMATION, 7)


def small_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr("soundsmooth.noise.sampler.BLOCK", block)
    monkeypatch.setattr("soundsmooth.noise.sampler.FEW", 1)


def draw(a_law: Law, first: int, copies: int, dimension: int, threads: int | None = 1) -> np.ndarray:
    noise = Sampler(a_law, threads).noise(BITS, first, copies, dimension)
    assert noise.lost == ()
    assert noise.levels.shape == (copies, dimension)
    assert noise.levels.dtype == np.int16
    return noise.levels


# --- an outsider's check ------------------------------------------------------------------------------------


def test_an_outsider_finds_the_same_noise(mpfr_floor: Floor) -> None:
    """Written from section 2 of the specification with other people's code alone: OpenSSL for the bits, MPFR for Φ.

    U is read to 32 bits; no element of this stream is open there, which is asserted.
    """
    sigma, reach, count, stream = Fraction(1, 4), 6 * 255 + 255, 20_000, 7
    counter_and_nonce = (0).to_bytes(4, "little") + bytes([0, 1, 0, 0]) + stream.to_bytes(8, "little")
    keystream = Cipher(algorithms.ChaCha20(KEY, counter_and_nonce), None).encryptor().update(bytes(4 * count))
    floors = np.array([mpfr_floor(sigma, 255, j, 32) for j in range(-reach, reach)])
    words = np.frombuffer(keystream, "<u4").astype(np.int64)
    assert not np.isin(words, floors).any()
    noise = np.searchsorted(floors, words) - reach
    assert np.array_equal(draw(QUARTER, 0, 4, 5_000).reshape(-1), noise)


def test_a_few_numbers_of_version_1() -> None:
    """The specification's version 1 is frozen: these numbers must never change."""
    key = bytes(range(32))
    found = Sampler(Gaussian("1/4", 6), 1).noise(Keystream(key, Purpose.ESTIMATION, 7), 0, 2, 8).levels.tolist()
    assert found == [
        [reference_noise(Gaussian("1/4", 6), key, 1, 7, 8 * row + column) for column in range(8)] for row in range(2)
    ]
    assert found == FROZEN


# --- splits, threads, blocks, addresses ---------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3, None])
@pytest.mark.parametrize("block", [5, 64, 1_000, 1 << 18])
def test_threads_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch, threads: int | None, block: int) -> None:
    """Blocks smaller than the dimension (rows in parts), of a few rows, and larger than all."""
    plain = draw(QUARTER, 3, 41, 60)
    small_blocks(monkeypatch, block)
    assert np.array_equal(draw(QUARTER, 3, 41, 60, threads), plain)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_copies_of_an_image(threads: int) -> None:
    """The real sizes: more elements than a block, copies and rows that the blocks cut unevenly."""
    whole = draw(Gaussian("1"), 11, 259, 3_072, threads)
    assert np.array_equal(whole[100:103], draw(Gaussian("1"), 111, 3, 3_072))
    assert np.array_equal(whole, draw(Gaussian("1"), 11, 259, 3_072))


def test_a_dimension_larger_than_a_block() -> None:
    """3 × 300 × 300 coordinates: each row is several blocks."""
    whole = draw(QUARTER, 2, 2, 270_000, threads=2)
    flat = draw(QUARTER, 2 * 270_000, 540_000, 1)
    assert np.array_equal(whole.reshape(-1), flat.reshape(-1))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_split_gives_the_same_copies(data: st.DataObject) -> None:
    """Any cut of the copies into batches, drawn in any order."""
    dimension, copies = data.draw(st.integers(1, 50)), data.draw(st.integers(1, 40))
    first = data.draw(st.integers(0, 10**9))
    whole = draw(QUARTER, first, copies, dimension)
    cuts = sorted({0, copies, *data.draw(st.lists(st.integers(0, copies), max_size=6))})
    batches = data.draw(st.permutations(list(itertools.pairwise(cuts))))
    for a, b in batches:
        assert np.array_equal(draw(QUARTER, first + a, b - a, dimension), whole[a:b])


@pytest.mark.parametrize("sigma", ["0.12", "0.25", "1", "1/3"])
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_addresses_agree_with_the_reference(sigma: str, data: st.DataObject) -> None:
    """Any key, purpose, stream, dimension and first copy up to the end of the address space."""
    a_law = Gaussian(sigma)
    key = data.draw(st.binary(min_size=32, max_size=32))
    purpose, stream = data.draw(st.sampled_from(Purpose)), data.draw(st.integers(0, 2**64 - 1))
    dimension = data.draw(st.integers(1, 20))
    first = data.draw(st.one_of(st.integers(0, 1000), st.integers(0, MOST // dimension - 3)))
    found = Sampler(a_law, 1).noise(Keystream(key, purpose, stream), first, 3, dimension).levels.reshape(-1)
    expected = [reference_noise(a_law, key, purpose, stream, first * dimension + i) for i in range(3 * dimension)]
    assert found.tolist() == expected


@pytest.mark.parametrize("dimension", [1, 7, 1_000])
@pytest.mark.parametrize("chunk", [1, 3, (1 << 15) - 1])
@pytest.mark.parametrize("block", [64, 1 << 18])
def test_copies_across_the_end_of_a_chunk(
    monkeypatch: pytest.MonkeyPatch, dimension: int, chunk: int, block: int
) -> None:
    """Level 0 changes its chunk at element 2³⁶: read in one block that crosses, or in blocks around it."""
    small_blocks(monkeypatch, block)
    end = chunk << 36
    first = end // dimension - 1
    found = draw(QUARTER, first, 3, dimension, threads=2).reshape(-1)
    crossing = end - first * dimension
    assert 0 < crossing < found.size
    for i in range(max(0, crossing - 20), min(found.size, crossing + 20)):
        assert found[i] == reference_noise(QUARTER, KEY, 1, 7, first * dimension + i)


class TiedStream:
    """First words that are all a breakpoint's, so that every element reads on in the real keystream."""

    def __init__(self, word: int) -> None:
        self.word = word

    def first_words(self, first: int, out: np.ndarray) -> None:
        out[:] = self.word

    def later_word(self, level: int, element: int) -> int:
        return BITS.later_word(level, element)


@pytest.mark.parametrize("end", [1 << 35, 3 << 35, 1 << 36, MOST - 10])
def test_tied_elements_across_the_end_of_a_later_chunk(end: int) -> None:
    """Levels above 0 change their chunk at element 2³⁵; the sampler addresses later words as the reference does."""
    word = QUARTER.breakpoint(3, 32)
    found = Sampler(QUARTER, 1).noise(TiedStream(word), end // 10 - 1, 2, 10).levels.reshape(-1)
    first = (end // 10 - 1) * 10
    for i in range(20):
        expected = decide(QUARTER, lambda level, e=first + i: reference_word(KEY, 1, 7, level, e) if level else word)
        assert found[i] == expected
    assert set(found.tolist()) == {3, 4}


def test_the_last_element_of_the_address_space() -> None:
    assert draw(QUARTER, MOST - 1, 1, 1)[0, 0] == reference_noise(QUARTER, KEY, 1, 7, MOST - 1)
    last = MOST // 3072 - 1
    assert draw(QUARTER, last, 1, 3072)[0, 3071] == reference_noise(QUARTER, KEY, 1, 7, last * 3072 + 3071)


class NeverRead:
    """Bits that fail the test when touched."""

    def first_words(self, first: int, out: np.ndarray) -> None:
        pytest.fail("drawn before the address space was checked")

    def later_word(self, level: int, element: int) -> int:
        pytest.fail("drawn before the address space was checked")


@pytest.mark.parametrize(
    ("first", "copies", "dimension"), [(MOST, 1, 1), (MOST - 1, 2, 1), (MOST // 3072, 1, 3072), (0, 3, 1 << 50)]
)
def test_beyond_the_address_space_is_refused_before_the_first_draw(first: int, copies: int, dimension: int) -> None:
    if copies * dimension < 10**6:
        with pytest.raises(ValueError, match="2⁵¹"):
            Sampler(QUARTER, 1).noisy(NeverRead(), np.zeros(dimension, np.int16), first, copies)
    with pytest.raises(ValueError, match="2⁵¹"):
        Sampler(QUARTER, 1).noise(NeverRead(), first, copies, dimension)


# --- noisy copies -------------------------------------------------------------------------------------------


def value_by_hand(a_law: Law, x: int, t: int) -> float:
    """float32 nearest to offset + clamp(x + t)/q, in exact arithmetic: MPFR with 24 bits rounds correctly."""
    level = min(max(x + t, a_law.lowest), a_law.highest)
    with gmpy2.context(precision=24):
        return float(gmpy2.mpfr(gmpy2.mpq(a_law.grid.offset + Fraction(level, a_law.grid.q))))


@pytest.mark.parametrize(
    "a_law", [QUARTER, Gaussian("1", 1), Gaussian("4", "1/255"), Gaussian("1/3", 2, SHIFTED)], ids=str
)
@pytest.mark.parametrize("block", [16, 1 << 18])
def test_noisy_is_the_value_of_the_clamped_sum(monkeypatch: pytest.MonkeyPatch, a_law: Law, block: int) -> None:
    """Against exact arithmetic on the raw noise; the last two laws clamp much of the time."""
    small_blocks(monkeypatch, block)
    x = (np.arange(60) * 37 % a_law.grid.levels).astype(np.int16).reshape(3, 4, 5)
    noise = draw(a_law, 9, 30, 60)
    noisy = Sampler(a_law, 2).noisy(BITS, x, 9, 30)
    assert noisy.values.shape == (30, 3, 4, 5)
    assert noisy.values.dtype == np.float32
    assert noisy.lost == ()
    flat = x.reshape(-1).tolist()
    by_hand = [[value_by_hand(a_law, a, t) for a, t in zip(flat, row, strict=True)] for row in noise.tolist()]
    assert np.array_equal(noisy.values.reshape(30, 60).view(np.uint32), np.array(by_hand, np.float32).view(np.uint32))


def test_the_layout_in_memory_does_not_matter() -> None:
    """Coordinates are counted in C order of the logical shape: a transposed view gets the same bits."""
    x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    strided = np.asfortranarray(x)
    assert not strided.flags.c_contiguous
    sampler = Sampler(QUARTER, 1)
    assert np.array_equal(sampler.noisy(BITS, x, 0, 5).values, sampler.noisy(BITS, strided, 0, 5).values)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_result_is_an_array_of_its_own(threads: int) -> None:
    """Nothing refers to what the model gets: it may overwrite it, and later draws overwrite nothing of it."""
    sampler, x = Sampler(QUARTER, threads), np.full((3, 50), 128, np.int16)
    one, noise = sampler.noisy(BITS, x, 0, 40), sampler.noise(BITS, 0, 40, 150)
    kept, kept_noise = one.values.copy(), noise.levels.copy()
    two = sampler.noisy(BITS, x, 40, 40)
    assert np.array_equal(one.values, kept)
    assert np.array_equal(noise.levels, kept_noise)
    arrays = [one.values, two.values, noise.levels, x]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    one.values[...] = np.nan
    assert not noise.levels.flags.writeable, "noise that is used again is read-only"
    assert np.array_equal(sampler.noisy(BITS, x, 0, 40).values, kept)
    assert np.array_equal(sampler.noise(BITS, 0, 40, 150).levels, kept_noise)
    assert (x == 128).all(), "the input is not written to"


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """It does not wait for those of its parent, which were not forked with it."""
    sampler, few = Sampler(QUARTER, 2), (BITS, 0, 128, 3072)
    expected = sampler.noise(*few).levels
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=lambda: os._exit(int((sampler.noise(*few).levels == expected).all())), daemon=True)
    child.start()
    child.join(120)
    code = child.exitcode
    child.kill()
    assert code == 1


def test_one_sampler_many_sizes() -> None:
    """Scratch memory that is kept between calls never leaks from one call into another."""
    sampler = Sampler(QUARTER, 1)
    for copies, dimension in [(3, 1000), (1, 1), (400, 3072), (2, 5), (1, 300_000), (7, 11)]:
        assert np.array_equal(sampler.noise(BITS, 5, copies, dimension).levels, draw(QUARTER, 5, copies, dimension))
