"""When an image has votes enough: the hits at which a run goes on, look by look.

Nothing here has to be right. A lower bound with looks holds for every stop rule, also for a foolish or a hostile one
(docs/looks.md), so that floats are allowed, and approximations. A bad rule costs votes or radii, never the truth.

The rule is solved once per run, backwards over the looks. A state is so many hits at one look. Its value is the larger
of two: what is certified now, or what is expected after the next look less the price of the votes until then. The
expectation is over a fixed prior for p, the probability of a hit: uniform in z = Φ⁻¹(p). What the hits say of p is
summed over a grid of p, with all binomial terms above 10⁻¹⁷ of the largest.

One approximation is made. A state is the hits at one look, and the radii that only an earlier look has crossed are not
known in it. They are counted where the next look loses what this one has.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Closed intervals of hits, rising.
Intervals = tuple[tuple[int, int], ...]

#: How many votes one more certified radius of one image is worth.
DEFAULT_PATIENCE = 1_000_000.0
#: The prior for p is uniform in Φ⁻¹(p) between these; a threshold outside extends it.
LOWEST_Z, HIGHEST_Z, MARGIN_Z = -1.0, 4.5, 0.5
#: The grid of p has so many points for each standard deviation of hits/n at the last look but one.
POINTS_PER_DEVIATION = 1.0
#: Terms of a binomial law below exp(−CUT) of the largest are left out.
CUT = 39.0
#: A gain must exceed this, so that the last bits of a float decide nothing.
LEAST_GAIN = 1e-9


class Binomial(NamedTuple):
    """The terms of a binomial law that matter: those of `first`, `first` + 1, …"""

    first: int
    terms: Floats

    @property
    def end(self) -> int:
        return self.first + len(self.terms)


class Prior(NamedTuple):
    """Probabilities of a hit, rising, and their weights, which sum to 1."""

    shares: Floats
    weights: Floats


def go_on_for_radii(
    looks: Sequence[int],
    boundaries: Sequence[Sequence[int]],
    thresholds: Sequence[float],
    patience: float = DEFAULT_PATIENCE,
) -> tuple[Intervals, ...]:
    """The hits at which to go on, for each look but the last, if these radii are asked for.

    `boundaries[j][k]` is the count from which radius j is crossed at look k, n_k + 1 if none is enough. `thresholds`
    are the probabilities that belong to the radii, both rising. `patience` says how many votes one more certified
    radius of one image is worth. With 0 all images stop at the first look. With infinity they go on while anything can
    be gained.
    """
    if not patience >= 0:
        raise ValueError(f"patience is a number of votes, 0 or more, not {patience!r}")
    if patience == 0:
        return ((),) * (len(looks) - 1)
    prior = prior_for(thresholds, looks[-2] if len(looks) > 1 else 1)
    values, rules = certified_now(looks, boundaries, len(looks) - 1), []
    for k in reversed(range(len(looks) - 1)):
        now = certified_now(looks, boundaries, k)
        gain = expected_gain(looks[k], looks[k + 1], now, values, prior) - (looks[k + 1] - looks[k]) / patience
        rules.append(intervals(gain > LEAST_GAIN))
        values = now + np.maximum(gain, 0)
    return tuple(reversed(rules))


def certified_now(looks: Sequence[int], boundaries: Sequence[Sequence[int]], k: int) -> Floats:
    """For each number of hits at look k, how many radii that look alone certifies, one after the other."""
    certified = np.zeros(looks[k] + 1)
    needed = 0
    for each in boundaries:
        needed = max(needed, each[k])
        certified[needed:] += 1
    return certified


def prior_for(thresholds: Sequence[float], n: int) -> Prior:
    """Uniform in z = Φ⁻¹(p), on a grid as fine as n votes can tell.

    The grid has equal steps in arcsin √p. There the standard deviation of hits/n is 1/(2√n), whatever p is.
    """
    normal = NormalDist()
    zs = [normal.inv_cdf(min(max(p, 1e-12), 1 - 1e-15)) for p in thresholds]
    lowest, highest = min([LOWEST_Z, *(z - MARGIN_Z for z in zs)]), max([HIGHEST_Z, *(z + MARGIN_Z for z in zs)])
    first, last = (_angle(normal.cdf(-z)) for z in (highest, lowest))
    edges = np.linspace(first, last, 2 + math.ceil(POINTS_PER_DEVIATION * 2 * math.sqrt(n) * (last - first)))
    misses = np.sin((edges[:-1] + edges[1:])[::-1] / 2) ** 2
    heights = np.array([-normal.inv_cdf(float(each)) for each in np.sin(edges[::-1]) ** 2])
    return Prior(1 - misses, np.diff(heights) / (heights[-1] - heights[0]))


def _angle(misses: float) -> float:
    return math.asin(math.sqrt(misses))


def expected_gain(n: int, then: int, now: Floats, values: Floats, prior: Prior) -> Floats:
    """For each number of hits among n: by how much the value after `then` votes is expected to exceed that of now.

    What is certified now is not lost. Where the hits are out of question under the prior, nothing is gained.
    """
    gained, chance = np.zeros(n + 1), np.zeros(n + 1)
    for p, weight in zip(prior.shares.tolist(), prior.weights.tolist(), strict=True):
        here, more = binomial(n, p), binomial(then - n, p)
        weights = weight * here.terms
        chance[here.first : here.end] += weights
        for first, end, level in _levels(now, here):
            reached = values[first + more.first : end - 1 + more.end]
            above = np.maximum(reached - level, 0)
            if above.any():
                part = slice(first - here.first, end - here.first)
                gained[first:end] += weights[part] * np.correlate(above, more.terms, "valid")
    return np.divide(gained, chance, out=np.zeros(n + 1), where=chance > 0)


def _levels(now: Floats, here: Binomial) -> Iterator[tuple[int, int, float]]:
    """The stretches of hits where equally many radii are certified now: first, end and how many."""
    part = now[here.first : here.end]
    steps = (np.flatnonzero(np.diff(part)) + 1).tolist()
    for first, end in pairwise([0, *steps, len(part)]):
        yield here.first + first, here.first + end, float(part[first])


def binomial(n: int, p: float) -> Binomial:
    """The law of the hits among n votes, in floats, summing to 1."""
    middle, deviation = min(n, int((n + 1) * p)), math.sqrt(n * p * (1 - p))
    reach = int(math.sqrt(2 * CUT) * deviation + CUT) + 1
    first, last = max(0, middle - reach), min(n, middle + reach)
    hits = np.arange(first, last + 1)
    logs = _log_factorials(n)
    heights = hits * math.log(p) + (n - hits) * math.log1p(-p) - logs[hits] - logs[n - hits]
    heights -= heights[middle - first]
    kept = np.flatnonzero(heights > -CUT)
    terms = np.exp(heights[kept[0] : kept[-1] + 1])
    return Binomial(first + int(kept[0]), terms / terms.sum())


@lru_cache(maxsize=64)
def _log_factorials(n: int) -> Floats:
    """The logarithms of 0!, 1!, …, n!."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])


def intervals(goes: NDArray[np.bool_]) -> Intervals:
    """The places where the answer is yes."""
    steps = (np.flatnonzero(np.diff(goes)) + 1).tolist()
    return tuple((first, end - 1) for first, end in pairwise([0, *steps, len(goes)]) if goes[first])
