"""Normalisation folded into convolutions: the same scores up to rounding, fewer operators, still proved."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from soundsmooth.independence.proof import export_module, prove_torch, with_folded_norms
from soundsmooth.independence.proof.torch_folded import CONVOLUTIONS, NORMALISATION


def trained(norm: nn.Module) -> nn.Module:
    """With statistics and weights that are not those of the beginning."""
    generator = torch.Generator().manual_seed(2)
    for name, each in [*norm.named_parameters(), *norm.named_buffers()]:
        if each.is_floating_point():
            each.data.copy_(torch.rand(each.shape, generator=generator) + (0.5 if "var" in name else 0.0))
    return norm


class Net(nn.Module):
    """Two convolutions with normalisation, one of them also read by others."""

    def __init__(self, bias: bool = False, affine: bool = True, groups: int = 1, shared: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=bias, groups=groups)
        self.one = trained(nn.BatchNorm2d(8, affine=affine))
        self.second = nn.Conv2d(8, 8, 3, padding=1, bias=not bias)
        self.two = trained(nn.BatchNorm2d(8, eps=1e-2))
        self.head, self.shared = nn.Linear(8, 5), shared

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.one(self.first(x)).relu()
        made = self.second(rows)
        found = self.two(made) + rows + (made if self.shared else 0)
        return self.head(found.mean((2, 3)))


EXAMPLE = torch.rand(6, 4, 5, 5, generator=torch.Generator().manual_seed(7))


def count(made: object, names: frozenset[str]) -> int:
    return sum(number for name, number in made.operators.items() if name in names)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
def test_the_scores_are_the_same_and_still_proved(bias: bool, affine: bool, groups: int) -> None:
    module = Net(bias, affine, groups).eval()
    exported = export_module(module, EXAMPLE)
    folded = with_folded_norms(exported, EXAMPLE)
    assert folded is not None
    assert count(exported, frozenset({NORMALISATION})) == 2
    assert count(folded, frozenset({NORMALISATION})) == 0
    assert count(folded, CONVOLUTIONS) == 2
    rows = 4 * torch.rand(9, 4, 5, 5) - 2
    with torch.inference_mode():
        torch.testing.assert_close(folded.graph(rows), module(rows), rtol=1e-5, atol=1e-5)
    assert prove_torch(folded, EXAMPLE).proved
    assert folded.scores.shape[1] == exported.scores.shape[1] == 5


def test_the_first_graph_stays_as_it_was() -> None:
    """It may vote instead, and its numbers are those of the module."""
    module = Net().eval()
    exported = export_module(module, EXAMPLE)
    before = [(name, each.clone()) for name, each in exported.graph.named_buffers()]
    with_folded_norms(exported, EXAMPLE)
    after = list(exported.graph.named_buffers())
    assert [name for name, _ in before] == [name for name, _ in after]
    assert all(torch.equal(one, other) for (_, one), (_, other) in zip(before, after, strict=True))
    assert count(exported, frozenset({NORMALISATION})) == 2


def test_what_others_read_is_not_folded() -> None:
    folded = with_folded_norms(export_module(Net(shared=True).eval(), EXAMPLE), EXAMPLE)
    assert folded is not None
    assert count(folded, frozenset({NORMALISATION})) == 1


def test_numbers_that_are_no_longer_read_are_gone() -> None:
    """So a change of the module's own weights is no change of what votes, and none is looked for."""
    folded = with_folded_norms(export_module(Net().eval(), EXAMPLE), EXAMPLE)
    names = {name for name, _ in folded.graph.named_buffers()}
    assert {name for name in names if "folded" in name} == {
        f"folded_{what}_{number}" for what in ("weight", "bias") for number in (0, 1)
    }
    assert not [name for name in names if "running" in name or "first" in name]


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Flatten(), nn.Linear(100, 3)),
        nn.Sequential(nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(100, 3)),
        nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(100, 3)),
    ],
)
def test_where_nothing_can_be_folded_there_is_no_other_graph(module: nn.Module) -> None:
    assert with_folded_norms(export_module(module.eval(), EXAMPLE), EXAMPLE) is None


def test_a_graph_whose_scores_come_out_otherwise_is_not_taken() -> None:
    """A variance so small that folding loses the digits that count."""
    module = Net().eval()
    module.two.running_var.fill_(0)
    module.two.eps = 0.0
    assert with_folded_norms(export_module(module, EXAMPLE), EXAMPLE) is None


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), half=st.booleans())
def test_random_statistics(seed: int, half: bool) -> None:
    """In double precision the two graphs differ by rounding alone."""
    module = Net(seed % 2 == 0).double().eval()
    generator = torch.Generator().manual_seed(seed)
    for norm in (module.one, module.two):
        norm.running_mean.copy_(torch.randn(8, generator=generator))
        norm.running_var.copy_(torch.rand(8, generator=generator) + (1e-3 if half else 1.0))
    example = EXAMPLE.double()
    folded = with_folded_norms(export_module(module, example), example)
    assert folded is not None
    with torch.inference_mode():
        torch.testing.assert_close(folded.graph(example), module(example), rtol=1e-9, atol=1e-9)
