"""Are two certifications of the same images by the same network different beyond what their noise explains?

Both procedures classify the same images, so images are not resampled: if the two smoothed classifiers were the same, an
image's true class would get Bin(n, p) votes in either run, independently, with a p of the image's own that nobody
knows. Given the sum of the two counts, which of the n + n copies were hits is then a uniform choice: the first count is
hypergeometric, whatever p is. Likewise, if only one of the two selections chose the true class, it was either with
probability ½. So no test here needs an estimate of p, and all keep their level, the last two with draws from that law:

- `cell`: the number of images certified at a radius, sound minus standard. An image adds +1 and −1 with the same
  probability c, which follows from the hypergeometric law and the least count that certifies the radius; the sum of
  independent such terms is computed in full.
- `votes`: the sum over all images of hits, sound minus standard. It sees a shift of p long before an accuracy moves.
  The two runs may have different numbers of copies.
- `image`: the same for one image.
- `scatter`: the sum over all images of squared differences, each in units of its own variance, against draws of the
  hypergeometric laws. It sees shifts of p that go up on some images and down on others.
- `mean_radius`: the average certified radius; under the null each image's difference has a random sign.

All but `scatter` are two-sided. A p-value is at most t with probability at most t if the two classifiers are the same.
Tests of a kind are a family, corrected by Holm's method. The two classifiers are *not* quite the same: one sees levels,
the other one floats. What the tests could find is computed beside them, as power against a shift of p.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from soundsmooth.exact import clopper_pearson_below, radius_below

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
#: Draws of signs for `mean_radius`: its p-values are no smaller than 1 in so many.
FLIPS = 100_000
#: Draws of all counts for `scatter`, likewise.
DRAWS = 20_000
#: Floats carry the probabilities: none is trusted below this.
SMALLEST = 1e-12


@dataclass(frozen=True)
class Results:
    """What one procedure found, image by image."""

    chosen: npt.NDArray[np.bool_]
    """Whether selection chose the true class."""
    hits: Counts
    """Votes for the true class in the estimation."""
    radius: Floats
    """The radius where the answer is correct, else 0."""

    def certified(self, least: int) -> npt.NDArray[np.bool_]:
        return self.chosen & (self.hits >= least)


@dataclass(frozen=True)
class Pair:
    """Two procedures on the same images, with n copies each."""

    n: int
    sound: Results
    standard: Results

    @property
    def images(self) -> int:
        return len(self.sound.hits)

    @property
    def totals(self) -> Counts:
        """The hits of both together."""
        return self.sound.hits + self.standard.hits

    @cached_property
    def hits(self) -> "Hits":
        return Hits(self.sound.hits, self.n, self.standard.hits, self.n)


@dataclass(frozen=True)
class Hits:
    """Hits on the same images in two runs, with n copies of each image in the first one and m in the second."""

    first: Counts
    n: int
    second: Counts
    m: int

    @property
    def weights(self) -> tuple[int, int]:
        """What votes of the first and of the second run count, so that their difference is 0 in the mean."""
        common = math.gcd(self.n, self.m)
        return self.m // common, self.n // common

    @property
    def difference(self) -> int:
        up, down = self.weights
        return up * int(self.first.sum()) - down * int(self.second.sum())

    @property
    def estimates(self) -> Floats:
        """The share of hits in both runs together."""
        return (self.first + self.second) / (self.n + self.m)

    @cached_property
    def null(self) -> "tuple[Null, float]":
        """The law of the difference, and its standard deviation."""
        return _sum_of_counts(self)


@dataclass(frozen=True)
class Test:
    """A difference, what it deviates by under the null, and how often it is at least as large by chance."""

    difference: float
    deviation: float
    p: float
    power: float | None = None
    """How often the shift that was asked about would be found at the level that was asked for."""


@cache
def least_hits(radius: Fraction, n: int, sigma: Fraction, alpha: Fraction) -> int:
    """The least count that is certified with a larger radius; n + 1 if there is none."""
    low, high = 0, n + 1  # not enough, enough
    while high - low > 1:
        middle = (low + high) // 2
        p = clopper_pearson_below(middle, n, alpha)
        enough = p > 0.5 and Fraction(radius_below(p, sigma)) > radius
        low, high = (low, middle) if enough else (middle, high)
    return high


@cache
def _log_factorials(n: int) -> Floats:
    return np.array([math.lgamma(k + 1) for k in range(n + 1)])


def first_count(hits: int, n: int, m: int) -> Floats:
    """The law of the first of two counts, of n and of m copies, that add up to `hits`: entry h is P(h)."""
    log, h = _log_factorials(n + m), np.arange(max(0, hits - m), min(n, hits) + 1)
    weights = -(log[h] + log[n - h] + log[hits - h] + log[m - hits + h])
    law = np.zeros(n + 1)
    law[h] = np.exp(weights - weights.max())
    law /= law.sum()
    return law


def swings(pair: Pair, least: int) -> Floats:
    """For each image, the probability that only the first procedure certifies it; the same as for only the second."""
    chosen = pair.sound.chosen.astype(int) + pair.standard.chosen
    totals = pair.totals
    return np.array([_swing(int(c), int(total), pair.n, least) for c, total in zip(chosen, totals, strict=True)])


def _swing(chosen: int, total: int, n: int, least: int) -> float:
    if chosen == 0 or total < least:
        return 0.0
    law = first_count(total, n, n)
    if chosen == 1:  # whichever selection it was
        return float(law[least:].sum()) / 2
    return float(law[max(least, total - least + 1) :].sum())  # the first has enough, and leaves the second too few


class Null:
    """The law of a difference under the null, as tails: entry d is P(|D| ≥ d)."""

    def __init__(self, law: Floats, values: Counts) -> None:
        """D is an integer, with the value values[i] with probability law[i]."""
        self._tails = np.bincount(np.abs(values), law)[::-1].cumsum()[::-1]

    def p(self, difference: int) -> float:
        """How often the difference is at least as large, either way."""
        tail = float(self._tails[abs(difference)]) if abs(difference) < len(self._tails) else 0.0
        return min(1.0, max(SMALLEST, tail))

    def critical(self, level: float) -> int:
        """The least difference that is found at the level; beyond the largest possible one if none is."""
        found: Counts = np.flatnonzero(self._tails <= level)
        return int(found[0]) if len(found) else len(self._tails)


def sum_of_swings(up: Floats, down: Floats) -> Floats:
    """The law of a sum of independent terms that are +1 and −1 with these probabilities; its centre is the middle."""
    law = np.ones(1)
    for plus, minus in zip(up, down, strict=True):
        law = np.convolve(law, (minus, 1 - plus - minus, plus))
    return law


def cell(pair: Pair, least: int, shift: float = 0.0, level: float = 0.0) -> Test:
    """The number of certified images, sound minus standard; `power` is against standard's p being larger by `shift`."""
    moving = swings(pair, least)
    difference = int(pair.sound.certified(least).sum()) - int(pair.standard.certified(least).sum())
    power = _cell_power(pair, least, shift, level) if level else None
    return Test(difference, math.sqrt(2 * float(moving.sum())), _null_of(moving).p(difference), power)


def _null_of(moving: Floats) -> Null:
    """The law of the sum of the images' swings."""
    moving = moving[moving > 0]
    return Null(sum_of_swings(moving, moving), np.arange(2 * len(moving) + 1) - len(moving))


def _cell_power(pair: Pair, least: int, shift: float, level: float) -> float:
    """About P(D is found at the level), with the estimated p of each image, and that p + shift in the second run.

    What is found depends on the counts that were seen, which a shift moves too. So the critical difference is that of
    the mean null law, in which both runs have the p in the middle. (The one of the counts at hand would often be less.)
    """
    chosen = (pair.sound.chosen | pair.standard.chosen).astype(float)
    p = pair.hits.estimates
    other = shifted(p, shift)
    first, second, middle = (chosen * _enough(each, least, pair.n) for each in (p, other, (p + other) / 2))
    critical = _null_of(middle * (1 - middle)).critical(level)
    law = sum_of_swings(first * (1 - second), second * (1 - first))
    far = np.abs(np.arange(len(law)) - pair.images) >= critical
    return float(law[far].sum())


def borderline(p: Floats) -> npt.NDArray[np.bool_]:
    """Images whose votes are not nearly unanimous."""
    return (p > 0.05) & (p < 0.95)


def shifted(p: Floats, shift: float) -> Floats:
    """p, larger by the shift on borderline images."""
    return np.where(borderline(p), p + shift, p)


def _enough(p: Floats, least: int, n: int) -> Floats:
    """P(Bin(n, p) ≥ least) for each p."""
    log, h = _log_factorials(2 * n), np.arange(min(least, n + 1), n + 1)
    common = log[n] - log[h] - log[n - h]
    inside = (p > 0) & (p < 1)
    found = np.where(p >= 1, float(least <= n), float(least <= 0))
    for i in np.flatnonzero(inside):
        found[i] = min(1.0, float(np.exp(common + h * math.log(p[i]) + (n - h) * math.log1p(-p[i])).sum()))
    return found


def votes(hits: Hits, shift: float = 0.0, level: float = 0.0) -> Test:
    """Hits on all images together, first minus second, in the units of `Hits.weights`."""
    null, deviation = hits.null
    power = _votes_power(hits, shift, null.critical(level)) if level else None
    return Test(hits.difference, deviation, null.p(hits.difference), power)


def _variances(totals: Counts, n: int, m: int) -> Floats:
    """Of first counts: n of n + m copies, among which there are `total` hits."""
    both = n + m
    return totals * (both - totals) * (n * m / (both**2 * (both - 1)))


def _sum_of_counts(hits: Hits) -> tuple[Null, float]:
    """The law of the difference, given each image's total: with the weights u and d, Σ ((u + d) first − d total), that
    is (u + d) Σ (first − ⌊d total / (u + d)⌋), less all remainders; and its standard deviation.

    The sum's mean is that of the remainders over u + d. The laws are multiplied as characters on a cycle around 0 that
    is longer than twice this mean by 32 deviations (and 64): by Bernstein's inequality less than 10⁻²⁰ lies beyond it,
    since a hypergeometric count is a sum of independent indicators.
    """
    totals, (up, down) = hits.first + hits.second, hits.weights
    whole = up + down
    deviation = math.sqrt(float(_variances(totals, hits.n, hits.m).sum()))
    floors, rests = np.divmod(down * totals, whole)
    rest = int(rests.sum())
    length = 1 << math.ceil(math.log2(32 * deviation + 64 + 2 * rest / whole))
    product = np.ones(length // 2 + 1, complex)
    for total, floor in zip(totals.tolist(), floors.tolist(), strict=True):
        law = first_count(total, hits.n, hits.m)
        (where,) = np.nonzero(law)
        product *= np.fft.rfft(np.bincount((where - floor) % length, law[where], length))
    law = np.fft.irfft(product, length).clip(0)
    around = np.fft.fftfreq(length, 1 / length).astype(np.int64)  # 0, 1, …, −2, −1
    return Null(law, whole * around - rest), whole * deviation


def _votes_power(hits: Hits, shift: float, critical: int) -> float:
    """P(|D| ≥ critical) if the second p is larger by the shift on borderline images; D is taken to be normal."""
    (up, down), p = hits.weights, hits.estimates
    other = shifted(p, shift)
    mean = up * hits.n * float((other - p).sum())  # as up · n is down · m
    first, second = up**2 * hits.n * p * (1 - p), down**2 * hits.m * other * (1 - other)
    deviation = math.sqrt(float((first + second).sum()))
    if deviation == 0:
        return 0.0
    return _above((critical - mean) / deviation) + _above((critical + mean) / deviation)


def _above(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


def detectable(hits: Hits, level: float, power: float = 0.99) -> float | None:
    """The least shift of p on borderline images, to 0.0001, that `votes` finds with this power; None beyond 0.05."""
    null, _ = hits.null
    critical = null.critical(level)
    shifts = (k / 10_000 for k in range(1, 501))
    return next((shift for shift in shifts if _votes_power(hits, shift, critical) >= power), None)


def image(pair: Pair, i: int) -> Test:
    """Hits on one image, sound minus standard."""
    first, second = int(pair.sound.hits[i]), int(pair.standard.hits[i])
    total = first + second
    null = Null(first_count(total, pair.n, pair.n), 2 * np.arange(pair.n + 1) - total)
    deviation = 2 * math.sqrt(float(_variances(np.array(total), pair.n, pair.n)))
    return Test(first - second, deviation, null.p(first - second))


def scatter(pair: Pair, shift: float = 0.0, level: float = 0.0) -> Test:
    """Σ z² less its mean, the number of images that can differ; `power` is against standard's p being larger or
    smaller by `shift`, whichever it is for each image.
    """
    can = _variances(pair.totals, pair.n, pair.n) > 0
    totals, rng = pair.totals[can], np.random.default_rng(0)
    found = float(_squares(pair.sound.hits[can], totals, pair.n))
    many = (1000, len(totals))
    rounds = (rng.hypergeometric(totals, 2 * pair.n - totals, pair.n, many) for _ in range(DRAWS // 1000))
    drawn = np.concatenate([_squares(each, totals, pair.n) for each in rounds])
    at_least = 1 + int((drawn >= found * (1 - 1e-9)).sum())  # sums in another order are equal
    power = _scatter_power(pair, shift, drawn, level) if level else None
    return Test(found - len(totals), float(drawn.std()), at_least / (DRAWS + 1), power)


def _squares(first: Counts, totals: Counts, n: int) -> Floats:
    """Σ z² of first counts, along the last axis."""
    squares: Floats = ((first - totals / 2) ** 2 / _variances(totals, n, n)).sum(axis=-1)
    return squares


def _scatter_power(pair: Pair, shift: float, drawn: Floats, level: float) -> float:
    """P(Σ z² is beyond the level), taken to be normal, if each image's means are `shift` apart."""
    p = pair.hits.estimates
    p = p[borderline(p)]
    apart = pair.n * shift**2 / (2 * p * (1 - p))  # (n shift / 2)² over the variance n p (1 − p) / 2
    critical = float(np.quantile(drawn, 1 - level))
    mean, deviation = drawn.mean() + apart.sum(), math.sqrt(drawn.var() + 4 * apart.sum())
    return _above((critical - mean) / deviation) if deviation else 0.0


def mean_radius(pair: Pair) -> Test:
    """The average certified radius, sound minus standard, against random signs of the images' differences."""
    found = (pair.sound.radius - pair.standard.radius) / pair.images
    found, rng = found[found != 0], np.random.default_rng(0)
    observed, at_least = abs(float(found.sum())), 1
    for _ in range(FLIPS // 1000):
        signs = 2 * rng.integers(0, 2, (1000, len(found)), np.int8) - 1
        at_least += int((np.abs(signs @ found) >= observed * (1 - 1e-9)).sum())  # sums in another order are equal
    return Test(float(found.sum()), math.sqrt(float((found**2).sum())), at_least / (FLIPS + 1))


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: those at most t are a set of findings with a false one with probability at most t."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted
