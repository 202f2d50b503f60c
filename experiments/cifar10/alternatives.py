"""Why the alternatives of the paper's section 4.3 fail: bounds on what rounding errors of the input do to a ResNet-110.

    python experiments/cifar10/alternatives.py OUT.json WEIGHTS.safetensors... [--data DATA.npz] [--sigma 0.25]

To trust a vote on x + ε in spite of rounding, one would have to show that the network keeps its class in a box around
it. Two general ways are tried on each network (weights of float16 or float32, `soundsmooth.lab.bench.networks`):

- The product of the operator norms of the layers, for the ℓ∞ norm, which the box calls for, and for the ℓ2 norm. The
  paper says 10³⁰ to 10¹³⁰. Batch normalisation is folded into its convolution. `plain` multiplies the layers along the
  trunk and ignores the shortcuts, so it bounds nothing; `residual` takes ‖shortcut‖ + ‖body‖ for a block, and is a
  bound of the network's Lipschitz constant. ℓ∞ norms are exact up to rounding; the ℓ2 norm of a layer lies between
  `below` (power iteration on the layer's real input size) and `above`, so no better computation would save the product.
- One pass of interval arithmetic for the box, with the width of the logits' intervals beside the margin of the vote.

The box is the rounding of the sum alone: the paper's 10⁻⁸ and 10⁻⁴, and half a unit in the last place of each
coordinate. For scale: the slope, ‖∇ margin‖₁ at the copies, is what the margin really does, to first order.

DATA.npz holds test images of CIFAR-10 as "x" (uint8, [N, 32, 32, 3]); without it the image is grey. σ is read from the
name of the weights (…sigma0.25…), and is that of --sigma where the name has none.
"""

import argparse
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from networks import filled
from torch import Tensor, nn
from torch.nn.functional import conv2d
from torch.nn.grad import conv2d_input

from soundsmooth.lab.bench.networks import Normalize, Residual, resnet110

SIZE = 32
COPIES = 8
ITERATIONS = 40
GRID = 32
PAPER = {"product of norms": [1e30, 1e130], "rounding, single": 1e-8, "rounding, half": 1e-4}


# The network, folded


@dataclass(frozen=True, eq=False)
class Affine:
    """A convolution in float64 with what follows it folded in; a linear layer after a mean is one, too."""

    weight: Tensor
    bias: Tensor
    size: int
    """The input is size × size."""
    stride: int = 1
    padding: int = 0
    relu: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        return conv2d(x, self.weight, self.bias, self.stride, self.padding)

    def linear(self, x: Tensor) -> Tensor:
        """Without the bias."""
        return conv2d(x, self.weight, None, self.stride, self.padding)

    def transposed(self, y: Tensor) -> Tensor:
        shape = (len(y), self.weight.shape[1], self.size, self.size)
        found: Tensor = conv2d_input(shape, self.weight, y, self.stride, self.padding)  # type: ignore[no-untyped-call]
        return found

    @property
    def size_after(self) -> int:
        return (self.size + 2 * self.padding - self.weight.shape[-1]) // self.stride + 1


@dataclass(frozen=True)
class Block:
    """relu(body(x) + shortcut(x)); without a shortcut it is the identity."""

    body: tuple[Affine, ...]
    shortcut: Affine | None


Stage = Affine | Block


def folded(network: nn.Sequential, size: int = SIZE) -> list[Stage]:
    """The network as it votes: running statistics folded into the weights, the last mean into the linear layer."""
    stages: list[Stage] = []
    for part in network:
        match part:
            case Normalize():
                stages.append(_normalize(part, size))
            case Residual():
                block = _block(part, size)
                stages.append(block)
                size = block.body[-1].size_after
            case nn.Sequential():
                first = _convolution(part, size, relu=True)
                stages.append(first)
                size = first.size_after
            case nn.Linear():
                mean = part.weight.detach().double()[:, :, None, None].expand(-1, -1, size, size) / size**2
                stages.append(Affine(mean, part.bias.detach().double(), size))
            case nn.ReLU() | nn.AdaptiveAvgPool2d(output_size=1) | nn.Flatten():
                pass
            case _:
                raise ValueError(f"what to do with {type(part).__name__} is not known")
    return stages


def _normalize(part: Normalize, size: int) -> Affine:
    scale = 1 / part.deviation.double().flatten()
    return Affine(torch.diag(scale)[:, :, None, None], -part.mean.double().flatten() * scale, size)


def _convolution(part: nn.Sequential, size: int, relu: bool) -> Affine:
    convolution, normalization = part
    assert isinstance(convolution, nn.Conv2d)
    assert isinstance(normalization, nn.BatchNorm2d)
    weight, bias, mean, variance = (
        each.detach().double()  # type: ignore[union-attr]
        for each in (normalization.weight, normalization.bias, normalization.running_mean, normalization.running_var)
    )
    scale = weight / torch.sqrt(variance + normalization.eps)
    kernel = convolution.weight.detach().double() * scale[:, None, None, None]
    return Affine(kernel, bias - mean * scale, size, convolution.stride[0], kernel.shape[-1] // 2, relu)


def _block(part: Residual, size: int) -> Block:
    assert isinstance(part.body, nn.Sequential)
    body: list[Affine] = []
    inside = size
    parts = [layer for layer in part.body if isinstance(layer, nn.Sequential)]
    for number, layer in enumerate(parts):
        body.append(_convolution(layer, inside, relu=number + 1 < len(parts)))
        inside = body[-1].size_after
    projected = isinstance(part.shortcut, nn.Sequential)
    return Block(tuple(body), _convolution(part.shortcut, size, relu=False) if projected else None)  # type: ignore[arg-type]


def logits(stages: Sequence[Stage], x: Tensor) -> Tensor:
    """The folded network at x, in float64."""

    def layer(affine: Affine, x: Tensor) -> Tensor:
        return affine(x).relu() if affine.relu else affine(x)

    for stage in stages:
        if isinstance(stage, Affine):
            x = layer(stage, x)
        else:
            inside = x
            for affine in stage.body:
                inside = layer(affine, inside)
            x = (inside + (x if stage.shortcut is None else stage.shortcut(x))).relu()
    return x.flatten(1)


# Operator norms


def largest_sum(affine: Affine) -> float:
    """The ℓ∞ operator norm, exact but for rounding: the largest Σ|w| that an output sees, the zero padding included."""
    ones = torch.ones(1, affine.weight.shape[1], affine.size, affine.size, dtype=torch.float64)
    return float(conv2d(ones, affine.weight.abs(), None, affine.stride, affine.padding).max())


def spectral_below(affine: Affine, iterations: int = ITERATIONS) -> float:
    """A lower bound of the ℓ2 operator norm, up to rounding: ‖Av‖/‖v‖ after power iteration on the real input size."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, affine.weight.shape[1], affine.size, affine.size)
    v = torch.randn(shape, generator=generator, dtype=torch.float64)
    for _ in range(iterations):
        image = affine.linear(v / v.norm())
        v = affine.transposed(image)
        if not image.any():
            break
    return float(image.norm())


def spectral_above(affine: Affine, grid: int = GRID) -> float:
    """An upper bound of the ℓ2 operator norm.

    Zero padding and strides only leave out rows and columns of the convolution on the infinite grid, whose norm is the
    largest that the matrix Σ_k w_k e^{ik·θ} has at any θ. For fixed vectors on both sides its real part is, but for a
    phase, a trigonometric polynomial of degree m = ⌊kernel/2⌋ in each coordinate of θ. Such a polynomial exceeds its
    largest absolute value at `grid` > 2m equally spaced points by a factor of at most 1/cos(πm/grid) (Ehlich and
    Zeller). A layer with one output position is just a matrix. The last factor is for the rounding of the computation.
    """
    if affine.size_after == 1 and affine.padding == 0:
        return float(torch.linalg.matrix_norm(affine.weight.flatten(1), 2)) * (1 + 1e-9)
    m = affine.weight.shape[-1] // 2
    spectrum = torch.fft.rfft2(affine.weight, (grid, grid)) if m else affine.weight.to(torch.complex128)
    norms = torch.linalg.matrix_norm(spectrum.permute(2, 3, 0, 1), 2)  # real weights: the other half is conjugate
    return float(norms.max()) / math.cos(math.pi * m / grid) ** 2 * (1 + 1e-9)


def products(stages: Sequence[Stage], norm: Callable[[Affine], float]) -> dict[str, float | None]:
    """log₁₀ of the product of norms: of the layers of the trunk, and with 1 or ‖shortcut‖ added in each block."""
    plain = residual = 0.0
    for stage in stages:
        body = sum(_log10(norm(affine)) for affine in (stage.body if isinstance(stage, Block) else [stage]))
        plain += body
        if isinstance(stage, Block):
            body = _log10(10**body + (1.0 if stage.shortcut is None else norm(stage.shortcut)))
        residual += body
    return {"plain": _finite(plain), "residual": _finite(residual)}


def _log10(x: float) -> float:
    return math.log10(x) if x else -math.inf


def _finite(x: float) -> float | None:
    """None for the logarithm of 0: a layer whose weights have all vanished."""
    return x if math.isfinite(x) else None


# One pass of interval arithmetic


@dataclass(frozen=True)
class Box:
    """All x with |x − centre| ≤ radius in every coordinate."""

    centre: Tensor
    radius: Tensor

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        return self.centre - self.radius, self.centre + self.radius

    def relu(self) -> "Box":
        low, high = (end.relu() for end in self.ends)
        return Box((low + high) / 2, (high - low) / 2)


def through(affine: Affine, box: Box) -> Box:
    """A box around the image of the box.

    It errs outwards: `slack` is over four times what rounding can do, in any order of summation, to a sum with so many
    terms, and covers what the ReLU and the sum before it have rounded as well. It is below 10⁻¹¹.
    """
    terms = affine.weight[0].numel() + 8
    slack = 4 * terms * 2.0**-53
    within = box.radius * (1 + slack) + slack * box.centre.abs()
    bias = slack * affine.bias.abs()
    radius = conv2d(within, affine.weight.abs(), bias, affine.stride, affine.padding) * (1 + slack)
    image = Box(affine(box.centre), radius)
    return image.relu() if affine.relu else image


def propagated(stages: Sequence[Stage], box: Box) -> Box:
    """A box around the logits of the folded network, in real arithmetic, at all points of the box."""
    for stage in stages:
        if isinstance(stage, Affine):
            box = through(stage, box)
        else:
            inside, across = box, box if stage.shortcut is None else through(stage.shortcut, box)
            for affine in stage.body:
                inside = through(affine, inside)
            box = Box(inside.centre + across.centre, inside.radius + across.radius).relu()
    return Box(box.centre.flatten(1), box.radius.flatten(1))


def half_ulp(x: Tensor, dtype: str) -> Tensor:
    """Half a unit in the last place of each coordinate, in this precision."""
    spacing: np.ndarray = np.spacing(np.abs(x.numpy()).astype(dtype)).astype(np.float64)
    return torch.from_numpy(spacing / 2)


def boxes(x: Tensor) -> dict[str, Box]:
    """Around the copies x: the paper's rounding errors, and those of a sum in single and in half precision."""
    radii = {"single, 1e-8": torch.full_like(x, 1e-8), "half, 1e-4": torch.full_like(x, 1e-4)}
    radii |= {f"{dtype}, half an ulp": half_ulp(x, dtype) for dtype in ("float32", "float16")}
    return {name: Box(x, radius) for name, radius in radii.items()}


def margins(votes: Tensor) -> Tensor:
    """The largest logit minus the next."""
    top = votes.topk(2, dim=1).values
    return top[:, 0] - top[:, 1]


def decided(box: Box, votes: Tensor) -> int:
    """Copies whose class the box proves: the low end of its logit is above the high ends of all others."""
    low, high = box.ends
    label = votes.argmax(1, keepdim=True)
    others = high.scatter(1, label, -math.inf).max(1).values
    return int((low.gather(1, label)[:, 0] > others).sum())


def intervals(stages: Sequence[Stage], x: Tensor) -> list[dict[str, Any]]:
    """One pass for each kind of box. A width is the mean of the logits' widths at a copy."""
    votes = logits(stages, x)
    found = []
    for name, box in boxes(x).items():
        out = propagated(stages, box)
        widths = 2 * out.radius.mean(1)
        row = {"box": name, "radius": spread(box.radius.flatten()), "width": spread(widths)}
        found.append(row | {"width / margin": spread(widths / margins(votes)), "decided": decided(out, votes)})
    return found


def spread(values: Tensor) -> list[float]:
    """Smallest, median, largest."""
    return [float(each) for each in (values.min(), values.median(), values.max())]


def slopes(stages: Sequence[Stage], x: Tensor) -> Tensor:
    """‖∇ margin‖₁ at each copy."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(margins(logits(stages, x)).sum(), x)
    return gradient.abs().flatten(1).sum(1)


# The rows


def noisy_copies(data: Path | None, sigma: float, copies: int = COPIES) -> Tensor:
    """One copy x + ε of each of the first images, in float64, from a fixed seed."""
    images = np.full((copies, SIZE, SIZE, 3), 128, np.uint8) if data is None else np.load(data)["x"][:copies]
    x = torch.from_numpy(images.transpose(0, 3, 1, 2) / 255)
    return x + sigma * torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def sigma_of(path: Path, otherwise: float) -> float:
    found = re.search(r"sigma[_-]?(\d+(?:\.\d+)?)", path.name)
    return float(found[1]) if found else otherwise


def row(path: Path, network: nn.Sequential, sigma: float, data: Path | None) -> dict[str, Any]:
    """All numbers of one network; norms as log₁₀ of their products."""
    stages = folded(filled(network, path))
    x = noisy_copies(data, sigma)
    layers = sum(len(stage.body) if isinstance(stage, Block) else 1 for stage in stages)
    found: dict[str, Any] = {"weights": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    found |= {"sigma": sigma, "layers": layers, "images": data is not None, "copies": len(x)}
    norms = {"linf": largest_sum, "l2 below": spectral_below, "l2 above": spectral_above}
    found["log10 of the product"] = {name: products(stages, norm) for name, norm in norms.items()}
    found["margin"] = spread(margins(logits(stages, x)))
    found["slope"] = spread(slopes(stages, x))
    return found | {"intervals": intervals(stages, x)}


def main(arguments: Sequence[str] | None = None, make: Callable[[], nn.Sequential] = resnet110) -> None:
    parser = argparse.ArgumentParser(description="Bounds of section 4.3 for networks of lab/bench/networks.py.")
    parser.add_argument("out", type=Path)
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sigma", type=float, default=0.25)
    asked = parser.parse_args(arguments)
    rows = [row(path, make(), sigma_of(path, asked.sigma), asked.data) for path in asked.weights]
    text = json.dumps({"paper": PAPER, "networks": rows}, indent=1, allow_nan=False)
    asked.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
