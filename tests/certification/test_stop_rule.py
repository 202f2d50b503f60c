"""The stop rule: where it goes on, where it stops, what patience buys, and a small case that is solved otherwise."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from soundsmooth.certification.stop_rule import (
    LEAST_GAIN,
    Intervals,
    Prior,
    binomial,
    certified_heights,
    go_on_for_radii,
    go_on_for_width,
    intervals,
    prior_for,
    worths,
)

LOOKS = (20, 40, 80)
THRESHOLDS = (0.5, 0.7, 0.9)
BOUNDARIES = ((17, 29, 50), (20, 36, 66), (21, 41, 80))
LEVELS = (Fraction(1, 40), Fraction(1, 40), Fraction(1, 20))


def goes_on(rule: Intervals, hits: int) -> bool:
    return any(first <= hits <= last for first, last in rule)


def going(rules: Sequence[Intervals], looks: Sequence[int] = LOOKS) -> list[set[int]]:
    """The hits at which it goes on, look by look."""
    return [{hits for hits in range(n + 1) if goes_on(rule, hits)} for n, rule in zip(looks, rules, strict=False)]


# Radii.


def test_intervals_rise_and_do_not_touch() -> None:
    for n, rule in zip(LOOKS, go_on_for_radii(LOOKS, BOUNDARIES, THRESHOLDS, 1000), strict=False):
        ends = [end for interval in rule for end in interval]
        assert ends == sorted(ends)
        assert all(0 <= end <= n for end in ends)
        assert all(second[0] > first[1] + 1 for first, second in pairwise(rule))


def test_without_patience_all_stop_at_the_first_look() -> None:
    assert go_on_for_radii(LOOKS, BOUNDARIES, THRESHOLDS, 0) == ((), ())


def test_one_look_needs_no_rule() -> None:
    assert go_on_for_radii((100,), ((60,),), (0.5,), 1000) == ()


@pytest.mark.parametrize("patience", [-1.0, math.nan])
def test_patience_is_no_negative_number(patience: float) -> None:
    with pytest.raises(ValueError, match="patience"):
        go_on_for_radii(LOOKS, BOUNDARIES, THRESHOLDS, patience)


@pytest.mark.parametrize("patience", [100, 1000, math.inf])
def test_it_stops_where_nothing_can_be_gained(patience: float) -> None:
    """With h hits among n_k no count above h + n − n_k can come, and what is crossed is crossed."""
    rules = go_on_for_radii(LOOKS, BOUNDARIES, THRESHOLDS, patience)
    for k, rule in enumerate(rules):
        for hits in range(LOOKS[k] + 1):
            certified = sum(hits >= each[k] for each in BOUNDARIES)
            most = max(sum(hits + n - LOOKS[k] >= each[j] for each in BOUNDARIES) for j, n in enumerate(LOOKS) if j > k)
            assert most > certified or not goes_on(rule, hits)


def test_with_patience_for_ever_it_goes_on_while_something_can_be_gained() -> None:
    """The last radius needs 80 hits among 80; 15 hits among 40 can become 50 among 80."""
    first, second = go_on_for_radii(LOOKS, BOUNDARIES, THRESHOLDS, math.inf)
    assert [hits for hits in range(15, 41) if goes_on(second, hits)] == [*range(15, 36), 40]
    assert all(goes_on(first, hits) for hits in range(8, 21))


def test_more_patience_goes_on_wherever_less_does() -> None:
    found = [going(go_on_for_radii(LOOKS, BOUNDARIES, THRESHOLDS, each)) for each in (20, 50, 100, 500, 5000, math.inf)]
    for less, more in pairwise(found):
        assert all(a <= b for a, b in zip(less, more, strict=True))
    assert found[0] != found[-1]


def test_it_repeats() -> None:
    asked = (LOOKS, BOUNDARIES, THRESHOLDS, 500.0)
    assert go_on_for_radii(*asked) == go_on_for_radii(*asked)


def test_a_small_case_is_solved_by_brute_force() -> None:
    """Each value by the definition, with binomial coefficients and the whole law of p given the hits."""
    looks, boundaries, thresholds, patience = (4, 8, 14), ((5, 8, 12), (5, 9, 14)), (0.6, 0.8), 25.0
    prior = prior_for(thresholds, looks[-2])
    expected = brute_force(looks, boundaries, worths(thresholds), prior, patience)
    assert going(go_on_for_radii(looks, boundaries, thresholds, patience), looks) == expected
    assert all(0 < len(some) < n + 1 for n, some in zip(looks, expected, strict=False))


def brute_force(
    looks: Sequence[int],
    boundaries: Sequence[Sequence[int]],
    each_worth: Sequence[float],
    prior: Prior,
    patience: float,
) -> list[set[int]]:
    def certified(k: int, hits: int) -> float:
        return sum(worth for each, worth in zip(boundaries, each_worth, strict=True) if hits >= each[k])

    def coin(n: int, hits: int, p: float) -> float:
        return math.comb(n, hits) * p**hits * (1 - p) ** (n - hits)

    @cache
    def gain(k: int, hits: int) -> float:
        """What going on is expected to add, less its price."""
        n, more = looks[k], looks[k + 1] - looks[k]
        total = sum(weight * coin(n, hits, p) for p, weight in prior)
        found = 0.0
        for p, weight in prior:
            for new in range(more + 1):
                chance = weight * coin(n, hits, p) * coin(more, new, p) / total
                found += chance * max(0.0, value(k + 1, hits + new) - certified(k, hits))
        return found - more / patience

    def value(k: int, hits: int) -> float:
        return certified(k, hits) + (max(0.0, gain(k, hits)) if k < len(looks) - 1 else 0.0)

    return [{hits for hits in range(n + 1) if gain(k, hits) > LEAST_GAIN} for k, n in enumerate(looks[:-1])]


def test_one_easy_radius_is_worth_one_patience() -> None:
    assert worths([0.5]) == worths([0.9]) == [1.0]


def test_among_many_radii_and_near_certainty_a_radius_is_worth_more() -> None:
    found = worths([0.5, 0.9, 0.99, 0.999])
    assert found[:2] == pytest.approx([math.sqrt(2)] * 2)
    assert found[1] < found[2] < found[3]


# A width.


def test_a_narrower_width_goes_on_wherever_a_wider_does() -> None:
    found = [going(go_on_for_width(LOOKS, LEVELS, width)) for width in (0.8, 0.4, 0.1, 0.0)]
    for wide, narrow in pairwise(found):
        assert all(a <= b for a, b in zip(wide, narrow, strict=True))
    assert found[0] != found[-1]


def test_hopeless_images_are_given_up() -> None:
    """With 2 hits among 20, a bound above ½ is out of reach; with 20 among 20, more votes help."""
    first, second = going(go_on_for_width(LOOKS, LEVELS, 0.01))
    assert not first & set(range(3))
    assert not second & set(range(6))
    assert {15, 20} <= first


def test_nobody_is_given_up_where_no_chance_is_too_small() -> None:
    first, _ = going(go_on_for_width(LOOKS, LEVELS, 0.0, hopeless=0.0))
    assert first == set(range(21))


def test_with_the_whole_width_nobody_goes_on() -> None:
    assert go_on_for_width(LOOKS, LEVELS, 1) == ((), ())


@pytest.mark.parametrize("width", [-0.1, 1.1, math.nan])
def test_a_width_is_a_share(width: float) -> None:
    with pytest.raises(ValueError, match="width"):
        go_on_for_width(LOOKS, LEVELS, width)


# What both are made of.


def test_heights_rise_with_the_hits() -> None:
    heights = certified_heights(200, Fraction(1, 100))
    assert heights[0] == heights[100] == 0
    assert all(a <= b for a, b in pairwise(heights))
    assert heights[-1] > 1


@pytest.mark.parametrize("p", [0.03, 0.5, 0.999])
def test_the_binomial_law_is_that_of_coefficients(p: float) -> None:
    law = binomial(60, p)
    terms = [math.comb(60, hits) * p**hits * (1 - p) ** (60 - hits) for hits in range(law.first, law.end)]
    assert law.terms == pytest.approx(terms, rel=1e-9, abs=1e-18)
    assert law.terms.sum() == pytest.approx(1)


def test_the_prior_has_the_weight_of_its_steps() -> None:
    shares, weights = np.array(prior_for(THRESHOLDS, 1000)).T
    assert weights.sum() == pytest.approx(1)
    assert (np.diff(shares) > 0).all()
    assert shares[0] < 0.5 < 0.999 < shares[-1] < 1


def test_intervals_of_answers() -> None:
    assert intervals(np.array([True, True, False, True])) == ((0, 1), (3, 3))
    assert intervals(np.zeros(3, bool)) == ()
