"""Hoeffding's inequality at all times at once: hits − np grows no faster than a normal walk of variance n/4.

A mixture of exponential martingales over a normal prior gives the boundary √((V + ρ) ln((V + ρ)/(ρα²))) with V = n/4
(Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021). It holds on both sides together with probability 1 − α. It
does not know that votes with p near 1 vary little: there it needs far more of them. The empirical Bernstein sequences
of Waudby-Smith and Ramdas (2024) know it, but their state is more than hits and votes: they are not compared here.
"""

from dataclasses import dataclass
from math import log, sqrt

from .sequential import Sequential


@dataclass(frozen=True)
class HoeffdingMixture(Sequential):
    """Certifies where the hits exceed np by the boundary, which is tightest at some number of votes."""

    tightest: int = 1000

    def certifies(self, hits: int, votes: int, p: float, alpha: float) -> bool:
        twice = -2 * log(alpha)
        rho = self.tightest / 4 / (twice + log(twice) + 1)
        variance = votes / 4 + rho
        return hits - votes * p >= sqrt(variance * log(variance / (rho * alpha**2)))


HOEFFDING = HoeffdingMixture("Hoeffding mixture", "Howard et al. 2021", valid=True)
