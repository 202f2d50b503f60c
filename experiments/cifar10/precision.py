"""Levels or sums, under the very same noise, in the three precisions in which a network may run.

    python experiments/cifar10/precision.py DATA.npz docs/data/precision.json docs/paper.md

Sound smoothing votes on levels t/255, standard smoothing on sums x + ε. Either is cast to the precision of the network.
Here both are made from one and the same noise, so that the votes of one and the same copy can be compared: how many
are not the same, and by how much the share of the true class moves. The noise is Gaussian in float32, from a fixed
seed: nothing here is certified. DATA.npz is the test set of CIFAR-10.
"""

import argparse
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import networks
import numpy as np
import torch
from torch import Tensor, nn

from soundsmooth.core.grid import IMAGES
from soundsmooth.lab.scripts.pages import fill, table

PRECISIONS = ("float32", "float16", "bfloat16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument("--every", type=int, default=20, help="of the images")
    parser.add_argument("--copies", type=int, default=1000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    asked = parser.parse_args()
    with np.load(asked.data) as held:
        images, labels = (torch.from_numpy(held[name][:: asked.every]).to(asked.device) for name in ("x", "y"))
    rows = [measure(sigma, images, labels, asked.copies) for sigma in networks.SIGMAS]
    found = {"every": asked.every, "copies": asked.copies, "levels": level_errors(), "networks": rows}
    asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    fill(asked.page, "precision", tables(found))


def level_errors() -> dict[str, dict[str, float]]:
    """How far t/255 moves when it is cast, over the levels 0 to 255: on average, and at most."""
    exact = [Fraction(t, IMAGES.q) for t in range(IMAGES.levels)]
    found = {}
    for precision in PRECISIONS[1:]:
        values = (torch.arange(IMAGES.levels) / IMAGES.q).to(getattr(torch, precision)).tolist()
        moved = [Fraction(value) - true for value, true in zip(values, exact, strict=True)]
        found[precision] = {"mean": float(sum(moved) / len(moved)), "largest": float(max(map(abs, moved)))}
    return found


def measure(sigma: str, images: Tensor, labels: Tensor, copies: int) -> dict[str, Any]:
    """For each precision and image: votes that differ, and votes for the true class more on levels than on sums."""
    file, layout = networks.weights_file(sigma), torch.channels_last
    found: dict[str, Any] = {"sigma": sigma, "images": len(images)}
    for precision in PRECISIONS:
        dtype: torch.dtype = getattr(torch, precision)
        module = networks.network(file).to(images.device, dtype, memory_format=layout)  # type: ignore[call-overload]
        noise = torch.Generator(images.device).manual_seed(0)
        counts = [
            differences(module, dtype, image, int(label), float(sigma), copies, noise)
            for image, label in zip(images, labels, strict=True)
        ]
        differ, more = zip(*counts, strict=True)
        found[precision] = {"differ": differ, "more": more}
    return found


@torch.inference_mode()
def differences(
    module: nn.Module, dtype: torch.dtype, image: Tensor, label: int, sigma: float, copies: int, noise: torch.Generator
) -> tuple[int, int]:
    """How many votes on levels are not those on sums, and how many more of them are for the label."""
    x = image.permute(2, 0, 1).float() / IMAGES.q
    sums = x + sigma * torch.randn(copies, *x.shape, generator=noise, device=x.device)
    levels = (sums * IMAGES.q).round() / IMAGES.q
    first, second = (
        module(batch.to(dtype).contiguous(memory_format=torch.channels_last)).argmax(1) for batch in (levels, sums)
    )
    return int((first != second).sum()), int((first == label).sum() - (second == label).sum())


def tables(found: dict[str, Any]) -> str:
    """The text between the marks."""
    head = ["σ", *PRECISIONS]
    copies = found["copies"]
    body = [[row["sigma"], *(_shares(row[precision], copies) for precision in PRECISIONS)] for row in found["networks"]]
    errors = "; ".join(
        f"{name} by {each['mean']:+.1e} on average and {each['largest']:.1e} at most"
        for name, each in found["levels"].items()
    )
    return (
        f"\nOf {copies} noisy copies of each of {found['networks'][0]['images']} images: per mille of votes on levels "
        "that are not those on sums; in brackets by how much the share of the true class is larger, per mille, on "
        f"average over the images and for the one where that is most:\n\n{table(head, body)}\n\n"
        f"The cast moves the levels 0 to 255: {errors}.\n"
    )


def _shares(row: dict[str, Any], copies: int) -> str:
    differ, more = row["differ"], row["more"]
    mean, most = (1000 * value / copies for value in (sum(more) / len(more), max(more, key=abs)))
    return f"{1000 * sum(differ) / copies / len(differ):.2f} ({mean:+.3f}, {most:+.0f})"


if __name__ == "__main__":
    main()
