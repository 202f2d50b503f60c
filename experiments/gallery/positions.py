"""Section 4.1's experiment on every image of a data set: G_a at a′, one level brighter at 512 random positions.

    python experiments/gallery/positions.py DATA docs/data/positions.json docs/paper.md

DATA is what `soundsmooth break --data` takes. The paper says that the share of class 1 at a′ is at most 0.2 for every
image of the CIFAR-10 test set. An image refutes that if its Clopper–Pearson lower bound at α/N exceeds 0.2, and
confirms it if its upper bound at α/N does not; so all N verdicts together are wrong with probability at most 2α.
Writes the JSON, and what lies between the marks in the page.
"""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from soundsmooth.exact import clopper_pearson_above, clopper_pearson_below
from soundsmooth.lab.gallery.certifiers import Array, values
from soundsmooth.lab.gallery.images import load_images
from soundsmooth.lab.gallery.known_by_floats import brighter, survivors
from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.lab.scripts.pages import fill, table

N, ALPHA, CLAIM = 500, Fraction(1, 1000), 0.2
DTYPES = ("float32", "float64")


def main(data: Path, out: Path, page: Path) -> None:
    images, _ = load_images(data)
    found = {dtype: measure(images, dtype) for dtype in DTYPES}
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    fill(page, "positions", f"\n{rows(found)}\n")


def measure(images: Array, dtype: str) -> dict[str, Any]:
    """How many images confirm the claim and refute it, and which hits there were."""
    rng, level = np.random.default_rng(), ALPHA / len(images)
    hits = np.array([hits_at_other(image, np.dtype(dtype), rng) for image in images])
    counts = {int(h): int(c) for h, c in zip(*np.unique(hits, return_counts=True), strict=True)}
    confirmed = sum(c for h, c in counts.items() if clopper_pearson_above(h, N, level) <= CLAIM)
    refuted = [int(i) for i, h in enumerate(hits) if clopper_pearson_below(int(h), N, level) > CLAIM]
    return {
        "images": len(images),
        "copies": N,
        "confirmed": confirmed,
        "refuted": refuted,
        "largest share": float(hits.max() / N),
        "images without a hit": counts.get(0, 0),
    }


def hits_at_other(image: Array, dtype: np.dtype[Any], rng: np.random.Generator) -> int:
    """Of N noisy copies of a′, σ = 1, those with G_a = 1; image, noise and sum in one precision."""
    other, _ = brighter(image, rng)
    noise = rng.standard_normal((N, image.size), dtype=dtype.type)
    return len(survivors(values(other.ravel(), dtype) + noise, values(image.ravel(), dtype)))


def rows(found: dict[str, Any]) -> str:
    head = ["precision", "images", "≤ 0.2 confirmed", "refuted", "neither", "largest share", "images without a hit"]
    body = []
    for dtype, row in found.items():
        neither = row["images"] - row["confirmed"] - len(row["refuted"])
        cells = [row["images"], row["confirmed"], len(row["refuted"]), neither]
        body.append([dtype, *map(str, cells), f"{row['largest share']:.3f}", str(row["images without a hit"])])
    return table(head, body)


if __name__ == "__main__":
    main(*paths(__doc__, "data", "out", "page"))
