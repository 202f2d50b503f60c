"""How much of the noise around a could be noise around a neighbour b: the paper's section 4.2, in three precisions.

For every level a the level b ≠ a within 2/255 is sought that minimises P(a ⊕ ε₁ = b ⊕ ε₂ for some float ε₂), where ε₁
is a normal variable rounded to the float format. The paper says that for a ≥ 5/255 and σ = 1 this is below 0.99.
It is in single precision. In half and in double precision it is not, and the reason is in the bits: t/255 is t's eight
bits repeated for ever, so the last bits of the significand are the low bits of t when its length is a multiple of
eight (24 in single precision), and the high bits of t, which neighbours share, when it is not (11 and 53).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ...core.grid import IMAGES
from ...exact import clopper_pearson_above, clopper_pearson_below
from .certifiers import values
from .reachable import Floats, Mask, all_floats, reachable

PRECISIONS = {"half": "float16", "single": "float32", "double": "float64"}
CLAIM = 0.99
FIRST = 5
"""The claim is about the levels from here on."""
PIXELS = 3072 // 2
"""As many pixels of a CIFAR image are assumed not to be black."""
REACH = 2
CHUNK = 1 << 17


@dataclass(frozen=True)
class Overlap:
    """For every level its farthest neighbour, and how likely a noisy copy could have come from there."""

    precision: str
    n: int | None
    """Draws per pair, the same for all pairs; None where every float was counted with its probability."""
    partner: npt.NDArray[np.int64]
    probability: npt.NDArray[np.float64]
    alpha: Fraction = Fraction(1, 1000)
    """Bounds from samples hold for all pairs together, except with this probability."""

    @property
    def worst_level(self) -> int:
        """The level a ≥ 5 whose minimised probability is largest."""
        return FIRST + int(self.probability[FIRST:].argmax())

    @property
    def worst(self) -> float:
        return float(self.probability[self.worst_level])

    def bounds(self, level: int) -> tuple[float, float]:
        """Around the minimised probability of a level.

        From samples: Clopper–Pearson, one side of each pair at α / (2 · pairs). If all pairs' intervals are right, so
        is the one whose ends are the smallest over the partners; both bounds rise with the hits, so it is that of the
        partner with fewest hits. Otherwise: the sum of 63 487 weights, each with an error below 10⁻¹⁵.
        """
        p = float(self.probability[level])
        if self.n is None:
            return max(0.0, p - 1e-10), min(1.0, p + 1e-10)
        share = self.alpha / (2 * sum(1 for _ in pairs()))
        hits = round(p * self.n)
        return clopper_pearson_below(hits, self.n, share), clopper_pearson_above(hits, self.n, share)

    @property
    def claim(self) -> bool | None:
        """Whether the worst level lies below 0.99; None if the samples do not say."""
        low, high = self.bounds(self.worst_level)
        if high < CLAIM:
            return True
        return False if low >= CLAIM else None

    @property
    def exceptions(self) -> int:
        """How many of the 251 levels lie at 0.99 or above (from samples: an estimate)."""
        return int((self.probability[FIRST:] >= CLAIM).sum())

    @property
    def median(self) -> float:
        return float(np.median(self.probability[FIRST:]))

    @property
    def image_at_worst(self) -> float:
        """At most this: the chance that a noisy image could come from the other one, all levels being the worst."""
        return self.bounds(self.worst_level)[1] ** PIXELS

    @property
    def image_spread(self) -> float:
        """The same chance for an image whose 1536 pixels are spread evenly over the levels 5 … 255."""
        with np.errstate(divide="ignore"):  # few draws may all miss
            return math.exp(PIXELS * float(np.log(self.probability[FIRST:]).mean()))


def measure(precision: str, n: int = 1_000_000, seed: int | None = None) -> Overlap:
    """The experiment at σ = 1: all floats in half precision, n draws in single and double precision."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    dtype = np.dtype(PRECISIONS[precision])
    if precision == "half":
        noise = all_floats(dtype)
        return _minimise(precision, None, _chances(noise, normal_weights(noise)))
    rng, hits = np.random.default_rng(seed), np.zeros((IMAGES.levels, 2 * REACH + 1))
    for first in range(0, n, CHUNK):
        noise = rng.standard_normal(min(CHUNK, n - first)).astype(dtype)
        hits += _chances(noise, None)
    return _minimise(precision, n, hits / n)


def normal_weights(floats: Floats) -> npt.NDArray[np.float64]:
    """P(a standard normal variable rounds to v) for each of all the floats of a format, in increasing order.

    Φ(m) = erfc(−m/√2)/2 at the midpoints m, on the negative side, where nothing cancels, and mirrored: an absolute
    error below 10⁻¹⁵ each. Ties have probability 0.
    """
    x = floats.astype(np.float64)
    middle = (x[1:] + x[:-1]) / 2  # exact in doubles
    below = np.array([math.erfc(abs(m) / math.sqrt(2)) / 2 for m in middle])
    rises = np.diff(np.concatenate([[0.0], below[middle < 0]]))
    centre = 1 - 2 * below[middle < 0][-1]
    return np.concatenate([rises, [centre], rises[::-1]])


def pairs() -> Iterator[tuple[int, int]]:
    """All pairs of different levels at most 2 apart."""
    for a in range(IMAGES.levels):
        for b in range(max(0, a - REACH), min(IMAGES.levels - 1, a + REACH) + 1):
            if b != a:
                yield a, b


def _chances(noise: Floats, weights: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64]:
    """For each pair the weight (or number) of draws whose sum with a is reachable from b; ∞ where there is no b."""
    level = values(np.arange(IMAGES.levels), noise.dtype)
    total = np.full((IMAGES.levels, 2 * REACH + 1), np.inf)
    for a, b in pairs():
        hit = _could_be(level[a], level[b], noise)
        total[a, b - a + REACH] = hit.sum() if weights is None else 1 - weights[~hit].sum()
    return total


def _could_be(a: Floats, b: Floats, noise: Floats) -> Mask:
    with np.errstate(over="ignore"):
        return reachable(b, a + noise)


def _minimise(precision: str, n: int | None, chances: npt.NDArray[np.float64]) -> Overlap:
    column = chances.argmin(axis=1)
    levels = np.arange(IMAGES.levels)
    return Overlap(precision, n, levels + column - REACH, chances[levels, column])
