"""Train a ResNet-110 on CIFAR-10 under Gaussian noise, one for each σ.

    python experiments/cifar10/train.py DATA --sigma 0.25        # DATA holds train.npz and test.npz: x uint8 NHWC, y

The base recipe of 2019 is a classifier trained on one noisy copy of each image, with a step-wise learning rate. Here an
image may come in several noisy copies, whose predictions are drawn together (the consistency loss of Jeong and Shin,
2020): what the smoothed classifier votes on are just such copies. The learning rate rises and falls once, and the
weights that are kept are a running mean over the last steps, rounded to half precision; the accuracy that is printed is
that of the rounded network on one noisy copy of each test image.

Seeds fix the weights at the beginning, the order and the noise; a GPU's sums are not the same from run to run. The same
command goes on where a training was interrupted.
"""

import argparse
import copy
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from networks import SIGMAS, network, weights_file, write_safetensors
from torch import Tensor, nn
from torch.nn import functional

from soundsmooth.lab.bench.networks import resnet110

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
    entropy: float = 0.5
    """The weight of the entropy of the mean prediction, which the consistency loss alone would raise."""
    rows: int = 2048
    """Noisy copies in a step, all images together; a GPU waits for Python with fewer."""
    rate: float = 0.5
    decay: float = 2e-4
    warm_up: float = 0.1
    """The part of the steps in which the learning rate rises."""
    seed: int = 0


#: The running mean forgets a step within about so many.
MEMORY = 100

#: The rounds of a training; each begins from the weights of the one before.
RECIPES = {
    "0.12": [Recipe(0.12, epochs=64, copies=1, consistency=0, rows=1024, decay=5e-4)],
    "0.25": [Recipe(0.25, epochs=42, copies=2, consistency=3)],
    "0.50": [Recipe(0.5, epochs=42, copies=2, consistency=3)],
    "1.00": [
        Recipe(1.0, epochs=42, copies=2, consistency=3),
        Recipe(1.0, epochs=40, copies=2, consistency=3, rows=1024, rate=0.2, seed=1),
        Recipe(
            1.0, epochs=3, copies=2, consistency=1, entropy=0, rows=256, rate=0.05, decay=5e-5, warm_up=0.05, seed=2
        ),
    ],
}


def main() -> None:
    options = _options()
    torch.backends.cudnn.benchmark = True  # what it chooses by itself for 16 channels is slow
    images, labels = load(options.data / "train.npz", options.device)
    for sigma in options.sigma:
        started = time.perf_counter()
        target = weights_file(sigma, options.out)
        kept = (options.keep or options.out) / target.name
        for folder in (target.parent, kept.parent):
            folder.mkdir(parents=True, exist_ok=True)
        *earlier, last = train_all(RECIPES[sigma], images, labels, options.precision, partial(print, flush=True), kept)
        shutil.move(last, target)
        for path in earlier:
            path.unlink()
        accuracy = noisy_accuracy(network(target), *load(options.data / "test.npz", options.device), float(sigma))
        seconds = time.perf_counter() - started
        print(f"σ = {sigma}: {target.name}, accuracy under noise {accuracy:.4f}, {seconds:.0f} s", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="a folder with train.npz and test.npz")
    parser.add_argument("--sigma", nargs="+", choices=SIGMAS, default=list(SIGMAS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "weights")
    parser.add_argument("--keep", type=Path, help="a folder for what an interrupted training goes on from")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=("float32", "float16", "bfloat16"), default="float16")
    return parser.parse_args()


def load(path: Path, device: str) -> tuple[Tensor, Tensor]:
    """Images as uint8 with the channels last, and labels, on the device."""
    with np.load(path) as held:
        return torch.from_numpy(held["x"]).to(device), torch.from_numpy(held["y"].astype(np.int64)).to(device)


def train_all(
    rounds: list[Recipe], images: Tensor, labels: Tensor, precision: str, say: Callable[[str], object], kept: Path
) -> list[Path]:
    """The weights of each round, in files beside `kept`; a round whose file is there is finished."""
    finished: list[Path] = []
    for number, recipe in enumerate(rounds, start=1):
        done, part = (kept.with_suffix(f".{number}.{word}") for word in ("safetensors", "part"))
        if not done.exists():
            module = train(recipe, images, labels, precision, say, part, finished[-1] if finished else None)
            write_safetensors(done, module, {"sigma": str(recipe.sigma), "rounds": repr(rounds[:number])})
            part.unlink()
        finished.append(done)
    return finished


def train(
    recipe: Recipe,
    images: Tensor,
    labels: Tensor,
    precision: str,
    say: Callable[[str], object] = lambda _: None,
    kept: Path | None = None,
    first: Path | None = None,
) -> nn.Module:
    """The running mean of the weights at the end of a training, which begins from the weights that were there `first`,
    or from random ones, and goes on from where it was `kept`.
    """
    training = Training(recipe, images, labels, precision, first)
    if kept is not None and kept.exists():
        training.restore(torch.load(kept, map_location=images.device, weights_only=True))
    while training.epochs < recipe.epochs:
        average = training.epoch()
        if not math.isfinite(average):
            raise ArithmeticError(f"σ = {recipe.sigma}, epoch {training.epochs}: the loss is {average}; lower the rate")
        say(f"σ = {recipe.sigma}, epoch {training.epochs}: loss {average:.4f}")
        if kept is not None:
            torch.save(training.state(), kept.with_suffix(".new"))
            kept.with_suffix(".new").replace(kept)
    return training.mean.module.eval()


class Training:
    """A network on its way."""

    def __init__(
        self, recipe: Recipe, images: Tensor, labels: Tensor, precision: str, first: Path | None = None
    ) -> None:
        torch.manual_seed(recipe.seed)
        self._recipe, self._labels, self._device = recipe, labels, images.device
        self._padded = functional.pad(images, (0, 0, PAD, PAD, PAD, PAD))
        self._precision = precision
        module = (resnet110() if first is None else network(first)).train()
        self._module = module.to(images.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.mean = RunningMean(self._module)
        self._optimizer = descent(self._module, recipe)
        self._scaler = torch.amp.GradScaler(images.device.type, enabled=precision == "float16")
        self._steps = Steps(recipe, len(images))
        self.epochs = 0

    def epoch(self) -> float:
        """Every image once; the mean loss."""
        total = torch.zeros((), device=self._device)
        for chosen in self._steps.epoch(self._device):
            total += self._step(chosen)
        self.epochs += 1
        return float(total) / self._steps.per_epoch

    def _step(self, chosen: Tensor) -> Tensor:
        self._optimizer.param_groups[0]["lr"] = self._steps.rate()
        x = noisy(augmented(self._padded, chosen), self._recipe)
        low = self._precision != "float32"
        with torch.autocast(self._device.type, getattr(torch, self._precision), enabled=low):
            scores = self._module(x)
        value = loss(scores.float(), self._labels[chosen], self._recipe)
        self._scaler.scale(value).backward()  # type: ignore[no-untyped-call]
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad()
        self.mean.add(self._steps.forget())
        return value.detach()

    def state(self) -> dict[str, Any]:
        """All that the rest of the training depends on."""
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        return parts | {
            "recipe": self._begun,
            "epochs": self.epochs,
            "steps": self._steps.done,
            "random": self._random(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there; a ValueError if that was the way to another network."""
        if state["recipe"] != self._begun:
            raise ValueError(f"a training was begun as {state['recipe']}, and this one is {self._begun}")
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.epochs, self._steps.done = state["epochs"], state["steps"]
        torch.set_rng_state(state["random"][0].cpu())
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(state["random"][1].cpu(), self._device)

    def _parts(self) -> dict[str, Any]:
        mean = self.mean.module
        return {"module": self._module, "mean": mean, "optimizer": self._optimizer, "scaler": self._scaler}

    @property
    def _begun(self) -> str:
        return f"{self._recipe}, {self._precision}"

    def _random(self) -> list[Tensor]:
        here = torch.get_rng_state()
        return [here, torch.cuda.get_rng_state(self._device)] if self._device.type == "cuda" else [here]


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
        self.done = 0

    def epoch(self, device: torch.device) -> Iterator[Tensor]:
        """The images of each step: every image once, but for those that fill no step."""
        order = torch.randperm(self._count, device=device)
        for first in range(0, self.per_epoch * self._images, self._images):
            yield order[first : first + self._images]
            self.done += 1

    def rate(self) -> float:
        """Up in a straight line, then down along a cosine."""
        part, warm = self.done / self._all, self._recipe.warm_up
        if part < warm:
            return self._recipe.rate * (part / warm + 1 / self._all)
        return self._recipe.rate * (1 + math.cos(math.pi * (part - warm) / (1 - warm))) / 2

    def forget(self) -> float:
        """How much of the running mean is replaced: at the beginning more, when it has seen less."""
        return max(1 / MEMORY, 1 / (1 + self.done))


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
        value = value + recipe.consistency * apart + recipe.entropy * entropy
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
