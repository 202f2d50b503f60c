"""Comparisons in time: who runs when, and what the ratios say. The clock is replaced, so nothing has to be slow."""

from collections.abc import Callable

import pytest

from soundsmooth.lab.bench import pairs
from soundsmooth.lab.bench.gpu import ratios
from soundsmooth.lab.bench.pairs import FEWEST_PAIRS, Ratio, alternate, compare, milliseconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the time on: nothing else does."""
    now = [0.0]

    def take(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(pairs.time, "perf_counter", lambda: now[0])
    return take


def test_each_round_runs_everything_once_and_begins_with_another(clock: Callable[[float], None]) -> None:
    order: list[str] = []
    actions = {name: lambda name=name: (order.append(name), clock(ord(name))) for name in "abc"}
    taken = alternate(actions, 4)
    assert "".join(order) == "abcbcacababc"
    assert {name: len(found) for name, found in taken.seconds.items()} == {"a": 4, "b": 4, "c": 4}
    assert taken.median("b") == ord("b")
    assert taken.ratio("a", "b").median == ord("a") / ord("b")
    assert ratios(taken, [("a", "a")]) == {"a / a": [1.0, 1.0, 1.0]}


def test_rounds_that_are_slow_as_a_whole_do_not_count(clock: Callable[[float], None]) -> None:
    speed = iter([1, 1, 50, 50, 1, 1, 9, 9])
    taken = alternate({"one": lambda: clock(next(speed)), "other": lambda: clock(next(speed))}, 4)
    found = taken.ratio("one", "other")
    assert (found.median, found.low, found.high) == (1, 1, 1)


def test_a_steady_ratio_needs_the_fewest_pairs(clock: Callable[[float], None]) -> None:
    found = compare(lambda: clock(3), lambda: clock(2), seconds=1e9)
    assert found == Ratio(1.5, 1.5, 1.5, FEWEST_PAIRS)
    assert found.counts
    assert str(found) == "1.500  [1.500, 1.500]  15 pairs"


@pytest.mark.parametrize(("seconds", "made"), [(1e9, 35), (1.0, FEWEST_PAIRS)])
def test_an_unsteady_ratio_ends_with_the_pairs_or_the_time(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch, seconds: float, made: int
) -> None:
    monkeypatch.setattr(pairs, "MOST_PAIRS", 30)  # it looks after 15 pairs, 25, 35, …
    calls = [0]

    def unsteady() -> None:
        calls[0] += 1
        clock(1 if calls[0] % 2 else 4)

    found = compare(unsteady, lambda: clock(1), seconds)
    assert found.pairs == made
    assert not found.counts
    assert "too wide to count" in str(found)


def test_the_median_time_of_a_call(clock: Callable[[float], None]) -> None:
    times = iter([1, 100, 2, 3, 50])
    assert milliseconds(lambda: clock(next(times)), 5) == 3000
