"""Fresh and shared noise are the noise of the specification, each in its own stream, and shared noise stays intact."""

import numpy as np
import pytest

from soundsmooth.core.grid import Grid
from soundsmooth.noise import SHARED_STREAM, Gaussian, Keystream, Noise, Purpose, Sampler
from soundsmooth.noise.sources import FreshNoise, SharedNoise
from soundsmooth.noise.tables import OPEN

KEY = bytes(range(100, 132))
QUARTER = Gaussian("0.25")
X = (np.arange(60) * 4).astype(np.int16).reshape(3, 4, 5)
BATCHES = [
    (Purpose.SELECTION, 0, 7),
    (Purpose.ESTIMATION, 0, 7),
    (Purpose.ESTIMATION, 7, 20),
    (Purpose.PREDICTION, 3, 1),
]


def plain(stream: int, purpose: Purpose, x: np.ndarray, first: int, copies: int) -> np.ndarray:
    return Sampler(QUARTER, 1).noisy(Keystream(KEY, purpose, stream), x, first, copies).values


@pytest.mark.parametrize(("purpose", "first", "copies"), BATCHES)
@pytest.mark.parametrize("threads", [1, 2])
def test_sources_draw_from_their_stream(purpose: Purpose, first: int, copies: int, threads: int) -> None:
    """Fresh: the input's own number; shared: 2⁶⁴ − 1, for all inputs, again and again."""
    fresh = FreshNoise(Sampler(QUARTER, threads), KEY, 12)
    assert np.array_equal(fresh.noisy(purpose, X, first, copies).values, plain(12, purpose, X, first, copies))
    shared = SharedNoise(Sampler(QUARTER, threads), KEY)
    for x in (X, 255 - X, X):
        expected = plain(SHARED_STREAM, purpose, x, first, copies)
        assert np.array_equal(shared.noisy(purpose, x, first, copies).values, expected)


@pytest.mark.parametrize("keep", [None, 1, 2])
@pytest.mark.parametrize("block", [16, 1 << 18])
def test_what_is_kept_makes_no_difference(monkeypatch: pytest.MonkeyPatch, keep: int | None, block: int) -> None:
    """Batches in any order, dropped and drawn again; the model may overwrite what it was given."""
    monkeypatch.setattr("soundsmooth.noise.sampler.BLOCK", block)
    monkeypatch.setattr("soundsmooth.noise.sampler.FEW", 1)
    shared = SharedNoise(Sampler(QUARTER, 2), KEY, keep)
    for purpose, first, copies in [*BATCHES, *reversed(BATCHES), *BATCHES]:
        found = shared.noisy(purpose, X, first, copies).values
        assert np.array_equal(found, plain(SHARED_STREAM, purpose, X, first, copies))
        found[...] = np.nan
    assert keep is None or len(shared._kept) <= keep


def test_shared_noise_cannot_be_written_to() -> None:
    shared = SharedNoise(Sampler(QUARTER, 1), KEY)
    shared.noisy(Purpose.ESTIMATION, X, 0, 5)
    (noise,) = shared._kept.values()
    assert not noise.levels.flags.writeable


def test_shared_noise_of_two_shapes() -> None:
    """Another number of coordinates has other addresses: what was kept for one is not used for the other."""
    shared = SharedNoise(Sampler(QUARTER, 1), KEY)
    for x in (X, X[:2], X):
        found = shared.noisy(Purpose.ESTIMATION, x, 2, 6).values
        assert np.array_equal(found, plain(SHARED_STREAM, Purpose.ESTIMATION, x, 2, 6))


def test_adding_leaves_the_noise_alone_and_keeps_lost_rows() -> None:
    """A lost copy of shared noise is lost for every input; its values are finite and its level is clamped."""
    coin = Gaussian("1/2", 1, Grid(levels=2, q=1))
    levels = np.array([[0, 1], [int(OPEN), 2], [-2, 0]], np.int16)
    levels.setflags(write=False)
    before = levels.copy()
    noisy = Sampler(coin, 1).add(Noise(levels, (1,)), np.array([1, 0], np.int16))
    assert noisy.lost == (1,)
    assert np.array_equal(levels, before)
    assert noisy.values.tolist() == [[1, 1], [-1, 2], [-1, 0]]


def test_noise_of_another_dimension_is_refused() -> None:
    """Kept noise of 4 coordinates is not the noise of an input with 3: its addresses are others."""
    noise = Sampler(QUARTER, 1).noise(Keystream(KEY, Purpose.ESTIMATION, 0), 0, 5, 4)
    with pytest.raises(ValueError):  # noqa: PT011
        Sampler(QUARTER, 1).add(noise, np.zeros(3, np.int16))
