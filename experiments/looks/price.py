"""The price of a vote, chosen on some images and tried on others.

    python experiments/looks/price.py vote docs/data/looks_price_votes.json
    python experiments/looks/price.py vote docs/data/looks_price_votes.json --cifar10 test.npz
    python experiments/looks/price.py choose docs/data/looks_price_votes.json docs/data/looks_price.json
    python experiments/looks/price.py table docs/data/looks_price.json docs/looks.md

The rule of choice was written before its result was known. A price is a patience, on a grid of factors √2, and the
power of the number of radii with which it grows, on a grid of eighths. Of all pairs whose expected drop is at most 0.2
points at every radius of the table, at each of the four σ, it takes the one that saves most votes (the geometric mean
over σ). If there is no such pair, it takes the one whose largest drop is smallest.

A drop is known to its standard deviation only, and of many prices the rule likes those whose drop looks too small. So
there is a second form of the rule, with a margin: the drop and one standard deviation of it are at most 0.2 points
together. It was written when the first form's result was known.

It chooses on the Fashion-MNIST test images that come with the package, on CIFAR-10 test images that no stored run has,
and on each half of the stored CIFAR-10 runs. The votes of the first two are made here, by the two embedded classifiers
and by the ResNet-110 of each σ. Everything is expected, by the recursion of simulate.py.

A ResNet-110 takes long. So its images get `--few` votes. Those that say more than 0.98, and leave the largest radius
open, are replaced by `--more` new ones. On a GPU it runs in float16, channels last, as in the stored runs. With
`--artifact` it runs with tuned kernels, for batches of `--few` copies, which are kept in FOLDER/σ.artifact or taken
from there. With `--runs` the votes are kept as runs in FOLDER, so that the same command goes on where it was
interrupted.
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

sys.path.insert(1, str(Path(__file__).parents[1] / "cifar10"))
sys.path.insert(1, str(Path(__file__).parents[1] / "performance"))

import networks
import numpy as np
import simulate
import torch
from simulate import SIGMAS, Image, Plan
from turns import add_turns, wait_for_turn

import soundsmooth as ss
from soundsmooth.certification.stop_rule import DEFAULT_PATIENCE, MANY
from soundsmooth.embedded import IMAGES, model_for
from soundsmooth.exact import clopper_pearson_below
from soundsmooth.lab.scripts.pages import fill, table

COPIES, EVERY, LIMIT = 20_000, 3, 300
#: The stored runs have every 20th CIFAR-10 test image from 0 on, these votes are for every 20th from 10 on.
FIRST, STEP, FEW, MORE = 10, 20, 1000, 10_000
#: More votes for images from this share of hits on, unless Clopper and Pearson say at this level that all radii hold.
HIGH, LEVEL = 0.98, Fraction(1, 1000)
PATIENCES = tuple(DEFAULT_PATIENCE * 2 ** (step / 2) for step in range(-3, 4))
EXPONENTS = tuple(eighths / 8 for eighths in range(5))
MOST_DROP = 0.2
DEFAULT = (DEFAULT_PATIENCE, MANY)
FASHION, OTHERS, WHOLE = "Fashion-MNIST", "CIFAR-10, other images", "CIFAR-10"
ODD, EVEN = "CIFAR-10, odd places", "CIFAR-10, even places"
#: Where a price is chosen, with how many standard deviations of margin, and where it is tried.
TRIALS = ((FASHION, 0, WHOLE), (OTHERS, 0, WHOLE), (OTHERS, 1, WHOLE), (ODD, 0, EVEN), (EVEN, 0, ODD))
MARK = "price"


class Price(NamedTuple):
    patience: float
    exponent: float


#: Votes cost next to nothing: what is still lost, the bound loses.
FREE = Price(1e12, MANY)


def voted_fashion(sigma: str) -> dict[str, Any]:
    """Votes for embedded images under one σ."""
    smooth = ss.Smoother(model_for(Fraction(sigma)), sigma, threads=1)
    data = ss.load(IMAGES, every=EVERY, limit=LIMIT)
    run = list(smooth.certify_all(data, n=COPIES, seed=f"price {sigma}"))
    return _row_of_votes(FASHION, sigma, run)


def voted_others(sigma: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Votes for CIFAR-10 images under one σ: a few, and more where these cannot tell."""
    with np.load(asked.cifar10) as held:
        images, labels = (held[name][asked.first :: asked.step] for name in "xy")
    network = networks.network(networks.weights_file(sigma))
    smooth = ss.Smoother(network, sigma, layout="nhwc-to-nchw", **_way(sigma, asked))
    if asked.turns:
        _voted(smooth, images[:2], labels[:2], asked.few, "ready", None)  # tunes
        wait_for_turn()
    run = _voted(smooth, images, labels, asked.few, f"price {sigma}", asked.runs)
    highest = simulate.thresholds_for(float(sigma))[-1]
    unsure = [place for place, each in enumerate(run) if _is_unsure(_hits(each), asked.few, highest)]
    again = _voted(smooth, images[unsure], labels[unsure], asked.more, f"price {sigma}, more", asked.runs)
    for place, each in zip(unsure, again, strict=True):
        run[place] = each
    return _row_of_votes(OTHERS, sigma, run)


def _voted(
    smooth: ss.Smoother, images: np.ndarray, labels: np.ndarray, n: int, seed: str, runs: Path | None
) -> list[ss.Certificate]:
    """n votes for each image. With one look at all of them, images share batches, so that few rows are only filled."""
    if not len(images):
        return []
    out = None if runs is None else runs / f"{seed}.db"
    with smooth.certify_all(images, labels, out=out, n=n, radii=0, looks=[n], seed=seed, progress=True) as run:
        return list(run)


def _way(sigma: str, asked: argparse.Namespace) -> dict[str, Any]:
    gpu = {"dtype": "fp16", "channels_last": True, "device": "cuda:0"} if torch.cuda.is_available() else {}
    if asked.artifact is not None:
        return {"compile": "tuned", "batch_size": asked.few, "artifact": asked.artifact / f"{sigma}.artifact", **gpu}
    if gpu:
        return {"compile": "none", "batch_size": asked.few, **gpu}
    return {"compile": "torch-compile", "batch_size": 100}


def _is_unsure(hits: int, copies: int, highest: float) -> bool:
    return hits >= HIGH * copies and clopper_pearson_below(hits, copies, LEVEL) <= highest


def _hits(certificate: ss.Certificate) -> int:
    """Of the class that selection chose."""
    return certificate.estimation.classes[certificate.selection.top]


def _row_of_votes(name: str, sigma: str, run: Sequence[ss.Certificate]) -> dict[str, Any]:
    """Hits and copies of each image, and whether the selected class is right."""
    return {
        "images": name,
        "sigma": sigma,
        "copies": [each.estimation.total for each in run],
        "hits": [_hits(each) for each in run],
        "right": "".join(str(int(each.selection.top == each.truth)) for each in run),
    }


def vote(target: Path, asked: argparse.Namespace) -> None:
    for sigma in asked.sigma:
        row = voted_fashion(sigma) if asked.cifar10 is None else voted_others(sigma, asked)
        rows = json.loads(target.read_text(encoding="utf-8")) if target.exists() else []
        others = [each for each in rows if (each["images"], each["sigma"]) != (row["images"], sigma)]
        write(target, [*others, row])
        print(f"σ = {sigma} is voted", flush=True)


def write(target: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A line for each row."""
    lines = ",\n".join(json.dumps(each) for each in rows)
    target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


class Judge:
    """What each price saves and loses on each set of images; nothing is computed twice."""

    def __init__(self, votes: Sequence[dict[str, Any]]) -> None:
        self.sets: dict[str, dict[str, list[Image]]] = {FASHION: {}, OTHERS: {}, WHOLE: {}, ODD: {}, EVEN: {}}
        for each in votes:
            counted = zip(each["hits"], each["copies"], each["right"], strict=True)
            found = [Image(hits / copies, right == "1") for hits, copies, right in counted]
            self.sets[each["images"]][each["sigma"]] = found
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

    def chosen(self, name: str, margin: int = 0) -> Price:
        """By the rule, with so many standard deviations of margin."""
        prices = [Price(*each) for each in product(PATIENCES, EXPONENTS)]
        drops = {
            price: max(each["drop"] + margin * each["deviation"] for each in self.tried(price, name))
            for price in prices
        }
        good = [price for price in prices if drops[price] <= MOST_DROP]
        if not good:
            return min(prices, key=drops.__getitem__)
        return max(good, key=lambda price: geometric_mean(each["votes"] for each in self.tried(price, name)))


def choose(votes: Path, target: Path) -> None:
    judge, found = Judge(json.loads(votes.read_text(encoding="utf-8"))), []
    for on, margin, tried in TRIALS:
        price, said = judge.chosen(on, margin), f"{on}, with a margin" if margin else on
        found += [_row(judge, said, price, on), _row(judge, said, price, tried)]
    for said, price in (("(the default)", Price(*DEFAULT)), ("(no price)", FREE)):
        found += [_row(judge, said, price, tried) for tried in (WHOLE, OTHERS, FASHION)]
    write(target, found)
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
    voting = commands.add_parser("vote")
    voting.add_argument("target", type=Path)
    voting.add_argument("--cifar10", type=Path, metavar="TEST.npz", help="vote for CIFAR-10 instead of Fashion-MNIST")
    voting.add_argument("--sigma", nargs="+", default=SIGMAS, choices=SIGMAS)
    for name, usual in (("first", FIRST), ("step", STEP), ("few", FEW), ("more", MORE)):
        voting.add_argument(f"--{name}", type=int, default=usual, help=f"{usual}, if not given")
    voting.add_argument("--runs", type=Path, metavar="FOLDER", help="where votes are kept until all are there")
    add_turns(voting)
    voting.add_argument("--artifact", type=Path, metavar="FOLDER", help="of tuned kernels, one file for each σ")
    chosen = commands.add_parser("choose")
    chosen.add_argument("votes", type=Path)
    chosen.add_argument("target", type=Path)
    shown = commands.add_parser("table")
    shown.add_argument("source", type=Path)
    shown.add_argument("page", type=Path)
    given = parser.parse_args()
    if given.command == "vote":
        vote(given.target, given)
    elif given.command == "choose":
        choose(given.votes, given.target)
    else:
        fill(given.page, MARK, rendered(json.loads(given.source.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
