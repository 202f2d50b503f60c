"""Votes that are dropped before they are counted: the certified share is not the theorem's."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from soundsmooth.exact import clopper_pearson_below, radius_below
from soundsmooth.lab.gallery.certifiers import Ours, Standard
from soundsmooth.lab.gallery.entries import filtered_votes
from soundsmooth.lab.gallery.entries.filtered_votes import AWAY, KEPT, MIDDLE, SIGMA, kept_votes
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding

N, N0 = 100_000, 10_000
DEVIATION = float(SIGMA) * 255
ONE = norm.sf((KEPT - 0.5 - AWAY) / DEVIATION)
ZERO = norm.sf((KEPT - 0.5 + AWAY) / DEVIATION)
SHARE = ONE / (ONE + ZERO)


def test_the_shares_are_those_of_the_docstring() -> None:
    assert pytest.approx([0.0366, 0.0139, 0.7245], abs=1e-4) == [ONE, ZERO, SHARE]


def test_false_is_all_but_certain() -> None:
    """4500 copies are kept at least, but for 1e-12. Then 0.694 of them give a radius above the distance, at the level
    α/2 of a second point too, and fewer have probability below 1e-5. Selection errs with less than 1e-12."""
    kept, needed = 4500, 3123
    assert binom.cdf(kept, N, ONE + ZERO) < 1e-12
    assert radius_below(clopper_pearson_below(needed, kept, filtered_votes.SIGMA / 1000), SIGMA) > 2 * AWAY / 255
    assert binom.cdf(needed, kept, SHARE) < 1e-5
    assert binom.cdf(N0 * (ONE + ZERO) * 0.3, int(N0 * (ONE + ZERO) * 0.8), SHARE) < 1e-12


def test_the_filter_is_false_and_ours_abstains() -> None:
    """Missed with probability below 4e-5. Ours: half of the votes would be needed, and four of 100 are there: the odds
    are below 1e-300."""
    assert binom.sf(N // 2, N, ONE) < 1e-300
    found = list(filtered_votes.run([Standard("float32"), Ours()], Options(n=N)))
    assert [(trial.certifier, trial.finding) for trial in found] == 2 * [
        ("filtered", Finding.FALSE_POINT),
        ("ours", Finding.ABSTAINS),
    ]
    assert all(sum(trial.counts[0]) == N for trial in found if trial.certifier == "ours")
    assert all(sum(trial.counts[0]) < N / 10 for trial in found if trial.certifier == "filtered")


def test_what_the_filter_drops() -> None:
    levels = MIDDLE + np.array([[-300], [-255], [-254], [0], [254], [255], [300]])
    scores = kept_votes(np.dtype("float64"))(levels / 255)
    assert np.isnan(scores).any(axis=1).tolist() == [False, False, True, True, True, False, False]
    assert scores[[0, 1, 5, 6]].argmax(axis=1).tolist() == [0, 0, 1, 1]
