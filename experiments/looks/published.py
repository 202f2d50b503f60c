"""One benchmark: ours against the adaptive tests that others published, on the images of the stored CIFAR-10 runs.

    python experiments/looks/published.py run docs/data/looks_published.json [--processes 2]
    python experiments/looks/published.py table docs/data/looks_published.json docs/looks.md

Each image's p is its share of hits in the stored run. No vote is drawn: laws of hits go from look to look by the
recursion of simulate.py. A published test goes on while one of the radii is neither certified nor given up. It looks
after every vote, or where its authors look; here two looks are up to 5 % apart, which costs it up to 5 % of its votes.

*votes* says how many times fewer votes than n = 100 000 are expected, selection counted on both sides. *drop* is the
largest loss of expected certified accuracy at any radius, in points. *Wald* is what no test of level α can beat with
the power that this one attains on every image, and *distance* how many times its votes are above that.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from multiprocessing import Pool
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import simulate
from simulate import ALPHA, N0, SIGMAS, Image, N, Outcome, Plan

from soundsmooth.certification.stop_rule import Intervals, go_on_for_radii
from soundsmooth.lab.adaptive.betting import KT, KT_AS_RELEASED, ROBBINS
from soundsmooth.lab.adaptive.hoeffding import HOEFFDING
from soundsmooth.lab.adaptive.sequential import Boundary, Sequential, boundary, dense_looks
from soundsmooth.lab.adaptive.sprt import SPRT
from soundsmooth.lab.adaptive.union_bound import growing_looks, stages
from soundsmooth.lab.scripts.pages import fill, table
from soundsmooth.lab.scripts.rows import keep

OURS = {"(a) Clopper–Pearson at spent levels": Plan("a"), "(b) exact spending": Plan("b")}
PUBLISHED: dict[str, Sequential] = {
    test.name: test for test in (KT, KT_AS_RELEASED, ROBBINS, growing_looks(N), stages(N), HOEFFDING, SPRT)
}
GOALS = ("table", "one radius")
MARK = "published tests"


class Decider(NamedTuple):
    """A test for some radii: when it looks, where it certifies each, and where it goes on."""

    looks: tuple[int, ...]
    certify: Sequence[Sequence[int]]
    rules: Sequence[Intervals]


def ours(plan: Plan, thresholds: Sequence[float]) -> Decider:
    boundaries = simulate.boundaries_of(plan, thresholds)
    return Decider(plan.looks, boundaries, go_on_for_radii(plan.looks, boundaries, thresholds, plan.patience))


def published(test: Sequential, thresholds: Sequence[float]) -> Decider:
    looks = tuple(sorted({*dense_looks(N), *test.looks(N)}))
    found = [boundary(test, p, N, float(ALPHA), looks) for p in thresholds]
    rules = [undecided(found, k, votes) for k, votes in enumerate(looks[:-1])]
    return Decider(looks, [each.certify for each in found], rules)


def undecided(boundaries: Sequence[Boundary], k: int, votes: int) -> Intervals:
    """The hits at which some radius is neither certified nor given up."""
    found: list[tuple[int, int]] = []
    for each in sorted((max(0, b.give_up[k] + 1), min(votes, b.certify[k] - 1)) for b in boundaries):
        if each[0] > each[1]:
            continue
        if found and each[0] <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], each[1]))
        else:
            found.append(each)
    return tuple(found)


def decider(name: str, thresholds: Sequence[float]) -> Decider:
    return ours(OURS[name], thresholds) if name in OURS else published(PUBLISHED[name], thresholds)


def least_votes(p: float, outcome: Outcome, thresholds: Sequence[float]) -> float:
    """What any test of level α spends on an image, on average, with this power at each radius; selection counted."""
    alpha, found = float(ALPHA), 0.0
    for power, threshold in zip(outcome.certified.tolist(), thresholds, strict=True):
        if p > threshold and power > alpha:
            found = max(found, simulate.divergence(min(power, 1.0), alpha) / simulate.divergence(p, threshold))
    return N0 + found


def judge(name: str, images: Sequence[Image], thresholds: Sequence[float]) -> dict[str, float]:
    test, shares = decider(name, thresholds), sorted({image.p for image in images})
    outcomes = {p: simulate.outcome(p, test.looks, test.certify, test.rules) for p in shares}
    votes = sum(outcomes[image.p].votes for image in images)
    least = sum(least_votes(image.p, outcomes[image.p], thresholds) for image in images)
    lost = [simulate.fixed(image.p, thresholds) - outcomes[image.p].certified for image in images if image.right]
    drop = 100 * max(float(each) for each in sum(lost)) / len(images)
    whole = (N0 + N) * len(images)
    return {"votes": float(whole / votes), "drop": drop, "wald": whole / least, "distance": float(votes / least)}


def one_radius(name: str, images: Sequence[Image], thresholds: Sequence[float]) -> dict[str, float]:
    """Each radius alone: geometric means over the radii, and the largest drop."""
    found = [judge(name, images, [threshold]) for threshold in thresholds]
    means = {key: geometric_mean(each[key] for each in found) for key in ("votes", "wald", "distance")}
    return {**means, "drop": max(each["drop"] for each in found)}


def row(task: tuple[str, str, str]) -> dict[str, Any]:
    goal, name, sigma = task
    images, thresholds = simulate.images(sigma, "all"), simulate.thresholds_for(float(sigma))
    of: Callable[..., dict[str, float]] = judge if goal == "table" else one_radius
    test = PUBLISHED.get(name)
    said = {"source": test.source if test else "ours", "valid": test.valid if test else True}
    return {"goal": goal, "test": name, "sigma": sigma, **said, **of(name, images, thresholds)}


def tasks(sigmas: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """All cells; the ratio test knows one radius only."""
    for goal, name, sigma in product(GOALS, [*OURS, *PUBLISHED], sigmas):
        if goal == "table" and name == SPRT.name:
            continue
        yield goal, name, sigma


def run(target: Path, sigmas: Sequence[str], processes: int) -> None:
    with Pool(processes) as pool:
        for each in pool.imap_unordered(row, tasks(sigmas)):
            keep(target, each, ("goal", "test", "sigma"))
            print(json.dumps(each, ensure_ascii=False), flush=True)


def rendered(rows: Sequence[dict[str, Any]]) -> str:
    """One table for each goal: a line for each test, a column for each σ."""
    return "\n\n".join(_table(goal, [row for row in rows if row["goal"] == goal]) for goal in GOALS)


def _table(goal: str, rows: Sequence[dict[str, Any]]) -> str:
    found = {(row["test"], row["sigma"]): row for row in rows}
    sigmas = sorted({row["sigma"] for row in rows})
    names = [name for name in (*OURS, *PUBLISHED) if any((name, sigma) in found for sigma in sigmas)]
    what = "whole table, steps of 0.25" if goal == "table" else "one radius"
    head = [f"{what}: votes (drop; distance to Wald)", *(f"σ = {float(sigma):g}" for sigma in sigmas)]
    return table(head, [[name, *(_cell(found[name, sigma]) for sigma in sigmas)] for name in names])


def _cell(row: dict[str, Any]) -> str:
    return f"{row['votes']:.1f}× ({row['drop']:.2f}; {row['distance']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    asked = commands.add_parser("run")
    asked.add_argument("target", type=Path)
    asked.add_argument("--sigma", nargs="+", default=SIGMAS, choices=SIGMAS)
    asked.add_argument("--processes", type=int, default=2)
    shown = commands.add_parser("table")
    shown.add_argument("source", type=Path)
    shown.add_argument("page", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        run(given.target, given.sigma, given.processes)
    else:
        fill(given.page, MARK, rendered(json.loads(given.source.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
