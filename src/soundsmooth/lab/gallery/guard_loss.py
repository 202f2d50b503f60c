"""The cost of rounding with a guard band (the paper's section 4.3): the share of noisy copies that are lost, computed.

A copy is lost when one of its d coordinates is within the guard of a rounding boundary. In levels a coordinate is
t + ε with an integer t and ε ~ N(0, (σq)²); so the chance is the same for every t. The paper takes 10⁻⁶ for it, from a
rounding error of 10⁻⁸ and steps of 10⁻². But steps are 1/255, and a sum of up to k + 1 = 7 is off by up to 2.4·10⁻⁷
in single precision; 10⁻⁶ would be a guard of 2·10⁻⁹, which is below half an ulp of every sum above 1/16.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...core.grid import IMAGES
from ...exact.balls import ball, float_above, float_below, lower_end, precision, upper_end
from .certifiers import guard_width

SIZES = {"CIFAR": 3072, "ImageNet": 150_528}
PRECISIONS = ("float16", "float32", "float64")
#: The share of copies that are kept, as the paper estimates it.
PAPER = {("CIFAR", "float32"): "0.997", ("ImageNet", "float32"): "0.86"}
PAPER |= {(images, "float16"): "the problem will persist" for images in SIZES}
PAPER_NEAR = Fraction(1, 10**6)
BITS = 192


@dataclass(frozen=True)
class Loss:
    """One row of the table."""

    images: str
    dimension: int
    precision: str
    guard: float
    """In levels, on either side of a boundary; from ½ on nothing is left."""
    near: float
    """The chance that one coordinate is near a boundary, rounded up."""
    kept: float
    """The share of copies without such a coordinate, rounded down."""
    paper: str
    """The paper's estimate of that share."""


def near_boundary(guard: Fraction, sigma: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds for P(|ε − (j + ½)| ≤ guard for some integer j), ε ~ N(0, (σq)²), in levels.

    Guarantee: the probability lies between them. The boundaries up to 12 standard deviations are summed in balls, as a
    difference of two tails each, and by symmetry twice; beyond them lies less than P(|ε| > 12σq) < 10⁻³².
    """
    if guard >= Fraction(1, 2):
        return Fraction(1), Fraction(1)
    scale = sigma * IMAGES.q
    last = int(12 * scale) + 1
    with precision(BITS):
        root = ball(2).sqrt()

        def beyond(levels: Fraction) -> Any:
            return (ball(levels / scale) / root).erfc()  # P(|ε| > levels)

        middle = (Fraction(2 * j + 1, 2) for j in range(last))
        total = sum((beyond(m - guard) - beyond(m + guard) for m in middle), start=ball(0))
        return lower_end(total), upper_end(total + beyond(Fraction(last)))


def kept_share(near: Fraction, dimension: int) -> tuple[Fraction, Fraction]:
    """Bounds for (1 − near)^dimension."""
    with precision(BITS):
        share = ball(1 - near) ** dimension
        return lower_end(share), upper_end(share)


def losses(sigma: Fraction = Fraction(1, 2), k: int = 6) -> Iterator[Loss]:
    """The table: every size in every precision, for the guard that `GuardBand` takes."""
    for name in PRECISIONS:
        guard = guard_width(np.dtype(name), k)
        near = near_boundary(Fraction(guard), sigma)[1]
        for images, dimension in SIZES.items():
            kept = float_below(kept_share(near, dimension)[0])
            yield Loss(images, dimension, name, guard, float_above(near), kept, PAPER.get((images, name), ""))
