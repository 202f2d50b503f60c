"""What the process of a row can learn of other rows: those that wait on a channel, and how many came before."""

import os
from collections.abc import Callable

import numpy as np
import pytest

from soundsmooth.lab.gallery.certifiers import CertifierTask, Ours, Scores
from soundsmooth.lab.gallery.entries.second_channel import SIGMA, Counting, Listening, run
from soundsmooth.lab.gallery.measured import measuring, never_alone, votes_alone
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding

TASK = CertifierTask(SIGMA, 1000, n0=20)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="rows are voted alone in forked processes")


@needs_fork
@pytest.mark.parametrize("model", [Listening, Counting])
def test_class_1_is_certified_though_no_row_alone_has_it(model: Callable[[], Scores]) -> None:
    """No chance involved: the naive measurement loses one row, the last, after which none waits, or the first. (More,
    if rows are sent more slowly than they are voted on: up to 27 leave a certificate.) Ours loses all rows.
    """
    naive, ours = (never_alone("x", certifier, model, TASK, "") for certifier in measuring([Ours()]))
    assert naive.finding is Finding.FALSE_POINT
    assert naive.radius is not None
    assert naive.radius > 0
    assert ours.finding is Finding.ABSTAINS
    assert "p ≥ 0.0000" in ours.note


@needs_fork
@pytest.mark.parametrize("model", [Listening, Counting])
def test_one_row_alone_in_a_fresh_process_is_class_0(model: Callable[[], Scores]) -> None:
    """Exact: the truth that the entry states, shown by a process that never gets another row."""
    assert votes_alone(model(), np.zeros((1, 1, 4, 4), np.float32)).tolist() == [0]


def test_the_gallerys_own_process_is_left_alone() -> None:
    before = set(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else set()
    assert Listening()(np.zeros((1, 1))).argmax() == 0
    assert not before or before >= set(os.listdir("/proc/self/fd"))  # what others forgot may be closed meanwhile
    forks = Counting()
    assert forks(np.zeros((1, 1))).argmax() == 0
    assert forks.forks == 0


def test_where_there_is_no_fork_the_entry_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.fork", raising=False)
    found = list(run([Ours()], Options(n=100)))
    assert [trial.finding for trial in found] == [Finding.REFUSED] * 4
    assert all("operating system" in trial.note for trial in found)
