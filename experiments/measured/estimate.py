"""How far off the time is that a measurement of one image is said to take: said, taken, and their ratio.

    python experiments/measured/estimate.py [--rounds 5] [--n 2000]

Kinds of models alternate; each round makes its processes anew. If not every row was a hit, fewer are voted again than
was said, so the table tells for how many rows the time was taken. Medians, with the smallest and the largest.
"""

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np
from cost import kinds

import soundsmooth as ss
from soundsmooth.core.grid import Levels
from soundsmooth.core.machine import cores
from soundsmooth.independence import measure
from soundsmooth.independence.notice import expected_different
from soundsmooth.smoothing.blocks import Bits


class Watch:
    """What a rehearsal foretold of a row, and how long the rows of one image took."""

    def __init__(self) -> None:
        self.row = self.took = 0.0
        self.rows = 0
        self._rehearse, self._hits = measure.rehearse, measure.RowRecheck.hits

    def rehearse(self, *asked: Any) -> measure.Rehearsal:
        found = self._rehearse(*asked)
        self.row = found.seconds
        return found

    def hits(self, recheck: measure.RowRecheck, number: int, x: Levels, again: measure.RowsToRecheck) -> Bits:
        start = time.perf_counter()
        found = self._hits(recheck, number, x, again)
        self.took += time.perf_counter() - start
        self.rows += len(again.rows)
        return found


def observed(model: object, shape: tuple[int, ...], n: int) -> tuple[float, float, int]:
    """Seconds that were said, seconds that it took, and the rows."""
    from soundsmooth.runs import worker

    watch = Watch()
    worker.rehearse = watch.rehearse
    measure.RowRecheck.hits = lambda self, *asked: watch.hits(self, *asked)
    try:
        x = np.random.default_rng().integers(0, 256, shape)
        ss.Smoother(model, sigma="0.25", independence="measured").certify(x, n=n)
    finally:
        worker.rehearse, measure.RowRecheck.hits = watch._rehearse, watch._hits
    return watch.row * expected_different(1000, n), watch.took, watch.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n", type=int, default=2000)
    asked = parser.parse_args()
    found: dict[str, list[tuple[float, float, int]]] = {}
    for _ in range(asked.rounds):
        for name, model, shape in kinds():
            found.setdefault(name, []).append(observed(model, shape, asked.n))
    print(f"{cores()} cores, Python {sys.version.split()[0]}\n")
    print("| model | rows | said | taken | said / taken |\n|---|---|---|---|---|")
    for name, each in found.items():
        said, taken, rows = zip(*each, strict=True)
        ratios = [a / b for a, b in zip(said, taken, strict=True)]
        middle = [f"{statistics.median(seconds):.1f} s" for seconds in (said, taken)]
        spread = f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
        print(f"| {name} | {min(rows)}–{max(rows)} | {middle[0]} | {middle[1]} | {spread} |")


if __name__ == "__main__":
    main()
