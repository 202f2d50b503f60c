"""The law of the noise: which distribution, on which grid, clamped where."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ..exact import Rational, breakpoint_floor, breakpoints, positive
from ..grid import IMAGES, Grid

MOST_SIGMA = 10**6


@dataclass(frozen=True)
class Law:
    """T(U) = min { j ≥ −reach : U < B_j or j = reach } with B_j = Φ((j + ½)/(σq)), for U uniform on [0, 1).

    Then clamp(x + T) has exactly the law of g_k(x + ε), ε ~ N(0, σ²), for every level x of the grid:
    the paper's Proposition 5.1.
    """

    sigma: Fraction
    grid: Grid
    margin: int
    """K: noisy levels are clamped to [−K, levels − 1 + K]."""

    @property
    def reach(self) -> int:
        """K + L − 1: the noise lies in [−reach, reach]."""
        return self.margin + self.grid.levels - 1

    @property
    def lowest(self) -> int:
        return -self.margin

    @property
    def highest(self) -> int:
        return self.grid.levels - 1 + self.margin

    def breakpoints(self, bits: int) -> tuple[int, ...]:
        """⌊2^bits · B_j⌋ for j = −reach, …, reach − 1.

        Guarantee: each is proved in ball arithmetic (`exact.breakpoints`).
        """
        return _breakpoints(self.sigma, self.grid.q, self.reach, bits)

    def breakpoint(self, j: int, bits: int) -> int:
        """⌊2^bits · B_j⌋ for one j.

        Guarantee: proved in ball arithmetic (`exact.breakpoint_floor`).
        """
        return _breakpoint(self.sigma, self.grid.q, j, bits)


@lru_cache(maxsize=32)
def _breakpoints(sigma: Fraction, q: int, reach: int, bits: int) -> tuple[int, ...]:
    return tuple(breakpoints(sigma, q, reach, bits))


@lru_cache(maxsize=1 << 14)
def _breakpoint(sigma: Fraction, q: int, j: int, bits: int) -> int:
    return breakpoint_floor(sigma, q, j, bits)


def law(sigma: Rational, k: Rational = 6, grid: Grid = IMAGES) -> Law:
    """The law for σ and k in units of value 1 (the paper's convention), both exact rationals."""
    deviation = positive(sigma, "sigma")
    if deviation > MOST_SIGMA:
        raise ValueError(f"sigma = {sigma} is beyond any use: all noise would be clamped; keep it below {MOST_SIGMA}")
    return Law(deviation, grid, grid.margin(positive(k, "k")))
