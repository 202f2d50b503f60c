"""Boundaries for set radii: how many hits, at each look, say that a probability is above a threshold.

H_k is the number of hits among the first n_k votes. Whoever sees H_k ≥ b_k at some look says "above p". The boundaries
are as low as the levels allow at exactly this p. They are found by a live over the hits that have not crossed yet.
Proofs: docs/noise.md, 3.15.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from operator import index

from flint import arb, arb_poly

from .balls import ball, float_above, precision, upper_end
from .binomial import mass

#: Counts that are rarer than 2^−SPARE, compared with the smallest level, are left out of the live: one after the other.
SPARE = (64, 160, 400)
#: So many bits more has a ball.
GUARD = 48


def boundaries(p: float | Fraction, looks: Sequence[int], levels: Sequence[Fraction]) -> tuple[int, ...]:
    """b_1, …, b_K: each the smallest with P(H_j ≥ b_j for some j ≤ k) ≤ α_1 + … + α_k, where a vote hits with
    probability p; n_k + 1 where no count will do.

    Guarantee: some b_k is reached with probability at most the sum of the levels, for p and for every smaller
    probability: with more hits a path that has crossed still does. Each b_k is proved to be the smallest, unless the
    probability is within 2^−400 of the smallest level of the sum: then b_k is one larger.
    """
    votes = tuple(map(index, looks))
    shares = tuple(Fraction(level) for level in levels)
    if not votes or len(votes) != len(shares) or any(after <= before for before, after in pairwise((0, *votes))):
        raise ValueError(f"{len(shares)} levels do not fit the looks {list(votes)}, which must rise")
    if not 0 < p < 1 or min(shares) <= 0 or sum(shares) >= 1:
        raise ValueError("p must lie between 0 and 1, and so must the levels and their sum")
    return _boundaries(Fraction(p), votes, shares)


def crossing_probability(p: float | Fraction, looks: Sequence[int], crossings: Sequence[int]) -> float:
    """P(H_k ≥ b_k for some k).

    Guarantee: at least the true value; above it by less than 2⁻⁶⁰ and what it takes to the next double.
    """
    if not 0 < p < 1:
        raise ValueError(f"p must lie strictly between 0 and 1, not {p}")
    with precision(SPARE[0] + 2 * GUARD):
        live = _LiveHits(Fraction(p), Fraction(1, 1 << (SPARE[0] + GUARD)))
        for votes, crossing in zip(looks, crossings, strict=True):
            live.advance(index(votes))
            live.absorb(index(crossing))
        return min(1.0, float_above(upper_end(live.crossed + live.lost)))


@lru_cache(maxsize=1 << 12)
def _boundaries(p: Fraction, looks: tuple[int, ...], levels: tuple[Fraction, ...]) -> tuple[int, ...]:
    least = min(levels)
    for spare in SPARE:
        rare = least / (1 << spare)
        with precision(rare.denominator.bit_length() - rare.numerator.bit_length() + GUARD):
            found = _attempt(_LiveHits(p, rare), looks, levels, spare == SPARE[-1])
        if found is not None:
            return found
    raise AssertionError("the last attempt finds boundaries")


def _attempt(
    live: "_LiveHits", looks: tuple[int, ...], levels: tuple[Fraction, ...], last: bool
) -> tuple[int, ...] | None:
    """The boundaries, or None if this precision leaves one of them open; the last attempt takes the larger one."""
    found = []
    spent = Fraction(0)
    for votes, level in zip(looks, levels, strict=True):
        spent += level
        live.advance(votes)
        crossing, proved = live.lowest(spent)
        if not proved and not last:
            return None
        live.absorb(crossing)
        found.append(crossing)
    return tuple(found)


class _LiveHits:
    """How the hits that have not crossed are distributed: balls around P(H = low), P(H = low + 1), …

    Counts that are too rare are left out. Their mass is in `lost`: above, it counts as crossed, below, as not crossed.
    """

    def __init__(self, p: Fraction, rare: Fraction) -> None:
        self.p, self.rare = p, rare
        self.votes = self.low = 0
        self.state = [arb(1)]
        self.crossed = self.lost = arb(0)

    def advance(self, votes: int) -> None:
        """Add the hits of the next votes, and leave out what has become rare at either end."""
        low, masses, rest = increments(votes - self.votes, self.p, self.rare)
        state = (arb_poly(self.state) * arb_poly(masses)).coeffs()
        state += [arb(0)] * (len(self.state) + len(masses) - 1 - len(state))
        rare, start, end = ball(self.rare), 0, len(state)
        while start < end and state[start] < rare:
            start += 1
        while start < end and state[end - 1] < rare:
            end -= 1
        self.lost += sum(state[:start] + state[end:], rest)
        self.votes, self.low, self.state = votes, self.low + low + start, state[start:end]

    def lowest(self, spent: Fraction) -> tuple[int, bool]:
        """The lowest boundary here at which no more than `spent` is proved to have crossed, and whether every lower one
        is proved to be too low.
        """
        goal = ball(spent)
        crossed, crossing = self.crossed, self.low + len(self.state)
        if not crossed + self.lost <= goal:
            return self.votes + 1, False
        while crossing > self.low:
            crossed += self.state[crossing - 1 - self.low]
            if not crossed + self.lost <= goal:
                return crossing, bool(crossed > goal)
            crossing -= 1
        return crossing, False

    def absorb(self, crossing: int) -> None:
        """Move all hits from the boundary on from the state to what has crossed."""
        keep = min(max(0, crossing - self.low), len(self.state))
        self.crossed += sum(self.state[keep:], arb(0))
        self.state = self.state[:keep] or [arb(0)]


def increments(n: int, p: Fraction, rare: Fraction) -> tuple[int, list[arb], arb]:
    """The masses of Bin(n, p) that are not rare, from which number of hits on, and a ball that holds those left out.

    Guarantee: each ball holds its mass; the last one is at least the sum of all others. On either side of the mode the
    ratios of neighbouring masses fall, so what follows a mass is below a geometric series.
    """
    mode = min(n, int((n + 1) * p))
    top = mass(mode, n, p)
    up, above = _fall(top, n - mode, mode + 1, p, rare)
    down, below = _fall(top, mode, n - mode + 1, 1 - p, rare)
    return mode - len(down), [*reversed(down), top, *up], above + below


def _fall(top: arb, left: int, start: int, p: Fraction, rare: Fraction) -> tuple[list[arb], arb]:
    """t_1, t_2, … with t_0 = top and t_{i+1} = t_i · (left − i)/(start + i) · p/(1 − p), until they are rare, and an
    upper bound of the sum of all others.
    """
    found: list[arb] = []
    limit, odds = ball(rare), ball(p / (1 - p))
    term, i = top, 0
    while i < left:
        ratio = odds * (left - i) / (start + i)
        if term < limit and ratio < 1:
            return found, term * ratio / (1 - ratio)
        term = term * ratio
        found.append(term)
        i += 1
    return found, arb(0)
