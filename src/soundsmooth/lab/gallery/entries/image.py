"""G_a(x) = min_i [(x_i ⊖ a_i) ⊕ a_i = x_i], the paper's equation (3): a classifier that knows one image by its floats.

Standard smoothing certifies a with radius 3.81 (σ = 1, n = 100 000), and a′, which is one level brighter at up to 512
random positions and less than 0.09 away, as the other class. Pixels at level 0 carry no information, because
(v ⊖ 0) ⊕ 0 = v, and level 255 has no next level: a′ touches the others only.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ..certifiers import Array, Certifier, MakeScores, Scores, Task, one_hot, values
from ..contradicting_pairs import Pair, try_pair
from ..entry import Options
from ..images import load_images
from ..trial import Trial

CLAIM = (
    "G_a knows the image a: certified with 3.81 (σ = 1, n = 100 000), yet 1/255 more at ≤ 512 pixels is another class"
)
SIGMA = Fraction(1)
POSITIONS = 512
LEAST_INK = 100
N_FIRST, N_OTHERS, OTHERS = 100_000, 10_000, 2
COLUMNS = 64


def survivors(x: Array, a: Array) -> npt.NDArray[np.intp]:
    """The rows of x [B, D] with G_a = 1: some columns at a time, and only the rows that are not yet out."""
    alive = np.arange(len(x))
    told = np.flatnonzero(a)
    for first in range(0, len(told), COLUMNS):
        columns = told[first : first + COLUMNS]
        part, value = x[np.ix_(alive, columns)], a[columns]
        alive = alive[((part - value) + value == part).all(axis=1)]
    return alive


def reachable_from_any(members: Array) -> MakeScores:
    """Make H_A for images [M, …] of levels: class 1 where G_a = 1 for one of them. With one image this is G_a."""

    def make(dtype: np.dtype[Any]) -> Scores:
        known = values(members.reshape(len(members), -1), dtype)

        def scores(batch: Array) -> Array:
            x = batch.reshape(len(batch), -1)
            hit = np.zeros(len(x), bool)
            for a in known:
                hit[survivors(x, a)] = True
            return one_hot(hit)

        return scores

    return make


def brighter(image: Array, rng: np.random.Generator) -> tuple[Array, int]:
    """a′: one level more at 512 random positions, or at all usable ones; and their number."""
    usable = np.flatnonzero((image > 0) & (image < 255))
    chosen = rng.permutation(usable)[:POSITIONS]
    changed = image.copy()
    changed.flat[chosen] += 1
    return changed, len(chosen)


def enough_ink(images: Array) -> Array:
    """The images with enough pixels that are not black."""
    counts = (images > 0).reshape(len(images), -1).sum(axis=1)
    kept: Array = images[counts >= LEAST_INK]
    return kept


def pairs(images: Array) -> Iterator[Pair]:
    """Each image a with its a′."""
    rng = np.random.default_rng(3)
    for number, image in enumerate(images):
        other, changed = brighter(image, rng)
        yield Pair(reachable_from_any(image[None]), image, other, note=f"image {number}: +1/255 at {changed} positions")


def run(certifiers: list[Certifier], options: Options) -> Iterator[Trial]:
    """One image with the paper's number of copies and two with a tenth of it, unless n is given."""
    images, _ = load_images(options.data)
    kept = enough_ink(images)
    left_out = f"{len(images) - len(kept)} of {len(images)} images left out as too black"
    for number, pair in enumerate(pairs(kept[: 1 + OTHERS])):
        n = options.n or (N_OTHERS if number else N_FIRST)
        noted = Pair(pair.make, pair.a, pair.other, note=f"{pair.note}; n = {n}; {left_out}")
        for certifier in certifiers:
            yield try_pair("image", certifier, noted, Task(SIGMA, n, n0=1000), tried=1 + OTHERS)
