"""When an image has votes enough: the hits at which a run goes on, look by look.

Nothing here has to be right. A lower bound with looks holds for every stop rule, also for a foolish or a hostile one
(docs/looks.md), so that floats are allowed, and approximations. A bad rule costs votes or radii, never the truth.

The rule is solved once per run, backwards over the looks. A state is so many hits at one look. Its value is the larger
of two: what is certified now, or what is expected after the next look less the price of the votes until then. The
expectation is over a fixed prior for p, the probability of a hit: uniform in z = Φ⁻¹(p). What the hits say of p is
summed over a grid of p, with all binomial terms above 10⁻¹⁷ of the largest.

Not all radii are worth the same. Where hits are nearly certain, votes tell little of Φ⁻¹(p): more images lie closer to
the threshold than n votes can tell. If such a radius were worth no more than others, it would lose most. The same is
true of one among many radii. `worths` makes up for both, so that no radius loses much more than the rest.

One approximation is made. A state is the hits at one look, and the radii that only an earlier look has crossed are not
known in it. They are counted where the next look loses what this one has.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..exact import clopper_pearson_below

Floats = NDArray[np.float64]
#: Probabilities of a hit, rising, each with its weight; the weights sum to 1.
Prior = list[tuple[float, float]]
#: Closed intervals of hits, rising.
Intervals = tuple[tuple[int, int], ...]

#: How many votes a certified radius of one image is worth, if it is the only one and not a hard one.
DEFAULT_PATIENCE = 100_000.0
#: With J radii, each is worth J to this power times as much.
MANY = 0.25
#: A radius is hard where votes tell less of Φ⁻¹(p) than half of what they tell at p = ½; then it is worth more, by this
#: power of how much less.
HARD = 1.5
#: The prior for p is uniform in Φ⁻¹(p) between these; a threshold outside extends it.
LOWEST_Z, HIGHEST_Z, MARGIN_Z = -1.0, 4.5, 0.5
#: The grid of p has so many points for each standard deviation of hits/n at the last look but one.
POINTS_PER_DEVIATION = 1.0
#: Terms of a binomial law below exp(−CUT) of the largest are left out.
CUT = 39.0
#: A gain must exceed this, so that the last bits of a float decide nothing.
LEAST_GAIN = 1e-9
#: An image whose chance to get a radius at all is below this is given up, where the radius is asked for.
HOPELESS = 0.001


class Binomial(NamedTuple):
    """The terms of a binomial law that matter: those of `first`, `first` + 1, …"""

    first: int
    terms: Floats

    @property
    def end(self) -> int:
        return self.first + len(self.terms)


def go_on_for_radii(
    looks: Sequence[int],
    boundaries: Sequence[Sequence[int]],
    thresholds: Sequence[float],
    patience: float = DEFAULT_PATIENCE,
) -> tuple[Intervals, ...]:
    """The hits at which to go on, for each look but the last, if these radii are asked for.

    `boundaries[j][k]` is the count from which radius j is crossed at look k, n_k + 1 if none is enough. `thresholds`
    are the probabilities that belong to the radii, both rising. `patience` says how many votes one more certified
    radius of one image is worth; more, if there are many radii, or hard ones. With 0 all images stop at the first look.
    With infinity they go on while anything can be gained.
    """
    if not patience >= 0:
        raise ValueError(f"patience is a number of votes, 0 or more, not {patience!r}")
    if patience == 0:
        return ((),) * (len(looks) - 1)
    prior = prior_for(thresholds, looks[-2] if len(looks) > 1 else 1)
    each_worth = worths(thresholds)
    values, rules = certified_now(looks, boundaries, each_worth, len(looks) - 1), []
    for k in reversed(range(len(looks) - 1)):
        now = certified_now(looks, boundaries, each_worth, k)
        gain = expected_gain(looks[k], looks[k + 1], now, values, prior) - (looks[k + 1] - looks[k]) / patience
        rules.append(intervals(gain > LEAST_GAIN))
        values = now + np.maximum(gain, 0)
    return tuple(reversed(rules))


def worths(thresholds: Sequence[float]) -> list[float]:
    """What each radius is worth, in units of patience.

    With m votes, the standard deviation of Φ⁻¹(hits/m) near p is √(p(1 − p)/m)/φ(Φ⁻¹(p)). At p = ½ it is √(π/2m).
    """
    normal = NormalDist()
    easy, many = 2 * math.sqrt(math.pi / 2), len(thresholds) ** MANY
    deviations = [math.sqrt(p * (1 - p)) / normal.pdf(normal.inv_cdf(p)) for p in thresholds]
    return [many * max(1.0, each / easy) ** HARD for each in deviations]


def certified_now(
    looks: Sequence[int], boundaries: Sequence[Sequence[int]], each_worth: Sequence[float], k: int
) -> Floats:
    """For each number of hits at look k, the worth of the radii that this look alone certifies, one after the other."""
    certified = np.zeros(looks[k] + 1)
    needed = 0
    for each, worth in zip(boundaries, each_worth, strict=True):
        needed = max(needed, each[k])
        certified[needed:] += worth
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
    weights = np.diff(heights) / (heights[-1] - heights[0])
    return list(zip((1 - misses).tolist(), weights.tolist(), strict=True))


def _angle(misses: float) -> float:
    return math.asin(math.sqrt(misses))


def expected_gain(n: int, then: int, now: Floats, values: Floats, prior: Prior) -> Floats:
    """For each number of hits among n: by how much the value after `then` votes is expected to exceed that of now.

    What is certified now is not lost. Where the hits are out of question under the prior, nothing is gained.
    """
    gained, chance = np.zeros(n + 1), np.zeros(n + 1)
    for p, weight in prior:
        here, more = binomial(n, p), binomial(then - n, p)
        weights = weight * here.terms
        chance[here.first : here.end] += weights
        for first, end, level in _levels(now, here):
            reached = values[first + more.first : end - 1 + more.end]
            above = np.maximum(reached - level, 0)
            if above.any():
                part = slice(first - here.first, end - here.first)
                gained[first:end] += weights[part] * np.correlate(above, more.terms, "valid")
    return _quotient(gained, chance)


def _levels(now: Floats, here: Binomial) -> Iterator[tuple[int, int, float]]:
    """The stretches of hits where the same radii are certified now: first, end and what they are worth."""
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


def go_on_for_width(
    looks: Sequence[int], levels: Sequence[Fraction], width: float, hopeless: float = HOPELESS
) -> tuple[Intervals, ...]:
    """The hits at which to go on, for each look but the last, until the radius is nearly what all n copies would give.

    It stops if z = Φ⁻¹(p_lower), to which Gaussian radii are proportional, is at least 1 − `width` of what is expected
    at the last look. It also stops if a positive radius there has a chance of less than `hopeless`. The bound is
    Clopper–Pearson's at the level of each look.
    """
    if not 0 <= width <= 1:
        raise ValueError(f"width is a share of the radius, between 0 and 1, not {width!r}")
    prior = prior_for((), looks[-2] if len(looks) > 1 else 1)
    last = certified_heights(looks[-1], levels[-1])
    rules = []
    for n, level in zip(looks[:-1], levels[:-1], strict=True):
        expected, positive = _expected_last(n, looks[-1], last, prior)
        near = certified_heights(n, level) >= (1 - width) * expected
        rules.append(intervals((positive >= hopeless) & ~near))
    return tuple(rules)


def _expected_last(n: int, last: int, heights: Floats, prior: Prior) -> tuple[Floats, Floats]:
    """For each number of hits among n: the expected height after the last look, and the chance that it is positive."""
    sums, positive, chance = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    for p, weight in prior:
        here, more = binomial(n, p), binomial(last - n, p)
        weights = weight * here.terms
        reached = heights[here.first + more.first : here.end - 1 + more.end]
        chance[here.first : here.end] += weights
        if reached[-1] > 0:
            sums[here.first : here.end] += weights * np.correlate(reached, more.terms, "valid")
            positive[here.first : here.end] += weights * np.correlate(reached > 0, more.terms, "valid")
    return _quotient(sums, chance), _quotient(positive, chance)


def _quotient(sums: Floats, chance: Floats) -> Floats:
    """Where the chance is 0, 0."""
    return np.divide(sums, chance, out=np.zeros(len(chance)), where=chance > 0)


def certified_heights(n: int, level: Fraction) -> Floats:
    """max(0, Φ⁻¹(p_lower)) for each number of hits among n: proved at some of them, interpolated between."""
    normal, misses = NormalDist(), _some_misses(n)
    heights = []
    for each in misses:
        p_lower = clopper_pearson_below(n - each, n, level)
        heights.append(max(0.0, normal.inv_cdf(p_lower)) if p_lower > 0.5 else 0.0)
    return np.interp(np.arange(n + 1), n - np.array(misses[::-1]), heights[::-1])


def _some_misses(n: int) -> list[int]:
    """0, 1, 2, … and then rising by a thirtieth, to all n."""
    found = [0]
    while found[-1] < n:
        found.append(min(n, found[-1] + 1 + found[-1] // 30))
    return found
