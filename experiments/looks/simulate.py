"""What looks save: expected votes and expected certified accuracy, against a fixed n, for the images of stored runs.

    python experiments/looks/simulate.py docs/data/looks_simulation.json               # the table, in steps of 0.25
    python experiments/looks/simulate.py docs/data/looks_simulation.json --one-radius  # "is R > r?" alone

Each image's p is its share of hits in a stored run with n = 100 000, and its selected class is right or wrong as it was
there. No vote is drawn: the laws of the hits at each look follow from p by recursion, in floats.

Patience, looks and exponent were fixed on images at odd places of the runs (1, 3, …, counted from 0), with `--tune`. The
figures of `even` are those of the other images. `others` are 400 images that only the runs with n = 10 000 have.
"""

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from soundsmooth import open_run
from soundsmooth.certification.goal import default_counts, default_levels
from soundsmooth.certification.stop_rule import (
    DEFAULT_PATIENCE,
    Binomial,
    Floats,
    Intervals,
    binomial,
    go_on_for_radii,
)

RUNS = Path(__file__).parents[1] / "cifar10" / "runs"
SIGMAS = ("0.12", "0.25", "0.50", "1.00")
N0, N, ALPHA, STEP = 100, 100_000, Fraction(1, 1000), 0.25
NEGLIGIBLE = 1e-15
NORMAL = NormalDist()


class Image(NamedTuple):
    """The probability of a hit, and whether the selected label is right."""

    p: float
    right: bool


@dataclass(frozen=True)
class Plan:
    """A bound, and how long an image goes on; looks and levels are those of a run."""

    bound: str = "b"
    patience: float = DEFAULT_PATIENCE
    looks: tuple[int, ...] = default_counts(N, None)

    @property
    def spent(self) -> tuple[float, ...]:
        """What the looks so far may spend."""
        return tuple(map(float, accumulate(default_levels(self.looks, ALPHA))))


@dataclass
class Outcome:
    """What is expected of one image: votes, selection included, and for each radius the chance that it is certified."""

    votes: float
    certified: Floats = field(default_factory=lambda: np.zeros(0))


# The images.


def images(sigma: str, part: str) -> list[Image]:
    """Those of a part: all, odd, even or others."""
    n = 10_000 if part == "others" else N
    found = []
    for place, each in enumerate(open_run(RUNS / f"sound_sigma{sigma}_n{n}.db")):
        if part in ("all", ("even", "odd")[place % 2]) or (part == "others" and each.index % 100):
            label = each.selection.top
            found.append(Image(each.estimation.classes[label] / n, label == each.truth))
    return found


def thresholds_for(sigma: float) -> list[float]:
    """Φ(r/σ) for r = 0, 0.25, … as far as n votes certify."""
    most = NORMAL.inv_cdf(float(ALPHA) ** (1 / N)) * sigma
    return [NORMAL.cdf(STEP * place / sigma) for place in range(math.ceil(most / STEP))]


# Boundaries, in floats.


def upper_tail(law: Binomial, n: int) -> Floats:
    """P(H ≥ h) for h = 0, …, n + 1."""
    tail = np.zeros(n + 2)
    tail[law.first : law.end] = np.cumsum(law.terms[::-1])[::-1]
    tail[: law.first] = 1
    return tail


def least_count(tail: Floats, level: float) -> int:
    """The smallest count whose tail is at most the level."""
    return int(np.argmax(tail <= level))


def boundaries_alone(looks: Sequence[int], spent: Sequence[float], threshold: float) -> list[int]:
    """(a): the smallest counts for which Clopper–Pearson at the look's own level exceeds the threshold."""
    levels = np.diff([0, *spent])
    return [least_count(upper_tail(law_of(n, threshold), n), a) for n, a in zip(looks, levels, strict=True)]


def boundaries_together(looks: Sequence[int], spent: Sequence[float], threshold: float) -> list[int]:
    """(b): the smallest counts for which all looks so far cross with no more than what may be spent."""
    found: list[int] = []
    crossed, alive = 0.0, Binomial(0, np.ones(1))
    for before, n, most in zip([0, *looks], looks, spent, strict=False):
        alive = added(alive, law_of(n - before, threshold))
        tail = np.zeros(n + 2)
        tail[alive.first : alive.end] = np.cumsum(alive.terms[::-1])[::-1]
        tail[: alive.first] = tail[alive.first]
        found.append(least_count(tail, most - crossed))
        crossed += tail[found[-1]]
        alive = Binomial(alive.first, alive.terms[: max(0, found[-1] - alive.first)])
    return found


def added(alive: Binomial, more: Binomial) -> Binomial:
    return Binomial(alive.first + more.first, np.convolve(alive.terms, more.terms))


@lru_cache(maxsize=4096)
def law_of(n: int, p: float) -> Binomial:
    if p in (0.0, 1.0):
        return Binomial(n if p else 0, np.ones(1))
    return binomial(n, p)


def boundaries_of(plan: Plan, thresholds: Iterable[float]) -> list[list[int]]:
    of = {"a": boundaries_alone, "b": boundaries_together}[plan.bound]
    return [of(plan.looks, plan.spent, each) for each in thresholds]


# What is expected of an image.


def outcome(
    p: float, looks: Sequence[int], boundaries: Sequence[Sequence[int]], rules: Sequence[Intervals]
) -> Outcome:
    """By forward recursion. Row 0 has the law of the hits while it goes on, row j the part without radius j."""
    found = Outcome(N0, np.ones(len(boundaries)))
    first, rows = 0, np.ones((1 + len(boundaries), 1))
    for k, (before, n) in enumerate(zip([0, *looks], looks, strict=False)):
        law = law_of(n - before, p)
        rows, first = convolved(rows, law.terms), first + law.first
        found.votes += (n - before) * rows[0].sum()
        needed = 0
        for row, boundary in zip(rows[1:], boundaries, strict=True):
            needed = max(needed, boundary[k])
            row[max(0, needed - first) :] = 0
        goes = going(rules[k] if k < len(rules) else (), first, rows.shape[1])
        found.certified -= rows[1:, ~goes].sum(axis=1)
        rows[:, ~goes] = 0
        kept = np.flatnonzero(rows[0] > NEGLIGIBLE)
        if not len(kept):
            break
        first, rows = first + int(kept[0]), rows[:, kept[0] : kept[-1] + 1]
    return found


def convolved(rows: Floats, terms: Floats) -> Floats:
    """Each row with these terms; equal rows and empty ones are not computed twice."""
    found = np.zeros((len(rows), rows.shape[1] + len(terms) - 1))
    for place, row in enumerate(rows):
        if place and np.array_equal(row, rows[place - 1]):
            found[place] = found[place - 1]
        elif row.any():
            found[place] = np.convolve(row, terms)
    return found


def going(rule: Intervals, first: int, length: int) -> np.ndarray:
    goes = np.zeros(length, bool)
    for low, high in rule:
        goes[max(0, low - first) : max(0, high + 1 - first)] = True
    return goes


def fixed(p: float, thresholds: Sequence[float]) -> Floats:
    """The chances with n votes for every image, Clopper–Pearson at α."""
    tail = upper_tail(law_of(N, p), N)
    return np.array([tail[each] for each in needed_counts(tuple(thresholds))])


@lru_cache
def needed_counts(thresholds: tuple[float, ...]) -> list[int]:
    return [least_count(upper_tail(law_of(N, each), N), float(ALPHA)) for each in thresholds]


def wald(p: float, thresholds: Sequence[float]) -> float:
    """What any valid test spends on average, at least, with the power of n votes at each radius (Wald 1945)."""
    powers = fixed(p, thresholds)
    alpha = float(ALPHA)
    bounds = [
        divergence(power, alpha) / divergence(p, threshold)
        for power, threshold in zip(powers.tolist(), thresholds, strict=True)
        if p > threshold and power > alpha
    ]
    return max(bounds, default=0.0)


def divergence(p: float, q: float) -> float:
    """Kullback and Leibler's, of a coin with p from one with q."""
    hits = p * math.log(p / q) if p > 0 else 0.0
    return hits + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


# Tables.


class Judged(NamedTuple):
    """Of many images: how many times fewer votes, also with wrong labels skipped, and the drops in points."""

    gain: float
    skipping: float
    drops: list[float]


def judge(plan: Plan, sigma: str, found: Sequence[Image], thresholds: Sequence[float]) -> Judged:
    boundaries = boundaries_of(plan, thresholds)
    rules = go_on_for_radii(plan.looks, boundaries, thresholds, plan.patience)
    outcomes = {p: outcome(p, plan.looks, boundaries, rules) for p in {image.p for image in found}}
    votes = [outcomes[image.p].votes for image in found]
    skipping = [votes if image.right else N0 for image, votes in zip(found, votes, strict=True)]
    drops = sum((fixed(p, thresholds) - outcomes[p].certified for p, right in found if right), np.zeros(len(thresholds)))
    whole = (N0 + N) * len(found)
    return Judged(whole / sum(votes), whole / sum(skipping), [100 * float(each) / len(found) for each in drops])
