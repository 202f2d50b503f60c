"""An answer that depends on the row's place in the batch: certified one way, deployed the other."""

import numpy as np
import pytest

from soundsmooth.lab.gallery.assumption_breakers import Asked, try_deployment
from soundsmooth.lab.gallery.certifiers import Certifier, CertifierTask, FloatSum, GuardBand, Ours, Standard
from soundsmooth.lab.gallery.entries.position import SIGMA, first_row, one_by_one, run
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding

N = 2000
A = np.full(1, 210)


@pytest.mark.parametrize(
    "certifier", [Standard("float32"), Standard("float64"), Standard("float16"), FloatSum(), GuardBand()]
)
def test_batches_and_single_rows_disagree(certifier: Certifier) -> None:
    """No chance involved, but for the guard band, which loses a copy with probability below 3e-4: more than 20 of 2000
    with probability below 1e-24. A function of the row alone would give one answer twice, and the test would fail.
    """
    (one,) = run([certifier], Options(n=N))
    assert one.finding is Finding.VOID
    assert one.distance == 0
    assert one.radius is not None
    assert one.radius > 1
    assert one.note.endswith("certified as 0, yet the answer is 1")


def test_no_data_flows_between_rows() -> None:
    """Exact: whatever the rows hold, and whatever the others hold, the answer is that of the place."""
    scores = first_row(np.dtype("float32"))
    for rows in (np.zeros((5, 1)), np.arange(5.0)[:, None], np.full((5, 1), np.nan)):
        assert scores(rows).argmax(axis=1).tolist() == [1, 0, 0, 0, 0]


def test_ours_refuses_where_proof_is_asked_for() -> None:
    (one,) = run([Ours()], Options(n=N))
    assert one.finding is Finding.REFUSED
    assert "proved" in one.note


def test_where_honesty_is_assumed_ours_is_void_as_well() -> None:
    """No chance involved. This is why `proved` must refuse what is not one function of its own row."""
    certified, deployed = (Asked(make, A, CertifierTask(SIGMA, 1000)) for make in (first_row, one_by_one(first_row)))
    assert (
        try_deployment("position", Ours(independence="assumed"), certified, deployed, "assumed").finding is Finding.VOID
    )
