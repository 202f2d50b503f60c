"""Betting: whoever bets against p grows rich if p is wrong. Wealth above 1/α has probability α at most (Ville 1939).

The bettor's forecasts are those of a Beta prior. With Beta(½, ½) this is Krichevsky and Trofimov's (KT), which Voráček
(NeurIPS 2024) brought to smoothing; with Beta(1, 1) it is Robbins' mixture of 1970. Wealth depends on hits and votes
alone. It grows on both sides of p, so at the threshold 1/α both errors together have probability α.
"""

from dataclasses import dataclass
from math import lgamma, log

from .sequential import Sequential


@dataclass(frozen=True)
class Betting(Sequential):
    """Certifies where the wealth exceeds 1/α and hits are more frequent than p."""

    prior: float = 0.5
    """The parameter of the symmetric Beta prior."""
    goal: float = 1.0
    """Wealth that is asked for, times α."""

    def certifies(self, hits: int, votes: int, p: float, alpha: float) -> bool:
        return hits > votes * p and log_wealth(hits, votes, p, self.prior) >= log(self.goal / alpha)


def log_wealth(hits: int, votes: int, p: float, prior: float) -> float:
    """The logarithm of the wealth: the votes' probability under the mixture over that under p."""
    if p in (0.0, 1.0):
        return float("inf")
    mixture = _log_beta(hits + prior, votes - hits + prior) - _log_beta(prior, prior)
    return mixture - hits * log(p) - (votes - hits) * log(1 - p)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


KT = Betting("KT betting", "Voráček 2024; Krichevsky and Trofimov 1981", valid=True)
#: The published program asks for wealth 1/(2α). Ville's inequality then bounds both errors together by 2α, and says no
#: more of one alone. By recursion the one that certifies stays below 0.7 α for p ≥ ½, α = 0.001 and up to 5000 votes.
KT_AS_RELEASED = Betting("KT betting, as released", "Voráček 2024, program", valid=False, goal=0.5)
ROBBINS = Betting("uniform mixture", "Robbins 1970", valid=True, prior=1.0)
