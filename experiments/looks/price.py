"""The price of a vote, chosen on some images and tried on others.

    python experiments/looks/price.py vote docs/data/looks_price_votes.json
    python experiments/looks/price.py choose docs/data/looks_price_votes.json docs/data/looks_price.json
    python experiments/looks/price.py table docs/data/looks_price.json docs/looks.md

The rule of choice was written before its result was known. A price is a patience, on a grid of factors √2, and the
power of the number of radii with which it grows, on a grid of eighths. Of all pairs whose expected drop is at most 0.2
points at every radius of the table, at each of the four σ, it takes the one that saves most votes (the geometric mean
over σ). If there is no such pair, it takes the one whose largest drop is smallest.

It chooses on the Fashion-MNIST test images that come with the package, and on each half of the stored CIFAR-10 runs.
The votes of the former are made here, by the two embedded classifiers. Everything is expected, by the recursion of
simulate.py.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import chain, product
from pathlib import Path
from statistics import fmean, geometric_mean, stdev
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import simulate
from simulate import SIGMAS, Image, Plan

import soundsmooth as ss
from soundsmooth.certification.stop_rule import DEFAULT_PATIENCE, MANY
from soundsmooth.embedded import IMAGES, model_for
from soundsmooth.lab.scripts.pages import fill, table

COPIES, EVERY, LIMIT = 20_000, 3, 300
PATIENCES = tuple(DEFAULT_PATIENCE * 2 ** (step / 2) for step in range(-3, 4))
EXPONENTS = tuple(eighths / 8 for eighths in range(5))
MOST_DROP = 0.2
DEFAULT = (DEFAULT_PATIENCE, MANY)
FASHION, WHOLE, ODD, EVEN = "Fashion-MNIST", "CIFAR-10", "CIFAR-10, odd places", "CIFAR-10, even places"
#: Where a price is chosen, and where it is tried.
TRIALS = ((FASHION, WHOLE), (ODD, EVEN), (EVEN, ODD))
MARK = "price"


class Price(NamedTuple):
    patience: float
    exponent: float


#: Votes cost next to nothing: what is still lost, the bound loses.
FREE = Price(1e12, MANY)


def voted(sigma: str) -> dict[str, Any]:
    """The hits of embedded images under one σ, and whether the selected class is right."""
    smooth = ss.Smoother(model_for(Fraction(sigma)), sigma, threads=1)
    data = ss.load(IMAGES, every=EVERY, limit=LIMIT)
    run = list(smooth.certify_all(data, n=COPIES, seed=f"price {sigma}"))
    tops = [each.selection.top for each in run]
    return {
        "sigma": sigma,
        "copies": COPIES,
        "hits": [each.estimation.classes[top] for top, each in zip(tops, run, strict=True)],
        "right": "".join(str(int(top == each.truth)) for top, each in zip(tops, run, strict=True)),
    }


def vote(target: Path) -> None:
    found = []
    for sigma in SIGMAS:
        found.append(voted(sigma))
        lines = ",\n".join(json.dumps(each) for each in found)
        target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        print(f"σ = {sigma} is voted", flush=True)


class Judge:
    """What each price saves and loses on each set of images; nothing is computed twice."""

    def __init__(self, votes: Sequence[dict[str, Any]]) -> None:
        self.sets: dict[str, dict[str, list[Image]]] = {FASHION: {}, WHOLE: {}, ODD: {}, EVEN: {}}
        for each in votes:
            pairs = zip(each["hits"], each["right"], strict=True)
            self.sets[FASHION][each["sigma"]] = [Image(hits / each["copies"], right == "1") for hits, right in pairs]
        for sigma in SIGMAS:
            for name, part in ((WHOLE, "all"), (ODD, "odd"), (EVEN, "even")):
                self.sets[name][sigma] = simulate.images(sigma, part)
        self._judged = cache(self._judge)

    def tried(self, price: Price, name: str) -> list[dict[str, Any]]:
        """For each σ, how many times fewer votes, and the largest drop in points."""
        return [self._judged(sigma, self.worth(price, sigma))[name] for sigma in SIGMAS]

    def worth(self, price: Price, sigma: str) -> int:
        """The patience that has the same rule with the present exponent, as the number of its sixteenths of a factor 2
        above the default.
        """
        radii = len(simulate.thresholds_for(float(sigma)))
        return round(16 * math.log2(price.patience / DEFAULT_PATIENCE * radii ** (price.exponent - MANY)))

    def _judge(self, sigma: str, worth: int) -> dict[str, dict[str, Any]]:
        plan, thresholds = Plan("b", DEFAULT_PATIENCE * 2 ** (worth / 16)), simulate.thresholds_for(float(sigma))
        images = {name: by_sigma[sigma] for name, by_sigma in self.sets.items()}
        outcomes, found = simulate.outcomes_of(plan, chain(*images.values()), thresholds), {}
        for name, some in images.items():
            judged = simulate.judged(some, outcomes, thresholds)
            worst = judged.drops.index(judged.drop)
            lost = [
                each.right * (simulate.fixed(each.p, thresholds) - outcomes[each.p].certified)[worst] for each in some
            ]
            found[name] = {
                "votes": round(judged.votes, 3),
                "drop": round(judged.drop, 4),
                "deviation": round(100 * stdev(lost) / math.sqrt(len(lost)), 4),
                "mean": round(fmean(judged.drops), 4),
            }
        return found

    def chosen(self, name: str) -> Price:
        """By the rule."""
        prices = [Price(*each) for each in product(PATIENCES, EXPONENTS)]
        drops = {price: max(each["drop"] for each in self.tried(price, name)) for price in prices}
        good = [price for price in prices if drops[price] <= MOST_DROP]
        if not good:
            return min(prices, key=drops.__getitem__)
        return max(good, key=lambda price: geometric_mean(each["votes"] for each in self.tried(price, name)))


def choose(votes: Path, target: Path) -> None:
    judge, found = Judge(json.loads(votes.read_text(encoding="utf-8"))), []
    for on, tried in TRIALS:
        price = judge.chosen(on)
        found.append(_row(judge, on, price, on))
        found.append(_row(judge, on, price, tried))
    for said, price in (("(the default)", Price(*DEFAULT)), ("(no price)", FREE)):
        found += [_row(judge, said, price, tried) for tried in (WHOLE, FASHION)]
    lines = ",\n".join(json.dumps(each) for each in found)
    target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(rendered(found))


def _row(judge: Judge, on: str, price: Price, tried: str) -> dict[str, Any]:
    said = {"chosen on": on, "patience": round(price.patience), "exponent": price.exponent, "tried on": tried}
    return {**said, "sigmas": dict(zip(SIGMAS, judge.tried(price, tried), strict=True))}


def rendered(rows: Sequence[dict[str, Any]]) -> str:
    body = [
        [
            row["chosen on"],
            "no end" if row["patience"] == FREE.patience else f"{row['patience']:,}".replace(",", " "),
            f"{row['exponent']:g}",
            row["tried on"],
            *(_cell(row["sigmas"][sigma]) for sigma in SIGMAS),
        ]
        for row in rows
    ]
    heads = ["chosen on", "patience", "exponent", "tried on", *(f"σ = {float(sigma):g}" for sigma in SIGMAS)]
    return table(heads, body)


def _cell(found: dict[str, float]) -> str:
    return f"{found['votes']:.1f}× ({found['drop']:.2f} ± {found['deviation']:.2f}; {found['mean'] + 0.0:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("vote").add_argument("target", type=Path)
    chosen = commands.add_parser("choose")
    chosen.add_argument("votes", type=Path)
    chosen.add_argument("target", type=Path)
    shown = commands.add_parser("table")
    shown.add_argument("source", type=Path)
    shown.add_argument("page", type=Path)
    given = parser.parse_args()
    if given.command == "vote":
        vote(given.target)
    elif given.command == "choose":
        choose(given.votes, given.target)
    else:
        fill(given.page, MARK, rendered(json.loads(given.source.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
