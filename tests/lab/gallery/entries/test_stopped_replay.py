"""A replay of stopped images: at full β it is optional stopping, at spent β it is not."""

from fractions import Fraction

import pytest

from soundsmooth.exact.balls import lower_end, precision
from soundsmooth.exact.binomial import tail
from soundsmooth.lab.gallery.certifiers import Ours, Standard
from soundsmooth.lab.gallery.entries import stopped_replay
from soundsmooth.lab.gallery.entries.stopped_replay import AUDITS, BETA, hits_at
from soundsmooth.lab.gallery.false_rates import judge_rate
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.repeated_looks import chance, doubling_looks
from soundsmooth.lab.gallery.trial import Finding

LOOKS = doubling_looks(10_000, 10)


@pytest.mark.parametrize(("n", "times"), [(100_000, 8.186), (10_000, 7.041)])
def test_the_chances_are_those_of_naive_repetition(n: int, times: float) -> None:
    looks = doubling_looks(n, n // 1000)
    assert chance(0.5, looks, hits_at(looks, False)) / float(BETA) == pytest.approx(times, abs=0.01)
    assert chance(0.5, looks, hits_at(looks, True)) < float(BETA)


def test_false_is_all_but_certain() -> None:
    """48 false audits are enough for FALSE; fewer have probability below 1e-10."""
    assert judge_rate(48, AUDITS, BETA) is Finding.FALSE_RATE
    with precision(256):
        share = Fraction(chance(0.5, LOOKS, hits_at(LOOKS, False)))
        assert lower_end(tail(48, AUDITS, share)) > 1 - Fraction(1, 10**10)


def test_the_verdicts() -> None:
    """The naive audit escapes with probability below 1e-10; ours is called FALSE with less than 1e-6, by definition."""
    found = {trial.certifier: trial for trial in stopped_replay.run([Standard("float64"), Ours()], Options(n=10_000))}
    assert {name: trial.finding for name, trial in found.items()} == {
        "naive-audit": Finding.FALSE_RATE,
        "ours": Finding.HOLDS,
    }
    assert "by recursion 0." in found["ours"].note
