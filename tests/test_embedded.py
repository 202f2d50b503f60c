"""What comes with the package: small, and good enough to show something."""

from fractions import Fraction

import numpy as np
import pytest

import soundsmooth as ss
from soundsmooth import embedded


def test_data_and_models_are_small() -> None:
    files = [path for path in embedded.FOLDER.iterdir() if path.suffix in (".onnx", ".npz", ".txt")]
    assert len(files) == 4
    assert sum(path.stat().st_size for path in files) < 2_000_000


def test_images_are_levels_with_labels() -> None:
    with np.load(embedded.IMAGES) as data:
        assert (data["x"].dtype, data["x"].shape) == (np.dtype("uint8"), (1000, 1, 28, 28))
        assert set(data["y"].tolist()) == set(range(10))


@pytest.mark.parametrize(("sigma", "expected"), [("0.2", "0.25"), ("0.25", "0.25"), ("0.4", "0.50"), ("1", "0.50")])
def test_the_model_nearest_to_sigma_is_taken(sigma: str, expected: str) -> None:
    assert expected in embedded.model_for(Fraction(sigma)).name


@pytest.mark.slow("certifies many images")
def test_certified_accuracy_of_the_first_images() -> None:
    """At σ = 0.25 and radius 0.25: at least 0.78 of the first 100 images, with only 500 copies each.

    The seed is fixed, but the promise names the number of threads, so that another machine has another key. It does not
    matter: two of the images are in doubt, 80 are not, and fewer than 78 have a probability below 1e-20. (The full
    measurement, all 1000 images with n = 10 000, is 0.871; experiments/embedded.)
    """
    with np.load(embedded.IMAGES) as data:
        images, labels = data["x"][:100], data["y"][:100]
    smooth = ss.Smoother(embedded.model_for(Fraction(1, 4)), "0.25")
    with smooth.certify_all(images, labels, n=500, seed="embedded") as run:
        assert run.accuracy(["1/4"]) >= [Fraction(78, 100)]
