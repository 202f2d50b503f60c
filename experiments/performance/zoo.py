"""Networks whose speed is compared: by name, with random weights, which cost the same time as trained ones.

torchvision and transformers are imported only for networks that need them.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from soundsmooth.lab.bench.networks import basic, convolution, resnet50, resnet110


class Entry(NamedTuple):
    """How a network is made, and the shape of its images."""

    make: Callable[[], nn.Module]
    shape: tuple[int, int, int]


class Attention(nn.Module):
    """Self-attention with one matrix for queries, keys and values, as timm writes it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.three, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = rows.shape
        three = self.three(rows).reshape(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(three[0], three[1], three[2])
        return self.out(found.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    """Attention and two linear layers, each after a normalisation and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = Attention(width, heads)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        rows = rows + self.attend(self.first(rows))
        return rows + self.layers(self.second(rows))


class VisionTransformer(nn.Module):
    """A vision transformer in the style of timm."""

    def __init__(self, width: int = 384, depth: int = 12, heads: int = 6, patch: int = 16, size: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.head_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, 1 + (size // patch) ** 2, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.head_token.expand(x.shape[0], -1, -1), rows], dim=1) + self.places
        return self.head(self.norm(self.blocks(rows))[:, 0])


class UNet(nn.Module):
    """A U-Net in the style of diffusion models, with attention at the lowest resolution; a linear layer scores."""

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [self._stage(3, width), self._stage(width, 2 * width), self._stage(2 * width, 4 * width)]
        )
        self.attend = Block(4 * width, 4)
        self.up = nn.ModuleList([self._stage(6 * width, 2 * width), self._stage(3 * width, width)])
        self.head = nn.Linear(width, classes)

    @staticmethod
    def _stage(inside: int, outside: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(8, outside), nn.SiLU(),
            nn.Conv2d(outside, outside, 3, padding=1), nn.GroupNorm(8, outside), nn.SiLU(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down[0](x)
        second = self.down[1](nn.functional.avg_pool2d(first, 2))
        third = self.down[2](nn.functional.avg_pool2d(second, 2))
        rows = self.attend(third.flatten(2).transpose(1, 2))
        third = rows.transpose(1, 2).reshape(third.shape)
        found = self.up[0](torch.cat([nn.functional.interpolate(third, scale_factor=2.0), second], dim=1))
        found = self.up[1](torch.cat([nn.functional.interpolate(found, scale_factor=2.0), first], dim=1))
        return self.head(found.mean((2, 3)))


def resnet18_small() -> nn.Module:
    """ResNet-18 for images of 32 × 32 pixels: no pooling before the first block."""
    stages = [basic(64, 64, 1), basic(64, 64, 1)]
    for width in (128, 256, 512):
        stages += [basic(width // 2, width, 2), basic(width, width, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(convolution(3, 64, 3), nn.ReLU(), *stages, *head)


def of_torchvision(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision import models

        return models.get_model(name, weights=None)

    return make


def vit_of_transformers() -> nn.Module:
    """Twelve layers, 384 wide: its `logits` vote."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536, num_labels=1000
    )
    return ViTForImageClassification(config)


LARGE, SMALL = (3, 224, 224), (3, 32, 32)
TORCHVISION = (
    "resnet50", "convnext_tiny", "swin_t", "efficientnet_v2_s", "densenet121", "maxvit_t", "regnet_y_8gf", "vit_b_16",
)  # fmt: skip
NETWORKS = {
    "resnet110": Entry(lambda: resnet110(10), SMALL),
    "resnet50": Entry(lambda: resnet50(1000), LARGE),
    "resnet18": Entry(resnet18_small, SMALL),
    "timm-style vit": Entry(VisionTransformer, LARGE),
    "u-net": Entry(UNet, SMALL),
    "transformers vit": Entry(vit_of_transformers, LARGE),
    **{f"torchvision {name}": Entry(of_torchvision(name), LARGE) for name in TORCHVISION},
}


def network(name: str) -> nn.Module:
    """The network, in evaluation mode; the same weights each time."""
    torch.manual_seed(0)
    return NETWORKS[name].make().eval()
