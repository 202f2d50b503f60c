"""Section 4.1's radius 3.8115: G_a at a itself, with 100 000 copies, of which none may be missed.

    python experiments/gallery/misses.py test.npz docs/data/misses.json docs/paper.md

A copy x of a is missed where (x ⊖ a) ⊕ a is not x at some pixel. Every 100th image is tried, in single and in double
precision; the noise is NumPy's, from a fixed seed. Writes the JSON, and what lies between the marks in the page.
"""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from soundsmooth.certification.report import decimal_below
from soundsmooth.exact import clopper_pearson_below, radius_below
from soundsmooth.lab.gallery.certifiers import Array, values
from soundsmooth.lab.gallery.images import load_images
from soundsmooth.lab.gallery.known_by_floats import survivors
from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.lab.scripts.pages import fill, table

N, BATCH, ALPHA, EVERY = 100_000, 1000, Fraction(1, 1000), 100
DTYPES = ("float32", "float64")


def main(data: Path, out: Path, page: Path) -> None:
    images = load_images(data)[0][::EVERY]
    found = {dtype: [misses(image, np.dtype(dtype), seed) for seed, image in enumerate(images)] for dtype in DTYPES}
    out.write_text(json.dumps({"copies": N, "every": EVERY, "misses": found}) + "\n", encoding="utf-8")
    fill(page, "misses", f"\n{rows(found)}\n")


def misses(image: Array, dtype: np.dtype[Any], seed: int, n: int = N) -> int:
    """Of n noisy copies of a, σ = 1, those with G_a = 0; image, noise and sum in one precision."""
    rng, a = np.random.default_rng(seed), values(image.ravel(), dtype)
    batches = (min(BATCH, n - first) for first in range(0, n, BATCH))
    return sum(size - len(survivors(a + rng.standard_normal((size, a.size), dtype=dtype.type), a)) for size in batches)


def rows(found: dict[str, list[int]]) -> str:
    head = ["precision", "images", "without a miss", "misses in all", "most at one image", "least radius", "largest"]
    body = [
        [
            dtype,
            *map(str, (len(counts), counts.count(0), sum(counts), max(counts))),
            *(decimal_below(radius(missed), 4) for missed in (max(counts), min(counts))),
        ]
        for dtype, counts in found.items()
    ]
    return table(head, body)


def radius(missed: int) -> Fraction:
    """What standard smoothing certifies, σ = 1; never more than that."""
    return Fraction(radius_below(clopper_pearson_below(N - missed, N, ALPHA), Fraction(1)))


if __name__ == "__main__":
    main(*paths(__doc__, "data", "out", "page"))
