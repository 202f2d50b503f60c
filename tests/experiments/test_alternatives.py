"""The bounds of section 4.3, on small networks where the truth can be had: they hold, and are no looser than stated."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from scripts import script
from soundsmooth.lab.bench.networks import CIFAR10, Normalize, basic, bottleneck, convolution

alternatives = script("cifar10/alternatives.py")
SIZE = 8


def small(block=basic) -> nn.Sequential:
    """Three blocks, one of them with a stride and a projection, in the form of ResNet-110."""
    blocks = [block(4, 4, 1), block(4, 8, 2), block(8, 8, 1)]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    return nn.Sequential(Normalize(*CIFAR10), convolution(3, 4, 3), nn.ReLU(), *blocks, *head)


def lived_in(network: nn.Sequential) -> nn.Sequential:
    """With statistics and weights of batch normalisation that are not those of the beginning."""
    torch.manual_seed(1)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.weight, 1, 0.3)
            nn.init.normal_(part.bias, 0, 0.3)
            nn.init.normal_(part.running_mean, 0, 0.3)
            nn.init.uniform_(part.running_var, 0.5, 2)
    return network.eval()


@pytest.fixture(scope="module")
def network() -> nn.Sequential:
    torch.manual_seed(0)
    return lived_in(small())


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(6, 3, SIZE, SIZE, generator=generator, dtype=torch.float64)


def layers(stages: list) -> list:
    found = []
    for stage in stages:
        block = isinstance(stage, alternatives.Block)
        found += [*stage.body, *([stage.shortcut] if stage.shortcut else [])] if block else [stage]
    return found


def matrix(affine) -> torch.Tensor:
    """The layer as a matrix, column by column."""
    count = affine.weight.shape[1] * affine.size**2
    columns = torch.eye(count, dtype=torch.float64).reshape(count, -1, affine.size, affine.size)
    return affine.linear(columns).flatten(1).T


@pytest.mark.parametrize("block", [basic, bottleneck])
def test_the_folded_network_is_the_network(block, x: torch.Tensor) -> None:
    torch.manual_seed(3)
    network = lived_in(small(block)).double()
    with torch.no_grad():
        difference = network(x) - alternatives.logits(alternatives.folded(network, SIZE), x)
    assert difference.abs().max() < 1e-12


def test_an_unknown_layer_is_refused() -> None:
    with pytest.raises(ValueError, match="Sigmoid"):
        alternatives.folded(nn.Sequential(nn.Sigmoid()), SIZE)


@pytest.mark.slow("takes the norm of every layer")
def test_norms_of_every_layer(network: nn.Sequential) -> None:
    """Against dense matrices: ℓ∞ to the last digits, ℓ2 between its bounds, which are close."""
    found = layers(alternatives.folded(network, SIZE))
    assert len(found) == 10
    for affine in found:
        dense = matrix(affine)
        largest, spectral = dense.abs().sum(1).max(), torch.linalg.matrix_norm(dense, 2)
        assert math.isclose(alternatives.largest_sum(affine), largest, rel_tol=1e-12)
        below, above = alternatives.spectral_below(affine, 400), alternatives.spectral_above(affine)
        assert 0.99 * spectral < below < spectral * (1 + 1e-12)
        assert spectral < above < 2 * spectral  # some layers see no more than 4 × 4 pixels


@pytest.mark.parametrize("grid", [3, 4, 7])
def test_the_norm_between_grid_points_is_bounded(grid: int) -> None:
    """Against a grid of 96 × 96 points; without its factor the bound from few points would be too low."""
    generator = torch.Generator().manual_seed(grid)
    factor, shares = math.cos(math.pi / grid) ** 2, []
    for _ in range(10):
        kernel = torch.randn(2, 2, 3, 3, generator=generator, dtype=torch.float64)
        affine = alternatives.Affine(kernel, torch.zeros(2).double(), SIZE, padding=1)
        finely = alternatives.spectral_above(affine, 96) * math.cos(math.pi / 96) ** 2
        shares.append(finely / alternatives.spectral_above(affine, grid))
    assert max(shares) < 1
    assert max(shares) * (1 - 1e-6) > factor


def test_products_by_hand() -> None:
    """Norms 10 and 100 in a block, 1000 outside; a shortcut of norm 7."""
    layer = alternatives.Affine(torch.ones(1, 1, 1, 1).double(), torch.zeros(1).double(), 1)
    first, second, shortcut, outside = (replace(layer) for _ in range(4))
    body = (first, second)
    norms = {id(first): 10.0, id(second): 100.0, id(shortcut): 7.0, id(outside): 1000.0}
    stages = [outside, alternatives.Block(body, None), alternatives.Block(body, shortcut)]
    found = alternatives.products(stages, lambda affine: norms[id(affine)])
    assert found["plain"] == pytest.approx(9)
    assert found["residual"] == pytest.approx(3 + math.log10(1001) + math.log10(1007))
    norms[id(first)] = 0.0
    found = alternatives.products(stages, lambda affine: norms[id(affine)])
    assert found["plain"] is None
    assert found["residual"] == pytest.approx(3 + math.log10(7))


def test_the_residual_product_bounds_the_network(network: nn.Sequential, x: torch.Tensor) -> None:
    """‖f(x) − f(y)‖ ≤ L‖x − y‖ for points near and far. The plain product of this network bounds nothing: with the
    weights of its bodies made small it is below the slope."""
    stages = alternatives.folded(network, SIZE)
    for norm, order in ((alternatives.largest_sum, math.inf), (alternatives.spectral_above, 2)):
        bound = 10 ** alternatives.products(stages, norm)["residual"]
        for y in (x.flip(0), x + 1e-3, x + 1e-3 * x.sign()):
            moved = alternatives.logits(stages, x) - alternatives.logits(stages, y)
            distance = (x - y).flatten(1).norm(order, dim=1)
            assert (moved.norm(order, dim=1) <= bound * distance).all()
    weak = weakened(stages)
    products = alternatives.products(weak, alternatives.largest_sum)
    assert 10 ** products["plain"] < alternatives.slopes(weak, x).max() / 2 < 10 ** products["residual"]


def weakened(stages: list) -> list:
    """With hardly anything but shortcuts."""
    return [
        replace(stage, body=tuple(replace(each, weight=each.weight / 1000) for each in stage.body))
        if isinstance(stage, alternatives.Block)
        else stage
        for stage in stages
    ]


@pytest.mark.parametrize("weak", [False, True])
@pytest.mark.parametrize("radius", [1e-8, 1e-2, 1.0])
def test_intervals_hold_every_point(network: nn.Sequential, x: torch.Tensor, radius: float, weak: bool) -> None:
    """Corners of the box, those too that the gradient of a logit points at."""
    stages = alternatives.folded(network, SIZE)
    stages = weakened(stages) if weak else stages
    box = alternatives.Box(x, torch.full_like(x, radius))
    low, high = alternatives.propagated(stages, box).ends
    towards = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(alternatives.logits(stages, towards)[:, 0].sum(), towards)
    signs = [gradient.sign(), -gradient.sign(), x.sign(), torch.ones_like(x), torch.zeros_like(x)]
    for sign in signs:
        found = alternatives.logits(stages, x + radius * sign)
        assert (low <= found).all()
        assert (found <= high).all()


def test_intervals_of_one_layer_are_reached(network: nn.Sequential, x: torch.Tensor) -> None:
    """The ends are values at corners, so nothing is given away but the slack; and a point stays nearly a point."""
    head = alternatives.folded(network, SIZE)[-1]
    centre = torch.randn(1, 8, 4, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    low, high = alternatives.through(head, alternatives.Box(centre, torch.full_like(centre, 0.1))).ends
    for label in range(5):
        corner = centre + 0.1 * head.weight[label].sign()
        assert math.isclose(head(corner).flatten()[label], high.flatten()[label], rel_tol=1e-9)
    assert (low < head(centre)).all()
    stages = alternatives.folded(network, SIZE)
    point = alternatives.propagated(stages, alternatives.Box(x, torch.zeros_like(x)))
    assert 0 < point.radius.max() < 1e-7


def test_a_small_box_is_decided_and_a_large_one_is_not(network: nn.Sequential, x: torch.Tensor) -> None:
    stages = alternatives.folded(network, SIZE)
    votes = alternatives.logits(stages, x)
    for radius, expected in ((1e-12, len(x)), (1.0, 0)):
        box = alternatives.propagated(stages, alternatives.Box(x, torch.full_like(x, radius)))
        assert alternatives.decided(box, votes) == expected


def test_half_an_ulp_is_what_rounding_does() -> None:
    """Rounding to the precision moves no coordinate further, and some nearly as far."""
    x = torch.randn(10_000, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    for dtype in ("float32", "float16"):
        rounded = torch.from_numpy(x.numpy().astype(dtype).astype(np.float64))
        share = (rounded - x).abs() / alternatives.half_ulp(x, dtype)
        assert 0.99 < share.max() <= 1


def test_the_slope_is_that_of_the_margin(network: nn.Sequential, x: torch.Tensor) -> None:
    """By differences along the worst direction."""
    stages = alternatives.folded(network, SIZE)
    towards = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(alternatives.margins(alternatives.logits(stages, towards)).sum(), towards)
    moved = alternatives.margins(alternatives.logits(stages, x + 1e-9 * gradient.sign()))
    rise = (moved - alternatives.margins(alternatives.logits(stages, x))) / 1e-9
    assert torch.allclose(rise, alternatives.slopes(stages, x), rtol=1e-4)


def test_one_row_for_each_file(tmp_path: Path, network: nn.Sequential) -> None:
    """Half-precision weights, with and without σ in the name; a file that does not fit is refused."""
    state = {name: value.half() if value.is_floating_point() else value for name, value in network.state_dict().items()}
    paths = [tmp_path / "first_sigma0.50.safetensors", tmp_path / "second.safetensors"]
    for path in paths:
        save_file(state, path)
    out = tmp_path / "out.json"
    alternatives.main([str(out), *map(str, paths), "--sigma", "0.125"], small)
    first, second = json.loads(out.read_text())["networks"]
    assert [first["sigma"], second["sigma"]] == [0.5, 0.125]
    assert first["layers"] == 9
    norms = first["log10 of the product"]
    assert norms["l2 below"]["residual"] < norms["l2 above"]["residual"] < norms["linf"]["residual"]
    assert len(first["intervals"]) == 4
    save_file({name: value for name, value in state.items() if name != "0.mean"}, paths[0])
    with pytest.raises(ValueError, match="does not fit"):
        alternatives.main([str(out), str(paths[0])], small)
