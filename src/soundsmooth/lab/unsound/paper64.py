"""UNSOUND, for comparison only: the paper's Algorithm 2 to the letter, its indices mended.

A 64-bit draw t stands for the reals [t, t + 1) / 2⁶⁴. If a breaking point lies among them the draw is ambiguous, and
the algorithm returns Failure; otherwise the noise is exactly that of the theorem. Two things keep it out of `noise`:
the failure event (see `failures`), and draws from a general-purpose generator. Our own sampler has neither.

Mended, in the paper's symbols, with array indices from 0:

- the entry for i is arr[255k + 255 + i], not arr[255k − 255 + i], and it is read at j + 255(k + 1) in both places;
- arr holds ceilings, so the ambiguous draw is arr[j] − 1, not arr[j]: t < arr[j] − 1 lies below the breaking point as
  a whole, t ≥ arr[j] above it;
- the last entry, 2⁶⁴, only ends the search. It is no breaking point, so it makes no draw ambiguous;
- 2⁶⁴ fits no 64-bit integer, and at small σ most of the upper ceilings are 2⁶⁴ too. The fast version keeps
  arr[j] − 1, the ambiguous draws themselves, which fit;
- t is uniform on 0, …, 2⁶⁴ − 1;
- ε and x are added and clamped as integer levels, and only then is x' made a float, by a function of the level alone.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.grid import IMAGES, Grid
from ...exact import Rational
from ...noise.law import Gaussian, Law
from .certify import Classifier, Counts, UnsoundSmooth, count_votes

BITS = 64

Draws = npt.NDArray[np.uint64]


def breaking_points(noise: Law, bits: int = BITS) -> list[int]:
    """PrecomputeArrayOfBreakingPoints: ⌈2^bits · Φ((i + ½)/(255σ))⌉ for i = −255k − 255, …, 255k + 254, then 2^bits.

    Python integers, so that 2⁶⁴ fits. The floors are proved, and proved not to be the values themselves: ⌈y⌉ = ⌊y⌋ + 1.
    """
    return [floor + 1 for floor in noise.breakpoints(bits)] + [1 << bits]


def discretized_normal_literally(arr: Sequence[int], t: int) -> int | None:
    """N_D^{k+1}(0, σ²) at one position: the noise, in levels, of the draw t; None is Failure.

    Slow, to be read beside the paper. Only tests call it, to check the paper's errata.
    """
    reach = len(arr) // 2  # 255(k + 1)
    for j in range(-reach, reach + 1):
        if t == arr[j + reach] - 1 and j < reach:
            return None
        if t < arr[j + reach]:
            return j
    raise ValueError(f"the draw {t} is not below {arr[-1]}")


def discretized_normal(ambiguous: Draws, draws: Draws) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The same for many draws: their noise in levels, and which of them failed (their noise means nothing).

    `ambiguous` are the ambiguous draws arr[j] − 1 for all entries but the last (see `ambiguous_draws`), repetitions
    included. The first j with t < arr[j] is the first with t ≤ arr[j] − 1.
    """
    first = np.searchsorted(ambiguous, draws, side="left")
    failed = ambiguous[np.minimum(first, len(ambiguous) - 1)] == draws
    return first - len(ambiguous) // 2, failed


def ambiguous_draws(arr: Sequence[int]) -> Draws:
    """arr[j] − 1 for every entry but the last, which is no breaking point. They fit 64 bits; the ceilings do not."""
    return np.array([ceiling - 1 for ceiling in arr[:-1]], np.uint64)


class UnsoundPaper64(UnsoundSmooth):
    """UNSOUND, for comparison only: Algorithm 2 of F ∘ g_k, with NumPy's generator for a coin.

    Images are integer levels. `dtype` is the precision of the classifier's input. `bits` is the paper's n: with fewer
    than 64, failures are common enough to be seen. Only tests call it, to check the paper's errata.
    """

    def __init__(
        self,
        classifier: Classifier,
        num_classes: int,
        sigma: Rational,
        *,
        k: Rational = 6,
        grid: Grid = IMAGES,
        dtype: str = "float32",
        bits: int = BITS,
        seed: int | None = None,
    ) -> None:
        super().__init__(classifier, num_classes, sigma)
        if not 1 <= bits <= BITS:
            raise ValueError(f"bits must be between 1 and {BITS}, not {bits}")
        self.law, self.bits = Gaussian(sigma, k, grid), bits
        self.ambiguous = ambiguous_draws(breaking_points(self.law, bits))
        self.values = level_values(self.law, dtype)
        self.rng = np.random.default_rng(seed)

    def sample_under_noise(self, x: Any, n: int, batch_size: int = 1000) -> Counts:
        """SampleUnderNoise(f, x, n, σ, k): x' ← clamp(x + ε) in levels. A copy with a Failure votes for nobody."""
        levels = self.law.grid.on_grid(np.asarray(x))

        def votes(first: int, copies: int) -> npt.NDArray[Any]:
            noise, failed = self.noise(copies, levels.shape)
            noisy = np.clip(levels + noise, self.law.lowest, self.law.highest)
            return np.asarray(self._scores(self.values[noisy - self.law.lowest]).argmax(1)[~failed])

        return count_votes(votes, n, self.num_classes, batch_size)

    def noise(self, copies: int, shape: tuple[int, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """ε [copies, *shape] in levels, and for each copy whether one of its positions was a Failure."""
        draws = self.rng.integers((1 << self.bits) - 1, size=(copies, *shape), dtype=np.uint64, endpoint=True)
        noise, failed = discretized_normal(self.ambiguous, draws)
        return noise, np.asarray(failed.reshape(copies, -1).any(axis=1))


def level_values(noise: Law, dtype: str) -> npt.NDArray[Any]:
    """The float nearest to the value of each noisy level, from the lowest on: one table, so no trace of x or ε."""
    levels = np.arange(noise.lowest, noise.highest + 1, dtype=np.int16)
    if dtype == "float32":
        return noise.grid.values(levels)
    if dtype == "float64":
        return np.array([float(noise.grid.offset + Fraction(int(t), noise.grid.q)) for t in levels])
    raise ValueError(f"dtype must be float32 or float64, not {dtype!r}")
