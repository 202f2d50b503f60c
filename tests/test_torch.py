"""`soundsmooth.torch`: the layer that normalises, inside the model where it belongs."""

from pathlib import Path

import numpy as np
import pytest
import torch

import soundsmooth.torch
from architectures import exported_module
from soundsmooth.models import model_of
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.torch import Normalize

SHAPE = (3, 4, 4)


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_it_normalises_channels_in_any_precision(dtype: torch.dtype) -> None:
    mean, std = (0.5, 0.25, 0.125), (0.5, 2.0, 0.25)
    found = Normalize(mean, std)(torch.ones(2, *SHAPE, dtype=dtype))
    assert found.dtype == dtype
    assert found[0, :, 0, 0].tolist() == [1.0, 0.375, 3.5]
    assert found.shape == (2, *SHAPE)


@pytest.mark.parametrize("make", [Normalize.imagenet, Normalize.cifar10])
def test_the_usual_numbers(make) -> None:
    layer = make()
    assert torch.allclose(layer(layer.mean.expand(1, *SHAPE)), torch.zeros(1, *SHAPE))
    assert not layer.state_dict()


@pytest.mark.parametrize(
    ("mean", "std"), [([0.5], [0.0]), ([0.5], [-1.0]), ([float("nan")], [1.0]), ([0.5], [float("inf")])]
)
def test_numbers_that_cannot_be(mean: list[float], std: list[float]) -> None:
    with pytest.raises(ValueError, match="std positive"):
        Normalize(mean, std)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="expected sequence of length"):
        Normalize([0.5, 0.5], [1.0])


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_a_module_with_it_is_proved(dtype: str) -> None:
    model = model_of(torch.nn.Sequential(Normalize.cifar10(), network()), dtype=dtype)
    model.prepare(SHAPE, 4)
    assert model.identity().independence.proved


def test_its_numbers_are_in_the_digest() -> None:
    one, other = (torch.nn.Sequential(each, network()) for each in (Normalize.cifar10(), Normalize.imagenet()))
    assert model_of(one).identity().digest != model_of(other).identity().digest
    assert model_of(one).identity().open_ends == ()


def test_a_file_with_it_is_proved_and_votes_alike(tmp_path: Path) -> None:
    module = torch.nn.Sequential(Normalize.cifar10(), network()).eval()
    graph = model_of(exported_module(module, SHAPE, tmp_path / "m.onnx"), threads=1)
    graph.prepare(SHAPE, 4)
    assert graph.identity().independence.proved
    batch = np.random.default_rng(0).random((20, *SHAPE), np.float32)
    assert graph.vote(batch.copy()).labels.tolist() == model_of(module).vote(batch).labels.tolist()


def test_its_name_hides_torch_from_nobody() -> None:
    assert soundsmooth.torch.torch is torch
    assert TorchModel(network())._torch is torch


def test_another_number_of_channels_is_an_error_and_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"Normalize has 3 channels, and the images have shape \[1, 4, 4\]"):
        Normalize.cifar10()(torch.zeros(2, 1, 4, 4))
