"""Draws of a model that is voted alone: one coin for all rows, or one for each."""

import os
from dataclasses import replace

import pytest
from scipy.stats import binom

from soundsmooth.exact import BOUNDS, Look, Schedule
from soundsmooth.lab.gallery.certifiers import CertifierTask, Ours
from soundsmooth.lab.gallery.entries.common_coin import ALPHA, RUNS, SIGMA, TOO_MANY, P, bounds, run
from soundsmooth.lab.gallery.false_rates import judge_rate
from soundsmooth.lab.gallery.measured import AGAIN, NAIVE
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding

N = 2000
TASK = CertifierTask(SIGMA, N, n0=20, alpha=ALPHA)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="rows are voted alone in forked processes")


def bound(lost: int) -> float:
    return BOUNDS["clopper-pearson"].prove_alone([Look(N, N, 0)], AGAIN, lost, Schedule.fixed(N, ALPHA))[0]


@needs_fork
def test_in_forked_processes_all_rows_are_lost_or_none() -> None:
    """No chance involved. With a coin for each row, a run would give neither but with probability below 3e-6 (85 of the
    100 drawn rows are distinct at least, but for 1e-8, and 0.86^85 < 3e-6).
    """
    assert set(bounds(NAIVE, 2, TASK)) <= {bound(0), bound(AGAIN)}
    assert bound(0) > P


@needs_fork
def test_ours_tosses_a_coin_for_each_row() -> None:
    """None is lost with probability below 3e-6, and more than 60 of 100 with less. One coin would lose 0 or 100."""
    (found,) = bounds(replace(Ours(), independence="measured", again=AGAIN), 1, TASK)
    assert bound(60) <= found <= bound(1)


def test_two_false_certificates_are_too_many_and_nearly_always_found() -> None:
    """Exact: the verdict is wrong with probability below 1e-6, and missed with probability below 1.2e-6."""
    assert judge_rate(TOO_MANY, RUNS, ALPHA) is Finding.FALSE_RATE
    assert judge_rate(TOO_MANY - 1, RUNS, ALPHA) is Finding.HOLDS
    assert binom.cdf(TOO_MANY - 1, RUNS, float(P)) < 1.2e-6


def test_ours_is_not_called_false_by_chance() -> None:
    """Exact: p_lower > p takes a run that loses nothing, with probability below 3e-6, and the verdict two of them."""
    assert bound(1) < P < bound(0)


def test_where_there_is_no_fork_the_entry_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.fork", raising=False)
    found = list(run([Ours()], Options(n=100)))
    assert [trial.finding for trial in found] == [Finding.REFUSED] * 2
    assert all("operating system" in trial.note for trial in found)
