"""Soundness end to end, on classifiers whose smoothed value is known exactly.

For each one, many independent keys are drawn from the operating system, many images have noise of their own under
each, and the share of certificates with p_lower > p is counted: that is when the radius exceeds σ·Φ⁻¹(p). It may happen
with probability α at the most. How often it must happen follows from the exact binomial law of the votes, so a bound
that is too careful is noticed as well.

TRIALS = 2000 certificates under 20 keys, n = 400, α = 1/20. With r the exact rate of p_lower > p (between 0.02 and
0.05, computed below), a correct program fails a test with probability at most 2·10⁻⁹ (both tails of Bin(TRIALS, r) cut
at 10⁻⁹). A program whose rate is 0.1 instead fails with probability above 0.999 (checked by
`test_power_of_these_tests`), and so does one whose bound is so careful that the rate is below r/5.
"""

import bisect
import os
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binom

import soundsmooth as ss
from soundsmooth.exact import clopper_pearson_below, radius_below
from soundsmooth.noise import Gaussian

KEYS, IMAGES, N, ALPHA = 20, 100, 400, Fraction(1, 20)
TRIALS = KEYS * IMAGES
#: Each with the level at which its p_lower is that of Clopper and Pearson at ALPHA: runner-up spends half on it.
BOUNDS = {"clopper-pearson": ALPHA, "runner-up": 2 * ALPHA}
SIGMA = Fraction(1, 2)
BITS = 128


@lru_cache
def exact_rate(p: float, bound: Callable = clopper_pearson_below) -> float:
    """P(p_lower > p) when each of N votes is a hit with probability p."""
    lowest = next(c for c in range(N + 1) if bound(c, N, ALPHA) > p)
    return float(binom.sf(lowest - 1, N, p))


def allowed(rate: float) -> tuple[int, int]:
    """The counts of TRIALS that a correct program leaves with probability at most 10⁻⁹ on each side."""
    return int(binom.ppf(1e-9, TRIALS, rate)), int(binom.isf(1e-9, TRIALS, rate))


def masses(levels: range) -> dict[int, float]:
    """P(T = j), to 128 bits and then to a double."""
    a_law = Gaussian(SIGMA)
    edges = [0, *a_law.breakpoints(BITS), 1 << BITS]
    return {j: (edges[j + a_law.reach + 1] - edges[j + a_law.reach]) / 2**BITS for j in levels}


def pixel(batch: np.ndarray) -> np.ndarray:
    """Class 1 where the first pixel is at least level 100."""
    hit = batch.reshape(len(batch), -1)[:, 0] >= np.float32(100 / 255)
    return np.stack([~hit, hit], axis=1).astype(np.float32)


def pixel_probability(level: int = 160) -> float:
    """P(clamp(x + T) ≥ 100) = P(T ≥ 100 − x) = 1 − B_{99 − x}."""
    a_law = Gaussian(SIGMA)
    return float(1 - Fraction(a_law.breakpoint(99 - level, BITS), 1 << BITS))


def half_space(batch: np.ndarray) -> np.ndarray:
    """Class 1 where the three pixels, in levels, sum to at least 300."""
    total = np.rint(batch.reshape(len(batch), -1) * np.float32(255)).sum(axis=1)
    return np.stack([total < 300, total >= 300], axis=1).astype(np.float32)


def half_space_probability(level: int = 130) -> float:
    """P(3x + T₁ + T₂ + T₃ ≥ 300) by convolution; the noise is never clamped within 10⁻³⁰ of probability."""
    reach = Gaussian(SIGMA).reach
    single = np.array([mass for _, mass in sorted(masses(range(-reach, reach + 1)).items())])
    triple = np.convolve(np.convolve(single, single), single)
    sums = np.arange(-3 * reach, 3 * reach + 1) + 3 * level
    return float(triple[sums >= 300].sum())


def coin(batch: np.ndarray) -> np.ndarray:
    """Truly random, and independent of everything: class 1 with probability 200/256 by the system's generator."""
    hit = np.frombuffer(os.urandom(len(batch)), np.uint8) < 200
    return np.stack([~hit, hit], axis=1).astype(np.float32)


CASES = [
    pytest.param(pixel, np.full(1, 160, np.uint8), pixel_probability, id="pixel"),
    pytest.param(half_space, np.full(3, 130, np.uint8), half_space_probability, id="half-space"),
    pytest.param(coin, np.zeros(2, np.uint8), lambda: 200 / 256, id="random F"),
]


@pytest.mark.parametrize(("classifier", "image", "probability"), CASES)
@pytest.mark.slow("issues two thousand certificates")
def test_the_radius_exceeds_the_true_one_no_more_often_than_it_may(
    classifier: Callable, image: np.ndarray, probability: Callable[[], float]
) -> None:
    """Half of the keys for either bound. The two have the same p_lower, so their rates are one."""
    p = probability()
    smooth = ss.Smoother(classifier, SIGMA, batch_size=N, threads=1, independence="assumed")  # one of them is random
    images = np.stack([image] * IMAGES)
    asked = [(bound, level) for bound, level in BOUNDS.items() for _ in range(KEYS // len(BOUNDS))]
    runs = (smooth.certify_all(images, n0=100, n=N, alpha=level, bound=bound) for bound, level in asked)
    records = [record for run in runs for record in run]
    assert len(records) == TRIALS
    hits = [record.estimation.classes[1] for record in records]  # whatever selection chose: estimation is independent
    lower = {c: clopper_pearson_below(c, N, ALPHA) for c in set(hits)}
    assert all(r.p_lower == lower[c] for r, c in zip(records, hits, strict=True) if r.selection.top == 1)
    rate = exact_rate(p)
    assert rate <= ALPHA
    low, high = allowed(rate)
    assert low <= sum(lower[c] > p for c in hits) <= high
    assert sum(r.label == 1 and r.p_lower > p for r in records) <= high


def test_the_true_radius_of_the_pixel_is_the_distance_to_its_threshold() -> None:
    """F ∘ g_k flips at the real number 99.5/255, and σ·Φ⁻¹(p) is exactly the distance to it: nothing is lost."""
    distance = Fraction(2 * 160 - 199, 2 * 255)
    assert abs(radius_below(pixel_probability(), SIGMA) - float(distance)) < 1e-12


def test_certified_radii_are_not_vacuous() -> None:
    """With n = 100 000 the radius of the pixel reaches 90 % of the true one, for each of 10 keys.

    A correct program fails this with probability below 10⁻⁹, which the first assertion computes exactly.
    """
    p, true = pixel_probability(), 121 / 510

    def reaches(hits: int) -> bool:
        return radius_below(clopper_pearson_below(hits, 100_000, Fraction(1, 1000)), SIGMA) > 0.9 * true

    hits = range(60_000, 100_001, 10)
    needed = hits[bisect.bisect_left(hits, True, key=reaches)]
    assert reaches(needed)
    assert not reaches(needed - 10)
    assert 10 * binom.cdf(needed, 100_000, p) < 1e-9
    smooth = ss.Smoother(pixel, SIGMA, batch_size=10_000)
    for _ in range(10):
        assert smooth.certify(np.full(1, 160, np.uint8)).radius > 0.9 * true


def test_power_of_these_tests() -> None:
    """The numbers in this module's docstring."""
    for p in (pixel_probability(), half_space_probability(), 200 / 256):
        rate = exact_rate(p)
        assert 0.02 < rate <= 0.05
        low, high = allowed(rate)
        assert binom.sf(high, TRIALS, 0.1) > 0.999
        assert binom.cdf(low - 1, TRIALS, rate / 5) > 0.999


def test_prediction_errs_no_more_often_than_alpha() -> None:
    """At p = 0.48 the smoothed classifier answers 0; a prediction of 1 has probability at most α = 0.05.

    2000 predictions, n = 100: the exact rate of a wrong answer is far below α (the test is two-sided and p < ½), so
    this fails for a correct program with probability below 10⁻⁹ and for one that skips the test always.
    """

    def almost_fair(batch: np.ndarray) -> np.ndarray:
        hit = np.frombuffer(os.urandom(2 * len(batch)), np.uint16) < int(0.48 * 65536)
        return np.stack([~hit, hit], axis=1).astype(np.float32)

    smooth = ss.Smoother(almost_fair, SIGMA, batch_size=100, threads=1)
    wrong = sum(smooth.predict(np.zeros(1, np.uint8), n=100, alpha=ALPHA).label == 1 for _ in range(2000))
    assert wrong <= binom.isf(1e-9, 2000, float(ALPHA) / 2)
    without_a_test = binom.sf(50, 100, 0.48)
    assert binom.cdf(binom.isf(1e-9, 2000, float(ALPHA) / 2), 2000, without_a_test) < 1e-9
