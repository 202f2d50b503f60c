"""`pixel`: one pixel of an image decides, and standard smoothing contradicts itself."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm

from soundsmooth.lab.gallery.certifiers import Certifier, GuardBand, Ours, Standard
from soundsmooth.lab.gallery.entries import pixel
from soundsmooth.lab.gallery.images import load_images
from soundsmooth.lab.gallery.known_by_floats import reachable_from
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding, Trial

N = 20_000
DISTANCE = 210 / 255


@pytest.fixture(scope="module")
def crops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The middle 16 pixels of some embedded images: the other pixels would cost time and change nothing."""
    path = tmp_path_factory.mktemp("pixel") / "crops.npz"
    images, labels = load_images(None)
    np.savez(path, x=images[:3, :, 12:16, 12:16].astype(np.uint8), y=labels[:3])
    return path


def trials(certifier: Certifier, data: Path) -> list[Trial]:
    found = list(pixel.run([certifier], Options(N, data)))
    assert len(found) == pixel.IMAGES
    return found


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_standard_smoothing_is_false(dtype: str, crops: Path) -> None:
    """F is 1 at a without exception, and at a′ with probability 0.4566, 0.4564, 0.4633 (20 million draws each).

    Fails by chance: below 1e-10 for each image; see the next test. One vote lost at a would leave the radius at 1.6.
    """
    found = trials(Standard(dtype), crops)
    assert [trial.finding for trial in found] == [Finding.FALSE_POINT] * pixel.IMAGES
    assert all(trial.radius is not None and trial.radius > 1.6 for trial in found)
    assert all(trial.distance == pytest.approx(DISTANCE) for trial in found)


def test_the_number_of_copies_is_large_enough() -> None:
    """That class 0 is chosen at a′, and then established at α/2: both almost certain, even at 0.464."""
    ranks = np.arange(N // 2, N)
    least = ranks[binom.sf(ranks - 1, N, 0.5) < 0.001 / pixel.IMAGES][0]  # Clopper–Pearson is above 1/2 from here on
    assert binom.cdf(least - 1, N, 1 - 0.464) < 1e-10
    assert binom.cdf(5000, 10_000, 1 - 0.464) < 1e-10


def smoothed_on_the_grid(dtype: type[np.floating]) -> float:
    """P(F = 1) at level 210 for noise on the grid, by summing over all noisy levels."""
    levels = np.arange(-6 * 255, 7 * 255 + 1)
    edges = norm.cdf((levels[:-1] + 0.5 - 210) / 127.5)
    chance = np.diff(np.concatenate([[0], edges, [1]]))
    v, a = levels.astype(dtype) / dtype(255), dtype(210) / dtype(255)
    return float(chance[(v - a) + a == v].sum())


@pytest.mark.parametrize(
    ("certifier", "dtype", "p"),
    [(Ours(), np.float64, 0.8834), (GuardBand(), np.float32, 0.8378)],
    ids=["ours", "guard"],
)
def test_on_the_grid_the_ball_does_not_reach(
    certifier: Certifier, dtype: type[np.floating], p: float, crops: Path
) -> None:
    """The smoothed value at a is known; so many votes that the radius reached even 0.7 have probability below 1e-50."""
    assert smoothed_on_the_grid(dtype) == pytest.approx(p, abs=1e-4)
    assert binom.sf(int(N * norm.cdf(0.7 / 0.5)), N, p) < 1e-50
    for trial in trials(certifier, crops):
        assert trial.finding is Finding.HOLDS
        assert trial.radius is not None
        assert 0.3 < trial.radius < 0.7 < DISTANCE


def test_only_the_pixel_matters() -> None:
    """Whatever the other pixels are, the label is that of the pixel alone."""
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((1000, 1, 4, 4)) + DISTANCE
    scores = reachable_from(210, 5)(np.dtype("float64"))
    other = rng.standard_normal(batch.shape)
    other[:, 0, 1, 1] = batch[:, 0, 1, 1]
    np.testing.assert_array_equal(scores(batch), scores(other))


def test_the_default_takes_embedded_images() -> None:
    images, _ = load_images(None)
    for pair, image in zip(pixel.pairs(images[: pixel.IMAGES]), images, strict=False):
        assert pair.a.shape == (1, 28, 28)
        assert np.count_nonzero(pair.a != image) <= 1
        assert np.count_nonzero(pair.a != pair.other) == 1
        assert pair.distance == pytest.approx(DISTANCE)
