"""The two networks of the field's tables: ResNet-110 for 3×32×32 and ResNet-50 for 3×224×224 (He et al., 2016).

Stored promises hash the source of `Normalize` and `Residual`: not a letter of these classes may change.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

CIFAR10 = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class Normalize(nn.Module):
    """(x − mean) / deviation, channel by channel: the first layer, so that noise is added to plain images."""

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, mean: Sequence[float], deviation: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(-1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) / self.deviation


def convolution(inside: int, outside: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution and its batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(outside)
    )


class Residual(nn.Module):
    """relu(f(x) + shortcut(x))."""

    def __init__(self, body: nn.Module, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = inside == outside and stride == 1
        self.shortcut = nn.Identity() if same else convolution(inside, outside, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def basic(inside: int, outside: int, stride: int) -> Residual:
    """Two 3×3 convolutions."""
    body = nn.Sequential(convolution(inside, outside, 3, stride), nn.ReLU(), convolution(outside, outside, 3))
    return Residual(body, inside, outside, stride)


def bottleneck(inside: int, outside: int, stride: int) -> Residual:
    """1×1, 3×3 and 1×1, narrow in the middle."""
    narrow = outside // 4
    body = nn.Sequential(
        convolution(inside, narrow, 1),
        nn.ReLU(),
        convolution(narrow, narrow, 3, stride),
        nn.ReLU(),
        convolution(narrow, outside, 1),
    )
    return Residual(body, inside, outside, stride)


def resnet110(classes: int = 10) -> nn.Sequential:
    """54 basic blocks in three stages of 16, 32 and 64 channels."""
    widths = [16, *[16] * 18, *[32] * 18, *[64] * 18]
    blocks = [basic(a, b, 1 if a == b else 2) for a, b in pairwise(widths)]
    return nn.Sequential(
        Normalize(*CIFAR10),
        convolution(3, 16, 3),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


def resnet50(classes: int = 1000) -> nn.Sequential:
    """16 bottlenecks in four stages of 256, 512, 1024 and 2048 channels."""
    widths = [64, *[256] * 3, *[512] * 4, *[1024] * 6, *[2048] * 3]
    blocks = [bottleneck(a, b, 1 if a == b or b == 256 else 2) for a, b in pairwise(widths)]
    return nn.Sequential(
        Normalize(*IMAGENET),
        convolution(3, 64, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2048, classes),
    )
