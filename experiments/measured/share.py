"""The votes of one image beside the measurement of its independence: seconds, and seconds of processor time.

    taskset -c 0,1 python experiments/measured/share.py [--n 100000] [--rounds 3]

Models are those of `cost.py`. The first image makes the processes, and is not counted. Processor time is that of this
process, of the one that forks and of its children; it is less hurt by a busy machine. Medians over rounds.
"""

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np
from cost import kinds, processor_seconds

import soundsmooth as ss
from soundsmooth.core.machine import cores
from soundsmooth.independence import measure
from soundsmooth.smoothing.blocks import Bits


class Clock:
    """Seconds, and processor seconds, of all measurements."""

    def __init__(self) -> None:
        self.seconds = self.own = self.forked = 0.0
        self._hits = measure.RowRecheck.hits

    def hits(self, recheck: measure.RowRecheck, *asked: Any) -> Bits:
        forks = recheck._alone._process.pid
        start, own, forked = time.perf_counter(), time.process_time(), processor_seconds(forks)
        found = self._hits(recheck, *asked)
        self.seconds += time.perf_counter() - start
        self.own += time.process_time() - own
        self.forked += processor_seconds(forks) - forked
        return found


def observed(smooth: ss.Smoother, x: np.ndarray, n: int) -> tuple[float, ...]:
    """Of one image: seconds of votes and of the measurement, then processor seconds of each."""
    clock = Clock()
    measure.RowRecheck.hits = lambda self, *asked: clock.hits(self, *asked)
    try:
        start, before = time.perf_counter(), time.process_time()
        smooth.certify(x, n=n)
        whole, processor = time.perf_counter() - start, time.process_time() - before
    finally:
        measure.RowRecheck.hits = clock._hits
    return whole - clock.seconds, clock.seconds, processor - clock.own, clock.own + clock.forked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", type=int, nargs="*", help="their numbers in cost.py, from 0; all of them")
    asked = parser.parse_args()
    print(f"{cores()} cores, Python {sys.version.split()[0]}, n = {asked.n}\n")
    print("| model | votes | measurement | votes, processor | measurement, processor |\n|---|---|---|---|---|")
    for number, (name, source, shape) in enumerate(kinds()):
        if asked.model and number not in asked.model:
            continue
        smooth, x = ss.Smoother(source, sigma="0.25", independence="measured"), np.full(shape, 128)
        smooth.certify(x, n=1000)
        times = zip(*(observed(smooth, x, asked.n) for _ in range(asked.rounds)), strict=True)
        print(f"| {name} | " + " | ".join(f"{statistics.median(each):.1f} s" for each in times) + " |", flush=True)


if __name__ == "__main__":
    main()
