"""Classifiers that know a level, an image or a set of images by its floats: Listing 1 and equations (2) to (4).

F_{a,i}(x) = [(x_i ⊖ a) ⊕ a = x_i] is 1 on every float that a ⊕ ε can reach, and on few others. With one pixel it is f
of Listing 1. G_a(x) = min_i F_{a_i,i}(x) knows one image, H_A(x) = max over a in A of G_a(x) a set of them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from .certifiers import Array, MakeScores, Scores, one_hot, values

#: Positions at which a′ is brighter than a, at most.
POSITIONS = 512
LEAST_INK = 100
COLUMNS = 64


def reachable_from(level: int, position: int = 0) -> MakeScores:
    """Make F_{a,i}: class 1 where subtracting and adding the level's value leaves the pixel as it is."""

    def make(dtype: np.dtype[Any]) -> Scores:
        a = values(np.array(level), dtype)

        def scores(batch: Array) -> Array:
            x = batch.reshape(len(batch), -1)[:, position]
            hit = (x - a) + a == x
            return one_hot(hit)

        return scores

    return make


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
