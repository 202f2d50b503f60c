"""Measured rows and looks: with the levels of a fixed n the best look is false far too often, with spent ones not."""

from fractions import Fraction

from soundsmooth.exact.balls import lower_end, precision
from soundsmooth.exact.binomial import tail
from soundsmooth.lab.gallery.certifiers import Ours
from soundsmooth.lab.gallery.entries import known_rows
from soundsmooth.lab.gallery.entries.known_rows import AGAIN, ALPHA, AT_FIXED, AT_SPENT, LOOKS, RUNS, P, losses_that_err
from soundsmooth.lab.gallery.false_rates import judge_rate
from soundsmooth.lab.gallery.options import Options
from soundsmooth.lab.gallery.trial import Finding

NONE_LOST = P**AGAIN


def chance_at_least() -> Fraction:
    """A proved lower bound of the chance that some look loses no row and errs.

    The rows of a look are copies, perhaps some of them twice. All are hits alone with p^(number of different copies),
    at least p^m. For two looks it is p^(copies in either). Of their 2m rows each meets an earlier one with probability
    2m/n at most, n the fewer votes, so that the expectation is at most p^2m·(1 + (2m/n)(1/p − 1))^2m. The sum over
    looks less the sum over pairs is a lower bound (Bonferroni).
    """
    late = [n for n, lost in zip(LOOKS, losses_that_err(AT_FIXED), strict=True) if lost > 0]
    repeats = (1 + Fraction(2 * AGAIN, min(late)) * (1 / P - 1)) ** (2 * AGAIN)
    pairs = len(late) * (len(late) - 1) // 2
    return len(late) * NONE_LOST - pairs * NONE_LOST**2 * repeats


def test_a_single_look_keeps_its_level_and_a_hundred_do_not() -> None:
    """Each look errs with 0.27 α: no row lost, of 100. The 75 late looks together err with 19 α at least."""
    assert set(losses_that_err(AT_FIXED).tolist()) == {0, 1}
    assert NONE_LOST < ALPHA / 3
    assert 19 * ALPHA < chance_at_least() < 21 * ALPHA


def test_with_spent_levels_no_look_errs_here() -> None:
    """Even if no row is lost at any look: at level α_k the loss is bounded from too few rows."""
    assert not losses_that_err(AT_SPENT).any()
    assert sum(AT_SPENT[0].levels) == ALPHA


def test_false_is_all_but_certain() -> None:
    """21 false runs are enough for FALSE; fewer have probability below 1e-10 at the chance proved above."""
    assert judge_rate(21, RUNS, ALPHA) is Finding.FALSE_RATE
    with precision(256):
        assert lower_end(tail(21, RUNS, chance_at_least())) > 1 - Fraction(1, 10**10)


def test_the_verdicts() -> None:
    """Missed with probability below 1e-10. Ours cannot be FALSE: the test above."""
    found = {trial.certifier: trial.finding for trial in known_rows.run([Ours()], Options(n=100))}
    assert found == {"fixed-levels": Finding.FALSE_RATE, "ours": Finding.HOLDS}
