"""Compare the stored runs, sound against standard: docs/data/cifar10.json, and the tables of docs/paper.md.

    python experiments/cifar10/table.py experiments/cifar10/runs docs

For each σ and n the folder holds what `certify.py` wrote; images that are not finished in both are not compared. Every
sound run is verified; `docs/data/replay.json` says what `replay.py` found where votes were repeated. Only what lies
between the marks in the page is replaced; no number there is typed by hand. How differences are judged: `compare.py`.
Ends with code 1 if one is beyond noise, or if a run is refuted.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import replay
from certify import read_standard
from compare import (
    Hits,
    Pair,
    Results,
    Test,
    cell,
    detectable,
    holm,
    image,
    least_hits,
    mean_radius,
    scatter,
    votes,
)
from compare import borderline as borderline_images

from soundsmooth.certification.report import decimal_below
from soundsmooth.exact import float_below
from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.lab.scripts.pages import fill, table
from soundsmooth.runs.store import Store
from soundsmooth.verification import audit_file

RADII = tuple(Fraction(r) for r in ("0", "0.1", "0.25", "0.5", "0.75", "1", "1.25", "1.5", "2"))
KINDS = ("cells", "mean radii", "votes", "scatter", "images", "longer runs")
#: If sound and standard smoothing were the same, anything would be reported with at most this probability,
FALSE_ALARM = 0.01
#: of which each kind of test has its share.
LEVEL = FALSE_ALARM / len(KINDS)
#: The power is computed against p being larger by this on borderline images in the standard run; for scatter, larger or
#: smaller.
SHIFT = 0.01
#: The base recipe of 2019 (Cohen et al.: Gaussian augmentation) with this architecture, certified by its authors with
#: this n on every 20th test image (github.com/locuslab/smoothing, data/certify/cifar10/resnet110): certified accuracy
#: at radius 0, and average certified radius.
BASE_N, BASE = 100_000, {"0.12": (0.814, 0.270), "0.25": (0.748, 0.429), "0.50": (0.652, 0.538), "1.00": (0.472, 0.542)}
#: Certified accuracies at radius 0 of the paper's networks, sound, 500 images: Tables 2, 3 and 4.
PAPER = {
    "0.12": (0.878, 0.714, 0.560),
    "0.25": (0.836, 0.660, 0.534),
    "0.50": (0.708, 0.554, 0.466),
    "1.00": (0.512, 0.440, 0.370),
}
BOTH = ("sound", "standard")
PAPER_TABLES = ("Table 2, n = 100000", "Table 3, n = 10000", "Table 4, n = 10000")
SHARED = ("sigma", "n0", "n", "alpha", "bound", "batch", "model", "precision", "device", "flags", "inputs")


@dataclass(frozen=True)
class Row:
    """An image in one run."""

    truth: int
    label: int | None
    radius: float
    selection: Sequence[int]
    estimation: Sequence[int]

    @property
    def certified(self) -> float:
        return self.radius if self.label == self.truth else 0.0

    @property
    def hits(self) -> int:
        return self.estimation[self.truth]


@dataclass(frozen=True)
class Both:
    """The two runs with one σ and n, on the images that are finished in both."""

    terms: dict[str, Any]
    promised: int
    indices: list[int]
    pair: Pair
    alone: dict[int, Row]
    """What the sound run has finished, compared or not, by the images' numbers."""

    @property
    def sigma(self) -> Fraction:
        return Fraction(self.terms["sigma"])

    def least(self, radius: Fraction) -> int:
        return least_hits(radius, self.pair.n, self.sigma, Fraction(self.terms["alpha"]))


def main(runs: Path, docs: Path) -> None:
    paths = sorted(runs.glob("sound_*.db"))
    repeated = json.loads((docs / "data/replay.json").read_text(encoding="utf-8"))
    stored = [both(path) for path in paths]
    found = summary([each for each in stored if each.indices])
    found["networks"] = [network(each) for each in stored]
    found["audits"] = [audit(path, repeated) for path in paths]
    written = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (docs / "data/cifar10.json").write_text(written, encoding="utf-8")
    fill(docs / "paper.md", "cifar10", tables(found))
    explained = all(family["explained"] for family in found["families"].values())
    sys.exit(0 if explained and not any(each["refuted"] for each in found["audits"]) else 1)


def audit(path: Path, replays: list[dict[str, Any]]) -> dict[str, Any]:
    """What `soundsmooth verify` says of a run, and what was found when votes of a run with this very content were
    repeated.
    """
    found = replay.summary(path, audit_file(path))
    again = next((each for each in replays if each["content"] == found["content"]), found)
    repeated = {name: again[name] for name in ("replay", "machine", "findings")}
    return found | repeated | {"refuted": found["refuted"] or again["refuted"]}


def both(path: Path) -> Both:
    """The sound run in the file, and the standard one beside it; a ValueError if they are not of the same task."""
    with Store.read(path) as store:
        terms, progress = store.terms, store.progress()
        rows = {c.index: Row(c.truth, c.label, c.radius, c.selection.classes, c.estimation.classes)
                for c in store.certificates() if c.truth is not None}  # fmt: skip
    head, lines = read_standard(path.with_name(path.name.replace("sound_", "standard_")).with_suffix(".jsonl"))
    others, promised = standard_rows(lines), terms.promise.values
    differ = [name for name in SHARED if str(head[name]) != promised[name]] if lines else []
    if differ:
        raise ValueError(f"{path.name}: sound and standard differ in {', '.join(differ)}")
    indices = sorted(rows.keys() & others.keys())
    n, shared = int(promised["n"]), {name: promised[name] for name in SHARED}
    pair = Pair(n, _results(rows, indices), _results(others, indices))
    found = Both(shared, progress.images, indices, pair, rows)
    _check(found)
    return found


def network(each: Both) -> dict[str, Any]:
    """How good a network is by its sound certificates on all images that are finished."""
    certified = [row.certified for row in each.alone.values()]
    return {
        "sigma": decimal_below(each.sigma, 2),
        "n": each.pair.n,
        "promised": each.promised,
        "images": len(certified),
        "certified": [sum(Fraction(r) > radius for r in certified) for radius in RADII],
        "mean radius": average(certified),
    }


def standard_rows(lines: list[dict[str, Any]]) -> dict[int, Row]:
    """By the images' numbers."""
    names = ("truth", "label", "radius", "selection", "estimation")
    return {line["index"]: Row(*(line[name] for name in names)) for line in lines}


def _results(rows: dict[int, Row], indices: Iterable[int]) -> Results:
    chosen = [rows[i] for i in indices]
    return Results(
        np.array([int(np.argmax(row.selection)) == row.truth for row in chosen], bool),
        np.array([row.hits for row in chosen], np.int64),
        np.array([row.certified for row in chosen], float),
    )


def _check(found: Both) -> None:
    """What the counts say is certified is what the runs say is certified, at every radius."""
    for radius in RADII:
        least = found.least(radius)
        for results in (found.pair.sound, found.pair.standard):
            stated = np.array([Fraction(r) > radius for r in results.radius], bool)
            if not np.array_equal(results.certified(least), stated):
                raise ValueError(f"radii do not follow from the counts at σ = {found.sigma}, radius {radius}")


def summary(runs: Sequence[Both]) -> dict[str, Any]:
    """Everything that is in the tables, as JSON can hold it."""
    if not runs:
        raise ValueError("there are no runs")
    runs = sorted(runs, key=lambda each: (each.pair.n, each.sigma))
    cells = sum(each.least(radius) <= each.pair.n for each in runs for radius in RADII)
    rows = [_run(each, LEVEL / cells, LEVEL / len(runs)) for each in runs]
    tests: dict[str, list[tuple[str, float]]] = {kind: [] for kind in KINDS}
    for each, row in zip(runs, rows, strict=True):
        name = f"σ = {row['sigma']}, n = {row['n']}"
        tests["cells"] += [(f"{name}, radius {c['radius']:g}", c["p"]) for c in row["cells"] if c["possible"]]
        tests["mean radii"].append((name, row["mean radius"]["p"]))
        tests["votes"].append((name, row["votes"]["p"]))
        tests["scatter"].append((name, row["scatter"]["p"]))
        tests["images"] += [(f"{name}, image {i}", image(each.pair, k).p) for k, i in enumerate(each.indices)]
    compared = longer(runs)
    for found in compared:
        name = f"σ = {found['sigma']}, n = {found['n']}"
        tests["longer runs"] += [(f"{name}, {kind}", found[kind]["p"]) for kind in BOTH]
    families = {kind: _family(named) for kind, named in tests.items() if named}
    shared = {"false alarm": FALSE_ALARM, "level": LEVEL, "shift": SHIFT}
    return shared | {"families": families, "runs": rows, "longer": compared}


def longer(runs: Sequence[Both]) -> list[dict[str, Any]]:
    """Votes of sound and of standard runs against those of a sound run with more copies, on the images that are
    finished in both; standard runs of that length need not be there.
    """
    pairs = [(few, many) for few in runs for many in runs if few.sigma == many.sigma and few.pair.n < many.pair.n]
    return [_longer(few, many, LEVEL / (2 * len(pairs))) for few, many in pairs]


def _longer(few: Both, many: Both, level: float) -> dict[str, Any]:
    apart = ("n", "inputs")  # the digest of the inputs is one of their order too
    differ = [name for name in SHARED if name not in apart and few.terms[name] != many.terms[name]]
    if differ:
        raise ValueError(f"σ = {few.sigma}: runs with different n differ in {', '.join(differ)}")
    where = [k for k, index in enumerate(few.indices) if index in many.alone]
    second = np.array([many.alone[few.indices[k]].hits for k in where], np.int64)
    hits = {kind: Hits(getattr(few.pair, kind).hits[where], few.pair.n, second, many.pair.n) for kind in BOTH}
    return {
        "sigma": decimal_below(few.sigma, 2),
        "n": few.pair.n,
        "more": many.pair.n,
        "images": len(where),
        **{kind: {**asdict(votes(each)), "detectable": detectable(each, level)} for kind, each in hits.items()},
    }


def _family(named: list[tuple[str, float]]) -> dict[str, Any]:
    """All tests of a kind, corrected for their number."""
    ps = [p for _, p in named]
    adjusted = holm(ps)
    beyond = [name for (name, _), p in zip(named, adjusted, strict=True) if p <= LEVEL]
    return {
        "tests": len(ps),
        "smallest p": min(ps),
        "of": named[ps.index(min(ps))][0],
        "adjusted": min(adjusted),
        "at most 0.05": sum(p <= 0.05 for p in ps),
        "beyond noise": beyond,
        "explained": not beyond,
    }


def _run(each: Both, cell_level: float, run_level: float) -> dict[str, Any]:
    pair = each.pair
    return {
        "sigma": decimal_below(each.sigma, 2),
        "n": pair.n,
        "images": pair.images,
        "promised": each.promised,
        **{name: each.terms[name] for name in ("alpha", "n0", "batch", "model", "precision", "device", "inputs")},
        "borderline": int(borderline_images(pair.hits.estimates).sum()),
        "cells": [_cell(each, radius, cell_level) for radius in RADII],
        "mean radius": {
            "sound": average(pair.sound.radius),
            "standard": average(pair.standard.radius),
            **asdict(mean_radius(pair)),
        },
        "votes": {**asdict(votes(pair.hits, SHIFT, run_level)), "detectable": detectable(pair.hits, run_level)},
        "scatter": asdict(scatter(pair, SHIFT, run_level)),
    }


def average(radii: Iterable[float]) -> float:
    """The mean, rounded down; 0 of nothing."""
    exact = [Fraction(radius) for radius in radii]
    return float_below(sum(exact, Fraction(0)) / len(exact)) if exact else 0.0


def _cell(each: Both, radius: Fraction, level: float) -> dict[str, Any]:
    pair, least = each.pair, each.least(radius)
    found = cell(pair, least, SHIFT, level) if least <= pair.n else Test(0, 0.0, 1.0, 0.0)
    return {
        "radius": float(radius),
        "possible": least <= pair.n,
        "sound": int(pair.sound.certified(least).sum()),
        "standard": int(pair.standard.certified(least).sum()),
        **asdict(found),
    }


def tables(found: dict[str, Any]) -> str:
    """The text between the marks."""
    sizes = sorted({row["n"] for row in found["runs"]})
    parts = [part for n in sizes for part in _size([row for row in found["runs"] if row["n"] == n])]
    parts += [_judgement(found), _power(found), *([_longer_runs(found["longer"])] if found["longer"] else [])]
    parts += [_all_certificates(found["networks"]), _audits(found["audits"]), _networks(found["networks"])]
    return "\n\n".join(["", *parts, ""])


def _size(rows: list[dict[str, Any]]) -> list[str]:
    n, first = rows[0]["n"], rows[0]
    how = f"{first['device']}, {first['precision']}, batches of {first['batch']}"
    counts = [f"{row['images']} of {row['promised']}" for row in rows]
    shown = counts[0] if len(set(counts)) == 1 else ", ".join(counts)  # else one for each σ
    whole = all(row["images"] == row["promised"] for row in rows)
    images = f"{first['images']} images" if whole else f"images finished in both runs: {shown}"
    radii = [f"{c['radius']:g}" for c in first["cells"]]
    accuracies = [_accuracies(row, kind) for row in rows for kind in BOTH]
    differences = [[f"σ = {row['sigma']}", *map(_difference, row["cells"]), _mean_radius(row)] for row in rows]
    return [
        f"**n = {n}** ({images}; n₀ = {first['n0']}, α = {first['alpha']}; {how})",
        table(["certified accuracy at radius", *radii, "ACR"], accuracies),
        "Images more (+) or fewer (−) with sound than with standard smoothing, ± the standard deviation that "
        "independent noise gives this difference, and its two-sided p:",
        table(["sound − standard", *radii, "ACR"], differences),
    ]


def _accuracies(row: dict[str, Any], kind: str) -> list[str]:
    shares = [decimal_below(Fraction(c[kind], row["images"])) for c in row["cells"]]
    return [f"σ = {row['sigma']}, {kind}", *shares, decimal_below(Fraction(row["mean radius"][kind]), 4)]


def _difference(found: dict[str, Any]) -> str:
    if found["deviation"] == found["difference"] == 0:
        return "0"
    return f"{found['difference']:+d} ± {found['deviation']:.1f} ({found['p']:.2g})"


def _mean_radius(row: dict[str, Any]) -> str:
    found = row["mean radius"]
    return f"{found['difference']:+.5f} ± {found['deviation']:.5f} ({found['p']:.2g})"


def _judgement(found: dict[str, Any]) -> str:
    rows = []
    for kind, family in found["families"].items():
        beyond = ", ".join(family["beyond noise"]) or "none"
        smallest = f"{family['smallest p']:.2g} ({family['of']})"
        rows.append([kind, f"{family['tests']}", f"{family['at most 0.05']}", smallest,
                     f"{family['adjusted']:.2g}", beyond])  # fmt: skip
    head = ["tests", "how many", "with p ≤ 0.05", "smallest p", "corrected (Holm)", "beyond noise"]
    return (
        f"{table(head, rows)}\n\n*Beyond noise* is a corrected p of at most {found['level']:.2g}. If the two "
        "procedures smoothed the same classifier, all these tests together would report anything with probability at "
        f"most {found['false alarm']:g}. (*Votes* add up all images' votes for the true class; *scatter* adds up their "
        "squared differences. Fewer than one image in twenty has p ≤ 0.05, since counts of nearly unanimous votes are "
        "coarse.)"
    )


def _power(found: dict[str, Any]) -> str:
    head = ["run", "borderline images", "votes, sound − standard", "power", "shift found with power 0.99",
            "scatter, less its mean", "power", "best power of a cell"]  # fmt: skip
    return (
        f"What the tests would find: how often a shift of p by {found['shift']:g} on borderline images (p between 0.05 "
        "and 0.95) would be reported after the correction, for *votes* and cells if it went the same way on all of "
        "them, for *scatter* whichever way it went on each; and the least shift, the same way on all, that *votes* "
        "would show with probability 0.99. (Powers use estimates of p.)\n\n"
        f"{table(head, list(map(_powers, found['runs'])))}"
    )


def _powers(row: dict[str, Any]) -> list[str]:
    seen, best = row["votes"], max(row["cells"], key=lambda c: c["power"])
    return [
        f"σ = {row['sigma']}, n = {row['n']}",
        f"{row['borderline']}",
        _votes_against(seen),
        f"{seen['power']:.3f}",
        _shift(seen),
        f"{row['scatter']['difference']:+.0f} ± {row['scatter']['deviation']:.0f} ({row['scatter']['p']:.2g})",
        f"{row['scatter']['power']:.3f}",
        f"{best['power']:.3f} (radius {best['radius']:g})",
    ]


def _longer_runs(rows: list[dict[str, Any]]) -> str:
    head = ["votes, shorter − longer", "images", *BOTH, "shift found with power 0.99"]
    body = []
    for row in rows:
        seen = [row[kind] for kind in BOTH]
        body.append([_lengths(row), f"{row['images']}", *map(_votes_against, seen), _shift(seen[-1])])
    return (
        "*Longer runs*: the sound ones with most copies have more images than standard ones with as many. So both "
        "shorter runs are compared with them: their votes, as many times as they have fewer copies, minus the votes of "
        "the longer run, on all images that they share. The column *sound* compares the procedure with itself.\n\n"
        f"{table(head, body)}"
    )


def _lengths(row: dict[str, Any]) -> str:
    return f"σ = {row['sigma']}, n = {row['n']} − {row['more']}"


def _votes_against(seen: dict[str, Any]) -> str:
    return f"{seen['difference']:+d} ± {seen['deviation']:.0f} ({seen['p']:.2g})"


def _shift(seen: dict[str, Any]) -> str:
    return "more than 0.05" if seen["detectable"] is None else f"{seen['detectable']:.4f}"


def _audits(rows: list[dict[str, Any]]) -> str:
    """Whether each run is accepted, and what was voted again."""
    head = ["sound run", "commitment", "`soundsmooth verify`", "votes repeated"]
    return table(head, [[f"`{row['run']}`", f"`{row['commitment']}`", _accepted(row), _repeated(row)] for row in rows])


def _accepted(row: dict[str, Any]) -> str:
    return "; ".join(["**refuted**", *row["findings"]]) if row["refuted"] else f"accepted: {row['arithmetic']}"


def _repeated(row: dict[str, Any]) -> str:
    return f"{row['replay'].split(';')[0]}; {row['machine']}" if row["replay"] else "none"


def _networks(rows: list[dict[str, Any]]) -> str:
    """Beside the base recipe; a sound radius with fewer copies is a harder test, as the bound is looser."""
    sizes = sorted({row["n"] for row in rows})
    of = {(row["sigma"], row["n"]): row for row in rows}
    ours = [f"ours, sound, n = {n}" for n in sizes]
    head = ["σ", f"base recipe, n = {BASE_N}, 500 images", *ours, *PAPER_TABLES]
    body = [
        [
            sigma,
            f"{accuracy:.3f}, {radius:.3f}",
            *(_network(of.get((sigma, n))) for n in sizes),
            *(f"{each:.3f}" for each in PAPER[sigma]),
        ]
        for sigma, (accuracy, radius) in BASE.items()
    ]
    return (
        "The networks beside the base recipe of 2019 (Cohen et al.: Gaussian augmentation; by the certificates that "
        "its authors published for every 20th test image): certified accuracy at radius 0, average certified radius, "
        "and how many of the 500 images are finished. Last, the accuracies of the paper's sound tables, which give no "
        "average radius; its network of Table 2 had seen ImageNet before, those of Tables 3 and 4 were trained against "
        f"attacks with ε = 1 and 2:\n\n{table(head, body)}"
    )


def _all_certificates(rows: list[dict[str, Any]]) -> str:
    """Those with most copies, on all their images."""
    n = max(row["n"] for row in rows)
    head = ["certified accuracy at radius", *(f"{float(radius):g}" for radius in RADII), "ACR", "images"]
    body = [_alone(row) for row in rows if row["n"] == n and row["images"]]
    return f"All sound certificates with n = {n}, with or without a standard one beside them:\n\n{table(head, body)}"


def _alone(row: dict[str, Any]) -> list[str]:
    shares = [decimal_below(Fraction(each, row["images"])) for each in row["certified"]]
    return [f"σ = {row['sigma']}, sound", *shares, decimal_below(Fraction(row["mean radius"]), 4), f"{row['images']}"]


def _network(row: dict[str, Any] | None) -> str:
    if not row or not row["images"]:
        return "none"
    accuracy = decimal_below(Fraction(row["certified"][0], row["images"]))
    return f"{accuracy}, {decimal_below(Fraction(row['mean radius']))} ({row['images']})"


if __name__ == "__main__":
    main(*paths(__doc__, "runs", "docs"))
