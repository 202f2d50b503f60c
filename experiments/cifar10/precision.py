"""What the networks see: levels or sums, in three precisions, under the very same noise.

    python experiments/cifar10/precision.py DATA.npz docs/data/precision.json docs/paper.md

Sound smoothing votes on levels t/255, standard smoothing on sums x + ε. Either is then cast to the precision in which
the network runs. Here the network itself runs in float32 and only its input is cast, so that the votes of one and the
same copy can be compared: how many change against the sum in float32, and by how much the share of the true class
moves. The noise is Gaussian in float32, from a fixed seed: nothing here is certified. DATA.npz is the test set of
CIFAR-10.
"""

import argparse
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import networks
import numpy as np
import torch
from torch import Tensor

from soundsmooth.bench.pages import fill, table
from soundsmooth.grid import IMAGES

#: What the network gets instead of the sum in float32.
INPUTS = (
    ("levels", "float32"),
    ("levels", "float16"),
    ("levels", "bfloat16"),
    ("sums", "float16"),
    ("sums", "bfloat16"),
)
BATCH = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--every", type=int, default=500)
    parser.add_argument("--copies", type=int, default=500)
    asked = parser.parse_args()
    with np.load(asked.data) as held:
        images, labels = held["x"][:: asked.every], held["y"][:: asked.every]
    rows = [measure(sigma, images, labels, asked.copies) for sigma in networks.SIGMAS]
    found = {"every": asked.every, "copies": asked.copies, "levels": level_errors(), "networks": rows}
    asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    fill(asked.page, "precision", tables(found))


def cast(x: Tensor, precision: str) -> Tensor:
    return x.to(getattr(torch, precision)).float()


def level_errors() -> dict[str, dict[str, float]]:
    """How far t/255 moves when it is cast, over the levels 0 to 255: on average, and at most."""
    exact = [Fraction(t, IMAGES.q) for t in range(IMAGES.levels)]
    found = {}
    for precision in ("float16", "bfloat16"):
        values = cast(torch.arange(IMAGES.levels) / IMAGES.q, precision).tolist()
        moved = [Fraction(value) - true for value, true in zip(values, exact, strict=True)]
        found[precision] = {"mean": float(sum(moved) / len(moved)), "largest": float(max(map(abs, moved)))}
    return found


def measure(sigma: str, images: Any, labels: Any, copies: int) -> dict[str, Any]:
    """For each kind of input: votes that change, and votes for the true class more or fewer, over all images."""
    module = networks.network(networks.weights_file(sigma))
    noise = torch.Generator().manual_seed(0)
    changed, moved = ({" ".join(kind): [] for kind in INPUTS} for _ in range(2))
    for image, label in zip(images, labels, strict=True):
        counts = sum((votes(module, image, int(label), float(sigma), noise) for _ in range(copies // BATCH)), start=0)
        for kind, (changes, more) in zip(INPUTS, counts.tolist(), strict=True):
            changed[" ".join(kind)].append(int(changes))
            moved[" ".join(kind)].append(int(more))
    return {"sigma": sigma, "images": len(images), "changed": changed, "moved": moved}


@torch.inference_mode()
def votes(module: torch.nn.Module, image: Any, label: int, sigma: float, noise: torch.Generator) -> Tensor:
    """A row for each kind of input: how many of a batch's votes change, and how many more are for the label."""
    x = torch.from_numpy(image).permute(2, 0, 1).float() / IMAGES.q
    sums = x + sigma * torch.randn(BATCH, *x.shape, generator=noise)
    inputs = {"sums": sums, "levels": (sums * IMAGES.q).round() / IMAGES.q}
    before = module(sums).argmax(1)
    after = [module(cast(inputs[what], precision)).argmax(1) for what, precision in INPUTS]
    return torch.tensor([[(a != before).sum(), (a == label).sum() - (before == label).sum()] for a in after])


def tables(found: dict[str, Any]) -> str:
    """The text between the marks."""
    head = ["σ", *(f"{what}, {precision}" for what, precision in INPUTS)]
    body = [
        [row["sigma"], *(_shares(row, " ".join(kind), found["copies"]) for kind in INPUTS)] for row in found["networks"]
    ]
    errors = "; ".join(
        f"{name} by {each['mean']:+.1e} on average and {each['largest']:.1e} at most"
        for name, each in found["levels"].items()
    )
    images = found["networks"][0]["images"]
    return (
        f"\nOf {found['copies']} noisy copies of each of {images} images: per mille of votes that "
        "are not those on the sum in float32; in brackets by how much the share of the true class moves, per mille, on "
        f"average and for the image where it moves most:\n\n{table(head, body)}\n\n"
        f"The cast moves the levels 0 to 255: {errors}.\n"
    )


def _shares(row: dict[str, Any], kind: str, copies: int) -> str:
    changed, moved = row["changed"][kind], row["moved"][kind]
    mean, most = (1000 * value / copies for value in (sum(moved) / len(moved), max(moved, key=abs)))
    return f"{1000 * sum(changed) / copies / len(changed):.2f} ({mean:+.2f}, {most:+.0f})"


if __name__ == "__main__":
    main()
