"""The stop rule: where it goes on, where it stops, and what patience buys."""

import math
from itertools import pairwise

import pytest

from soundsmooth.certification.stop_rule import Intervals, go_on_for_radii

LOOKS = (20, 40, 80)
THRESHOLDS = (0.5, 0.7, 0.9)
BOUNDARIES = ((17, 29, 50), (20, 36, 66), (21, 41, 80))


def goes_on(rule: Intervals, hits: int) -> bool:
    return any(first <= hits <= last for first, last in rule)


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


def test_it_repeats() -> None:
    asked = (LOOKS, BOUNDARIES, THRESHOLDS, 500.0)
    assert go_on_for_radii(*asked) == go_on_for_radii(*asked)
