"""Fair comparisons on noisy machines: alternate, pair up, take medians, and give their intervals."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

FEWEST_PAIRS, MOST_PAIRS = 15, 400
WIDEST = 0.05
"""An interval wider than this does not count: more pairs are run, up to the most."""


@dataclass(frozen=True)
class Ratio:
    """The median over pairs of (time of the first / time of the second), with a 95 % bootstrap interval."""

    median: float
    low: float
    high: float
    pairs: int

    @property
    def counts(self) -> bool:
        """Whether the interval is narrow enough to conclude anything."""
        return self.high - self.low <= WIDEST

    def __str__(self) -> str:
        note = "" if self.counts else "  (too wide to count)"
        return f"{self.median:.3f}  [{self.low:.3f}, {self.high:.3f}]  {self.pairs} pairs{note}"


def compare(first: Callable[[], object], second: Callable[[], object], seconds: float = 60) -> Ratio:
    """Time both in turn, changing who begins, until the interval is narrow or the time is up."""
    first(), second()  # warm up
    ratios: list[float] = []
    end = time.perf_counter() + seconds
    while True:
        if len(ratios) % 2:
            two, one = _time(second), _time(first)
        else:
            one, two = _time(first), _time(second)
        ratios.append(one / two)
        if len(ratios) >= FEWEST_PAIRS and (len(ratios) % 10 == 5):
            found = _ratio(ratios)
            if found.high - found.low <= WIDEST * 0.6 or len(ratios) >= MOST_PAIRS or time.perf_counter() > end:
                return found


@dataclass(frozen=True)
class Alternated:
    """The times of several actions, round by round, in seconds."""

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        return float(np.median(self.seconds[name]))

    def ratio(self, first: str, second: str) -> Ratio:
        """Round by round, so that what slows a whole round down does not count."""
        return _ratio([a / b for a, b in zip(self.seconds[first], self.seconds[second], strict=True)])


def alternate(actions: Mapping[str, Callable[[], object]], rounds: int) -> Alternated:
    """Time all actions, which are warm, once in each round, each round beginning with another one."""
    names = list(actions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            seconds[name].append(_time(actions[name]))
    return Alternated(seconds)


def milliseconds(action: Callable[[], object], repeats: int = 15) -> float:
    """The median time of one call."""
    return float(np.median([_time(action) for _ in range(repeats)])) * 1000


def _time(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _ratio(ratios: list[float]) -> Ratio:
    samples = np.array(ratios)
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(samples, (4000, len(samples))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return Ratio(float(np.median(samples)), float(low), float(high), len(samples))
