"""Take the time of a certification apart: what passes, votes and noise cost, and what a GPU's clock does meanwhile.

    python experiments/performance/parts.py OUT --network "timm-style vit" --modes torch-compile --n 20000 --batch 500

Each round does these once, and begins with another one:

- forward: passes on a batch that lies ready;
- votes: the same, and the votes are counted;
- in turn: each batch gets fresh noise, and then its pass;
- beside: noise is made beside the passes, as in a run;
- certify: a whole run in memory, of `--images` images;
- certify in turn: the same on a GPU, with noise before each pass in place of beside it.

All have as many passes as the run: a GPU that is busy for longer may lower its clock. OUT gets one JSON object for each
way: milliseconds of one batch, ratios to the forward passes, and on the first GPU the mean clock and power while each
was at work. The options are those of `modes.py`.
"""

import argparse
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from statistics import fmean
from threading import Thread
from typing import Any

import numpy as np
import torch
from modes import IN_TURN, Mode, arguments, device_name, interval, with_noise_in_turn
from turns import wait_for_turn

from soundsmooth.core.arrays import Fetched, concatenate
from soundsmooth.lab.bench.pairs import alternate
from soundsmooth.noise import Purpose
from soundsmooth.noise.sources import CopyRange, FreshNoise
from soundsmooth.smoothing.voting import PendingVotes, Voting, counted

#: Milliseconds between two looks at the GPU.
LOOK = 100
QUERY = ["nvidia-smi", "-i=0", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", f"-lms={LOOK}"]


def main() -> None:
    asked = arguments(__doc__).parse_args()
    ready = [(mode, parts(mode)) for mode in (Mode(asked, way) for way in asked.modes)]
    if asked.turns:
        wait_for_turn()
    found = [measure(asked, mode, actions) for mode, actions in ready]
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1) + "\n")
    for each in found:
        print(json.dumps(each))


def measure(asked: argparse.Namespace, mode: Mode, actions: Mapping[str, Callable[[], object]]) -> dict[str, Any]:
    for action in actions.values():  # it is measured warm
        action()
    gpu = Gpu()
    with gpu.watched() if shutil.which(QUERY[0]) else nullcontext():
        taken = alternate({name: gpu.noting(name, action) for name, action in actions.items()}, asked.rounds)
    return {
        "network": asked.network,
        "way": mode.way,
        "batch": mode.batch,
        "batches": mode.passes,
        "images": asked.images,
        "device": device_name(),
        "rounds": asked.rounds,
        "ms a batch": {name: round(1000 * taken.median(name) / mode.passes, 4) for name in actions},
        "over forward": {name: interval(taken.ratio(name, "forward")) for name in actions if name != "forward"},
        "clock in MHz, power in W": gpu.means(),
    }


def parts(mode: Mode) -> dict[str, Callable[[], object]]:
    """What is timed, each with as many passes as a run."""
    replica, rows, batch = mode.replica, mode.rows(mode.batch), mode.batch
    voting = Voting(replica.model, batch, replica.model.flags())
    noise, x = FreshNoise(replica.sampler, bytes(32), 0), mode.levels
    copies = range(mode.passes * batch)

    def votes(batches: Iterator[Any]) -> None:
        Fetched(concatenate([replica.model.vote(values).labels for values in batches])).array()

    def beside() -> None:
        (found,) = PendingVotes(voting, [CopyRange(noise, x, Purpose.ESTIMATION, copies)]).votes()
        counted(found)

    found: dict[str, Callable[[], object]] = {
        "forward": mode.forward,
        "votes": lambda: votes(rows for _ in range(mode.passes)),
        "in turn": lambda: votes(noise.noisy(Purpose.ESTIMATION, x, at, batch).values for at in copies[::batch]),
        "beside": beside,
        "certify": mode.certify,
    }
    if torch.cuda.is_available():
        found[IN_TURN] = with_noise_in_turn(mode.certify)
    return found


class Gpu:
    """What nvidia-smi says of the GPU while something is at work."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float, float]] = []
        self._work: list[tuple[str, float, float]] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        process = subprocess.Popen(QUERY, stdout=subprocess.PIPE, text=True)
        thread = Thread(target=self._read, args=[process], daemon=True)
        thread.start()
        try:
            yield
        finally:
            process.kill()
            process.wait()
            thread.join()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with suppress(ValueError):  # a card that does not tell, or a last line that was cut off
                clock, power = map(float, line.split(","))
                self._seen.append((time.perf_counter(), clock, power))

    def noting(self, name: str, action: Callable[[], object]) -> Callable[[], None]:
        """The action, whose times are noted."""

        def noted() -> None:
            start = time.perf_counter()
            action()
            self._work.append((name, start, time.perf_counter()))

        return noted

    def means(self) -> dict[str, list[float]]:
        """By action; nothing for those that were shorter than a look. The first look of each sees what was before."""
        found: dict[str, list[tuple[float, float]]] = {}
        for name, start, end in self._work:
            inside = [(clock, power) for at, clock, power in self._seen if start + LOOK / 1000 < at < end]
            found.setdefault(name, []).extend(inside)
        return {name: [round(fmean(each), 1) for each in np.array(some).T] for name, some in found.items() if some}


if __name__ == "__main__":
    main()
