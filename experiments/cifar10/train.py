"""Train a ResNet-110 on CIFAR-10 under Gaussian noise, one for each σ.

    python experiments/cifar10/train.py DATA --sigma 0.25        # DATA holds train.npz and test.npz: x uint8 NHWC, y

The base recipe of 2019 is a classifier trained on one noisy copy of each image, with a step-wise learning rate. Here an
image may come in several noisy copies, whose predictions are drawn together (the consistency loss of Jeong and Shin,
2020): what the smoothed classifier votes on are just such copies. The learning rate rises and falls once, and the
weights that are kept are a running mean over the last steps, rounded to half precision; the accuracy that is printed is
that of the rounded network on one noisy copy of each test image.

Seeds fix the weights at the beginning, the order and the noise; a GPU's sums are not the same from run to run.
"""

import argparse
import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from networks import SIGMAS, network, weights_file, write_safetensors
from torch import Tensor, nn
from torch.nn import functional

from soundsmooth.bench.networks import resnet110

PAD, SIDE = 4, 32


@dataclass(frozen=True)
class Recipe:
    """What is chosen for a network."""

    sigma: float
    epochs: int
    copies: int
    """Noisy copies of an image in a step."""
    consistency: float
    """The weight of the loss that draws the copies' predictions together."""
    rows: int = 2048
    """Noisy copies in a step, all images together; a GPU waits for Python with fewer."""
    rate: float = 0.5
    decay: float = 2e-4
    warm_up: float = 0.1
    """The part of the steps in which the learning rate rises."""
    seed: int = 0


#: Entropy of the mean prediction, which the consistency loss alone would raise.
ENTROPY = 0.5
#: The running mean forgets a step within about so many.
MEMORY = 100

RECIPES = {
    "0.12": Recipe(0.12, epochs=64, copies=1, consistency=0, rows=1024, decay=5e-4),
    "0.25": Recipe(0.25, epochs=42, copies=2, consistency=3),
    "0.50": Recipe(0.5, epochs=42, copies=2, consistency=3),
    "1.00": Recipe(1.0, epochs=42, copies=2, consistency=3),
}


def main() -> None:
    options = _options()
    torch.backends.cudnn.benchmark = True  # what it chooses by itself for 16 channels is slow
    images, labels = load(options.data / "train.npz", options.device)
    for sigma in options.sigma:
        recipe = RECIPES[sigma]
        started = time.perf_counter()
        module = train(recipe, images, labels, options.precision, partial(print, flush=True))
        seconds = time.perf_counter() - started
        target = weights_file(sigma, options.out)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_safetensors(target, module, {"sigma": sigma, "recipe": repr(recipe), "seconds": f"{seconds:.0f}"})
        accuracy = noisy_accuracy(network(target), *load(options.data / "test.npz", options.device), recipe.sigma)
        print(f"σ = {sigma}: {target.name}, accuracy under noise {accuracy:.4f}, {seconds:.0f} s", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="a folder with train.npz and test.npz")
    parser.add_argument("--sigma", nargs="+", choices=SIGMAS, default=list(SIGMAS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=("float32", "float16", "bfloat16"), default="float16")
    return parser.parse_args()


def load(path: Path, device: str) -> tuple[Tensor, Tensor]:
    """Images as uint8 with the channels last, and labels, on the device."""
    with np.load(path) as held:
        return torch.from_numpy(held["x"]).to(device), torch.from_numpy(held["y"].astype(np.int64)).to(device)


def train(
    recipe: Recipe, images: Tensor, labels: Tensor, precision: str, say: Callable[[str], object] = lambda _: None
) -> nn.Module:
    """The running mean of the weights at the end of the training."""
    torch.manual_seed(recipe.seed)
    device = images.device
    module = resnet110().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    mean = RunningMean(module)
    steps = Steps(recipe, len(images))
    optimizer = descent(module, recipe)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")
    padded = functional.pad(images, (0, 0, PAD, PAD, PAD, PAD))
    for epoch in range(recipe.epochs):
        total = torch.zeros((), device=device)
        for chosen in steps.epoch(device):
            optimizer.param_groups[0]["lr"] = steps.rate()
            x = noisy(augmented(padded, chosen), recipe)
            with torch.autocast(device.type, getattr(torch, precision), enabled=precision != "float32"):
                scores = module(x)
            value = loss(scores.float(), labels[chosen], recipe)
            scaler.scale(value).backward()  # type: ignore[no-untyped-call]
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            mean.add(steps.forget())
            total += value.detach()
        average = float(total) / steps.per_epoch
        if not math.isfinite(average):
            raise ArithmeticError(f"σ = {recipe.sigma}, epoch {epoch + 1}: the loss is {average}; try a lower rate")
        say(f"σ = {recipe.sigma}, epoch {epoch + 1}: loss {average:.4f}")
    return mean.module.eval()


def descent(module: nn.Module, recipe: Recipe) -> torch.optim.SGD:
    """Nesterov's, in one kernel. That kernel leaves new momenta as it finds them in memory where its first step is
    skipped, as happens in half precision while the scale of the loss is too large; so they are set to 0 here.
    """
    found = torch.optim.SGD(module.parameters(), recipe.rate, 0.9, weight_decay=recipe.decay, nesterov=True, fused=True)
    for parameter in module.parameters():
        found.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return found


class Steps:
    """The order of the images, and where in the training a step is."""

    def __init__(self, recipe: Recipe, count: int) -> None:
        self._recipe, self._count = recipe, count
        self._images = recipe.rows // recipe.copies
        self.per_epoch = count // self._images
        self._all = recipe.epochs * self.per_epoch
        self._done = 0

    def epoch(self, device: torch.device) -> Iterator[Tensor]:
        """The images of each step: every image once, but for those that fill no step."""
        order = torch.randperm(self._count, device=device)
        for first in range(0, self.per_epoch * self._images, self._images):
            yield order[first : first + self._images]
            self._done += 1

    def rate(self) -> float:
        """Up in a straight line, then down along a cosine."""
        part, warm = self._done / self._all, self._recipe.warm_up
        if part < warm:
            return self._recipe.rate * (part / warm + 1 / self._all)
        return self._recipe.rate * (1 + math.cos(math.pi * (part - warm) / (1 - warm))) / 2

    def forget(self) -> float:
        """How much of the running mean is replaced: at the beginning more, when it has seen less."""
        return max(1 / MEMORY, 1 / (1 + self._done))


def augmented(padded: Tensor, chosen: Tensor) -> Tensor:
    """The chosen images at a random place of their padding, every other one mirrored; values in [0, 1], NCHW."""
    count, device = len(chosen), padded.device
    top, left = torch.randint(0, 2 * PAD + 1, (2, count, 1), device=device)
    across = torch.arange(SIDE, device=device).expand(count, SIDE)
    mirrored = torch.rand(count, 1, device=device) < 0.5
    columns = left + torch.where(mirrored, SIDE - 1 - across, across)
    rows = top + across
    cut = padded[chosen[:, None, None], rows[:, :, None], columns[:, None, :]]
    return cut.permute(0, 3, 1, 2).float() / 255


def noisy(x: Tensor, recipe: Recipe) -> Tensor:
    """The copies of all images: first one of each, then the second ones."""
    many = x.repeat(recipe.copies, 1, 1, 1).contiguous(memory_format=torch.channels_last)
    return many + recipe.sigma * torch.randn_like(many)


def loss(scores: Tensor, labels: Tensor, recipe: Recipe) -> Tensor:
    """Cross-entropy, and how far the copies' predictions are from their mean."""
    value = functional.cross_entropy(scores, labels.repeat(recipe.copies))
    if recipe.consistency:
        logs = functional.log_softmax(scores, dim=1).view(recipe.copies, len(labels), -1)
        mean = logs.exp().mean(dim=0).clamp(min=1e-8)
        apart = (mean * (mean.log() - logs)).sum(dim=2).mean()
        entropy = -(mean * mean.log()).sum(dim=1).mean()
        value = value + recipe.consistency * apart + ENTROPY * entropy
    return value


class RunningMean:
    """The mean of a module's weights and statistics over the last steps."""

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module)
        self._kept, self._new = _floats(self.module), _floats(module)

    @torch.no_grad()
    def add(self, part: float) -> None:
        """Replace a part of it by what the module is now."""
        torch._foreach_lerp_(self._kept, self._new, part)


def _floats(module: nn.Module) -> list[Tensor]:
    return [tensor for tensor in module.state_dict().values() if tensor.is_floating_point()]


@torch.inference_mode()
def noisy_accuracy(module: nn.Module, images: Tensor, labels: Tensor, sigma: float, rows: int = 2000) -> float:
    """How often the classifier is right on one noisy copy of each image."""
    module = module.to(images.device)
    right = 0
    for first in range(0, len(images), rows):
        x = images[first : first + rows].permute(0, 3, 1, 2).float() / 255
        right += int((module(x + sigma * torch.randn_like(x)).argmax(1) == labels[first : first + rows]).sum())
    return right / len(images)


if __name__ == "__main__":
    main()
