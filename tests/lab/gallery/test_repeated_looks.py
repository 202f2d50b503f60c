"""The chance that some look is false: by recursion, by counting paths, and against exact tails."""

from collections.abc import Sequence
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

from soundsmooth.exact import BOUNDS, Look, Schedule
from soundsmooth.lab.gallery.certifiers import CertifierTask, Refused
from soundsmooth.lab.gallery.false_rates import least_hits
from soundsmooth.lab.gallery.repeated_looks import (
    chance,
    doubling_looks,
    needed_at_full_level,
    needed_hits,
    quadratic_levels,
    simulated,
    without_program,
)

HALF, ALPHA = Fraction(1, 2), Fraction(1, 1000)


def exact_chance(p: Fraction, looks: Sequence[int], needed: Sequence[int]) -> Fraction:
    """The same in fractions: all ways to the next look, less what has crossed."""
    law, crossed, last = {0: Fraction(1)}, Fraction(0), 0
    for n, least in zip(looks, needed, strict=True):
        step = n - last
        ways = [comb(step, more) * p**more * (1 - p) ** (step - more) for more in range(step + 1)]
        after: dict[int, Fraction] = {}
        for hits, mass in law.items():
            for more, way in enumerate(ways):
                after[hits + more] = after.get(hits + more, Fraction(0)) + mass * way
        crossed += sum(mass for hits, mass in after.items() if hits >= least)
        law, last = {hits: mass for hits, mass in after.items() if hits < least}, n
    return crossed


@pytest.mark.parametrize("p", [HALF, Fraction(9, 10), Fraction(1, 7)])
@pytest.mark.parametrize("looks", [(3, 10, 11, 40), tuple(range(1, 31)), (60,)])
def test_the_recursion_agrees_with_fractions(p: Fraction, looks: tuple[int, ...]) -> None:
    needed = needed_at_full_level(looks, p, Fraction(1, 20)).tolist()
    assert chance(float(p), looks, needed) == pytest.approx(float(exact_chance(p, looks, needed)), rel=1e-10)


def test_one_look_is_false_with_the_tail() -> None:
    needed = needed_at_full_level((5000,), HALF, ALPHA)
    assert chance(0.5, (5000,), needed) == pytest.approx(binom.sf(needed[0] - 1, 5000, 0.5), rel=1e-9)


def test_looks_and_levels() -> None:
    assert doubling_looks(1000) == (100, 200, 400, 800, 1000)
    assert doubling_looks(800) == (100, 200, 400, 800)
    assert len(doubling_looks(100_000)) == 11
    levels = quadratic_levels(doubling_looks(100_000), ALPHA)
    assert sum(levels) == ALPHA
    assert levels[0] == ALPHA / 10**6


def test_the_boundaries_are_those_of_the_bound_that_certifies() -> None:
    """At each look with that many hits p_lower exceeds p, and with one fewer it does not: all looks together, too."""
    looks = (10, 20, 40, 80)
    schedule = Schedule(looks, quadratic_levels(looks, Fraction(1, 5)))
    needed = needed_hits(looks, HALF, schedule.levels)
    prove = BOUNDS["clopper-pearson"].prove
    assert prove([Look(n, int(h) - 1, 0) for n, h in zip(looks, needed, strict=True)], schedule)[0] <= 0.5
    for k, (n, least) in enumerate(zip(looks, needed, strict=True)):
        if least <= n:
            before = [Look(each, min(each, int(least)), 0) for each in looks[:k]]
            assert prove([*before, Look(n, int(least), 0)], schedule)[0] > 0.5


def test_the_search_for_one_level_is_right() -> None:
    every = needed_at_full_level(range(1, 301), HALF, ALPHA).tolist()
    assert every == [least_hits(votes, HALF, ALPHA) for votes in range(1, 301)]
    some = range(300, 3001, 300)
    assert needed_at_full_level(some, HALF, ALPHA).tolist() == [least_hits(votes, HALF, ALPHA) for votes in some]


def test_the_simulation_has_that_chance() -> None:
    """20 000 runs, 0.0153 of them false, accepted within 0.005 (5.7 standard deviations): false alarm < 2e-8 for the
    normal law, and the fixed seed is not one of them. α itself, 0.001, is 16 standard deviations away."""
    looks = tuple(range(1, 1001))
    needed = needed_at_full_level(looks, HALF, ALPHA)
    found = simulated(0.5, looks, needed, 20_000, np.random.default_rng(1)) / 20_000
    assert abs(found - chance(0.5, looks, needed)) < 0.005


def test_a_simulated_procedure_certifies_nothing() -> None:
    with pytest.raises(Refused, match="simulated"):
        without_program("x").certify(lambda dtype: lambda batch: batch, 2, np.zeros(1), CertifierTask(HALF, 100))
