"""What looks save: expected votes and expected certified accuracy, against a fixed n, for the images of stored runs.

    python experiments/looks/simulate.py run docs/data/looks_simulation.json
    python experiments/looks/simulate.py table docs/data/looks_simulation.json docs/looks.md

Each image's p is its share of hits in a stored run with n = 100 000, and its selected class is right or wrong as it was
there. No vote is drawn: the laws of the hits at each look follow from p by recursion, in floats.

Looks, spending and patience were chosen with all these images in view, so that the figures are a little too good. Those
of `odd` and `even` places show by how much a half of the images differs from the other.
"""

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist, geometric_mean
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
    certified_heights,
    go_on_for_radii,
    go_on_for_width,
)
from soundsmooth.lab.scripts.pages import fill, table
from soundsmooth.lab.scripts.rows import keep

RUNS = Path(__file__).parents[1] / "cifar10" / "runs"
SIGMAS = ("0.12", "0.25", "0.50", "1.00")
N0, N, ALPHA, STEP = 100, 100_000, Fraction(1, 1000), 0.25
NEGLIGIBLE = 1e-15
NORMAL = NormalDist()
PATIENCES = (25_000, 50_000, 100_000, 200_000, 400_000)
WIDTHS = (0.01, 0.05)
MARK = "simulation"
WALD = "Wald: no test of level α with the power of n votes can do better"
SKIPPED = "(b), wrong labels skipped"
PARTS = {"all": "exact spending", "odd": "on the images at odd places", "even": "on the images at even places"}
FIXED = ("fixed", "", "", 0.0)


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
    """Those of a part: all, odd or even."""
    found = []
    for place, each in enumerate(open_run(RUNS / f"sound_sigma{sigma}_n{N}.db")):
        if part in ("all", ("even", "odd")[place % 2]):
            label = each.selection.top
            found.append(Image(each.estimation.classes[label] / N, label == each.truth))
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


def outcome(p: float, looks: Sequence[int], boundaries: Sequence[Sequence[int]], rules: Sequence[Intervals]) -> Outcome:
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


@dataclass
class Judged:
    """Of many images: how many times fewer votes, also with wrong labels skipped, and the drops in points."""

    votes: float
    skipping: float
    drops: list[float]

    @property
    def drop(self) -> float:
        return max(self.drops)


def judge(plan: Plan, found: Sequence[Image], thresholds: Sequence[float]) -> Judged:
    return judged(found, outcomes_of(plan, found, thresholds), thresholds)


def outcomes_of(plan: Plan, found: Iterable[Image], thresholds: Sequence[float]) -> dict[float, Outcome]:
    """What is expected of images, by their p."""
    boundaries = boundaries_of(plan, thresholds)
    rules = go_on_for_radii(plan.looks, boundaries, thresholds, plan.patience)
    return {p: outcome(p, plan.looks, boundaries, rules) for p in {image.p for image in found}}


def judged(found: Sequence[Image], outcomes: Mapping[float, Outcome], thresholds: Sequence[float]) -> Judged:
    lost = [fixed(image.p, thresholds) - outcomes[image.p].certified for image in found if image.right]
    drops = [100 * float(each) / len(found) for each in sum(lost, np.zeros(len(thresholds)))]
    return Judged(*times_fewer(found, [outcomes[image.p].votes for image in found]), drops)


def times_fewer(found: Sequence[Image], votes: Sequence[float]) -> tuple[float, float]:
    """How many times fewer these votes are than those of a fixed n; and if wrong labels end after selection."""
    skipping = [each if image.right else N0 for image, each in zip(found, votes, strict=True)]
    whole = float((N0 + N) * len(found))
    return whole / float(sum(votes)), whole / float(sum(skipping))


def judge_wald(found: Sequence[Image], thresholds: Sequence[float]) -> Judged:
    return Judged(*times_fewer(found, [N0 + wald(image.p, thresholds) for image in found]), [0.0] * len(thresholds))


def judge_width(width: float, sigma: float, found: Sequence[Image]) -> dict[str, float]:
    """Clopper–Pearson at the levels, until the radius is nearly what n votes give: votes, and what radii lose in %.

    The radius is that of the last look taken.
    """
    looks, levels = Plan().looks, default_levels(Plan().looks, ALPHA)
    rules = go_on_for_width(looks, levels, width)
    radii = [sigma * certified_heights(n, level) for n, level in zip(looks, levels, strict=True)]
    whole = sigma * certified_heights(N, ALPHA)
    votes, kept, most = [], 0.0, 0.0
    for image in found:
        spent, radius = stopped(image.p, looks, rules, radii)
        votes.append(spent)
        if image.right:
            law = law_of(N, image.p)
            kept, most = kept + radius, most + float(whole[law.first : law.end] @ law.terms)
    return {"votes": times_fewer(found, votes)[0], "loss": 100 * (1 - kept / most)}


def stopped(
    p: float, looks: Sequence[int], rules: Sequence[Intervals], values: Sequence[Floats]
) -> tuple[float, float]:
    """The expected votes, and the expected value where it stops."""
    votes, value, alive = float(N0), 0.0, Binomial(0, np.ones(1))
    for k, (before, n) in enumerate(zip([0, *looks], looks, strict=False)):
        alive = added(alive, law_of(n - before, p))
        votes += (n - before) * float(alive.terms.sum())
        goes = going(rules[k] if k < len(rules) else (), alive.first, len(alive.terms))
        value += float(alive.terms[~goes] @ values[k][alive.first : alive.end][~goes])
        terms = np.where(goes, alive.terms, 0)
        kept = np.flatnonzero(terms > NEGLIGIBLE)
        if not len(kept):
            break
        alive = Binomial(alive.first + int(kept[0]), terms[kept[0] : kept[-1] + 1])
    return votes, value


def rows(sigma: str) -> Iterator[dict[str, Any]]:
    """All that is computed for one σ."""
    thresholds, found = thresholds_for(float(sigma)), {part: images(sigma, part) for part in ("all", "odd", "even")}
    for part, some in found.items():
        yield _row("table", WALD, part, 0, judge_wald(some, thresholds))
        yield _row("table", "(a)", part, DEFAULT_PATIENCE, judge(Plan("a"), some, thresholds))
        for patience in PATIENCES:
            yield _row("table", "(b)", part, patience, judge(Plan("b", patience), some, thresholds))
    for test, plan in (("(a)", Plan("a")), ("(b)", Plan("b"))):
        alone = [judge(plan, found["all"], [each]) for each in thresholds]
        yield _row("one radius", test, "all", plan.patience, _over_radii(alone))
    alone = [judge_wald(found["all"], [each]) for each in thresholds]
    yield _row("one radius", WALD, "all", 0, _over_radii(alone))
    for width in WIDTHS:
        said = {key: round(value, 3) for key, value in judge_width(width, float(sigma), found["all"]).items()}
        yield {"goal": "width", "test": f"{width:.0%}", "part": "all", "patience": 0, **said}


def _over_radii(alone: Sequence[Judged]) -> Judged:
    """Geometric means of what is saved at each radius."""
    votes, skipping = (geometric_mean(getattr(each, name) for each in alone) for name in ("votes", "skipping"))
    return Judged(votes, skipping, [drop for each in alone for drop in each.drops])


def _row(goal: str, test: str, part: str, patience: float, judged: Judged) -> dict[str, Any]:
    said = {"votes": round(judged.votes, 3), "skipping": round(judged.skipping, 3)}
    return {
        **{"goal": goal, "test": test, "part": part, "patience": patience},
        **{**said, "drops": [round(each, 4) for each in judged.drops]},
    }


def run(target: Path, sigmas: Sequence[str]) -> None:
    for sigma in sigmas:
        for each in rows(sigma):
            keep(target, {**each, "sigma": sigma}, ("goal", "test", "part", "patience", "sigma"))
        print(f"σ = {sigma} is computed", flush=True)


def rendered(found: Sequence[dict[str, Any]]) -> str:
    """Three tables: the whole table of radii and one radius; what patience buys; a width."""
    by = {(row["goal"], row["test"], row["part"], row["patience"], row["sigma"]): row for row in found}
    lines: dict[str, list[tuple[str, tuple[str, str, str, float]]]] = {
        "whole table, steps of 0.25: votes (drop)": [
            (WALD, ("table", WALD, "all", 0)),
            ("(a) Clopper–Pearson at each look", ("table", "(a)", "all", DEFAULT_PATIENCE)),
            *((f"(b) {words}", ("table", "(b)", part, DEFAULT_PATIENCE)) for part, words in PARTS.items()),
            (SKIPPED, ("table", "(b)", "all", DEFAULT_PATIENCE)),
            ("n = 100 000 for every image", FIXED),
        ],
        "one radius, geometric mean over radii: votes (largest drop)": [
            (WALD, ("one radius", WALD, "all", 0)),
            *((test, ("one radius", test, "all", DEFAULT_PATIENCE)) for test in ("(a)", "(b)")),
        ],
        "(b), whole table: votes (drop)": [
            (f"patience {patience:,}".replace(",", " "), ("table", "(b)", "all", patience)) for patience in PATIENCES
        ],
        "average radius: votes (loss of radius)": [
            (f"width {width:.0%}", ("width", f"{width:.0%}", "all", 0)) for width in WIDTHS
        ],
    }
    sigmas = sorted({row["sigma"] for row in found})
    return "\n\n".join(
        table(
            [head, *(f"σ = {float(sigma):g}" for sigma in sigmas)],
            [[name, *(_cell(name, by.get((*key, sigma))) for sigma in sigmas)] for name, key in body],
        )
        for head, body in lines.items()
    )


def _cell(name: str, row: dict[str, Any] | None) -> str:
    if row is None:
        return "1× (0)"
    votes = f"{row['skipping' if name == SKIPPED else 'votes']:.1f}×"
    if "loss" in row:
        return f"{votes} ({row['loss']:.1f} %)"
    return votes if row["test"] == WALD else f"{votes} ({max(row['drops']):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    asked = commands.add_parser("run")
    asked.add_argument("target", type=Path)
    asked.add_argument("--sigma", nargs="+", default=SIGMAS, choices=SIGMAS)
    shown = commands.add_parser("table")
    shown.add_argument("source", type=Path)
    shown.add_argument("page", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        run(given.target, given.sigma)
    else:
        fill(given.page, MARK, rendered(json.loads(given.source.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
