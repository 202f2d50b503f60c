"""What a user asks becomes looks that answer it: all of alpha and no more, thresholds that are proved, radii named."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from soundsmooth.certification.goal import (
    Goal,
    alone_boundaries,
    default_counts,
    default_levels,
    goal,
    looks_for,
    threshold,
)
from soundsmooth.certification.looks import MOST_LOOKS
from soundsmooth.exact.binomial import clopper_pearson_below
from soundsmooth.noise import Gaussian

ALPHA, N = Fraction(1, 1000), 1000
LAW = Gaussian("1/4")


def wanted(n: int = N, **asked: Any) -> Goal:
    found = goal(n, ALPHA, **asked)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"radii": 0, "width": "1%"}, "radii or for a width, not for both"),
        ({"looks": [1000]}, "ask for radii or a width too"),
        ({"patience": 0}, "ask for radii or a width too"),
        ({"looks": [1000], "skip_wrong": True}, "ask for radii or a width too"),
        ({"radii": 0, "looks": "100,50,1000"}, "looks must rise"),
        ({"radii": 0, "looks": "100=1/1000,1000=1/1000"}, "the looks spend 1/500 in all"),
        ({"radii": 0, "looks": "100=1/10000,1000"}, "the level of each look, or of none"),
        ({"radii": 0, "looks": "100,,1000"}, "''"),
        ({"radii": 0, "looks": "1e9,1000"}, "looks must rise"),
        ({"radii": 0, "looks": "100=1/4000,100=1/4000,1000=1/2000"}, "each look stands once"),
        ({"radii": 0, "looks": 1000}, "looks are a list of numbers of copies"),
        ({"radii": "0,x"}, "a radius"),
        ({"radii": ","}, "give between 1 and 256 radii"),
        ({"radii": [math.nan]}, "a radius"),
        ({"radii": [0, math.inf]}, "a radius"),
        ({"width": "0%"}, "a share of the radius"),
        ({"width": 1}, "a share of the radius"),
        ({"width": -0.5}, "a share of the radius"),
        ({"width": "1%%"}, "width"),
        ({"width": 0.1, "patience": math.inf}, "the patience is a number of votes"),
        ({"width": 0.1, "patience": "many"}, "the patience is a number of votes"),
        ({"width": 0.1, "patience": True}, "the patience is a number of votes"),
        ({"width": 0.1, "patience": 10**400}, "the patience is a number of votes"),
    ],
    ids=str,
)
def test_what_cannot_be_asked(asked: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        goal(N, ALPHA, **asked)


def test_nothing_asked_is_no_goal() -> None:
    assert goal(N, ALPHA) is None
    assert goal(N, ALPHA, skip_wrong=None) is None


def test_what_is_asked_is_understood() -> None:
    assert wanted(radii="0.5").radii == (Fraction(1, 2),)
    assert wanted(radii=[0, "1/3", 0.5]).radii == (Fraction(0), Fraction(1, 3), Fraction(1, 2))
    assert wanted(radii="steps").radii == ()
    for width in ("1%", " 1% ", 0.01, "1/100", Fraction(1, 100)):
        assert wanted(width=width).width == Fraction(1, 100)
    spent = looks_for(wanted(radii=0, looks="100=1/10000, 1000=1/2000"), LAW, N, ALPHA, "clopper-pearson", None)
    assert (spent.counts, spent.levels) == ((100, 1000), (Fraction(1, 10_000), Fraction(1, 2000)))
    assert not wanted(skip_wrong=True).stops_early


@given(st.integers(1, 10**9), st.one_of(st.none(), st.integers(1, 10**5)))
def test_default_looks_rise_to_n(n: int, batch: int | None) -> None:
    counts = default_counts(n, batch)
    assert list(counts) == sorted(set(counts))
    assert 1 <= len(counts) <= MOST_LOOKS
    assert counts[0] > 0
    assert counts[-1] == n
    assert batch is None or all(count % batch == 0 for count in counts[:-1])


def test_the_looks_that_the_page_names() -> None:
    assert default_counts(1000, None) == (100, 126, 159, 200, 252, 317, 400, 504, 635, 800, 1000)
    assert len(default_counts(100_000, None)) == 31
    assert default_counts(1000, 100) == (100, 200, 300, 400, 600, 700, 800, 1000)
    assert default_counts(100, None) == (100,)
    assert default_counts(7, 100) == (7,)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40, unique=True), st.fractions(0, 1))
def test_default_levels_spend_alpha_exactly(counts: list[int], alpha: Fraction) -> None:
    levels = default_levels(sorted(counts), alpha)
    assert sum(levels) == alpha
    assert all(level > 0 for level in levels) or not alpha


@pytest.mark.parametrize("sigma", ["3/25", "1/4", "1"])
@pytest.mark.parametrize("radius", [Fraction(0), Fraction(1, 10**30), Fraction(1, 4), Fraction(1, 2)])
def test_the_threshold_is_the_last_double(sigma: str, radius: Fraction) -> None:
    """Its radius is above the one that is asked for, and that of the double below is not."""
    law = Gaussian(sigma)
    p = threshold(law, radius)
    assert p is not None
    assert p > 0.5
    assert Fraction(law.radius(p, None)) > radius
    below = math.nextafter(p, 0)
    assert below == 0.5 or not Fraction(law.radius(below, None)) > radius
    assert p == pytest.approx(norm.cdf(float(radius) / float(Fraction(sigma))), rel=1e-12)


def test_a_radius_beyond_every_double_has_no_threshold() -> None:
    assert threshold(LAW, Fraction(3)) is None


@pytest.mark.parametrize("bound", ["clopper-pearson", "group-sequential"])
def test_radii_that_n_cannot_reach_are_named(bound: str) -> None:
    """At n = 1000 the largest of all bounds, at level 0.001, is 0.001^(1/1000) = 0.9931: 2.46 σ = 0.616."""
    for radii, named in (((0, "3/4", 1), "3/4"), ((0, "1/2", 5), "5"), ((9,), "9")):
        asked = wanted(radii=radii)
        with pytest.raises(ValueError, match=f"n = 1000 copies cannot reach the radius {named}: give a larger n"):
            looks_for(asked, LAW, N, ALPHA, bound, None)


def test_steps_end_where_n_does() -> None:
    asked = wanted(radii="steps")
    found = looks_for(asked, LAW, N, ALPHA, "group-sequential", None)
    assert [radius for radius, _ in found.radii] == [0, Fraction(1, 4), Fraction(1, 2)]
    few = wanted(5, radii="steps")
    with pytest.raises(ValueError, match="n = 5 copies cannot reach the radius 0"):
        looks_for(few, LAW, 5, ALPHA, "group-sequential", None)


def test_what_rounding_costs_is_added_to_each_radius() -> None:
    asked, price = wanted(radii=[0, "1/4"]), Fraction(1, 100)
    plain, paid = (looks_for(asked, LAW, N, ALPHA, "clopper-pearson", None, each) for each in (Fraction(0), price))
    assert [radius for radius, _ in paid.radii] == [radius for radius, _ in plain.radii]
    for radius, p in paid.radii:
        assert Fraction(LAW.radius(p, None)) > radius + price


def test_looks_are_whole_batches_where_they_must_be() -> None:
    asked = wanted(radii=0, looks=[150, 1000])
    assert looks_for(asked, LAW, N, ALPHA, "clopper-pearson", 50).counts == (150, 1000)
    with pytest.raises(ValueError, match=r"whole batches of 100 copies: choose n and looks accordingly, not 150, 1000"):
        looks_for(asked, LAW, N, ALPHA, "clopper-pearson", 100)


def test_skipping_alone_looks_once_and_needs_no_batches() -> None:
    asked = wanted(skip_wrong=True)
    found = looks_for(asked, LAW, N, ALPHA, "hoeffding", 64)
    assert (found.counts, found.levels, found.go_on, found.skip_wrong) == ((N,), (ALPHA,), (), True)


def test_a_bound_for_one_look_is_refused_before_the_rule_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_rule(*_: object) -> None:
        raise AssertionError("the rule is being solved")

    for module in ("goal.go_on_for_radii", "stop_rule.go_on_for_width"):
        monkeypatch.setattr(f"soundsmooth.certification.{module}", no_rule)
    for asked in ({"radii": 0}, {"width": "1%"}):
        for bound in ("hoeffding", "randomized"):
            with pytest.raises(ValueError, match=f"the bound {bound} holds for one look only"):
                looks_for(wanted(**asked), LAW, N, ALPHA, bound, None)


@pytest.mark.parametrize("p", [0.5, 0.7, 0.95])
def test_boundaries_of_looks_alone_are_those_of_clopper_pearson(p: float) -> None:
    counts, levels = (10, 50, 200), (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 20))
    for count, level, least in zip(counts, levels, alone_boundaries(p, counts, levels), strict=True):
        assert least > count or clopper_pearson_below(least, count, level) > p
        assert not clopper_pearson_below(least - 1, count, level) > p
