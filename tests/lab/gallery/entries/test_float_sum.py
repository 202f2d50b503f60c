"""Exact noise that is added as floats: neighbours share almost no float, and that is enough for a false certificate.

Nothing here depends on luck: the chances are added up exactly, and the margins of the sampled tests follow from them.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from soundsmooth.lab.gallery.certifiers import FloatSum, GuardBand, Ours, Standard, values
from soundsmooth.lab.gallery.entries.float_sum import CLAIM, LEVEL, NEIGHBOUR, SIGMA, member, reachable, run
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding, Trial
from soundsmooth.noise import Gaussian

SINGLE, DOUBLE = np.dtype("float32"), np.dtype("float64")
N = 2000
#: All N votes for one class, at σ = 0.5 and α = 0.001.
FULL_RADIUS = 1.3505
BITS = 128


def chances() -> list[Fraction]:
    """P(T = j) for every j from −reach to reach, each within 2^(1 − 128) of the truth."""
    ends = [0, *Gaussian(SIGMA).breakpoints(BITS), 1 << BITS]
    return [Fraction(b - a, 1 << BITS) for a, b in pairwise(ends)]


def chance(hits: np.ndarray) -> float:
    """The probability of the values of the noise that are marked."""
    return float(sum(p for p, hit in zip(chances(), hits, strict=True) if hit))


def found(name: str) -> list[Trial]:
    certifiers = [Standard("float32"), Standard("float64"), Standard("float16"), FloatSum(), GuardBand(), Ours()]
    trials = list(run([one for one in certifiers if one.name == name], Options(n=N)))
    assert len(trials) == 2
    return trials


def test_the_floats_of_two_neighbours_hardly_overlap() -> None:
    """Exact: 1292 of 3316 floats are shared, but together they have a chance of 6.1e-10 at 210 and 6.3e-10 at 209."""
    here, there = reachable(LEVEL, SINGLE), reachable(NEIGHBOUR, SINGLE)
    assert len(np.unique(here)) == len(np.unique(there)) == 3316
    assert len(np.intersect1d(here, there)) == 1292
    assert chance(np.isin(here, there)) == pytest.approx(6.056058751939e-10, rel=1e-9)
    assert chance(np.isin(there, here)) == pytest.approx(6.253775417241e-10, rel=1e-9)


def test_in_double_precision_they_do_overlap() -> None:
    """So the effect is one of float32: in float64 a copy of 209 is reachable from 210 with probability 0.985."""
    assert chance(np.isin(reachable(NEIGHBOUR, DOUBLE), reachable(LEVEL, DOUBLE))) == pytest.approx(0.984507, abs=1e-6)


def test_the_reachable_floats_are_those_that_the_certifier_makes() -> None:
    """Exact: whatever the certifier draws from is in the set."""
    noisy = FloatSum()._noisy(SINGLE, SIGMA)
    for level in (0, NEIGHBOUR, LEVEL, 255):
        assert np.isin(noisy(np.full(1, level), 1, 0, 5000)[:, 0], reachable(level, SINGLE)).all()


def test_both_neighbours_are_certified_far_beyond_each_other() -> None:
    """Two runs vote 2N copies at 209, each wrong with 6.3e-10: fails by chance with probability below 5.1e-6.

    A certifier that adds in integers gives both points the same floats but for one in the tails, and would always fail.
    """
    for trial in found("paper-code"):
        assert trial.finding is Finding.FALSE_POINT
        assert trial.radius is not None
        assert trial.radius > FULL_RADIUS
        assert trial.distance == 1 / 255
    assert CLAIM


def test_for_ours_it_is_an_honest_function_of_the_level() -> None:
    """Class 1 has p < 0.17 at both points, exactly. Selection takes class 1 with probability below
    exp(−2·2000·0.33²) < 1e-180 (Hoeffding). The radius of class 0 leaves 0.3 … 0.7 if its share of the votes leaves
    0.757 … 0.937, more than 9 standard deviations off: with probability below 1e-18.
    """
    grid = Gaussian(SIGMA)
    noise = np.arange(-grid.reach, grid.reach + 1)
    for level in (LEVEL, NEIGHBOUR):
        levels = np.clip(level + noise, grid.lowest, grid.highest)
        hits = member(DOUBLE)(values(levels, DOUBLE)[:, None]).argmax(axis=1) == 1
        assert 0.15 < chance(hits) < 0.17
    for trial in found("ours"):
        assert trial.finding is Finding.HOLDS
        assert trial.radius is not None
        assert 0.3 < trial.radius < 0.7


@pytest.mark.parametrize("name", ["standard-float32", "standard-float64", "standard-float16", "guard-band"])
def test_it_is_made_for_one_certifier(name: str) -> None:
    """The others see both levels as class 0: at most 0.2 of their floats are members, so that class 1 is selected with
    probability below exp(−2·2000·0.3²) < 1e-150.
    """
    assert [trial.finding for trial in found(name)] == [Finding.HOLDS, Finding.HOLDS]
