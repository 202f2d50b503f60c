"""Wald's sequential probability ratio test (1945), for one radius: p against a larger p₁.

It certifies where the votes are 1/α times as likely under p₁ as under p, and gives up where they are α times as likely.
Both errors are at most α, by Ville's inequality, but only at p and at p₁. An image between the two is decided late, and
is often given up: that is the price of a p₁ that nobody knows. Here it lies a fixed part of σ farther out.
"""

from dataclasses import dataclass
from math import log
from statistics import NormalDist

from .sequential import Sequential

NORMAL = NormalDist()


@dataclass(frozen=True)
class RatioTest(Sequential):
    """The ratio of two likelihoods; it rises with each hit and falls with each miss."""

    gap: float = 0.1
    """How much larger the radius is for p₁, in units of σ."""

    def certifies(self, hits: int, votes: int, p: float, alpha: float) -> bool:
        return self.log_ratio(hits, votes, p) >= -log(alpha)

    def gives_up(self, hits: int, votes: int, p: float, alpha: float) -> bool:
        return self.log_ratio(hits, votes, p) <= log(alpha)

    def log_ratio(self, hits: int, votes: int, p: float) -> float:
        """How much likelier the votes are under p₁, as a logarithm."""
        if p <= 0:
            return float("inf") if hits else 0.0
        larger = NORMAL.cdf(NORMAL.inv_cdf(p) + self.gap)
        return hits * log(larger / p) + (votes - hits) * log((1 - larger) / (1 - p))


SPRT = RatioTest("SPRT, p₁ at r + 0.1 σ", "Wald 1945", valid=True)
