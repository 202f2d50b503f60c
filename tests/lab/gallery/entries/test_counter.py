"""Classifiers with a memory: whatever is certified for them is void."""

import numpy as np
import pytest

from soundsmooth.lab.gallery.assumption_breakers import Asked, try_deployment
from soundsmooth.lab.gallery.certifiers import Certifier, CertifierTask, FloatSum, GuardBand, Ours, Standard
from soundsmooth.lab.gallery.entries.counter import SIGMA, Counter, RunningMean, run, same
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding

N = 1000
WHITE = np.full(1, 255)


@pytest.mark.parametrize(
    "certifier", [Standard("float32"), Standard("float64"), Standard("float16"), FloatSum(), GuardBand()]
)
def test_the_same_point_has_another_answer_after_it_was_certified(certifier: Certifier) -> None:
    """The counter leaves nothing to chance. The mean of m white rows is at most one half with probability Φ(−√m): this
    matters in the first rows of the selection only; 500 of its 1000 votes are lost with probability below 1e-100. At
    the end at most 4000 of 10 000 rows are white: a mean above one half is 31 standard deviations off. A guard band
    loses a copy with probability below 3e-4, and 11 of 1000 (a radius below 0.98) with probability below 1.3e-12.
    Without a memory both answers would be the same, and the test would fail.
    """
    trials = list(run([certifier], Options(n=N)))
    assert [one.finding for one in trials] == [Finding.VOID, Finding.VOID]
    for one in trials:
        assert one.radius is not None
        assert one.radius > 0.98
        assert one.distance == 0
    assert [one.note.split(": ")[1] for one in trials] == [
        "certified as 0, yet the answer is 1",
        "certified as 1, yet the answer is 0",
    ]


def test_ours_refuses_where_proof_is_asked_for() -> None:
    counts, means = run([Ours()], Options(n=N))
    for one in (counts, means):
        assert one.finding is Finding.REFUSED
        assert "cannot be proved" in one.note


def test_where_honesty_is_assumed_ours_is_void_as_well() -> None:
    """No chance involved. This is why `proved` must refuse: nothing outside the model can see the memory."""
    asked = Asked(same(Counter(2 * N)), WHITE, CertifierTask(SIGMA, N))
    assert try_deployment("counter", Ours(independence="assumed"), asked, asked, "counts").finding is Finding.VOID


def test_both_have_a_memory_at_batch_size_1_too() -> None:
    """Exact: the answers do not depend on how the rows are split."""
    rows = np.array([[0.4], [0.8], [0.9], [-1.0], [0.1], [3.0]])
    for fresh, expected in ((lambda: Counter(4), [0, 0, 0, 0, 1, 1]), (RunningMean, [0, 1, 1, 0, 0, 1])):
        together, alone = fresh(), fresh()
        assert together(rows).argmax(axis=1).tolist() == expected
        assert [int(alone(row[None]).argmax()) for row in rows] == expected
