"""The overlap experiment: weights, exact against sampled, the paper's claim in each precision, the command."""

import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from soundsmooth.cli.overlap import run_overlap
from soundsmooth.exact import clopper_pearson_above, clopper_pearson_below
from soundsmooth.lab.gallery.certifiers import values
from soundsmooth.lab.gallery.overlap import measure, normal_weights, pairs
from soundsmooth.lab.gallery.reachable import all_floats, reachable

HALF = np.dtype("float16")


@pytest.fixture(scope="module")
def half():
    return measure("half")


@pytest.fixture(scope="module")
def weights():
    return normal_weights(all_floats(HALF))


def test_the_weights_are_those_of_a_rounded_normal_variable(weights):
    """To 10⁻¹⁵ against mpmath, at floats of every size."""
    floats = all_floats(HALF)
    assert abs(math.fsum(weights) - 1) < 1e-12
    assert np.array_equal(weights, weights[::-1])
    for i in (*range(1, len(floats) - 1, 3001), len(floats) // 2, len(floats) // 2 + 1):
        low, high = (mpmath.mpf(float(floats[i]) + float(floats[j])) / 2 for j in (i - 1, i + 1))
        assert abs(float(mpmath.ncdf(high) - mpmath.ncdf(low)) - weights[i]) < 1e-15


def test_pairs():
    listed = list(pairs())
    assert len(listed) == len(set(listed)) == 1018
    assert all(1 <= abs(a - b) <= 2 and min(a, b) >= 0 and max(a, b) <= 255 for a, b in listed)


def test_half_precision(half, weights):
    """Exact: no chance. The claim fails, at 176 levels; six of the minima are computed again by brute force."""
    assert half.claim is False
    assert half.n is None
    assert half.exceptions == 176
    assert half.worst_level == 255
    floats, level = all_floats(HALF), values(np.arange(256), HALF)
    for a in (0, 5, 60, 104, 254, 255):
        sums = level[a] + floats
        chance = {
            b: 1 - weights[~np.isin(sums, level[b] + floats)].sum()
            for b in range(max(0, a - 2), min(255, a + 2) + 1)
            if b != a
        }
        assert half.probability[a] == pytest.approx(min(chance.values()), abs=1e-12)
        assert chance[int(half.partner[a])] == pytest.approx(min(chance.values()), abs=1e-12)


def test_sampling_agrees_with_counting(half):
    """20 000 draws at eight levels, two-sided Clopper–Pearson at 10⁻¹⁰ a side.

    False alarm: at most 16 · 10⁻¹⁰. Power: an error of 0.03 in any one probability is more than eight standard
    deviations (at most 0.0035), beyond the interval's 6.4: found with probability above 0.97.
    """
    noise = np.random.default_rng().standard_normal(20_000).astype(HALF)
    for a in (0, 7, 42, 60, 88, 104, 145, 200):
        point, other = values(np.array([a, half.partner[a]]), HALF)
        hits = int(reachable(other, point + noise).sum())
        side = Fraction(1, 10**10)
        assert clopper_pearson_below(hits, 20_000, side) <= half.probability[a]
        assert half.probability[a] <= clopper_pearson_above(hits, 20_000, side)


def test_single_precision_the_claim_holds():
    """The worst level, 5, has p = 0.9880; the next has p = 0.9863 (4 000 000 draws, ± 0.0001).

    False alarm: the upper bound lies 0.0007 above the share, whose standard deviation is 0.00014; 0.99 is 9 of them
    away, and level 5 leads by 8: below 10⁻¹⁴. Power: if p were ≥ 0.99 at any level, `claim` would be True with
    probability at most 0.001, by the bounds' own guarantee.
    """
    single = measure("single", 600_000)
    assert single.claim is True
    assert single.exceptions == 0
    assert single.worst_level == 5
    assert single.image_at_worst < 1e-7


def test_double_precision_the_claim_fails():
    """At level 255 every |ε| < 16 is a hit: 254/255 and 253/255 are multiples of 2⁻⁴⁸ in doubles, so v − b is a float.

    The next level, 254, has p = 0.9987: no miss in 20 000 with probability e⁻²⁵. The other exceptions have p > 0.997,
    the rest p < 0.92: at most 60 or at least 1600 misses are expected, and 200 divide them. False alarm below 10⁻¹⁰.
    Power: one exception more or less is seen whenever its p is not within 0.005 of 0.99 (7 standard deviations).
    """
    double = measure("double", 20_000)
    assert double.claim is False
    assert double.worst_level == 255
    assert double.worst == 1
    assert double.exceptions == 64
    assert double.image_at_worst == 1


def test_json(capsys):
    run_overlap(["half"], 1, None, True)
    line = json.loads(capsys.readouterr().out)
    assert line["precision"] == "half"
    assert line["below_0.99"] is False
    assert line["n"] is None
    assert line["worst"]["lower"] <= line["worst"]["probability"] <= line["worst"]["upper"]
    assert len(line["probability"]) == len(line["partner"]) == 256


def test_table(capsys):
    """No chance: three draws never settle the claim. P(3 misses) = 10⁻⁶ at p = 0.99, above the 4.9 · 10⁻⁷ of a side."""
    run_overlap(["single"], 3, None, False)
    shown = capsys.readouterr().out
    assert "single" in shown
    assert "?" in shown
    assert "1536 of 3072" in shown


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="there are half, single, double"):
        run_overlap(["quarter"], 100, None, False)
    with pytest.raises(ValueError, match="n must be"):
        run_overlap([], 0, None, False)
    with pytest.raises(ValueError, match="one of half"):
        measure("quarter")
