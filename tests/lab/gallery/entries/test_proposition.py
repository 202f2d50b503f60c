"""Proposition 4.1: the standard certificates are false, ours are not, and the paper's thresholds are right."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm

from soundsmooth.exact import clopper_pearson_below, radius_below
from soundsmooth.lab.gallery import proposition_4_1
from soundsmooth.lab.gallery.certifiers import Certifier, CertifierTask, Ours, Standard
from soundsmooth.lab.gallery.contradicting_pairs import Pair
from soundsmooth.lab.gallery.entries import proposition
from soundsmooth.lab.gallery.images import load_images
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding, Trial

ALPHA = Fraction(1, 1000)


def radius(hits: int, n: int) -> float:
    return radius_below(clopper_pearson_below(hits, n, ALPHA), Fraction(1))


def test_thresholds() -> None:
    """Radius 3 needs n ≥ 5114, all right, or 99 900 of 100 000; 50 500 are enough for the class (50 490 are too)."""
    assert radius(5113, 5113) < 3 <= radius(5114, 5114)
    assert radius(99_899, 100_000) < 3 <= radius(99_900, 100_000)
    assert clopper_pearson_below(50_500, 100_000, ALPHA) > 0.5
    assert clopper_pearson_below(50_489, 100_000, ALPHA) < 0.5 < clopper_pearson_below(50_490, 100_000, ALPHA)


def test_copies_of_the_other_point_are_enough() -> None:
    """1112 of 2000 establish a class at α/1000; with p ≥ 0.66 fewer come in one of 10²⁰ trials."""
    assert clopper_pearson_below(1112, proposition_4_1.COPIES_OF_OTHER, ALPHA / 1000) > 0.5
    assert binom.cdf(1111, proposition_4_1.COPIES_OF_OTHER, 0.66) < 1e-20


@pytest.mark.parametrize("label", [0, 1])
def test_perturbation_stays_on_the_grid_and_below_one(label: int) -> None:
    """Also for images of CIFAR's size with any first pixel; the first pixel decides with p > 0.669."""
    for first in (0, 15, 16, 127, 239, 240, 255):
        image = np.random.default_rng(first).integers(0, 256, (3, 32, 32), np.int16)
        image[0, 0, :9] = first, *range(8)
        moved = proposition_4_1.perturbed(image, label)
        assert moved.min() >= 0
        assert moved.max() <= 255
        assert moved[0, 0, 1:9].tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
        assert 0 < Pair(lambda _: len, image, moved).squared < 1
        share_of_one = norm.cdf((moved[0, 0, 0] - 127) / 255)
        assert (share_of_one if label == 0 else 1 - share_of_one) > 0.669


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 8 embedded images of each class."""
    images, labels = load_images(None)
    chosen = np.concatenate([np.flatnonzero(labels < 5)[:8], np.flatnonzero(labels >= 5)[:8]])
    path = tmp_path_factory.mktemp("data") / "few.npz"
    np.savez(path, x=images[chosen], y=labels[chosen])
    return path


def only_trial(certifier: Certifier, data: Path) -> Trial:
    (found,) = proposition.run([certifier], Options(n=1000, data=data))
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_standard_is_false(dtype: str, data: Path) -> None:
    """Power: an image is not contradicted if 100 of 1000 copies are wrong at x, or fewer than 1112 of 2000 vote for
    the other class at x + p. With (measured) at most one wrong in 1000 and p ≥ 0.66 both have odds below 1e-20."""
    assert radius(901, 1000) > 1
    assert binom.sf(98, 1000, 1e-3) < 1e-20
    found = only_trial(Standard(dtype), data)
    assert found.finding is Finding.FALSE_POINT
    assert "16 of 8 + 8 images" in found.note
    assert "16 certified as their class" in found.note
    assert "16 contradicted, 0 abstain" in found.note
    assert found.radius is not None
    assert found.distance is not None
    assert found.radius > 2.3 > 1 > found.distance


def test_ours_is_not(data: Path) -> None:
    """False alarm: every first pixel is 0, so class 0 has 0.691 at every x and at x + p for class 1. A contradiction
    needs 800 votes of 1000 for it (odds below 1e-13) or 501 against it; two of those would be needed."""
    share = norm.cdf(127.5 / 255)
    assert radius(800, 1000) < 0.94
    assert 16 * (binom.sf(800, 1000, share) + binom.cdf(499, 1000, share)) < 1e-12
    found = only_trial(Ours(), data)
    assert found.finding is Finding.HOLDS
    assert "8 certified as their class, 0 with radius ≥ 3; 0 contradicted, 0 abstain" in found.note


def test_one_contradiction_may_be_bad_luck() -> None:
    """α allows one certificate of 16 to be false now and then: P(one or more) = 1.6 %. Two are too many."""
    assert clopper_pearson_below(1, 16, ALPHA) < ALPHA < clopper_pearson_below(2, 16, ALPHA)


def test_classifier_by_its_definition() -> None:
    """All four cases of M, on copies without noise: remembered as 1 or 0, bright and dark strangers."""
    known = np.random.default_rng(0).integers(1, 256, (4, 50))
    scores = proposition_4_1.classifier(known[:2], known[2:])(np.dtype("float64"))
    batch = np.concatenate([known / 255, np.full((2, 50), 1 / 3)])
    batch[4, 0], batch[5, 0] = 128 / 255, 127 / 255
    assert scores(batch).argmax(axis=1).tolist() == [0, 0, 1, 1, 1, 0]


def test_a_class_without_images_is_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "zeros.npz", x=np.ones((3, 4), np.uint8), y=np.zeros(3, int))
    with pytest.raises(ValueError, match="no images"):
        list(proposition.run([Standard("float32")], Options(n=100, data=tmp_path / "zeros.npz")))


def test_default_task_reaches_radius_three() -> None:
    assert radius(proposition.COPIES, CertifierTask(Fraction(1), proposition.COPIES).n) > 3
