"""Ties on the GPU: elements that 32 bits leave undecided, then 96, then all 16352; forced, and found in real streams.

The kernels make their own keystream, so that bits cannot be replayed. Instead the law's breakpoints are put where they
tie with known elements of a real stream. Who is right is said by `decide`, on the reference's words.
"""

import numpy as np
import pytest
import torch

from soundsmooth.core.machine import InputPlacement
from soundsmooth.noise import Gaussian, GpuSampler, Keystream, Law, Purpose, Sampler, reference_noise
from soundsmooth.noise.gpu import Request
from soundsmooth.noise.keystream import LAST_LEVEL
from soundsmooth.noise.log_guide import bucket
from soundsmooth.noise.reference import reference_word
from tied_laws import beginning, forced

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
KEY = bytes(range(32))
STREAM = 7
BITS = Keystream(KEY, Purpose.ESTIMATION, STREAM)
MOST = 1 << 51
LAYOUTS = [((48,), False), ((50,), False), ((3, 4, 4), True), ((3, 4, 5), True)]
FIRST, COPIES = 3, 4


def gpu(a_law: Law, channels_last: bool = False) -> GpuSampler:
    return GpuSampler(a_law, InputPlacement(DEVICE, channels_last=channels_last), threads=1)


def by_reference(a_law: Law, first: int, count: int, stream: int = STREAM) -> list[int | None]:
    return [reference_noise(a_law, KEY, Purpose.ESTIMATION, stream, first + i) for i in range(count)]


def values(a_law: Law, noise: list[int | None], x: np.ndarray, copies: int) -> np.ndarray:
    """The value of clamp(x + noise); what is lost is left at the lowest."""
    levels = np.array([-a_law.reach if t is None else t for t in noise]).reshape(copies, *x.shape)
    return a_law.grid.values(np.clip(levels + x, a_law.lowest, a_law.highest))


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch, quick_interpreter: None) -> None:
    """Room for the undecided runs of these tests, and no more: the interpreter is slow."""
    monkeypatch.setattr("soundsmooth.noise.gpu.FEW_UNDECIDED", 8)


# --- 32 bits do not decide, 96 do ------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "channels_last"), LAYOUTS, ids=str)
def test_ties_are_settled_by_the_next_64_bits(shape: tuple[int, ...], channels_last: bool) -> None:
    """The first and the last element, two in one run, and others; each tied with a breakpoint just below or above U."""
    x = (np.arange(np.prod(shape)) % 2).astype(np.int16).reshape(shape)
    begin, count = FIRST * x.size, COPIES * x.size
    tied = {0: -1, 1: 1, 20: 1 << 62, 21: -(1 << 62), count - 1: -1}
    a_law = forced(*(beginning(BITS, begin + at, 1, step) for at, step in tied.items()))
    expected = by_reference(a_law, begin, count)
    for at, step in tied.items():  # the test does what it says
        point = a_law.points.index(beginning(BITS, begin + at, 1, step)) - a_law.reach
        assert expected[at] == point + (step < 0)
    found = gpu(a_law, channels_last).noisy(BITS, x, FIRST, COPIES)
    assert not found.doubt.item()
    assert np.array_equal(found.values.cpu(), values(a_law, expected, x, COPIES))


@pytest.mark.parametrize("half", ["lower", "upper"])
@pytest.mark.parametrize("dimension", [48, 50])
def test_breakpoints_that_share_a_word(half: str, dimension: int) -> None:
    """As in the tails: five breakpoints with the 32 bits of an element, three of them below it.

    A guide with 8 bits holds such a word only at the end of its bucket; the stream is searched for one.
    """
    words = np.empty(1 << 21, np.uint32)
    BITS.first_words(0, words)
    u = words.astype(np.int64)
    inside = (u > 1 << 10) & (u < 1 << 31) if half == "lower" else (u >= 1 << 31) & (u < (1 << 32) - (1 << 10))
    element = int(np.flatnonzero(inside & (bucket(u + 1, 8) != bucket(u, 8)))[0])
    a_law = forced(*(beginning(BITS, element, 1, step) for step in (-5, -3, -1, 2, 7)))
    first = element // dimension
    found = gpu(a_law).noise(BITS, first, 1, dimension)
    assert not found.doubt.item()
    expected = by_reference(a_law, first * dimension, dimension)
    assert found.levels.cpu().reshape(-1).tolist() == expected
    below = sum(point < beginning(BITS, element, 1) for point in a_law.points)
    assert expected[element - first * dimension] == below - a_law.reach


@pytest.mark.parametrize("dimension", [64, 50])
@pytest.mark.parametrize("end", [1 << 35, 3 << 35, MOST - 64], ids=lambda n: f"{n:#x}")
def test_ties_at_large_addresses(end: int, dimension: int) -> None:
    """Level 1 begins a chunk at every multiple of 2³⁵ elements: ties of the elements on both sides."""
    first = end // dimension - 1
    a_law = forced(beginning(BITS, end - 1, 1, -1), beginning(BITS, end, 1, -1))
    found = gpu(a_law).noise(BITS, first, 2, dimension)
    assert not found.doubt.item()
    assert found.levels.cpu().reshape(-1).tolist() == by_reference(a_law, first * dimension, 2 * dimension)


def test_ties_of_others_are_none_of_ours() -> None:
    """Elements before and after the request share its first and last block: their ties are neither settled nor told."""
    dimension, begin = 50, FIRST * 50
    assert begin % 16
    assert (begin + dimension) % 16
    outside = [beginning(BITS, begin - 1, 2, -1), beginning(BITS, begin + dimension, 2, 1)]
    a_law = forced(*outside)
    found = gpu(a_law).noise(BITS, FIRST, 1, dimension)
    assert not found.doubt.item()
    assert found.levels.cpu().reshape(-1).tolist() == by_reference(a_law, begin, dimension)


# --- 96 bits do not decide -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "channels_last", "step"), [(*layout, 1 - 2 * (i % 2)) for i, layout in enumerate(LAYOUTS)], ids=str
)
def test_a_tie_of_96_bits_is_a_doubt_and_the_cpu_decides(
    shape: tuple[int, ...], channels_last: bool, step: int
) -> None:
    x = np.ones(shape, np.int16)
    begin, count = FIRST * x.size, COPIES * x.size
    a_law = forced(beginning(BITS, begin + 77, 2, step))
    sampler = gpu(a_law, channels_last)
    assert sampler.noisy(BITS, x, FIRST, COPIES).doubt.item() > 0
    expected = by_reference(a_law, begin, count)
    found = sampler.noisy(BITS, x, FIRST, COPIES, sure=True)
    assert (found.doubt, found.lost) == (None, ())
    assert np.array_equal(found.values.cpu(), values(a_law, expected, x, COPIES))
    assert not channels_last or found.values.is_contiguous(memory_format=torch.channels_last)
    noise = sampler.noise(BITS, FIRST, COPIES, x.size, sure=True)
    assert (noise.doubt, noise.lost) == (None, ())
    assert noise.levels.cpu().reshape(-1).tolist() == expected
    assert np.array_equal(sampler.add(noise, x).values.cpu(), values(a_law, expected, x, COPIES))


@pytest.mark.parametrize(("shape", "channels_last"), [((50,), False), ((3, 4, 4), True)], ids=str)
def test_lost_copies(shape: tuple[int, ...], channels_last: bool) -> None:
    """All 16352 bits of two elements are those of a breakpoint: their copies are lost, the others are as always."""
    x = np.ones(shape, np.int16)
    begin, count = FIRST * x.size, COPIES * x.size
    a_law = forced(*(beginning(BITS, begin + row * x.size + 9, LAST_LEVEL) for row in (1, 3)))
    expected = by_reference(a_law, begin, count)
    assert [i // x.size for i, noise in enumerate(expected) if noise is None] == [1, 3]
    sampler = gpu(a_law, channels_last)
    noise = sampler.noise(BITS, FIRST, COPIES, x.size, sure=True)
    assert (noise.doubt, noise.lost) == (None, (1, 3))
    assert noise.levels.cpu().abs().max() <= a_law.reach, "no level may lead out of the table of values"
    for found in (sampler.noisy(BITS, x, FIRST, COPIES, sure=True), sampler.add(noise, x)):
        assert (found.doubt, found.lost) == (None, (1, 3))
        assert np.array_equal(found.values.cpu(), values(a_law, expected, x, COPIES))


@pytest.mark.parametrize("dimension", [48, 50])
def test_more_ties_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch, dimension: int) -> None:
    """Three runs with a tie: with room for three they are settled, with room for two the CPU has to do it."""
    begin = FIRST * dimension
    a_law = forced(*(beginning(BITS, begin + at, 1, -1) for at in (2, 60, 90)))
    expected = by_reference(a_law, begin, 2 * dimension)
    sampler = gpu(a_law)
    monkeypatch.setattr("soundsmooth.noise.gpu.FEW_UNDECIDED", 3)
    enough = sampler.noise(BITS, FIRST, 2, dimension)
    assert not enough.doubt.item()
    monkeypatch.setattr("soundsmooth.noise.gpu.FEW_UNDECIDED", 2)
    assert sampler.noise(BITS, FIRST, 2, dimension).doubt.item() > 0
    found = sampler.noise(BITS, FIRST, 2, dimension, sure=True)
    assert found.doubt is None
    assert enough.levels.cpu().reshape(-1).tolist() == found.levels.cpu().reshape(-1).tolist() == expected


# --- in several requests at once -------------------------------------------------------------------------------


def three_requests(shape: tuple[int, ...]) -> list[Request]:
    """Of three streams, two copies each, the last ones from where two chunks of level 1 meet."""
    x = (np.arange(np.prod(shape)) % 2).astype(np.int16).reshape(shape)
    firsts = [FIRST, 0, (3 << 35) // x.size - 1]
    return [Request(Keystream(KEY, Purpose.ESTIMATION, STREAM + i), x, first, 2) for i, first in enumerate(firsts)]


@pytest.mark.parametrize(("shape", "channels_last"), LAYOUTS, ids=str)
def test_ties_of_each_request_are_settled(
    shape: tuple[int, ...], channels_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first and its last element, and one in the middle, by the words of its own stream."""
    monkeypatch.setattr("soundsmooth.noise.gpu.FEW_UNDECIDED", 9)
    requests = three_requests(shape)
    tied = [
        (each, at, step)
        for each in requests
        for at, step in ((0, -1), (each.total - 1, 1), (20 + each.bits.stream, 1 << 62))
    ]
    a_law = forced(*(beginning(each.bits, each.element + at, 1, step) for each, at, step in tied))
    found = gpu(a_law, channels_last).noisy_together(requests)
    assert found is not None
    assert not found.doubt.item()
    for place, each in enumerate(requests):
        expected = by_reference(a_law, each.element, each.total, each.bits.stream)
        some = found.values[2 * place : 2 * place + 2].cpu()
        assert np.array_equal(some, values(a_law, expected, each.x, 2))


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize(("shape", "channels_last"), LAYOUTS[1:3], ids=str)
def test_a_doubt_about_one_request_is_one_about_all(shape: tuple[int, ...], channels_last: bool, place: int) -> None:
    """A tie of 96 bits. One of an element just outside is none."""
    requests = three_requests(shape)
    one = requests[place]
    inside, outside = (forced(beginning(one.bits, one.element + at, 2, 1)) for at in (77, one.total))
    found = gpu(inside, channels_last).noisy_together(requests)
    assert found is not None
    assert found.doubt.item() > 0
    found = gpu(outside, channels_last).noisy_together(requests)
    assert found is not None
    assert not found.doubt.item()


# --- ties that happen ------------------------------------------------------------------------------------------


def test_ties_in_twenty_million_elements() -> None:
    """A search of a real stream for words that are breakpoints at σ = 1: about 17 are expected."""
    a_law, dimension, tied = Gaussian("1"), 48, []
    floors, words = np.unique(np.array(a_law.breakpoints(32), np.uint32)), np.empty(1 << 22, np.uint32)
    cells = np.zeros(1 << 16, bool)
    cells[floors >> 16] = True
    for begin in range(0, 5 << 22, 1 << 22):
        BITS.first_words(begin, words)
        maybe = np.flatnonzero(cells[words >> 16])
        tied += [begin + int(at) for at in maybe[np.isin(words[maybe], floors)]]
    assert len(tied) >= 6
    sampler = gpu(a_law)
    for element in tied[:6]:
        first = element // dimension
        found = sampler.noise(BITS, first, 1, dimension)
        assert not found.doubt.item()
        assert found.levels.cpu().reshape(-1).tolist() == by_reference(a_law, first * dimension, dimension)


@pytest.mark.parametrize("sigma", ["0.12", "1"])
@pytest.mark.parametrize(
    ("stream", "element", "word"),
    [(7, 3626555351, 0), (8, 252014994, 1), (9, 1205517344, (1 << 32) - 2), (10, 2234682745, (1 << 32) - 1)],
)
@pytest.mark.slow("Triton's interpreter")
def test_the_outermost_words(sigma: str, stream: int, element: int, word: int) -> None:
    """Found by searching streams to their 2³²nd element: words that up to 1594 breakpoints share."""
    a_law, bits = Gaussian(sigma), Keystream(KEY, Purpose.ESTIMATION, stream)
    assert reference_word(KEY, Purpose.ESTIMATION, stream, 0, element) == word
    assert a_law.breakpoints(32).count(word) >= 4
    found = gpu(a_law).noise(bits, element // 16, 1, 16)
    assert not found.doubt.item()
    assert found.levels.cpu().reshape(-1).tolist() == by_reference(a_law, element // 16 * 16, 16, stream)
    assert np.array_equal(found.levels.cpu(), Sampler(a_law, 1).noise(bits, element // 16, 1, 16).levels)
