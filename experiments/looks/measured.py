"""The stored runs with looks beside the stored runs with n = 100 000 votes for every image.

    python experiments/looks/measured.py run docs/data/looks_measured.json
    python experiments/looks/measured.py table docs/data/looks_measured.json docs/data/looks_seconds.json docs/looks.md
    python experiments/looks/measured.py tuned docs/data/looks_tuned.json docs/looks.md

The realised difference of certified accuracy stands beside its standard deviation. For this, each image's p is its
share of hits in the run with n votes; both runs vote anew, with noise of their own.

The rule is also applied to prefixes of the votes of runs with n votes, as if these had been voted with looks. There
both decide from the same votes.
"""

import argparse
import json
import lzma
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import simulate

from soundsmooth import Certificate, open_run
from soundsmooth.certification.looks import Looks
from soundsmooth.certification.settings import promised_settings
from soundsmooth.core.decimals import truncated
from soundsmooth.exact import Look
from soundsmooth.exact.group_sequential import boundaries
from soundsmooth.lab.scripts.pages import fill, table
from soundsmooth.lab.scripts.rows import keep
from soundsmooth.noise import Purpose
from soundsmooth.runs.reader import RunReader
from soundsmooth.smoothing.blocks import hits_of

HERE = Path(__file__).parent
N, N0 = simulate.N, simulate.N0


@contextmanager
def unpacked(kind: str, sigma: str) -> Iterator[Path]:
    """The file of a run that is kept here."""
    packed = HERE / "runs" / f"{kind}_sigma{sigma}_n{N}.db.xz"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / packed.stem
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        yield path


def row(sigma: str) -> dict[str, Any]:
    """All that is shown of one σ."""
    thresholds = simulate.thresholds_for(float(sigma))
    radii = [simulate.STEP * place for place in range(len(thresholds))]
    whole = list(open_run(simulate.RUNS / f"sound_sigma{sigma}_n{N}.db"))
    with unpacked("looks", sigma) as path, open_run(path) as run:
        looked, votes = [_certified(each, radii) for each in run], [each.votes for each in run]
        looks = promised_settings(run.promise.values).looks
        assert looks is not None
    difference = 100 * (np.mean(looked, axis=0) - np.mean([_certified(each, radii) for each in whole], axis=0))
    return {
        "sigma": sigma,
        "images": len(votes),
        "votes": sum(votes),
        "times fewer": round((N0 + N) * len(votes) / sum(votes), 2),
        "difference": [round(float(each), 1) for each in difference],
        "deviation": [round(float(each), 2) for each in deviation(whole, thresholds)],
        "prefixes": on_prefixes(sigma, looks),
    }


def _certified(each: Certificate, radii: Sequence[float]) -> list[bool]:
    return [each.label == each.truth and each.radius > radius for radius in radii]


def deviation(whole: Sequence[Certificate], thresholds: Sequence[float]) -> np.ndarray:
    """The standard deviation, in points, of the difference of two runs' certified accuracy at each radius.

    Each run selects a label anew. Its chance to select the true one is estimated from 10 000 draws.
    """
    plan, draws = simulate.Plan(), np.random.default_rng(1)
    limits = simulate.boundaries_of(plan, thresholds)
    rules = simulate.go_on_for_radii(plan.looks, limits, thresholds, plan.patience)
    variance = np.zeros(len(thresholds))
    for each in whole:
        counts = np.array([*each.estimation.classes, each.estimation.nobody])
        selected = draws.multinomial(N0, counts / counts.sum(), 10_000)[:, :-1].argmax(axis=1)
        right, p = float(np.mean(selected == each.truth)), float(counts[each.truth] / counts.sum())
        if right:
            looked = simulate.outcome(p, plan.looks, limits, rules).certified
            for chance in (right * looked, right * simulate.fixed(p, thresholds)):
                variance += chance * (1 - chance)
    return 100 * np.sqrt(variance) / len(whole)


def on_prefixes(sigma: str, looks: Looks) -> dict[str, Any]:
    """The rule on the votes of images with n votes: what it would have spent, and where it certifies otherwise."""
    limits = [boundaries(p, looks.counts, looks.levels) for _, p in looks.radii]
    spent, differences, images = 0, 0, 0
    with unpacked("plain", sigma) as path, RunReader.read(path) as store:
        needed = simulate.needed_counts(tuple(p for _, p in looks.radii))
        for place in range(len(open_run(path))):
            blocks = store.blocks(place, Purpose.ESTIMATION)
            hits = np.concatenate([hits_of(each.hits, each.block.count) for each in blocks])
            reached, votes = replayed(looks, limits, np.cumsum(hits))
            images, spent = images + 1, spent + N0 + votes
            at_n = sum(accumulate((int(hits.sum()) >= least for least in needed), min))
            differences += reached != at_n
    return {"images": images, "times fewer": round((N0 + N) * images / spent, 2), "other radius": differences}


def replayed(looks: Looks, limits: Sequence[Sequence[int]], hits: np.ndarray) -> tuple[int, int]:
    """How many of the radii are reached, and after how many votes the image stops."""
    taken: list[Look] = []
    crossed = [False] * len(limits)
    while looks.goes_on(None, 0, taken):
        count = looks.counts[len(taken)]
        taken.append(Look(count, int(hits[count - 1]), 0))
        crossed = [was or taken[-1].hits >= limit[len(taken) - 1] for was, limit in zip(crossed, limits, strict=True)]
    return sum(accumulate(crossed, min)), taken[-1].n


def rendered(found: Sequence[dict[str, Any]], times: Sequence[dict[str, Any]]) -> str:
    """Votes and seconds, with no gain rounded up; then the certified accuracy at each radius."""
    timed = {f"{float(each['sigma']):.2f}": each for each in times}
    first = [
        [
            f"σ = {float(each['sigma']):g}",
            f"{truncated(each['times fewer'], 1)}×",
            f"{truncated(timed[each['sigma']]['gain']['seconds'], 1)}×",
            truncated(timed[each["sigma"]]["gain"]["seconds"] / timed[each["sigma"]]["gain"]["copies"], 2),
            f"{timed[each['sigma']]['looks']['seconds'] / each['images']:.3f}",
            f"{truncated(each['prefixes']['times fewer'], 1)}×",
            f"{each['prefixes']['other radius']} of {each['prefixes']['images']}",
        ]
        for each in found
    ]
    most = max(len(each["difference"]) for each in found)
    second = [[f"σ = {float(each['sigma']):g}", *_differences(each, most)] for each in found]
    heads = ["", "votes", "seconds", "share of the gain", "s an image", "votes on prefixes", "other radius there"]
    radii = [f"{simulate.STEP * place:g}" for place in range(most)]
    return "\n\n".join((table(heads, first), table(["difference at r =", *radii], second)))


def rendered_tuned(times: Sequence[dict[str, Any]]) -> str:
    """Votes and seconds of runs with tuned kernels, with no gain rounded up."""
    heads = ["", "copies", "votes", "seconds", "share of the gain", "s for all images", "s an image with n votes"]
    return table(heads, [_tuned_row(each) for each in times])


def _tuned_row(each: dict[str, Any]) -> list[str]:
    gain = each["gain"]
    return [
        f"σ = {float(each['sigma']):g}" + (" (stored)" if "run" in each else ""),
        f"{each['looks']['copies']:,}".replace(",", " "),
        f"{truncated(gain['copies'], 1)}×",
        f"{truncated(gain['seconds'], 1)}×",
        truncated(gain["seconds"] / gain["copies"], 2),
        f"{each['looks']['seconds']:.1f}",
        f"{each['plain']['seconds'] / each['plain']['images']:.3f}",
    ]


def _differences(each: dict[str, Any], most: int) -> list[str]:
    pairs = zip(each["difference"], each["deviation"], strict=True)
    cells = [f"{difference:+.1f} ({deviation:.2f})" for difference, deviation in pairs]
    return cells + [""] * (most - len(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run").add_argument("target", type=Path)
    shown = commands.add_parser("table")
    for name in ("source", "times", "page"):
        shown.add_argument(name, type=Path)
    timed = commands.add_parser("tuned")
    for name in ("times", "page"):
        timed.add_argument(name, type=Path)
    given = parser.parse_args()
    if given.command == "tuned":
        fill(given.page, "tuned", rendered_tuned(json.loads(given.times.read_text(encoding="utf-8"))))
    elif given.command == "run":
        for sigma in simulate.SIGMAS:
            keep(given.target, row(sigma), ("sigma",))
    else:
        found, times = (json.loads(each.read_text(encoding="utf-8")) for each in (given.source, given.times))
        fill(given.page, "measured", rendered(found, times))


if __name__ == "__main__":
    main()
