"""Code that was written against the class that the field copied runs, and calls of ours that look like it are named."""

import numpy as np
import pytest
import torch

import soundsmooth as ss
from classifiers import brightness
from soundsmooth.compat import ABSTAIN, Smooth

SETTINGS = {"n0": 20, "n": 400, "alpha": 0.001, "batch_size": 100}


def image(level: int) -> torch.Tensor:
    """As ToTensor makes it, and as a training script leaves it."""
    return torch.full((1, 4, 4), level / 255, requires_grad=True)


def test_a_script_unpacks_the_class_and_the_radius() -> None:
    smooth = Smooth(brightness, 2, 0.25)
    prediction, radius = smooth.certify(image(250), **SETTINGS)
    assert prediction == 1
    assert type(radius) is float
    assert radius > 0.3
    assert smooth.certificate.radius == radius
    assert smooth.certificate.promise.values["batch"] == "100"
    assert smooth.predict(image(250), 100, 0.001, 100) == 1


def test_it_abstains_as_they_do() -> None:
    """NaN is a vote for nobody, so no class can be established."""
    smooth = Smooth(lambda batch: np.full((len(batch), 2), np.nan), 2, 0.25)
    assert smooth.certify(image(128), **SETTINGS) == (ABSTAIN, 0.0)
    assert smooth.predict(image(128), 100, 0.001, 100) == ABSTAIN == Smooth.ABSTAIN


def test_positional_calls_are_theirs() -> None:
    assert Smooth(brightness, 2, 0.25).certify(image(250), 20, 400, 0.001, 100)[0] == 1


def test_another_number_of_classes_is_an_error() -> None:
    smooth = Smooth(brightness, 10, 0.25)
    for call in (smooth.certify, lambda *given: smooth.predict(given[0], *given[2:])):
        with pytest.raises(ValueError, match="the model has 2 classes, and num_classes is 10"):
            call(image(250), 20, 400, 0.001, 100)


def test_calls_of_our_own_interface_that_look_like_theirs_say_the_way_over() -> None:
    smooth = ss.Smoother(brightness, "0.25")
    with pytest.raises(TypeError, match=r"certify\(x, n0=100, n=100_000, alpha=0\.001\).*compat\.Smooth"):
        smooth.certify(image(250), 100, 1000, 0.001, 100)
    with pytest.raises(TypeError, match=r"predict\(x, n=1000, alpha=0\.001\).*compat\.Smooth"):
        smooth.predict(image(250), 100, 0.001, 100)
    with pytest.raises(TypeError, match=r"certify_all\(data, labels, n0=100, n=100_000\).*compat\.Smooth"):
        smooth.certify_all([image(250)], [1], 100, 1000, 0.001, 100)
    with pytest.raises(TypeError, match=r"finds the number of classes itself; soundsmooth\.compat\.Smooth"):
        ss.Smoother(brightness, 10, 0.25)
    with pytest.raises(TypeError, match=r"has \.label and \.radius; soundsmooth\.compat\.Smooth"):
        _, _ = smooth.certify(image(250), n=100)


def test_classes_and_noise_in_the_wrong_order_are_an_error() -> None:
    with pytest.raises(ValueError, match="num_classes must be an integer"):
        Smooth(brightness, 0.25, 10)


def test_all_batch_sizes_share_the_model_as_it_was() -> None:
    """Training goes on after it was handed over: the copy votes, whichever batch size is asked for first."""
    layer = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    with torch.no_grad():
        layer[1].bias += torch.tensor([0.0, 100.0])
    smooth = Smooth(layer, 2, 0.25)
    with torch.no_grad():
        layer[1].bias += torch.tensor([1000.0, 0.0])
    assert [smooth.certify(image(9), 10, 100, 0.001, size)[0] for size in (50, 25)] == [1, 1]
