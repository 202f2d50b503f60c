"""Rows that see each other read the image; a certificate for such a classifier is void."""

import numpy as np
import pytest

from soundsmooth.lab.gallery.assumption_breakers import Asked, try_deployment
from soundsmooth.lab.gallery.certifiers import Certifier, CertifierTask, FloatSum, GuardBand, Ours, Standard
from soundsmooth.lab.gallery.entries.batch import LEVEL, SHAPE, SIGMA, brighter_than, run, step
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding

N = 2000
STEP = 5


def test_the_images_are_as_close_as_the_docstring_says() -> None:
    """Exact: half the difference is at least 6.27 standard deviations of the mean of a batch."""
    assert step(10_000) == 2
    assert step(N) == STEP
    for batch in (1000, N, 10_000):
        deviation = 255 * float(SIGMA) / np.sqrt(np.prod(SHAPE) * batch)
        assert step(batch) / 2 / deviation > 6.27


@pytest.mark.parametrize(
    "certifier", [Standard("float32"), Standard("float64"), Standard("float16"), FloatSum(), GuardBand()]
)
def test_both_images_are_certified_far_beyond_each_other(certifier: Certifier) -> None:
    """Four batches, each wrong beyond 7.0 standard deviations (6.8 with float16's error in the image, 0.06 levels):
    fails by chance with probability below 4·Φ(−6.8) < 2.2e-11. A guard band loses a row with probability 0.0155; its
    radius is below 0.75 if it loses 100 of 2000, with probability below 1e-20 by the exact binomial tail.
    A classifier whose rows are independent cannot do it: at a distance of 0.16 honest certificates do not contradict.
    """
    (one,) = run([certifier], Options(n=N))
    assert one.finding is Finding.VOID
    assert one.distance == pytest.approx(STEP * 8 / 255)
    assert one.radius is not None
    assert one.radius > (0.75 if certifier.name == "guard-band" else 1.3505)


def test_ours_refuses_where_proof_is_asked_for() -> None:
    (one,) = run([Ours()], Options(n=N))
    assert one.finding is Finding.REFUSED
    assert "cannot be proved" in one.note


def test_where_honesty_is_assumed_ours_is_void_as_well() -> None:
    """Exact noise does not help: this is why `proved` must refuse. Fails by chance with probability below 1e-11."""
    make, task = brighter_than(LEVEL - STEP / 2), CertifierTask(SIGMA, N)
    one, other = (Asked(make, np.full(SHAPE, level), task) for level in (LEVEL, LEVEL - STEP))
    assert try_deployment("batch", Ours(independence="assumed"), one, other, "assumed").finding is Finding.VOID
