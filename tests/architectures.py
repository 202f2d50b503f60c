"""The architectures that certification papers use, written out small: torchvision is no dependency.

Operators are those of the real networks, and in DEEP the depth too; widths are arguments: they change no graph.
"""

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional


def parallel(module: nn.Module, kind: type[nn.DataParallel] = nn.DataParallel) -> nn.DataParallel:
    """As on a machine without a GPU. Given one GPU, it would move the module there; and it takes no empty list."""
    wrapped = kind(module, device_ids=[0, 0])
    wrapped.device_ids = []
    return wrapped


class Normalize(nn.Module):
    """The layer that the smoothing literature puts first: means and deviations repeated over the batch."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.means = nn.Buffer(torch.linspace(0.4, 0.5, channels))
        self.deviations = nn.Buffer(torch.linspace(0.2, 0.3, channels))

    def forward(self, x: Tensor) -> Tensor:
        rows, _, height, width = x.shape
        means = self.means.repeat((rows, height, width, 1)).permute(0, 3, 1, 2)
        deviations = self.deviations.repeat((rows, height, width, 1)).permute(0, 3, 1, 2)
        return (x - means) / deviations


class Padded(nn.Module):
    """The parameter-free shortcut of the CIFAR ResNets: every second pixel, new channels of zeros."""

    def __init__(self, extra: int) -> None:
        super().__init__()
        self.extra = extra

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.extra // 2, self.extra // 2))


class Residual(nn.Module):
    """body(x) + shortcut(x), with the in-place operations of the usual code."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut, self.relu = body, shortcut, nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.body(x)
        out += self.shortcut(x)
        out = self.relu(out)
        return out


def convolution(inner: int, outer: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inner, outer, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outer)]


def basic(inner: int, outer: int, stride: int, padded: bool) -> Residual:
    body = nn.Sequential(*convolution(inner, outer, 3, stride), nn.ReLU(inplace=True), *convolution(outer, outer, 3))
    if stride == 1 and inner == outer:
        return Residual(body, nn.Identity())
    return Residual(body, Padded(outer - inner) if padded else nn.Sequential(*convolution(inner, outer, 1, stride)))


def cifar_resnet(depth: int = 110, width: int = 16, padded: bool = False) -> nn.Module:
    """Three stages of (depth − 2) / 6 basic blocks each, on 3 × 32 × 32."""
    layers: list[nn.Module] = [Normalize(), *convolution(3, width, 3), nn.ReLU(inplace=True)]
    inner = width
    for stage in range(3):
        for block in range((depth - 2) // 6):
            outer = width * 2**stage
            layers.append(basic(inner, outer, 2 if stage and not block else 1, padded))
            inner = outer
    return nn.Sequential(*layers, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(inner, 10))


def bottleneck(inner: int, middle: int, stride: int) -> Residual:
    relu = nn.ReLU(inplace=True)
    body = nn.Sequential(
        *convolution(inner, middle, 1), relu, *convolution(middle, middle, 3, stride), relu,
        *convolution(middle, 4 * middle, 1),
    )  # fmt: skip
    same = stride == 1 and inner == 4 * middle
    return Residual(body, nn.Identity() if same else nn.Sequential(*convolution(inner, 4 * middle, 1, stride)))


def resnet50(width: int = 64, classes: int = 1000, depths: tuple[int, ...] = (3, 4, 6, 3)) -> nn.Module:
    """Stages of 3, 4, 6 and 3 bottlenecks, on 3 × 224 × 224."""
    layers: list[nn.Module] = [*convolution(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inner = width
    for stage, blocks in enumerate(depths):
        for block in range(blocks):
            middle = width * 2**stage
            layers.append(bottleneck(inner, middle, 2 if stage and not block else 1))
            inner = 4 * middle
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(1), nn.Linear(inner, classes))


class Attention(nn.Module):
    """Queries, keys and values from one linear layer, as in timm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(rows, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(rows, tokens, width))


class MultiHead(nn.Module):
    """torch's own layer, as in torchvision."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class Encoder(nn.Module):
    def __init__(self, width: int, heads: int, attention: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.before, self.attention = nn.LayerNorm(width, eps=1e-6), attention(width, heads)
        self.drop, self.after = nn.Dropout(0.1), nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.attention(self.before(x)))
        return x + self.mlp(self.after(x))


class ViT(nn.Module):
    """A vision transformer with a class token and learned positions."""

    def __init__(
        self,
        side: int = 224,
        patch: int = 16,
        width: int = 192,
        depth: int = 12,
        heads: int = 3,
        classes: int = 1000,
        attention: Callable[[int, int], nn.Module] = Attention,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(Encoder(width, heads, attention) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(rows, -1, -1), tokens], dim=1) + self.positions
        return self.head(self.norm(self.blocks(tokens))[:, 0])


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of an image."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """A ConvNeXt block: depthwise convolution, then an MLP over channels in channels-last order, scaled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width, 1, 1), 1e-1))

    def forward(self, x: Tensor) -> Tensor:
        out = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return x + self.scale * out


def convnext(
    widths: tuple[int, ...] = (96, 192, 384, 768), depths: tuple[int, ...] = (3, 3, 9, 3), classes: int = 1000
) -> nn.Module:
    """ConvNeXt-T, on 3 × 224 × 224."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0], eps=1e-6)]
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if stage:
            layers += [ChannelNorm(widths[stage - 1], eps=1e-6), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        layers += [Block(width) for _ in range(depth)]
    head = [nn.AdaptiveAvgPool2d(1), ChannelNorm(widths[-1], eps=1e-6), nn.Flatten(1), nn.Linear(widths[-1], classes)]
    return nn.Sequential(*layers, *head)


class SmallCnn(nn.Module):
    """The shape of the embedded classifiers: convolutions, two residual blocks, one linear layer."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 5, 2, 2)
        self.early = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))
        self.down = nn.Conv2d(width, 2 * width, 3, 2, 1)
        late = 2 * width
        self.late = nn.Sequential(nn.Conv2d(late, late, 3, 1, 1), nn.ReLU(), nn.Conv2d(late, late, 3, 1, 1))
        self.head = nn.Linear(late * 7 * 7, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.stem(x))
        x = functional.relu(x + self.early(x))
        x = functional.relu(self.down(x))
        x = functional.relu(x + self.late(x))
        return self.head(x.flatten(1))


#: Name → the network and its input shape: reduced width, and of each kind of block two or three.
SHALLOW: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet14": (lambda: cifar_resnet(14, 4), (3, 32, 32)),
    "resnet-bottlenecks": (lambda: resnet50(4, 10, (2, 1, 1, 2)), (3, 64, 64)),
    "vit-short": (lambda: ViT(32, 8, 24, 2, 3, 10), (3, 32, 32)),
    "convnext-short": (lambda: convnext((8, 12, 16, 20), (2, 1, 1, 2), classes=10), (3, 64, 64)),
    "cnn": (SmallCnn, (1, 28, 28)),
    "resnet14-padded": (lambda: cifar_resnet(14, 4, padded=True), (3, 32, 32)),
    "vit-multihead": (lambda: ViT(16, 8, 12, 2, 3, 10, MultiHead), (3, 16, 16)),
}
#: The same at their real depth.
DEEP: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet110": (lambda: cifar_resnet(110, 4), (3, 32, 32)),
    "resnet50": (lambda: resnet50(4, 10), (3, 64, 64)),
    "vit": (lambda: ViT(32, 8, 24, 12, 3, 10), (3, 32, 32)),
    "convnext": (lambda: convnext((8, 12, 16, 20), classes=10), (3, 64, 64)),
}
ARCHITECTURES = SHALLOW | DEEP
_LONG = pytest.mark.long("the same blocks, repeated")
#: All of them, for tests that take a name.
each_architecture = pytest.mark.parametrize("name", [*SHALLOW, *(pytest.param(name, marks=_LONG) for name in DEEP)])


def exported_module(module: nn.Module, shape: tuple[int, ...], path: Path) -> Path:
    """As the exporter's documentation says: evaluation mode, a dynamic batch axis."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            (torch.rand(2, *shape),),
            path,
            input_names=["image"],
            dynamic_shapes=[{0: torch.export.Dim("batch")}],
            external_data=False,
            verbose=False,
        )
    return path
