"""The union bound: Clopper–Pearson at set looks, each with a part of α.

Horváth et al. (ICLR 2022) have few stages with equal parts. Voráček (NeurIPS 2024) has looks that grow by 10 %, and
parts that fall like 1/k², for ever: 5/((k + 4)(k + 5)) for k = 1, 2, …, which sum to 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ...certification.stop_rule import Floats, binomial
from .sequential import Sequential


@dataclass(frozen=True)
class UnionBound(Sequential):
    """Certifies p where P(X ≥ hits) is at most the look's part of α."""

    parts: Mapping[int, float] = field(default_factory=dict)
    """The looks, rising, and which part of α each has."""

    def looks(self, n: int) -> tuple[int, ...]:
        return tuple(votes for votes in self.parts if votes <= n)

    def certifies(self, hits: int, votes: int, p: float, alpha: float) -> bool:
        return tail(hits, votes, p) <= alpha * self.parts[votes]


def tail(hits: int, votes: int, p: float) -> float:
    """P(X ≥ hits), in floats; what is below 10⁻¹⁷ counts as 0."""
    if hits <= 0 or p == 1:
        return 1.0
    if p == 0:
        return 0.0
    first, tails = _tails(votes, p)
    return 1.0 if hits <= first else float(tails[hits - first]) if hits - first < len(tails) else 0.0


@lru_cache(maxsize=4)
def _tails(votes: int, p: float) -> tuple[int, Floats]:
    law = binomial(votes, p)
    return law.first, np.cumsum(law.terms[::-1])[::-1]


def stages(n: int) -> UnionBound:
    """Four stages, each ten times the one before, a quarter of α for each."""
    parts = {max(1, n // 10**k): 0.25 for k in (3, 2, 1, 0)}
    return UnionBound("four stages", "Horváth et al. 2022", valid=True, parts=parts)


def growing_looks(n: int) -> UnionBound:
    """Looks where the votes exceed 1.1^k, beginning at 3; one for each k, but not two at once."""
    parts: dict[int, float] = {}
    for votes in range(3, n + 1):
        k = len(parts) + 1
        if votes > 1.1 ** (10 + k):
            parts[votes] = 5 / ((k + 4) * (k + 5))
    return UnionBound("union bound", "Voráček 2024", valid=True, parts=parts)
