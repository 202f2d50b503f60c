"""Section 4.3: a global Lipschitz bound of each network from its layers, and the rounding errors that it would cover.

    python experiments/cifar10/lipschitz.py docs/data/lipschitz.json docs/paper.md

Norms are those of linear maps on ℓ₂, found by power iteration (from below, so this is an estimate of the bound and no
proof); batch normalisation is folded into its convolution, and the norms of a block's two branches are added. Numbers
are kept as logarithms. Writes what lies between the marks in the page.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import networks
import torch
from torch import nn

from soundsmooth.bench.networks import Residual

BEGIN, END = "<!-- lipschitz begin -->", "<!-- lipschitz end -->"
ROUNDS = 30


def main(out: Path, page: Path) -> None:
    found = {sigma: exponent(networks.network(networks.weights_file(sigma))) for sigma in networks.SIGMAS}
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{after}", encoding="utf-8")


def table(found: dict[str, float]) -> str:
    lines = ["| network trained at | Lipschitz bound of the scores |", "|---|---|"]
    return "\n".join([*lines, *(f"| σ = {sigma} | 10^{value:.1f} |" for sigma, value in found.items())])


@torch.inference_mode()
def exponent(module: nn.Module, shape: tuple[int, ...] = (3, 32, 32)) -> float:
    """log₁₀ of the bound for a network of the bench's building blocks."""
    return _walk(module.eval(), torch.zeros(1, *shape))[0]


def _walk(module: nn.Module, x: torch.Tensor) -> tuple[float, torch.Tensor]:
    """log₁₀ of the part's bound, and its output, for its shape."""
    if isinstance(module, Residual):
        body, y = _walk(module.body, x)
        shortcut, _ = _walk(module.shortcut, x)
        most = max(body, shortcut)
        return most + math.log10(10 ** (body - most) + 10 ** (shortcut - most)), y
    if isinstance(module, nn.Sequential) and not _folds(module):
        total = 0.0
        for part in module:
            step, x = _walk(part, x)
            total += step
        return total, x
    if isinstance(module, nn.ReLU | nn.Flatten | nn.Identity):
        return 0.0, module(x)
    return math.log10(norm(module, x.shape)), module(x)


def _folds(module: nn.Sequential) -> bool:
    """A convolution with its normalisation: together one affine map."""
    return len(module) == 2 and isinstance(module[1], nn.BatchNorm2d)


def norm(affine: Callable[[torch.Tensor], torch.Tensor], shape: torch.Size) -> float:
    """The operator norm of an affine map's linear part."""
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        for _ in range(ROUNDS):
            x = (x / x.norm()).requires_grad_()
            image = affine(x) - affine(torch.zeros_like(x))
            (x,) = torch.autograd.grad(image, x, image.detach())  # Aᵀ A x
            x = x.detach()
        return math.sqrt(float(x.norm()))


if __name__ == "__main__":
    main(*(Path(name) for name in sys.argv[1:]))
