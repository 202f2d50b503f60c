"""What a model remembers of its batches: it travels in a pickle that is taken after the votes."""

import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

from soundsmooth.core.decimals import truncated
from soundsmooth.exact import BOUNDS, Look, Schedule
from soundsmooth.lab.gallery.certifiers import Ours
from soundsmooth.lab.gallery.entries.travelling_memory import Remembering, run
from soundsmooth.lab.gallery.measured import AGAIN
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding

N, ALPHA = 1000, Fraction(1, 1000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="rows are voted alone in forked processes")
def test_class_1_is_certified_though_no_row_alone_has_it() -> None:
    """No chance involved: the naive measurement loses no row, and ours loses all, so nothing is left of p."""
    naive, ours = run([Ours()], Options(n=N))
    assert naive.finding is Finding.FALSE_POINT
    assert naive.radius is not None
    assert naive.radius > 0.6
    p_lower, _ = BOUNDS["clopper-pearson"].prove_alone([Look(N, N, 0)], AGAIN, 0, Schedule.fixed(N, ALPHA))
    assert f"p ≥ {truncated(p_lower, 4)}" in naive.note
    assert ours.finding is Finding.ABSTAINS
    assert "p ≥ 0.0000" in ours.note


def test_a_model_that_sees_one_row_in_its_life_never_says_class_1() -> None:
    """Exact: the truth that the entry states. A pickle of one that saw the row does say it."""
    rows = np.random.default_rng().random((100, 1, 4, 4))
    live = Remembering()
    assert live(rows).argmax(axis=1).all()
    copy = pickle.loads(pickle.dumps(live))
    assert not any(Remembering()(row[None]).argmax() for row in rows)
    assert all(copy(row[None]).argmax() for row in rows)


def test_where_there_is_no_fork_the_entry_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.fork", raising=False)
    found = list(run([Ours()], Options(n=100)))
    assert [trial.finding for trial in found] == [Finding.REFUSED] * 2
    assert all("operating system" in trial.note for trial in found)
