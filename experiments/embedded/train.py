"""Train a small Fashion-MNIST classifier under discretized Gaussian noise.

The smoothed classifier that soundsmooth certifies sees integer levels

    t = clamp(x + round(sigma * 255 * g), -K, 255 + K),    g ~ N(0, 1),  K = 6 * 255

and the network is fed float32(t) / 255.  Training draws its noise the same way.

    python train.py --data DIR --sigma 0.25 --out DIR --device cuda --seed 0

writes the weights and a JSON file of measured numbers.  The certified
accuracies in it are estimates from a floating-point simulation.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from safetensors import safe_open
from safetensors.torch import save_file
from scipy.stats import beta, norm
from torch import Tensor, nn

PIXEL_MAX = 255
MARGIN = 6 * PIXEL_MAX  # K: noisy levels stay within [-K, 255 + K]
CLASSES = 10
SHIPPED = 1000  # the first test images ship with the package; no choice is made on them


@dataclass(frozen=True)
class Architecture:
    """Sizes of a `ResidualNet`."""

    stem: int = 32  # channels at 14 x 14
    early: int = 1  # residual blocks at 14 x 14
    body: int = 48  # channels at 7 x 7
    late: int = 1  # residual blocks at 7 x 7


@dataclass(frozen=True)
class Recipe:
    """How a network is trained."""

    epochs: int = 150
    batch: int = 1024  # images per step; each is seen under `copies` noise draws
    copies: int = 2
    rate: float = 8e-3  # peak learning rate
    decay: float = 0.05  # AdamW weight decay
    consistency: float = 10.0  # weight of the agreement between noisy copies
    average: float = 0.998  # decay of the moving average of weights
    shift: int = 1  # largest random shift in pixels, each way


class ResidualBlock(nn.Module):
    """relu(x + conv(relu(conv(x)))) with batch norm after each convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(x + self.norm2(self.conv2(inner)))


class ResidualNet(nn.Module):
    """5x5 stride-2 stem, residual blocks, 3x3 stride-2 step, residual blocks, linear."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch = arch
        self.stem = nn.Conv2d(1, arch.stem, 5, stride=2, padding=2, bias=False)
        self.stem_norm = nn.BatchNorm2d(arch.stem)
        self.early = nn.Sequential(*(ResidualBlock(arch.stem) for _ in range(arch.early)))
        self.down = nn.Conv2d(arch.stem, arch.body, 3, stride=2, padding=1, bias=False)
        self.down_norm = nn.BatchNorm2d(arch.body)
        self.late = nn.Sequential(*(ResidualBlock(arch.body) for _ in range(arch.late)))
        self.head = nn.Linear(arch.body * 7 * 7, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        x = functional.relu(self.stem_norm(self.stem(image)))
        x = self.early(x)
        x = functional.relu(self.down_norm(self.down(x)))
        x = self.late(x)
        return self.head(x.flatten(1))


def read_idx(path: Path) -> np.ndarray:
    """Read one gzipped idx file of unsigned bytes."""
    raw = gzip.decompress(path.read_bytes())
    if raw[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is not an idx file of unsigned bytes")
    rank = raw[3]
    shape = np.frombuffer(raw, ">u4", count=rank, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(tuple(int(n) for n in shape))


def load_split(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [n, 1, 28, 28] and labels int64 [n] of "train" or "t10k"."""
    images = read_idx(folder / f"{split}-images-idx3-ubyte.gz")[:, None]
    labels = read_idx(folder / f"{split}-labels-idx1-ubyte.gz").astype(np.int64)
    return images, labels


def add_noise(levels: Tensor, sigma: float) -> Tensor:
    """Network inputs for integer-valued float levels under fresh discretized noise."""
    noise = torch.round(torch.randn_like(levels) * (sigma * PIXEL_MAX))
    return torch.clamp(levels + noise, -MARGIN, PIXEL_MAX + MARGIN) / PIXEL_MAX


def augment(images: Tensor, shift: int) -> Tensor:
    """Shift each uint8 image by up to `shift` pixels and flip half of them."""
    count, _, height, width = images.shape
    device = images.device
    padded = functional.pad(images, (shift,) * 4)
    rows = torch.randint(0, 2 * shift + 1, (count, 1), device=device)
    rows = rows + torch.arange(height, device=device)
    columns = torch.randint(0, 2 * shift + 1, (count, 1), device=device)
    columns = columns + torch.arange(width, device=device)
    flipped = torch.rand(count, 1, device=device) < 0.5
    columns = torch.where(flipped, columns.flip(1), columns)
    index = torch.arange(count, device=device)[:, None, None]
    return padded[index, 0, rows[:, :, None], columns[:, None, :]][:, None]


def disagreement(log_probs: Tensor) -> Tensor:
    """Mean KL divergence from the average prediction to each copy's; input [copies, n, 10]."""
    mean = log_probs.exp().mean(0).clamp_min(1e-8)
    return (mean * (mean.log() - log_probs)).sum(-1).mean()


def rate_at(progress: float) -> float:
    """Share of the peak learning rate: a short linear warm-up, then a cosine to zero."""
    warm = 0.05
    if progress < warm:
        return progress / warm
    return 0.5 * (1 + math.cos(math.pi * (progress - warm) / (1 - warm)))


class Trainer:
    """Trains one network; `averaged` is the one to keep."""

    def __init__(self, net: ResidualNet, recipe: Recipe, sigma: float) -> None:
        self.net = net
        self.averaged = copy.deepcopy(net).requires_grad_(False).eval()
        self.recipe = recipe
        self.sigma = sigma
        device = next(net.parameters()).device
        self.on_gpu = device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            net.parameters(), lr=recipe.rate, weight_decay=recipe.decay, fused=self.on_gpu
        )

    def predict(self, inputs: Tensor) -> Tensor:
        """Log-probabilities [copies, n, 10]; bfloat16 arithmetic on a GPU."""
        with torch.autocast("cuda", torch.bfloat16, enabled=self.on_gpu):
            logits = self.net(inputs)
        return functional.log_softmax(logits.float(), -1).unflatten(0, (self.recipe.copies, -1))

    def step(self, images: Tensor, labels: Tensor) -> None:
        """One update on a batch of clean images."""
        recipe = self.recipe
        levels = augment(images, recipe.shift).float()
        inputs = add_noise(levels.repeat(recipe.copies, 1, 1, 1), self.sigma)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
        log_probs = self.predict(inputs)
        loss = functional.nll_loss(log_probs.flatten(0, 1), labels.repeat(recipe.copies))
        loss = loss + recipe.consistency * disagreement(log_probs)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.update_average()

    @torch.no_grad()
    def update_average(self) -> None:
        """Move the averaged weights and batch-norm statistics towards the current ones."""
        share = 1 - self.recipe.average
        pairs = zip(self.averaged.state_dict().values(), self.net.state_dict().values(), strict=True)
        floating = [(old, new) for old, new in pairs if old.is_floating_point()]
        torch._foreach_lerp_([old for old, _ in floating], [new for _, new in floating], share)

    def fit(self, images: Tensor, labels: Tensor, max_steps: int | None = None) -> int:
        """Run all epochs over images and labels that already lie on the device."""
        self.net.train()
        per_epoch = len(images) // self.recipe.batch
        total = per_epoch * self.recipe.epochs
        done = 0
        for _ in range(self.recipe.epochs):
            order = torch.randperm(len(images), device=images.device)
            for part in order[: per_epoch * self.recipe.batch].view(per_epoch, -1):
                for group in self.optimizer.param_groups:
                    group["lr"] = self.recipe.rate * rate_at(done / total)
                self.step(images[part], labels[part])
                done += 1
                if done == max_steps:
                    return done
        return done


@torch.no_grad()
def class_counts(net: nn.Module, images: Tensor, sigma: float, samples: int) -> Tensor:
    """How often each class is predicted under noise; [n, 10]."""
    group, draws = 50, 200
    counts = torch.zeros(len(images), CLASSES, device=images.device)
    for first in range(0, len(images), group):
        levels = images[first : first + group].float()
        for begin in range(0, samples, draws):
            repeats = min(draws, samples - begin)
            inputs = add_noise(levels.repeat_interleave(repeats, 0), sigma)
            predicted = net(inputs.contiguous(memory_format=torch.channels_last)).argmax(-1)
            votes = functional.one_hot(predicted, CLASSES).unflatten(0, (-1, repeats)).sum(1)
            counts[first : first + group] += votes
    return counts


def certify(
    net: nn.Module,
    images: Tensor,
    labels: Tensor,
    sigma: float,
    n: int,
    n0: int = 100,
    alpha: float = 0.001,
) -> np.ndarray:
    """l2 radius per image, -1 where it abstains or is wrong (float estimate).

    The class is guessed from n0 draws; n further draws give its Clopper-Pearson
    lower bound p, and the radius is sigma * Phi^-1(p).
    """
    net.eval()
    guess = class_counts(net, images, sigma, n0).argmax(-1)
    hits = class_counts(net, images, sigma, n).gather(1, guess[:, None])[:, 0].cpu().numpy()
    lower = np.where(hits > 0, beta.ppf(alpha, np.maximum(hits, 1), n - hits + 1), 0.0)
    sure = (lower > 0.5) & (guess == labels).cpu().numpy()
    return np.where(sure, sigma * norm.ppf(np.maximum(lower, 0.5)), -1.0)


def certified_table(radii: np.ndarray) -> dict[str, float]:
    """Certified accuracy at radii 0, 0.25, ... 1.25."""
    return {f"{r:.2f}": float(np.mean(radii >= r)) for r in np.arange(0, 1.26, 0.25)}


def save_network(net: ResidualNet, path: Path) -> None:
    """Write weights with the architecture in the file's metadata."""
    tensors = {k: v.detach().cpu().contiguous() for k, v in net.state_dict().items()}
    save_file(tensors, path, metadata={"architecture": json.dumps(asdict(net.arch))})


def load_network(path: Path) -> ResidualNet:
    """Read what `save_network` wrote, ready for evaluation."""
    with safe_open(path, "pt") as file:
        net = ResidualNet(Architecture(**json.loads(file.metadata()["architecture"])))
        net.load_state_dict({key: file.get_tensor(key) for key in file.keys()})  # noqa: SIM118 (a safetensors file is no dictionary)
    return net.requires_grad_(False).eval()


def parse_arguments() -> argparse.Namespace:
    """The command line; every field of `Recipe` and `Architecture` is an option."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--sigma", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-steps", type=int, help="stop early (to try the script)")
    parser.add_argument("--select", type=int, default=5000, help="test images used to compare recipes")
    parser.add_argument("--select-samples", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=10000, help="0: leave the shipped images alone")
    for defaults in (Recipe(), Architecture()):
        for field, value in asdict(defaults).items():
            parser.add_argument(f"--{field}", type=type(value))
    return parser.parse_args()


def override(defaults: Recipe | Architecture, args: argparse.Namespace):
    """Defaults with the options that were given on the command line."""
    given = {k: getattr(args, k) for k in asdict(defaults) if getattr(args, k) is not None}
    return type(defaults)(**{**asdict(defaults), **given})


def estimate(net: nn.Module, images: Tensor, labels: Tensor, sigma: float, n: int) -> dict[str, object]:
    """Certified accuracies on some images, with what they were measured on."""
    radii = certify(net, images, labels, sigma, n)
    return {"images": len(images), "n": n, "certified": certified_table(radii)}


def train(net: ResidualNet, recipe: Recipe, args: argparse.Namespace) -> tuple[ResidualNet, dict[str, object]]:
    """Train on the training images alone; the averaged network and what it took."""
    images, labels = load_split(args.data, "train")
    trainer = Trainer(net, recipe, args.sigma)
    started = time.monotonic()
    steps = trainer.fit(
        torch.tensor(images, device=args.device),
        torch.tensor(labels, device=args.device),
        args.max_steps,
    )
    if args.device == "cuda":
        torch.cuda.synchronize()
    return trainer.averaged, {"steps": steps, "seconds": round(time.monotonic() - started, 1)}


def main() -> None:
    args = parse_arguments()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    recipe = override(Recipe(), args)
    net = ResidualNet(override(Architecture(), args))
    net = net.to(args.device, memory_format=torch.channels_last)
    best, effort = train(net, recipe, args)

    name = f"fashion_mnist_sigma{args.sigma:.2f}"
    args.out.mkdir(parents=True, exist_ok=True)
    save_network(best, args.out / f"{name}.safetensors")
    report = {
        "sigma": args.sigma,
        "seed": args.seed,
        "parameters": sum(p.numel() for p in net.parameters()),
        "architecture": asdict(net.arch),
        "recipe": asdict(recipe),
        "training": effort,
    }
    images, labels = (torch.tensor(a, device=args.device) for a in load_split(args.data, "t10k"))
    chosen = slice(SHIPPED, SHIPPED + args.select)
    report["selection"] = estimate(best, images[chosen], labels[chosen], args.sigma, args.select_samples)
    if args.samples:
        report["shipped"] = estimate(best, images[:SHIPPED], labels[:SHIPPED], args.sigma, args.samples)
    (args.out / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
