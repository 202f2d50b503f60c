"""The snapshot of a model notices every change of its numbers and of its architecture, and nothing else."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch

from soundsmooth.models.snapshot import Snapshot
from soundsmooth.models.torch_module import TorchModel

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"


class Odd(torch.nn.Module):
    """With the numbers that comparisons trip over: zeros, NaNs of two payloads, integers, booleans, half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.act = torch.nn.LeakyReLU(0.1)
        self.head = torch.nn.Linear(16, 3)
        self.square = torch.nn.Parameter(torch.arange(4.0).reshape(2, 2))
        self.register_buffer("gap", torch.arange(6)[::2])
        self.register_buffer("zeros", torch.zeros(3))
        self.register_buffer("nans", torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32))
        self.register_buffer("whole", torch.arange(3))
        self.register_buffer("truth", torch.tensor([True, False]))
        self.register_buffer("short", torch.ones(2, dtype=torch.bfloat16), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.act(self.norm(self.conv(x))).flatten(1))


def negative_zero(net: Odd) -> None:
    net.zeros[1] = -0.0


def other_nan(net: Odd) -> None:
    net.nans.view(torch.int32)[1] = 0x7FC00002


def replaced(net: Odd) -> None:
    net.head.weight = torch.nn.Parameter(net.head.weight.detach() * 2)


def in_place(net: Odd) -> None:
    with torch.no_grad():
        net.conv.weight[0, 0, 0, 0] += 1e-6


def through_data(net: Odd) -> None:
    net.head.bias.data[2] = 7


def one_more(net: Odd) -> None:
    net.register_buffer("more", torch.zeros(1))


def flipped(net: Odd) -> None:
    net.truth[1] = True


def read_otherwise(net: Odd) -> None:
    net.zeros.data = net.zeros.data.view(torch.int32)


def reshaped(net: Odd) -> None:
    net.head.weight.data = net.head.weight.data.view(16, 3)


def transposed(net: Odd) -> None:
    net.square.data = net.square.data.t()


def kept_apart(net: Odd) -> None:
    net.gap[1] = 5


CHANGES = [
    in_place,
    through_data,
    replaced,
    negative_zero,
    other_nan,
    one_more,
    flipped,
    read_otherwise,
    reshaped,
    transposed,
    kept_apart,
    lambda net: net.norm.running_mean.add_(1),
    lambda net: net.whole.add_(1),
    lambda net: net.short.mul_(1.5),
    lambda net: setattr(net.act, "negative_slope", 0.2),
    lambda net: net.zeros.copy_(torch.full((3,), torch.nan)),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_noticed(change: Callable[[Odd], object]) -> None:
    """By the snapshot, and by the model; a change that is taken back is none."""
    module = Odd()
    snapshot = Snapshot(module)
    assert not snapshot.compare()()
    change(module)
    assert snapshot.compare()()
    model = TorchModel(Odd())
    assert not model.changes()()
    change(model._module)
    assert model.changes()()


def test_a_change_that_is_taken_back() -> None:
    """NaN equals itself, as bits; another tensor with the same numbers is the same model."""
    module = Odd()
    snapshot = Snapshot(module)
    negative_zero(module)
    module.zeros[1] = 0.0
    assert not snapshot.compare()()
    model = TorchModel(module)
    model._module.head.weight = copy.deepcopy(model._module.head.weight)
    assert model._weights.compare()()
    assert not model.changes()()


def test_voting_changes_nothing() -> None:
    model = TorchModel(Odd(), DEVICE)
    before = model.identity()
    for seed in range(50):
        model.vote(np.random.default_rng(seed).normal(size=(3, 1, 2, 2)).astype(np.float32))
        assert not model.changes()()
    assert model.identity() == before


def test_numbers_that_are_read_with_the_other_sign() -> None:
    """A view that lies where the numbers lay, of the same shape and type."""
    module = Odd()
    snapshot = Snapshot(module)
    module.head.weight.data = torch._neg_view(module.head.weight.data)
    assert snapshot.compare()()


def test_a_device_whose_numbers_are_copied_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a processor nor a CUDA device: what is there now is read each time."""
    module, cpu = torch.nn.Linear(3, 2), torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: cpu(tensor).clone())
    monkeypatch.setattr("soundsmooth.models.snapshot._on_cpu", lambda bits: False)
    snapshot = Snapshot(module)
    assert not snapshot.compare()()
    with torch.no_grad():
        module.weight[1, 1] += 1
    assert snapshot.compare()()
